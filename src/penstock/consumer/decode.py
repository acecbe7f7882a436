"""Records as the caller gets them: with their place, and with keys and values deserialized.

This is the hot path of poll(): one list comprehension per batch, and a Python call per record only where the user asked for one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from penstock.errors import RecordDeserializationError
from penstock.record.batch import RecordBatch
from penstock.record.record import Record
from penstock.types import AnyRecord, ConsumerRecord, TopicPartition

Deserializer: TypeAlias = Callable[[bytes], Any]

_new = tuple.__new__


class RecordFactory:
    """Builds ConsumerRecords from decoded ones. A deserializer is not called for a null key or value."""

    def __init__(self, key_deserializer: Deserializer | None = None, value_deserializer: Deserializer | None = None) -> None:
        self._key = key_deserializer
        self._value = value_deserializer

    def build(self, tp: TopicPartition, batch: RecordBatch, raw: Sequence[Record]) -> list[AnyRecord]:
        """Build all records, or those before the first that does not deserialize; RecordDeserializationError when that is the first."""
        records = place(tp, batch, raw)
        if self._key is None and self._value is None:
            return records
        return self._deserialize(records)

    def _deserialize(self, records: list[AnyRecord]) -> list[AnyRecord]:
        done: list[AnyRecord] = []
        for record in records:
            try:
                done.append(self._convert(record))
            except Exception as fault:
                if done:
                    break
                text = (
                    f"{record.topic}-{record.partition} at offset {record.offset}: a deserializer failed: {type(fault).__name__}: {fault}"
                )
                raise RecordDeserializationError(f"{text}; seek to {record.offset + 1} to skip the record", record) from fault
        return done

    def _convert(self, record: AnyRecord) -> AnyRecord:
        key, value = record.key, record.value
        if self._key is not None and key is not None:
            key = self._key(key)
        if self._value is not None and value is not None:
            value = self._value(value)
        return record._replace(key=key, value=value)


def place(tp: TopicPartition, batch: RecordBatch, raw: Sequence[Record]) -> list[AnyRecord]:
    """Turn decoded records into ConsumerRecords."""
    topic, partition = tp
    kind, epoch = int(batch.timestamp_type), batch.partition_leader_epoch
    # The class's own constructor takes twice as long, for nothing: the fields are all here, in order.
    return [
        _new(ConsumerRecord, (topic, partition, offset, timestamp, kind, key, value, headers, epoch))
        for offset, timestamp, key, value, headers in raw
    ]
