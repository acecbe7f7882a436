"""The indexes of a segment, as Kafka writes them: .index, .timeindex and .txnindex.

An entry of the offset index has the last offset of a batch and the batch's position; one of the time index the largest timestamp so far and
the last offset of its batch. Both get an entry after every index.interval.bytes; the time index does so only if its timestamp has grown.
Offsets are relative to the segment's base offset. Kafka's tools check both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from levada.broker.log.partition_transactions import AbortedTransaction
from levada.protocol.prefixed import encode_prefixed
from levada.protocol.records.aborted_txn import AbortedTxn
from levada.record.batch import RecordBatch

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_TXN_VERSION = 0


class SegmentIndexes:
    """Collects a segment's offset index and time index while batches are appended. offsets: the bytes of the offset index so far."""

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.offsets = bytearray()
        self._times = bytearray()
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._since_last = 0
        self._position = 0
        self._newest = (-1, base_offset)
        self._last_time = -1

    def add(self, batch: RecordBatch) -> None:
        """Add the index entries for a batch that was appended to the segment."""
        if batch.max_timestamp > self._newest[0]:
            self._newest = (batch.max_timestamp, batch.last_offset)
        if self._since_last > self._interval_bytes:
            self.offsets += _OFFSET_ENTRY.pack(batch.last_offset - self._base_offset, self._position)
            self._times += self._time_entry()
            self._last_time = self._newest[0]
            self._since_last = 0
        self._position += batch.size_bytes
        self._since_last += batch.size_bytes

    def times(self) -> bytes:
        """Return the bytes of the time index so far. The last entry has the largest timestamp."""
        return bytes(self._times + self._time_entry())

    def _time_entry(self) -> bytes:
        timestamp, offset = self._newest
        return _TIME_ENTRY.pack(timestamp, offset - self._base_offset) if timestamp > self._last_time else b""


def transaction_index(aborted: Iterable[AbortedTransaction]) -> bytes:
    """Return the bytes of a segment's transaction index. aborted: the aborted transactions whose markers are in the segment."""
    return b"".join(encode_prefixed(AbortedTxn(**one._asdict()), _TXN_VERSION) for one in sorted(aborted, key=lambda one: one.last_offset))
