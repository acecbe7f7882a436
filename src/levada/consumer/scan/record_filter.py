"""Which records of a range a scan hands out: those with certain keys, and those of a span of time. Decided on records as they were read."""

from __future__ import annotations

from typing import NamedTuple

from levada.consumer.scan.bounds import Moment, Time, moment
from levada.types import AnyRecord


class RecordFilter(NamedTuple):
    """keys: as bytes, None for null; None for all. first, end: the times of the first record, and of the first that is too late."""

    keys: frozenset[bytes | None] | None = None
    first: Time | None = None
    end: Time | None = None

    def as_of(self, wall_ms: int) -> RecordFilter:
        """Return the same with points in time for what is counted from now."""
        first, end = (None if time is None else moment(time, wall_ms) for time in (self.first, self.end))
        return self._replace(first=first, end=end)

    @property
    def span_ms(self) -> tuple[int | None, int | None]:
        """The times in milliseconds since the epoch, of a filter that as_of() has returned."""
        assert not any(time is not None and not isinstance(time, Moment) for time in (self.first, self.end))
        return self.first and self.first.ms, self.end and self.end.ms

    def keeps(self, record: AnyRecord) -> bool:
        """Whether a record as it was read is handed out."""
        first_ms, end_ms = self.span_ms
        if first_ms is not None and record.timestamp < first_ms:
            return False
        if end_ms is not None and record.timestamp >= end_ms:
            return False
        return self.keys is None or record.key in self.keys
