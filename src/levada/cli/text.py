"""Lists in sentences."""

from __future__ import annotations

from collections.abc import Sequence

_MOST_NAMES = 8


def counted(number: int, noun: str) -> str:
    """Return "1 broker", "3 brokers"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def named(names: Sequence[str]) -> str:
    """Return the names, the first eight of many."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_MOST_NAMES])} and {more:,} more"
