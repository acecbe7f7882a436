"""Names and lists as people read them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_MOST_NAMES = 8
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters without a shape of their own: controls, formats, halves of characters, ends of lines."""


def in_one_line(text: str) -> str:
    """Return text with line feeds, tabs and invisible characters written out, as in a Python string.

    For names and cells of tables: a line feed within one would begin a row, and two names that differ would look alike.
    """
    if text.isprintable():
        return text
    return "".join(ascii(one)[1:-1] if unicodedata.category(one) in _UNSEEN else one for one in text)


def counted(number: int, noun: str) -> str:
    """Return "1 broker", "3 brokers"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def named(names: Sequence[str]) -> str:
    """Return the names, the first eight of many."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_MOST_NAMES])} and {more:,} more"
