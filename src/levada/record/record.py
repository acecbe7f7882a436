"""A record as read from a log, without the topic and partition it came from."""

from __future__ import annotations

from typing import NamedTuple

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record: offset in its partition, timestamp in ms since the epoch, key and value (None is null), headers in order."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
