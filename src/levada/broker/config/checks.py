"""The types of settings of brokers, topics and groups, and the checks of their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

MAX_INT64 = (1 << 63) - 1
MAX_INT32 = (1 << 31) - 1
_WHOLE = re.compile(r"[+-]?[0-9]+")
"""int() would also take 1_000."""


class Kind(IntEnum):
    """The type of a setting, as DescribeConfigs returns it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Check(NamedTuple):
    """The type of a setting and the function that parses it. parse: converts text to a value; it raises ValueError, which says what the
    text must be.
    """

    kind: Kind
    parse: Callable[[str], Any]


def integer(low: int, high: int = MAX_INT64, *, kind: Kind | None = None) -> Check:
    """Return a check for an integer between two bounds. kind: the type that DescribeConfigs shows, by default INT, or LONG if `high` does
    not fit in INT.
    """

    def check(text: str) -> int:
        if not _WHOLE.fullmatch(text.strip()):
            raise ValueError("must be a whole number")
        return int(_within(int(text), low, high))

    return Check(kind or (Kind.LONG if high > MAX_INT32 else Kind.INT), check)


def gzip_level() -> Check:
    """Return a check for a gzip compression level, or -1 for the default level."""

    def check(text: str) -> int:
        level = int(integer(-1, 9).parse(text))
        if level == 0:
            raise ValueError("must be between 1 and 9, or -1")
        return level

    return Check(Kind.INT, check)


def number(low: float, high: float) -> Check:
    """Return a check for a floating point number between two bounds."""

    def check(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError("must be a number") from None
        return _within(value, low, high)

    return Check(Kind.DOUBLE, check)


def _within(value: float, low: float, high: float) -> float:
    if not low <= value <= high:
        raise ValueError(f"must be between {low} and {high}")
    return value


def one_of(*choices: str) -> Check:
    """Return a check for a text that must be one of the choices."""

    def check(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return Check(Kind.STRING, check)


def list_of(*choices: str) -> Check:
    """Return a check for a list whose items must be among the choices. Without choices, all items are allowed."""

    def check(text: str) -> tuple[str, ...]:
        values = listed(text)
        if choices and any(value not in choices for value in values):
            raise ValueError(f"must be a list of some of {', '.join(choices)}")
        return values

    return Check(Kind.LIST, check)


def any_text(kind: Kind = Kind.STRING) -> Check:
    """Return a check that accepts any text."""
    return Check(kind, str)


def listed(text: str) -> tuple[str, ...]:
    """Split the text of a list setting into its items."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def boolean() -> Check:
    """Return a check for the words true and false, in upper or lower case."""

    def check(text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("must be true or false")
        return text.lower() == "true"

    return Check(Kind.BOOLEAN, check)
