"""Splits a batch that is too large for the broker (ProducerBatch.split() in Java), or one with records that message sets cannot mix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from levada.producer.append.producer_batch import ProducerBatch
from levada.record.batch import Record, RecordBatch
from levada.record.builder import NO_ROOM, RecordBatchBuilder
from levada.record.compression import Codec

OWN_BYTES_ARE_TRUSTED = 1 << 31


def split_batch(batch: ProducerBatch, batch_size: int, codec: Codec, level: int | None) -> list[ProducerBatch]:
    """Return the records of a sealed batch as at least two batches of at most batch_size, uncompressed. They are charged 0 bytes.

    They inherit the creation time, so delivery.timeout.ms still applies, and whether the records may have been written.
    """
    assert batch.data is not None
    source = RecordBatch(memoryview(batch.data))
    # At most half of the batch: one that is smaller than batch_size would else be split into itself, again and again.
    limit = min(batch_size, len(source.payload(OWN_BYTES_ARE_TRUSTED)) // 2)
    batch.queue.topic.compression_ratio = max(1.0, batch.queue.topic.compression_ratio)
    return [_part(batch, builder) for builder in _builders(source.records(OWN_BYTES_ARE_TRUSTED), limit, codec, level)]


def split_by_headers(batch: ProducerBatch, codec: Codec, level: int | None) -> list[ProducerBatch]:
    """Return the records of a sealed batch, in order, as batches whose records all have headers or all have none.

    If there is only one kind, it is one batch. The parts have the properties of those of split_batch().
    """
    assert batch.data is not None
    records = RecordBatch(memoryview(batch.data)).records(OWN_BYTES_ARE_TRUSTED)
    return [_part(batch, _builder(alike, codec, level)) for _, alike in groupby(records, lambda record: bool(record.headers))]


def _builder(records: Iterable[Record], codec: Codec, level: int | None) -> RecordBatchBuilder:
    builder = RecordBatchBuilder(codec, level, OWN_BYTES_ARE_TRUSTED)
    for _, timestamp, key, value, headers in records:
        builder.append(timestamp, key, value, headers)
    return builder


def _builders(records: list[Record], limit: int, codec: Codec, level: int | None) -> Iterator[RecordBatchBuilder]:
    builder = RecordBatchBuilder(codec, level, limit)
    for _, timestamp, key, value, headers in records:
        if builder.append_if_room(timestamp, key, value, headers) == NO_ROOM:
            yield builder
            builder = RecordBatchBuilder(codec, level, limit)
            builder.append(timestamp, key, value, headers)
    yield builder


def _part(batch: ProducerBatch, builder: RecordBatchBuilder) -> ProducerBatch:
    part = ProducerBatch.sealed(batch.queue, builder, charged=0, created_ms=batch.created_ms, waiter=batch.waiter)
    part.may_be_persisted = batch.may_be_persisted
    return part
