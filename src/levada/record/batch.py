"""The record batch of magic 2: reads its header, its checksum and its records.

RecordBatch never copies a batch: it is a view over bytes that another object holds, such as a fetch response. It reads the header at once.
It verifies the checksum, decompresses and reads records only when a caller asks for this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from levada.errors import CorruptRecordError, DecompressionError
from levada.record.compression import DEFAULT_MAX_DECOMPRESSED, Buffer, Codec, decompress
from levada.record.header import (
    CODEC_BITS,
    CONTROL,
    CRC_FROM,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    assign_offsets,
    checksum,
    next_sequence,
    seal,
    set_producer_state,
)
from levada.record.lazy import LazyRecord, LazyRecords
from levada.record.reader import RecordWalker
from levada.record.record import Header, Record
from levada.types import AnyRecord, TimestampType, TopicPartition
from levada.wire.varint import varint_size

__all__ = [
    "HEADER_SIZE",
    "Record",
    "RecordBatch",
    "assign_offsets",
    "next_sequence",
    "record_size_upper_bound",
    "seal",
    "set_producer_state",
]

# Length, attributes, timestamp delta, offset delta, each at its longest.
_MAX_RECORD_OVERHEAD = 21
_MOST = 2**63 - 1


class RecordBatch:
    """A view of one complete record batch. Its fields have their names from the Kafka protocol. data: all bytes of the batch."""

    __slots__ = (
        "_paused",
        "_payload",
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "crc",
        "data",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "records_count",
    )

    def __init__(self, data: memoryview) -> None:
        """data: exactly one batch. Raises CorruptRecordError for impossible offsets or record counts, and for an unknown codec."""
        self.data = data
        self.base_offset: int
        self.attributes: int
        self.last_offset_delta: int
        self.base_timestamp: int
        self.records_count: int
        (
            self.base_offset,
            self.batch_length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.records_count,
        ) = HEADER.unpack_from(data)
        self._payload: Buffer | None = None
        self._paused: tuple[RecordWalker, int] | None = None
        self._check_header()

    def __repr__(self) -> str:
        return f"<RecordBatch offsets {self.base_offset}..{self.last_offset}, {self.records_count} records, {self.size_bytes} bytes>"

    @property
    def codec(self) -> Codec:
        """The codec with which the records are compressed."""
        return Codec(self.attributes & CODEC_BITS)

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether the producer (CREATE_TIME) or the broker (LOG_APPEND_TIME) set the timestamps of the records."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether this is a control batch, such as a transaction marker. Brokers write control batches; applications do not see them."""
        return bool(self.attributes & CONTROL)

    @property
    def last_offset(self) -> int:
        """The offset of the last record that was written. It does not change when compaction removes that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset from which reading continues after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def earliest_offset(self) -> int:
        """The lowest offset that a record of the batch can have. It is known without decompressing the batch."""
        return self.base_offset

    @property
    def is_empty(self) -> bool:
        """Whether compaction has removed all records."""
        return self.records_count == 0

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number; -1 for a batch of a producer that is not idempotent."""
        return -1 if self.base_sequence < 0 else next_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which compaction may remove the batch's tombstones, in ms since the epoch; None if the broker has not set it.

        The broker stores this time in the field base_timestamp (KIP-534).
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch."""
        return len(self.data)

    def verify_crc(self) -> None:
        """Raise CorruptRecordError unless the checksum matches the bytes."""
        actual = checksum(self.data[CRC_FROM:])
        if actual != self.crc:
            raise self._corrupt(f"checksum {actual:#010x}, the header says {self.crc:#010x}")

    def payload(self, max_bytes: int = DEFAULT_MAX_DECOMPRESSED) -> Buffer:
        """Return the decompressed bytes of the records. Raises DecompressionError, also if they decompress to more than `max_bytes`.

        The limit does not apply to an uncompressed batch.

        The batch object keeps the decompressed bytes, so that a batch that is read in several portions is decompressed once.
        """
        if self._payload is None:
            records = self.data[HEADER_SIZE:]
            self._payload = self._unpacked(records, max_bytes) if self.attributes & CODEC_BITS else records
        return self._payload

    def _unpacked(self, records: memoryview, max_bytes: int) -> Buffer:
        try:
            return decompress(self.codec, records, max_bytes)
        except DecompressionError as fault:
            raise DecompressionError(f"record batch at offset {self.base_offset} ({len(self.data)} bytes): {fault}") from fault

    def walker(self, max_bytes: int = DEFAULT_MAX_DECOMPRESSED) -> RecordWalker:
        """Return a new RecordWalker, whose first advance() reads the first record. max_bytes: see payload().

        Raises DecompressionError, and CorruptRecordError if the batch is too short for its record count.
        """
        # Before the fields: those of a compressed message set are known only from its payload, which max_bytes must limit (legacy.batch).
        payload = self.payload(max_bytes)
        append_time = self.max_timestamp if self.attributes & LOG_APPEND_TIME else None
        return RecordWalker(payload, self.records_count, self.base_offset, self.last_offset_delta, self.base_timestamp, append_time)

    def walker_at(self, offset: int, max_bytes: int = DEFAULT_MAX_DECOMPRESSED) -> RecordWalker:
        """Return the walker that pause() has stored if it is not beyond `offset`, otherwise a new walker. max_bytes: see payload().

        So the records of a batch are read only once, even if a consumer takes them in several portions. The stored walker is removed even
        if a new one is returned.
        """
        paused, self._paused = self._paused, None
        return paused[0] if paused is not None and paused[1] <= offset else self.walker(max_bytes)

    def pause(self, walker: RecordWalker, offset: int) -> None:
        """Store a walker for walker_at(). offset: the lowest offset that the walker's next record can have."""
        self._paused = walker, offset

    def following(self, offset: int) -> int:
        """Return the offset at which reading continues after consumer_records(). offset: that of the last record it has returned."""
        return self.next_offset if self._paused is None else offset + 1

    def __iter__(self) -> Iterator[LazyRecord]:
        """Iterate over the records. A control batch yields no records. Raises the errors of walker() at once.

        The iterator raises CorruptRecordError when it reaches a corrupt record; the records before that one have been yielded.
        """
        return iter(()) if self.is_control else LazyRecords(self.walker())

    def records(self, max_bytes: int = DEFAULT_MAX_DECOMPRESSED) -> list[Record]:
        """Return the records; [] for a control batch. max_bytes: see payload(). Raises CorruptRecordError and DecompressionError."""
        return [] if self.is_control else self.walker(max_bytes).records()

    def consumer_records(
        self,
        tp: TopicPartition,
        max_bytes: int = DEFAULT_MAX_DECOMPRESSED,
        *,
        start: int = 0,
        end: int | None = None,
        limit: int | None = None,
    ) -> list[AnyRecord]:
        """Return the records with offsets from `start` up to, not including, `end`, as ConsumerRecords; at most `limit` records.

        Returns [] for a control batch. end, limit: None for no limit. max_bytes: see payload(). A call that begins where the previous call
        ended does not read the records before `start` again. Raises CorruptRecordError and DecompressionError.
        """
        if self.is_control:
            return []
        walker = self.walker_at(start, max_bytes)
        most = _MOST if limit is None else limit
        stop = _MOST if end is None else end
        kind, epoch = int(self.timestamp_type), self.partition_leader_epoch
        records = walker.consumer_records(tp.topic, tp.partition, kind, epoch, start, stop, most)
        if records and not walker.finished:
            self.pause(walker, records[-1].offset + 1)
        return records

    def control_type(self, max_bytes: int = DEFAULT_MAX_DECOMPRESSED) -> int | None:
        """Return the type of a control batch: 0 abort, 1 commit, 2 leader change, and so on. max_bytes: see payload().

        None if this is not a control batch, or if compaction has removed its record. Raises CorruptRecordError and DecompressionError.
        """
        if not self.is_control or not self.records_count:
            return None
        key = self.walker(max_bytes).records()[0].key
        if key is None or len(key) < 4:
            raise self._corrupt("a control record without version and type in its key")
        return int.from_bytes(key[2:4], "big", signed=True)

    def _check_header(self) -> None:
        if self.base_offset < 0:
            raise self._corrupt("the base offset is negative")
        if self.base_offset + self.last_offset_delta >= _MOST:
            raise self._corrupt("no offset could follow its last one")
        if self.last_offset_delta < 0 or not 0 <= self.records_count <= self.last_offset_delta + 1:
            raise self._corrupt(f"{self.records_count} records, but the last offset delta is {self.last_offset_delta}")
        if self.attributes & CODEC_BITS > Codec.ZSTD:
            raise self._corrupt(f"unknown codec {self.attributes & CODEC_BITS}")

    def _corrupt(self, fault: str) -> CorruptRecordError:
        return CorruptRecordError(f"record batch at offset {self.base_offset} ({len(self.data)} bytes): {fault}")


def record_size_upper_bound(key_size: int | None, value_size: int | None, headers: Sequence[Header] = ()) -> int:
    """Return the maximum size in bytes of an uncompressed batch with only this record. key_size, value_size: in bytes; None for null."""
    size = HEADER_SIZE + _MAX_RECORD_OVERHEAD + _field_size(key_size) + _field_size(value_size) + varint_size(len(headers))
    for name, value in headers:
        size += _field_size(len(name) if name.isascii() else len(name.encode()))
        size += _field_size(None if value is None else len(value))
    return size


def _field_size(size: int | None) -> int:
    return 1 if size is None else varint_size(size) + size
