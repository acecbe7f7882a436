"""Formats names, lists and counts for messages, and results as YAML."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

_MOST_NAMES = 8
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of invisible characters: controls, formats, surrogates, line and paragraph separators."""


def in_one_line(text: str) -> str:
    """Return text with line feeds, tabs and invisible characters escaped, like in a Python string.

    Used for names and table cells: a line feed would begin a new row, and invisible characters would make different names look equal.
    """
    if text.isprintable():
        return text
    return "".join(ascii(one)[1:-1] if unicodedata.category(one) in _UNSEEN else one for one in text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural: "1 broker", "3 brokers"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def named(names: Sequence[str]) -> str:
    """Return the names separated by commas. More than eight names are shortened: "... and 5 more"."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_MOST_NAMES])} and {more:,} more"


UNBOUNDED_WIDTH = 100_000
"""A width in columns that is larger than any line, so that no line is cut off or broken."""

_DIFFERS = re.compile(r"\\[NLPU]|^[ -]*(?:'':|\? )", re.MULTILINE)
"""Finds text that libyaml writes differently from PyYAML: characters beyond 16 bits, Unicode's line ends, empty or multi-line keys."""


def yaml_text(data: Any) -> str:
    """Return plain() data as YAML. Characters outside ASCII are not escaped."""
    import yaml

    fast = getattr(yaml, "CSafeDumper", None)
    # libyaml is faster, but it ends the text of a single value differently.
    if fast is not None and isinstance(data, list | dict):
        # libyaml raises an error for surrogates, such as "\ud800".
        with suppress(UnicodeEncodeError):
            text = _dumped(data, fast)
            if not _DIFFERS.search(text):
                return text
    return _dumped(data, yaml.SafeDumper)


def _dumped(data: Any, dumper: Any) -> str:
    import yaml

    return str(yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True, width=UNBOUNDED_WIDTH))
