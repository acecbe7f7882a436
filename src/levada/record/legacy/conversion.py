"""Converts a producer's record batches to message sets, for an old broker.

Message sets cannot have headers, producer ids, control records or zstd. A batch that needs one of them is an error, and is not sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from levada.errors import UnsupportedRecordFormatError
from levada.record.batch import RecordBatch
from levada.record.compression import Codec, compress
from levada.record.legacy.lz4 import spoil_frame
from levada.record.legacy.message import write_message
from levada.record.record import Record
from levada.types import NO_TIMESTAMP


def down_convert(batch: RecordBatch, magic: int, level: int | None = None) -> bytearray:
    """Return a producer's batch as a message set, for a broker that supports only Produce version 2 or older.

    magic: 0 or 1; with 0, the timestamps are lost. level: the compression level; None for the default. Raises UnsupportedRecordFormatError
    if the batch has headers, zstd, or the id of an idempotent or transactional producer, or is a control batch.
    """
    if magic not in (0, 1):
        raise ValueError(f"message sets are of magic 0 or 1, got {magic!r}")
    records = batch.records()
    for need in _needs(batch, records):
        raise UnsupportedRecordFormatError(f"{need}; the broker takes only message sets (magic {magic}), so nothing was sent")
    return _message_set(batch, records, magic, level)


def _needs(batch: RecordBatch, records: Sequence[Record]) -> Iterator[str]:
    if batch.codec is Codec.ZSTD:
        yield "compression with zstd needs Kafka 2.1"
    if batch.producer_id >= 0 or batch.is_transactional or batch.is_control:
        yield "an idempotent or transactional producer needs Kafka 0.11"
    if any(record.headers for record in records):
        yield "record headers need Kafka 0.11"


def _message_set(batch: RecordBatch, records: Sequence[Record], magic: int, level: int | None) -> bytearray:
    """Return records as a message set: separate messages without a codec, or one wrapper with the codec of the batch.

    magic: 0 or 1. level: the compression level; None for the default of the codec.
    """
    found = bytearray()
    # With magic 1, the offsets of the messages in a wrapper are relative to the first message.
    base = records[0].offset if batch.codec and magic else 0
    for record in records:
        write_message(found, magic, record.offset - base, record.timestamp, record.key, record.value)
    if not batch.codec:
        return found
    packed = compress(batch.codec, found, level)
    if batch.codec is Codec.LZ4 and not magic:
        packed = spoil_frame(packed)
    newest = max(record.timestamp for record in records) if magic else NO_TIMESTAMP
    wrapper = bytearray()
    write_message(wrapper, magic, records[-1].offset, newest, None, packed, codec=batch.codec)
    return wrapper
