"""What values the settings of brokers, topics and groups take: their types, and checks of texts."""

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
    """The type of a setting, as DescribeConfigs tells it."""

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
    """parse: text to value; ValueError says what the text must be."""

    kind: Kind
    parse: Callable[[str], Any]


def integer(low: int, high: int = MAX_INT64, *, kind: Kind | None = None) -> Check:
    """Return the check of a whole number. kind: by default as wide as the highest value asks for."""

    def check(text: str) -> int:
        if not _WHOLE.fullmatch(text.strip()):
            raise ValueError("must be a whole number")
        return int(_within(int(text), low, high))

    return Check(kind or (Kind.LONG if high > MAX_INT32 else Kind.INT), check)


def gzip_level() -> Check:
    """Return the check of a level of gzip; -1 is the default one."""

    def check(text: str) -> int:
        level = int(integer(-1, 9).parse(text))
        if level == 0:
            raise ValueError("must be between 1 and 9, or -1")
        return level

    return Check(Kind.INT, check)


def number(low: float, high: float) -> Check:
    """Return the check of a number."""

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
    """Return the check of one of some words."""

    def check(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return Check(Kind.STRING, check)


def list_of(*choices: str) -> Check:
    """Return the check of a list of some words; of any words without choices."""

    def check(text: str) -> tuple[str, ...]:
        values = listed(text)
        if choices and any(value not in choices for value in values):
            raise ValueError(f"must be a list of some of {', '.join(choices)}")
        return values

    return Check(Kind.LIST, check)


def any_text(kind: Kind = Kind.STRING) -> Check:
    """Return the check of a text that may be anything."""
    return Check(kind, str)


def listed(text: str) -> tuple[str, ...]:
    """Return the values of a list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def boolean() -> Check:
    """Return the check of true or false."""

    def check(text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("must be true or false")
        return text.lower() == "true"

    return Check(Kind.BOOLEAN, check)
