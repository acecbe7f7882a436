"""Converts record batches to message sets and back: a producer for an old broker, and a broker for an old client.

Message sets cannot have headers, producer ids, control records or zstd. For a producer, such a batch is an error, and is not sent. A broker
omits headers, producer ids and control batches, because an old client could not read the response otherwise; zstd is an error here, too.
The embedded broker does not serve such clients: in levada only down_convert() has a caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from levada.errors import UnsupportedRecordFormatError
from levada.record.batch import RecordBatch
from levada.record.compression import DEFAULT_MAX_DECOMPRESSED, Buffer, Codec, compress
from levada.record.header import AFTER_LENGTH, HEADER, HEADER_SIZE, LOG_APPEND_TIME, MAGIC, seal
from levada.record.legacy.lz4 import spoil_frame
from levada.record.legacy.message import write_message
from levada.record.memory_records import read_batches
from levada.record.record import Record
from levada.types import NO_TIMESTAMP

_MAX_OFFSET_DELTA = 2**31 - 1


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


def down_convert_fetched(batches: Iterable[RecordBatch], magic: int, first_offset: int = 0) -> bytearray:
    """Return batches from a log as message sets of at most `magic`, as brokers up to 3.x do for an old version of Fetch.

    Batches of `magic` or lower are copied. Of the others, headers and control batches are omitted, and uncompressed records with offsets
    below first_offset, because some old clients cannot skip them. Raises UnsupportedRecordFormatError for zstd, and CorruptRecordError.
    """
    found = bytearray()
    for batch in batches:
        if batch.magic <= magic:
            found += batch.data
            continue
        if batch.codec is Codec.ZSTD:
            raise UnsupportedRecordFormatError(f"{batch!r} is compressed with zstd, which message sets do not know")
        records = batch.records()
        if not batch.codec:
            records = [record for record in records if record.offset >= first_offset]
        found += _message_set(batch, records, magic, None)
    return found


def up_convert(data: Buffer, max_bytes: int = DEFAULT_MAX_DECOMPRESSED) -> bytearray:
    """Return all complete batches in `data` as batches of magic 2, with the same codec. Batches of magic 2 are not changed.

    Messages of magic 0 get the timestamp -1. Raises CorruptRecordError, DecompressionError if a batch takes more than `max_bytes` after
    decompression, and UnsupportedRecordFormatError if a message set spans more offsets than a batch can.
    """
    found = bytearray()
    for batch in read_batches(data):
        found += batch.data if batch.magic == MAGIC else _batch(batch, max_bytes)
    return found


def _batch(batch: RecordBatch, max_bytes: int) -> bytearray:
    """Return a message set as a batch of magic 2. Its payload() is already in this format, so only a header is added."""
    payload = compress(batch.codec, batch.payload(max_bytes))
    fields = (batch.last_offset_delta, batch.base_timestamp, batch.max_timestamp, -1, -1, -1, batch.records_count)
    if batch.last_offset_delta > _MAX_OFFSET_DELTA:
        raise UnsupportedRecordFormatError(f"{batch!r} spans {batch.last_offset_delta} offsets, more than a batch of magic 2 can")
    size = HEADER_SIZE - AFTER_LENGTH + len(payload)
    converted = bytearray(HEADER.pack(batch.base_offset, size, -1, MAGIC, 0, batch.attributes, *fields))
    converted += payload
    seal(converted)
    return converted


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
    is_append_time = bool(batch.attributes & LOG_APPEND_TIME)
    found = bytearray()
    if not records:
        return found
    # With magic 1, the offsets of the messages in a wrapper are relative to the first message.
    base = records[0].offset if batch.codec and magic else 0
    for record in records:
        write_message(found, magic, record.offset - base, record.timestamp, record.key, record.value, is_append_time=is_append_time)
    if not batch.codec:
        return found
    packed = compress(batch.codec, found, level)
    if batch.codec is Codec.LZ4 and not magic:
        packed = spoil_frame(packed)
    newest = max(record.timestamp for record in records) if magic else NO_TIMESTAMP
    wrapper = bytearray()
    write_message(wrapper, magic, records[-1].offset, newest, None, packed, codec=batch.codec, is_append_time=is_append_time)
    return wrapper
