"""The bounds of a range, as programs write them: an offset, an end of the log, or a time.

"earliest", "latest"            the ends of the log
1234                            an offset
datetime, "2026-01-31T12:00Z"   the first record at or after a time, which has a time zone
"-1h30m"                        the same, for a time before now; units are s, m, h, d, w
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from levada.base.clock import epoch_ms
from levada.errors import ConfigError

Bound: TypeAlias = str | int | datetime
"""A bound as programs write it."""

ENDS = ("earliest", "latest")
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_AGO = re.compile(r"-(?:\d+[smhdw])+")
_PART = re.compile(r"(\d+)([smhdw])")


class Moment(NamedTuple):
    """A time in milliseconds since the epoch."""

    ms: int


class Ago(NamedTuple):
    """A time that is given as milliseconds before now."""

    ms: int


Time: TypeAlias = Moment | Ago
Parsed: TypeAlias = str | int | Time
"""A parsed bound: the name of an end of the log, an offset, or a time."""


def parsed_bound(name: str, given: Any) -> Parsed:
    """Parse a bound of a scan. name: names the bound in errors.

    Raises ConfigError, and ValueError for a time before 1970 and for a datetime without a time zone.
    """
    if isinstance(given, str) and given in ENDS:
        return given
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    if isinstance(given, str | datetime) and (time := _time(name, given)) is not None:
        return time
    raise ConfigError(f"{name} must be 'earliest', 'latest', an offset, an aware datetime, {_EXAMPLES}; got {given!r}")


def parsed_time(name: str, given: Any) -> Time:
    """Parse a time. A number means milliseconds since the epoch. name: names the time in errors.

    Raises as parsed_bound() does; also ValueError for a number that is negative or beyond 64 bits.
    """
    if isinstance(given, int) and not isinstance(given, bool):
        return Moment(epoch_ms(given))
    if isinstance(given, str | datetime) and (time := _time(name, given)) is not None:
        return time
    raise ConfigError(f"{name} must be an aware datetime, milliseconds since the epoch, {_EXAMPLES}; got {given!r}")


def is_reversed(start: Parsed, end: Parsed) -> bool:
    """Return whether a range ends before it begins. False if only the log or the clock can tell."""
    match start, end:
        case int(first), int(last):
            return first > last
        case (Moment(first), Moment(last)) | (Ago(last), Ago(first)):
            return first > last
    return (start, end) == ("latest", "earliest")


def moment(time: Time, wall_ms: int) -> Moment:
    """Return a time as a point in time. wall_ms: now, in ms since the epoch."""
    return Moment(max(wall_ms - time.ms, 0)) if isinstance(time, Ago) else time


_EXAMPLES = "text such as '2026-01-31T12:00Z', or one such as '-1h30m'"


def _time(name: str, given: str | datetime) -> Time | None:
    if isinstance(given, datetime):
        return Moment(epoch_ms(given))
    if _AGO.fullmatch(given):
        return Ago(sum(int(count) * _UNITS_MS[unit] for count, unit in _PART.findall(given)))
    try:
        read = datetime.fromisoformat(given)
    except ValueError:
        return None
    if read.tzinfo is None:
        raise ConfigError(
            f"{name}={given!r} has no time zone; write {given + ('' if 'T' in given else 'T00:00')}Z for UTC, or +02:00 and the like"
        )
    return Moment(epoch_ms(read))
