"""Points in time as people give them, and as Kafka has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from levada.face.arguments import whole

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def epoch_ms(time: datetime | int) -> int:
    """Return milliseconds since the epoch; ValueError for a negative number or a datetime without a time zone."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError(f"{time!r} has no time zone; give an aware datetime, such as one with tzinfo=datetime.UTC")
        ms = (time - _EPOCH) // timedelta(milliseconds=1)
    else:
        ms = whole("a time in milliseconds", time)
    if ms < 0:
        raise ValueError(f"{time} is before 1970; times are milliseconds since the epoch")
    return ms
