# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Parses dates and times in JSON strings like a cast in Spark without a format.

A date is a year of four digits, a month and a day; month and day have one or two digits, or are missing. A time follows after T or a space:
hour, minute and second of one or two digits each; the second, or minute and second, may be missing. After the second a fraction may follow,
then Z, an offset, UTC or GMT, or UTC or GMT with an offset. White space around the text is ignored. Years are 0001 to 9999.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

# In compiled code this is imported by the .pxd file.
if not cython.compiled:
    from levada.record.json.text import same

DAY_SECONDS = 86_400
MICROS = 1_000_000
MOST_OFFSET = 18 * 3600
# Days from 1 March of year 0, where days_of() begins to count, to 1970.
EPOCH_DAY = 719_468


def read_date(source: Any, at: int, stop: int) -> tuple[bool, int]:
    """Return (whether the text is a date, days since 1970). Text after T or a space is ignored."""
    at, stop = trim(source, at, stop)
    at, days = date_part(source, at, stop)
    if at < 0 or (at < stop and source[at] != ord("T") and source[at] != ord(" ")):
        return False, 0
    return True, days


def read_time(source: Any, at: int, stop: int, zoned: bool) -> tuple[bool, int]:
    """Return (whether the text is a date, or a date and time; microseconds since 1970). A date alone means midnight.

    zoned: an offset is allowed; without an offset the time is UTC.
    """
    at, stop = trim(source, at, stop)
    at, days = date_part(source, at, stop)
    if at < 0:
        return False, 0
    micros = days * DAY_SECONDS * MICROS
    if at == stop:
        return True, micros
    if source[at] != ord("T") and source[at] != ord(" "):
        return False, 0
    at, seconds, fields = clock_part(source, at + 1, stop)
    if at < 0:
        return False, 0
    micros += seconds * MICROS
    if fields == 3 and at < stop and source[at] == ord("."):
        at, fraction = fraction_part(source, at + 1, stop)
        micros += fraction
    if at == stop:
        return True, micros
    if not zoned or fields < 3:
        return False, 0
    found, offset = offset_part(source, at, stop)
    return found, micros - offset * MICROS


def trim(source: Any, at: int, stop: int) -> tuple[int, int]:
    """Return the start and end of the text without white space and control characters around it."""
    while at < stop and source[at] <= ord(" "):
        at += 1
    while stop > at and source[stop - 1] <= ord(" "):
        stop -= 1
    return at, stop


def short_number(source: Any, at: int, stop: int, least: int, most: int) -> tuple[int, int]:
    """Return (position after, value) of a number of `least` to `most` digits. The position is -1 if there are fewer digits."""
    first = at
    value = 0
    while at < stop and ord("0") <= source[at] <= ord("9") and at - first < most:
        value = value * 10 + source[at] - ord("0")
        at += 1
    if at - first < least:
        return -1, 0
    return at, value


def date_part(source: Any, at: int, stop: int) -> tuple[int, int]:
    """Return (position after, days since 1970) of a date, -1 as the position if it is invalid.

    A date without a day must be the whole text.
    """
    month = 1
    day = 1
    whole = False
    at, year = short_number(source, at, stop, 4, 4)
    if 0 <= at < stop and source[at] == ord("-"):
        at, month = short_number(source, at + 1, stop, 1, 2)
        if 0 <= at < stop and source[at] == ord("-"):
            at, day = short_number(source, at + 1, stop, 1, 2)
            whole = True
    if not whole and at != stop:
        return -1, 0
    if at < 0 or year < 1 or month < 1 or month > 12 or day < 1 or day > month_days(year, month):
        return -1, 0
    return at, days_of(year, month, day)


def month_days(year: int, month: int) -> int:
    """Return the number of days in a month."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


def days_of(year: int, month: int, day: int) -> int:
    """Return the days since 1970 in the Gregorian calendar. It counts years from March, so that a leap day is the last day of a year."""
    if month < 3:
        year -= 1
        month += 12
    return year * 365 + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 1 - EPOCH_DAY


def clock_part(source: Any, at: int, stop: int) -> tuple[int, int, int]:
    """Return (position after, seconds of the day, how many of hour, minute and second are present). The position is -1 if invalid."""
    at, value = short_number(source, at, stop, 1, 2)
    if at < 0 or value > 23:
        return -1, 0, 0
    seconds = value * 3600
    fields = 1
    while fields < 3 and at < stop and source[at] == ord(":"):
        at, value = short_number(source, at + 1, stop, 1, 2)
        if at < 0 or value > 59:
            return -1, 0, 0
        seconds += value * 60 if fields == 1 else value
        fields += 1
    return at, seconds, fields


def fraction_part(source: Any, at: int, stop: int) -> tuple[int, int]:
    """Return (position after, microseconds) of the fraction digits at `at`. Digits after the sixth are ignored."""
    first = at
    micros = 0
    while at < stop and ord("0") <= source[at] <= ord("9"):
        if at - first < 6:
            micros = micros * 10 + source[at] - ord("0")
        at += 1
    for _ in range(at - first, 6):
        micros *= 10
    return at, micros


def offset_part(source: Any, at: int, stop: int) -> tuple[bool, int]:
    """Return (whether the text from `at` to `stop` is an offset from UTC, the offset in seconds)."""
    while at < stop and source[at] == ord(" "):
        at += 1
    if stop - at == 1 and source[at] == ord("Z"):
        return True, 0
    if same(source, at, stop, b"UTC", 0, 3) or same(source, at, stop, b"GMT", 0, 3):
        at += 3
        if at == stop:
            return True, 0
    sign = source[at] if at < stop else 0
    if sign != ord("+") and sign != ord("-"):
        return False, 0
    first = at + 1
    at, hours = short_number(source, first, stop, 1, 2)
    minutes = 0
    if at >= 0 and at < stop:
        # Without a colon only as +hhmm.
        if source[at] == ord(":"):
            at, minutes = short_number(source, at + 1, stop, 1, 2)
        elif at - first == 2:
            at, minutes = short_number(source, at, stop, 2, 2)
    seconds = hours * 3600 + minutes * 60
    if at != stop or minutes > 59 or seconds > MOST_OFFSET:
        return False, 0
    return True, -seconds if sign == ord("-") else seconds
