"""Offsets that are named and not counted, as consumers and administrators ask for them."""

from __future__ import annotations

from enum import IntEnum


class OffsetSpec(IntEnum):
    """Which offset of a partition is asked for, where it is not the first one at or after a time.

    LATEST: that of the next record, or with read_committed that of the first record of an open transaction. MAX_TIMESTAMP: of the record
    with the largest timestamp (Kafka since 3.0). With tiered storage: EARLIEST_LOCAL, the first on the broker's own disk (3.4);
    LATEST_TIERED, the last in remote storage (3.9); EARLIEST_PENDING_UPLOAD, the first that is not there yet (4.2).
    """

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6
