"""The syntax of positions in a log, which all commands share: parses text into positions. Nothing here does I/O.

start  end                  the start and the end of the log (also: earliest, beginning, latest)
42                          an offset
-1000                       the last 1000 offsets of each partition
+5                          the fifth offset after the start of each partition
@2026-11-01T10:00           the first record at or after a time; local time if it has no zone; midnight if it is only a date
@1793527200                 the same, in seconds since the epoch, or in milliseconds if it has 13 digits
-1h  -1h30m  @-1h           the first record at or after this long ago; units: s, m, h, d, w
start..end  -2h..-1h        a range, which does not include its end; one side may be left out, such as ..@2026-11-01
0:42  0:42..100             a position or a range of one partition
0:42,1:17..,-1h             several, separated by commas; the one without a partition is for all other partitions
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, TypeAlias

from levada.base.clock import epoch_ms
from levada.consumer.scan import bounds
from levada.consumer.scan.bounds import Ago, Moment, moment, parsed_bound
from levada.errors import ConfigError

ENDS: Mapping[str, str] = {"start": "earliest", "beginning": "earliest", "earliest": "earliest", "end": "latest", "latest": "latest"}
EXAMPLES = "start, end, 42, -1000, +5, -1h, @2026-11-01T10:00, a range such as -2h..-1h, or one partition's such as 0:42"
_DIGITS_OF_MS = 13
FORMATS = ("json", "yaml", "table")
"""The output formats, which -o takes in commands that read no offsets. parse_position() tells a user who writes one to write --output."""


class FromStart(NamedTuple):
    """A number of offsets after the start of the log."""

    offsets: int


class FromEnd(NamedTuple):
    """A number of offsets before the end of the log, but not before the log's start."""

    offsets: int


Position: TypeAlias = str | int | FromStart | FromEnd | Moment | Ago
"""An end of the log ("earliest", "latest"), an offset, one counted from an end, or a time."""


class Span(NamedTuple):
    """A range from start up to, not including, end. None: this side was not given."""

    start: Position | None
    end: Position | None


class Spans(NamedTuple):
    """The range to read: for each partition that is named, and for all others."""

    others: Span
    partitions: Mapping[int, Span]

    def of(self, partition: int) -> Span:
        """Return the range to read of a partition."""
        return self.partitions.get(partition, self.others)


class Log(NamedTuple):
    """The ends of a partition's log. end: the offset after the last record that can be read."""

    start: int
    end: int


EVERYTHING = Spans(Span(None, None), {})


def parse_spans(text: str) -> Spans:
    """Parse positions and ranges in the syntax that this module's docstring shows. Raises ConfigError for any other text."""
    others: Span | None = None
    partitions: dict[int, Span] = {}
    for part in text.split(","):
        number, span = _parse_part(part.strip(), text)
        if number is None and others is not None:
            raise ConfigError(
                f"offsets '{text}': '{part.strip()}' is the second position for all partitions; name a partition, such as 0:42"
            )
        if number in partitions:
            raise ConfigError(f"offsets '{text}': partition {number} is named twice")
        if number is None:
            others = span
        else:
            partitions[number] = span
    return Spans(others or Span(None, None), partitions)


_OFFSET = r"\d{1,18}"
"""18 digits always fit into the 64 bits of an offset."""
_SO_LONG_AGO = r"-(\d{1,9}[smhdw])+"


def parse_position(text: str) -> Position:
    """Parse one position, without a partition or range. Raises ConfigError that shows the accepted forms."""
    word = text.strip()
    if (name := ENDS.get(word.lower())) is not None:
        return name
    if re.fullmatch(_OFFSET, word):
        return int(word)
    if re.fullmatch(f"-{_OFFSET}", word):
        return FromEnd(int(word[1:]))
    if re.fullmatch(rf"\+{_OFFSET}", word):
        return FromStart(int(word[1:]))
    if word.startswith("@"):
        return parse_time(word[1:])
    if re.fullmatch(_SO_LONG_AGO, word):
        return parse_time(word)
    raise ConfigError(f"offset '{text}': expected {EXAMPLES}" + ("; for the format write --output" if word in FORMATS else ""))


def parse_time(text: str) -> Moment | Ago:
    """Parse a point in time. Raises ConfigError that shows the accepted forms.

    Accepted are an ISO 8601 time (local time if it has no zone), a number of seconds or milliseconds since the epoch, and a duration before
    now, such as -1h30m.
    """
    word = text.strip().removeprefix("@")
    try:
        if word.isdecimal():
            return Moment(epoch_ms(int(word) * (1 if len(word) >= _DIGITS_OF_MS else 1000)))
        read = datetime.fromisoformat(word)
        return Moment(epoch_ms(read if read.tzinfo else read.astimezone()))
    except ValueError:
        pass
    found = parsed_bound("time", word) if re.fullmatch(_SO_LONG_AGO, word) else None
    if not isinstance(found, Ago):
        raise ConfigError(
            f"time '{text}': expected a time such as 2026-11-01T10:00, 2026-11-01T10:00Z or 1793527200, or a time ago such as -1h30m"
        )
    return found


def is_reversed(span: Span) -> bool:
    """Return true if the range ends before it begins in every log, false if it does not or if that depends on the log."""
    match span:
        case Span(FromStart(start), FromStart(end)) | Span(FromEnd(end), FromEnd(start)):
            return start > end
        case Span(str() | int() | Moment() | Ago() as first, str() | int() | Moment() | Ago() as last):
            return bounds.is_reversed(first, last)
    return False


def settle(position: Position, log: Log, at_time: int | None) -> int:
    """Return the offset of a position in a log.

    at_time: the offset of the first record at or after the position's time. None: no such record; then the result is the end of the log.
    Not used if the position is not a time.
    """
    match position:
        case FromStart(count):
            return log.start + count
        case FromEnd(count):
            return max(log.end - count, log.start)
        case Moment() | Ago():
            return log.end if at_time is None else at_time
        case "earliest":
            return log.start
        case "latest":
            return log.end
    assert isinstance(position, int)
    return position


def time_ms(position: Position | None, wall_ms: int) -> int | None:
    """Return the time of a position in milliseconds since the epoch; None if the position is not a time."""
    return moment(position, wall_ms).ms if isinstance(position, Moment | Ago) else None


def _parse_part(part: str, whole: str) -> tuple[int | None, Span]:
    named = re.fullmatch(r"(\d+):(.*)", part)
    number, rest = (int(named[1]), named[2]) if named else (None, part)
    if not rest:
        raise ConfigError(f"offsets '{whole}': expected {EXAMPLES}")
    start, dots, end = rest.partition("..")
    if dots and not (start or end):
        raise ConfigError(f"offsets '{whole}': a range has at least a start or an end")
    span = Span(parse_position(start) if start else None, parse_position(end) if end else None)
    if is_reversed(span):
        raise ConfigError(f"offsets '{whole}': the range {rest} ends before it begins")
    return number, span
