"""State machines as tables: the next state depends only on a table of transitions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from levada.errors import IllegalStateError

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


def following(transitions: Mapping[S, Mapping[E, S]], state: S, event: E, who: str) -> S:
    """Return the state after an event. who: names the object in errors. Raises IllegalStateError if the table has no such transition."""
    after = transitions[state].get(event)
    if after is None:
        raise IllegalStateError(f"{who} in the state '{state.value}' has no transition for '{event.value}'")
    return after
