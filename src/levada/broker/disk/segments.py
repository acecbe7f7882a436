"""One segment in a file: each batch is appended with one write, and the segment is closed with its indexes, as Kafka writes them.

An entry of the offset index (.index) has the last offset of a batch and the batch's position; one of the time index (.timeindex) the
largest timestamp so far and the last offset of its batch. Both get an entry after every index.interval.bytes; the time index does so only
if its timestamp has grown. Offsets are relative to the segment's base offset. Kafka's tools check both. The transaction index (.txnindex)
has the aborted transactions.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

from levada.broker.disk.files import open_private, storing, write_whole
from levada.broker.log.partition_transactions import AbortedTransaction
from levada.protocol.prefixed import encode_prefixed
from levada.protocol.records.aborted_txn import AbortedTxn
from levada.record.batch import RecordBatch
from levada.record.memory_records import read_batches
from levada.wire.varint import Bytes

LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT = ".log", ".index", ".timeindex", ".txnindex", ".snapshot"
CLEANED, SWAP = ".log.cleaned", ".log.swap"
_BELONG_TO_IT = (LOG, INDEX, TIME_INDEX, TXN_INDEX)
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_TXN_VERSION = 0


def file_name(base_offset: int, suffix: str) -> str:
    """Return the name of a segment's file."""
    return f"{base_offset:020d}{suffix}"


class DiskSegment:
    """A SegmentFile on the disk. folder: returns the present folder of the replica, which may be renamed. flush_messages: the number of
    records after which the file is flushed.
    """

    def __init__(self, base_offset: int, folder: Callable[[], Path], *, index_interval_bytes: int, flush_messages: int) -> None:
        self.base_offset = base_offset
        self.size_bytes = 0
        self._folder = folder
        self._flush_messages = flush_messages
        self._unflushed = 0
        self._index_interval_bytes = index_interval_bytes
        self._indexes = SegmentIndexes(base_offset, index_interval_bytes)
        self._file: int | None = None
        self.is_deleted = False

    def create(self) -> None:
        """Create an empty file. A file that a failed attempt has left behind is overwritten."""
        with storing(self.path(LOG)):
            self._file = open_private(self.path(LOG), os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def adopt(self, batches: Iterable[RecordBatch]) -> None:
        """Use an existing file that holds these batches. No batch can be appended to it."""
        for batch in batches:
            self._note(batch)

    def path(self, suffix: str) -> Path:
        """Return the path of the segment's file with this suffix."""
        return self._folder() / file_name(self.base_offset, suffix)

    def append(self, batch: RecordBatch) -> None:
        """Write a batch at the end of the file."""
        assert self._file is not None
        # If this fails, the next batch overwrites what was written of this one.
        with storing(self.path(LOG)):
            _write_at(self._file, batch.data, self.size_bytes)
            self._unflushed += batch.last_offset_delta + 1
            if self._unflushed >= self._flush_messages:
                self._flush(self._file)
        self._note(batch)

    def _note(self, batch: RecordBatch) -> None:
        self._indexes.add(batch)
        self.size_bytes += batch.size_bytes

    def read(self, start: int, end: int) -> Bytes:
        """Return the bytes of the file between two positions."""
        with storing(self.path(LOG)), self.path(LOG).open("rb") as file:
            file.seek(start)
            return file.read(end - start)

    def truncate(self, size: int) -> None:
        """Cut the file to a size in bytes, write its indexes, and close it. No batch can be appended afterwards."""
        with storing(self.path(LOG)), self.path(LOG).open("r+b") as file:
            file.truncate(size)
            kept = file.read()
        self._indexes, self.size_bytes = SegmentIndexes(self.base_offset, self._index_interval_bytes), 0
        for batch in read_batches(kept):
            self._note(batch)
        try:
            self.finish()
        finally:
            self.close()

    def finish(self) -> None:
        """Flush the file and write its indexes, before it is closed. If a later step fails, batches can still be appended."""
        if self._file is not None:
            with storing(self.path(LOG)):
                self._flush(self._file)
        self.write_indexes()

    def close(self) -> None:
        """Close the file. No batch can be appended afterwards."""
        if self._file is not None:
            file, self._file = self._file, None
            os.close(file)

    @property
    def has_indexes(self) -> bool:
        """Whether the index files exist."""
        return self.path(INDEX).exists() and self.path(TIME_INDEX).exists()

    def write_indexes(self) -> None:
        """Write the offset index and the time index of the segment."""
        write_whole(self.path(INDEX), bytes(self._indexes.offsets), lasting=False)
        write_whole(self.path(TIME_INDEX), self._indexes.times(), lasting=False)

    def flush(self) -> None:
        """Flush a file that is not open for appends, because it may not have been flushed before a crash."""
        with storing(self.path(LOG)), self.path(LOG).open("rb+") as file:
            self._flush(file.fileno())

    def delete(self) -> None:
        """Delete the segment's file and its indexes."""
        self.is_deleted = True
        self.close()
        for suffix in _BELONG_TO_IT:
            with storing(self.path(suffix)):
                self.path(suffix).unlink(missing_ok=True)

    def _flush(self, file: int) -> None:
        os.fsync(file)
        self._unflushed = 0


def _write_at(file: int, data: Bytes, position: int) -> None:
    os.lseek(file, position, os.SEEK_SET)
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


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
