"""ListOffsets for one partition: the offset of a timestamp, or of a special one such as earliest (KIP-79)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from levada.broker.replication.partition import Partition
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, CorruptRecordError

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_SINCE_VERSION = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


class Found(NamedTuple):
    """An offset and the timestamp of its record. Both are -1 if no record was found. For LATEST and the log start offset, only the
    timestamp is -1.
    """

    offset: int = -1
    timestamp: int = -1


NOTHING = Found()


def find(partition: Partition, timestamp: int, version: int, isolation_level: int) -> Found:
    """Return the offset for a timestamp in ListOffsets, which may be one of the special negative values such as LATEST.

    version: the version of the request; raises UNSUPPORTED_VERSION if it does not have this special value. Raises CORRUPT_MESSAGE if a
    batch is damaged. Records that cannot be read at the isolation level are not found.
    """
    if timestamp < 0 and version < _SINCE_VERSION.get(timestamp, version + 1):
        raise BrokerError(f"timestamp {timestamp} in ListOffsets v{version}", code=ErrorCode.UNSUPPORTED_VERSION)
    end = partition.readable_end(isolation_level)
    if timestamp == LATEST:
        return Found(end)
    if timestamp in _AT_THE_START:
        return Found(partition.log.start_offset)
    found = _SPECIAL[timestamp](partition) if timestamp < 0 else _first_at_or_after(partition, timestamp)
    return found if found.offset < end else NOTHING


def _first_at_or_after(partition: Partition, timestamp: int) -> Found:
    try:
        for batch in partition.log.batches_reaching(timestamp):
            # Markers have timestamps, too, and are found like records.
            for record in batch.walker().records() if batch.is_control else batch:
                if record.timestamp >= timestamp and record.offset >= partition.log.start_offset:
                    return Found(record.offset, record.timestamp)
    except CorruptRecordError as fault:
        raise BrokerError(f"{partition.name}: {fault}", code=ErrorCode.CORRUPT_MESSAGE) from fault
    return NOTHING


def _of_largest_timestamp(partition: Partition) -> Found:
    newest = partition.log.newest_timestamp
    return _first_at_or_after(partition, newest) if newest >= 0 else NOTHING


# Without tiered storage, all records are local and none are uploaded.
_AT_THE_START = (EARLIEST, EARLIEST_LOCAL)
_SPECIAL: Mapping[int, Callable[[Partition], Found]] = {
    MAX_TIMESTAMP: _of_largest_timestamp,
    LATEST_TIERED: lambda partition: NOTHING,
    EARLIEST_PENDING_UPLOAD: lambda partition: NOTHING,
}
