"""Splits a batch that is too large for the broker (ProducerBatch.split() in Java), or that mixes records with and without headers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from levada.producer.append.producer_batch import ProducerBatch
from levada.record.batch import Record, RecordBatch
from levada.record.builder import NO_ROOM, RecordBatchBuilder, pack_headers
from levada.record.compression import Codec

OWN_BYTES_ARE_TRUSTED = 1 << 31


def split_batch(batch: ProducerBatch, batch_size: int, codec: Codec, level: int | None) -> list[ProducerBatch]:
    """Return the records of a sealed batch, in order, as smaller batches: at most batch_size uncompressed bytes, or a single record.

    The new batches are charged 0 bytes. They keep the creation time, so that delivery.timeout.ms still applies, and `may_be_persisted`.
    The estimated compression ratio of the topic is raised to 1. level: the compression level; None for the default of the codec.
    """
    assert batch.data is not None
    source = RecordBatch(memoryview(batch.data))
    # At most half of the batch. Otherwise a batch that is smaller than batch_size would never get smaller.
    limit = min(batch_size, len(source.payload(OWN_BYTES_ARE_TRUSTED)) // 2)
    batch.queue.topic.compression_ratio = max(1.0, batch.queue.topic.compression_ratio)
    return [_part(batch, builder) for builder in _builders(source.records(OWN_BYTES_ARE_TRUSTED), limit, codec, level)]


def split_by_headers(batch: ProducerBatch, codec: Codec, level: int | None) -> list[ProducerBatch]:
    """Return the records of a sealed batch, in order, as batches in which either all records have headers or none has (message sets).

    Returns one batch if no split is needed. The charge and the creation time of the new batches are as in split_batch(). level: the
    compression level; None for the default of the codec.
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
        if builder.append_if_room(timestamp, key, value, pack_headers(headers)) == NO_ROOM:
            yield builder
            builder = RecordBatchBuilder(codec, level, limit)
            builder.append(timestamp, key, value, headers)
    yield builder


def _part(batch: ProducerBatch, builder: RecordBatchBuilder) -> ProducerBatch:
    part = ProducerBatch.sealed(batch.queue, builder, charged=0, created_ms=batch.created_ms, waiter=batch.waiter)
    part.may_be_persisted = batch.may_be_persisted
    return part
