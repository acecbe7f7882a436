"""Texts for error messages and log lines: shows values of a program or a peer safely, and suggests similar names."""

from __future__ import annotations

import re
from collections.abc import Iterable


def shown(value: object) -> str:
    """Return repr(value). If that raises, return the value's type: a broken repr() must not hide the error in whose text it is used."""
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(value).__name__} whose repr() raises {type(error).__name__}>"


def as_text(value: object) -> str:
    """Return str(value). If that raises, return shown(value)."""
    try:
        return str(value)
    except Exception:
        return shown(value)


HARMFUL = (
    *((0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F)),  # Control characters: a carriage return, a terminal's escape sequences.
    *(
        (0x061C, 0x061C),
        (0x200E, 0x200F),
        (0x2028, 0x202E),
        (0x2066, 0x2069),
    ),  # Ends of lines and paragraphs; marks that change the direction of text.
    (0xD800, 0xDFFF),  # Surrogates, which no log handler can encode.
)
"""The first and last of each range of characters that are never shown as they are. Line feeds and tabs are left to the caller."""

_HARMFUL = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in HARMFUL) + "]")
# Further lines of levada's own texts begin with two spaces; the first line of a log record never does.
_UNPRINTABLE = re.compile(rf"\n(?!  )|\t|{_HARMFUL.pattern}")


def escaped(text: str) -> str:
    """Escape a text that comes partly from outside, so that it cannot end a line of a log or control a terminal.

    Control characters are written as in a Python string: \\n, \\x1b, \\u202e. A line break stays if two spaces follow.
    """
    return _UNPRINTABLE.sub(_written_out, text)


def visible(text: str) -> str:
    """Escape a text like escaped(), but keep line feeds and tabs, which do no harm on a terminal."""
    return _HARMFUL.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean '...'?" with the most similar known name; "" if none is similar. Upper and lower case do not matter."""
    from difflib import get_close_matches

    folded = {one.casefold(): one for one in known}
    close = get_close_matches(name.casefold(), folded, n=1)
    return f"; did you mean '{folded[close[0]]}'?" if close else ""
