"""Writes a record batch with fewer records, like Kafka's log cleaner.

Records keep their offsets, so there are gaps between them. The batch keeps its first and last offset, producer, sequence and leader epoch,
even when no record remains, because a broker restores its producer state from these fields after a restart.
"""

from __future__ import annotations

from collections.abc import Sequence

from levada.record.batch import RecordBatch
from levada.record.compression import Codec, compress
from levada.record.header import AFTER_LENGTH, DELETE_HORIZON, HEADER, HEADER_SIZE, LOG_APPEND_TIME, MAGIC, seal
from levada.record.record import Record
from levada.wire.varint import encode_varint

_NULL = encode_varint(-1)


def rewritten(batch: RecordBatch, records: Sequence[Record], delete_horizon_ms: int | None = None) -> RecordBatch:
    """Return a copy of a batch that keeps only `records`, a selection of the batch's records.

    delete_horizon_ms: the time from which the batch's tombstones, or its transaction marker, may be removed (KIP-534). It has no effect if
    the batch has a delete horizon already.
    """
    horizon = batch.delete_horizon_ms if batch.delete_horizon_ms is not None else delete_horizon_ms
    base_timestamp = batch.base_timestamp if horizon is None else horizon
    attributes = batch.attributes if horizon is None else batch.attributes | DELETE_HORIZON
    payload: bytes | bytearray | memoryview = b"".join(_encoded(record, batch.base_offset, base_timestamp) for record in records)
    if batch.codec is not Codec.NONE and records:
        payload = compress(batch.codec, payload)
    data = bytearray(HEADER_SIZE)
    data += payload
    HEADER.pack_into(
        data,
        0,
        batch.base_offset,
        len(data) - AFTER_LENGTH,
        batch.partition_leader_epoch,
        MAGIC,
        0,
        attributes,
        batch.last_offset_delta,
        base_timestamp,
        _max_timestamp(batch, records),
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        len(records),
    )
    seal(data)
    return RecordBatch(memoryview(data))


def _max_timestamp(batch: RecordBatch, records: Sequence[Record]) -> int:
    if not records or batch.attributes & LOG_APPEND_TIME:
        return int(batch.max_timestamp)
    return max([record.timestamp for record in records])


def _encoded(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    parts = [b"\0", encode_varint(record.timestamp - base_timestamp), encode_varint(record.offset - base_offset)]
    parts += [_field(record.key), _field(record.value), encode_varint(len(record.headers))]
    for name, value in record.headers:
        parts += [_field(name.encode()), _field(value)]
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def _field(data: bytes | None) -> bytes:
    return _NULL if data is None else encode_varint(len(data)) + data
