"""What a program may put between itself and a producer, for every record: Java's ProducerInterceptor (KIP-42)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from levada.types import Headers, RecordMetadata


class ProducerRecord(NamedTuple):
    """A record as it was given to send(), before serializers and partitioner. `record._replace(...)` makes a changed one."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: int | datetime | None = None
    headers: Headers | Mapping[str, bytes | None] | None = None


class ProducerInterceptor:
    """Sees each record on its way in and its outcome on the way back; derive from it, and give objects as `interceptors`.

    What a method raises is logged and does not reach the record. Both methods have to be quick, and on_acknowledgement() must not wait.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to be sent, this one or another. Called in the thread of send(), in the order of `interceptors`.

        Each is given what the one before it returned, or, when that one raised, what it had been given.
        """
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, headers: Any) -> None:
        """Learn that a record was acknowledged, or failed with `error`. Called before on_delivery, where that is called.

        A record that failed has offset -1 in its metadata, and partition -1 where none had been chosen. headers: the record's, as on_send()
        returned them. Where send() raises instead of returning a handle, such as SerializationError, it is called in the thread of send().
        """

    def close(self) -> None:
        """Let go of what it holds. Called once, when the producer has been closed and no record will follow."""
