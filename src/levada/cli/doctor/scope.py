"""What is examined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Scope(NamedTuple):
    """topics, groups: by name, () for all. timeout: seconds that each question may take."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    timeout: float = 5.0
