"""Names and lists as people read them, and results as YAML."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

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


UNBOUNDED_WIDTH = 100_000
"""Columns that no terminal has: nothing is cut off or broken into lines."""

_DIFFERS = re.compile(r"\\[NLPU]|^[ -]*(?:'':|\? )", re.MULTILINE)
"""What libyaml may have written in another way: characters beyond 16 bits, the line feeds of Unicode, and keys with line feeds or empty."""


def yaml_text(data: Any) -> str:
    """Return YAML of plain() data, with letters as they are."""
    import yaml

    fast = getattr(yaml, "CSafeDumper", None)
    # A single value has an end of its own in the text of one and not of the other.
    if fast is not None and isinstance(data, list | dict):
        # libyaml takes no halves of characters, such as "\ud800".
        with suppress(UnicodeEncodeError):
            text = _dumped(data, fast)
            if not _DIFFERS.search(text):
                return text
    return _dumped(data, yaml.SafeDumper)


def _dumped(data: Any, dumper: Any) -> str:
    import yaml

    return str(yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True, width=UNBOUNDED_WIDTH))
