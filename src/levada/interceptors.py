"""What a program may put between itself and a client, for every record: Java's interceptors (KIP-42)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from levada.types import ConsumerRecords, Headers, HeadersIn, OffsetAndMetadata, RecordMetadata, TopicPartition


class ProducerRecord(NamedTuple):
    """A record as it was given to send(), before serializers and partitioner. `record._replace(...)` makes a changed one."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: int | datetime | None = None
    headers: HeadersIn | None = None


class ProducerInterceptor:
    """Sees each record on its way in and its outcome on the way back; derive from it, and give objects as `interceptors`.

    What a method raises is logged and does not reach the record. Both methods have to be quick, and on_acknowledgement() must not wait.
    """

    def configure(self, settings: Mapping[str, str]) -> None:
        """Learn of which client it is, once, before all else. settings: "client.id"; more may follow."""

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

    def on_send_arrow(self, topic: str) -> Headers:
        """Return headers for every row of one send_arrow(), which come after a row's own; [] for none. Called in the thread of that call.

        It does not see the rows. A producer with an interceptor that does not define this refuses send_arrow(): no row passes it by.
        """
        raise NotImplementedError

    def on_arrow_acknowledgement(self, topic: str, rows: int, error: Exception | None, headers: Headers) -> None:
        """Learn that all rows of one send_arrow() were acknowledged or have failed, and what one of them failed with.

        Called as callbacks are. rows: how many were taken. headers: what on_send_arrow() has returned.
        """

    def close(self) -> None:
        """Let go of what it holds. Called once, when the producer has been closed and no record will follow."""


class ConsumerInterceptor:
    """Sees the records of each poll() before the program does, and what was committed; derive from it, give objects as `interceptors`.

    What a method raises is logged and changes nothing. Both run in the thread or task that calls the consumer, and have to be quick.
    """

    def configure(self, settings: Mapping[str, str]) -> None:
        """Learn of which client it is, once, before all else. settings: "client.id", and "group.id" where it has one; more may follow."""

    def on_consume(self, records: ConsumerRecords[Any, Any]) -> ConsumerRecords[Any, Any]:
        """Return the records that are handed out, these or others. Called in the order of `interceptors`, only where there are some.

        Each is given what the one before it returned, or, when that one raised, what it had been given. Positions, and with them what is
        committed, are those of the records that were fetched, whatever is returned.
        """
        return records

    def on_consume_arrow(self, batch: Any) -> None:
        """See the Arrow batch of a poll_arrow() before the program does; only called where it has rows.

        A consumer with an interceptor that does not define this refuses poll_arrow(): no row passes it by.
        """
        raise NotImplementedError

    def on_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Learn that offsets were committed, by the program or automatically. Called within a later call; for commit(), within it.

        Offsets that a producer commits in a transaction are not told.
        """

    def close(self) -> None:
        """Let go of what it holds. Called once, when the consumer has been closed."""
