"""Words of Kafka's on a command line."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

import typer

from levada.suggestion import did_you_mean

E = TypeVar("E", bound=StrEnum)

_NOBODYS = ("Unknown", "Any")


def word(kind: type[E], text: str) -> E:
    """Read a word however it is spelt: DescribeConfigs, describe-configs, DESCRIBE_CONFIGS. Raises typer.BadParameter."""
    plain = text.replace("_", "").replace("-", "").lower()
    known = {one.value.lower(): one for one in kind if one.value not in _NOBODYS}
    if plain not in known:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(known)}{did_you_mean(plain, known)}")
    return known[plain]
