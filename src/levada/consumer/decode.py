"""Records as the caller gets them: keys and values deserialized. A Python call per record is made only where the user asked for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from levada.errors import RecordDeserializationError
from levada.types import AnyRecord

Deserializer: TypeAlias = Callable[[bytes], Any]


class RecordConverter:
    """Applies the deserializers. None leaves keys or values as they are; null keys and values always stay.

    run_handlers: called before each record, to run the signal handlers that wait. Not within a deserializer: what a handler raised there
    would be taken for a fault of the record.
    """

    def __init__(
        self,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        run_handlers: Callable[[], None] = lambda: None,
    ) -> None:
        self._key = key_deserializer
        self._value = value_deserializer
        self._run_handlers = run_handlers

    def convert(self, records: list[AnyRecord]) -> list[AnyRecord]:
        """Return all records, or those before the first that does not deserialize; RecordDeserializationError when that is the first."""
        if self._key is None and self._value is None:
            return records
        done: list[AnyRecord] = []
        for record in records:
            self._run_handlers()
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
