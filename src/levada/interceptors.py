"""Interceptors: classes of the program that read or change every record between the program and its client, as in Java (KIP-42)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from levada.types import ConsumerRecords, Headers, HeadersIn, OffsetAndMetadata, RecordMetadata, TopicPartition


class ProducerRecord(NamedTuple):
    """A record as the program passed it to send(), before serializers and partitioner. `record._replace(...)` makes a changed copy."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: int | datetime | None = None
    headers: HeadersIn | None = None


class ProducerInterceptor:
    """Base class of producer interceptors, which get each record before it is sent, and its result afterwards.

    Pass objects of a derived class as `interceptors`. If a method raises, the error is logged and the record is not affected. The methods
    have to be fast, and on_acknowledgement() must not block.
    """

    def configure(self, settings: Mapping[str, str]) -> None:
        """Is called once, before all other methods. settings: the producer's "client.id"; later versions may add more."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send: `record` or another one. Called in the thread of send(), in the order of `interceptors`.

        Each interceptor gets the record that the previous interceptor returned. If the previous interceptor raised an error, it gets the
        record that the previous interceptor got.
        """
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, headers: Any) -> None:
        """Is called when a record was acknowledged (error=None) or has failed. Called in the same thread as on_delivery, and before it.

        metadata: if the record has failed, its offset is -1, and its partition is -1 if no partition was chosen. headers: the headers of
        the record as on_send() returned them. If send() raises an error, such as SerializationError, instead of returning a handle, this
        method is called in the thread of send().
        """

    def on_send_arrow(self, topic: str) -> Headers:
        """Return headers to append to the headers of every row of one send_arrow() call; [] for none. Called in the thread of send_arrow().

        The interceptor does not get the rows. If a class does not define this method, send_arrow() raises an error, so that no row is sent
        without the interceptor.
        """
        raise NotImplementedError

    def on_arrow_acknowledgement(self, topic: str, rows: int, error: Exception | None, headers: Headers) -> None:
        """Is called when the rows of one send_arrow() call were acknowledged or have failed. Called in the same thread as on_delivery.

        rows: the number of rows with an outcome; if send_arrow() has raised an error, not all of its rows may have one. error: the error
        that send_arrow() raised, or else the error of one failed row; None if all rows were written. headers: the headers that
        on_send_arrow() returned.
        """

    def close(self) -> None:
        """Release resources. Called once, when the producer is closed and has no more records."""


class ConsumerInterceptor:
    """Base class of consumer interceptors, which get the records of each poll() before the program, and the committed offsets.

    Pass objects of a derived class as `interceptors`. If a method raises, the error is logged and the records are not affected. The methods
    run in the thread or task that calls the consumer, and have to be fast.
    """

    def configure(self, settings: Mapping[str, str]) -> None:
        """Is called once, before all other methods. settings: "client.id", and "group.id" if there is one; later versions may add more."""

    def on_consume(self, records: ConsumerRecords[Any, Any]) -> ConsumerRecords[Any, Any]:
        """Return the records for the program: `records` or others. Called in the order of `interceptors`, for each poll() that has records.

        Each interceptor gets the records that the previous interceptor returned. If the previous interceptor raised an error, it gets the
        records that the previous interceptor got. The returned records have no effect on positions and committed offsets.
        """
        return records

    def on_consume_arrow(self, batch: Any) -> None:
        """Is called with the Arrow batch of each poll_arrow() that has rows, before the program gets the batch.

        If a class does not define this method, poll_arrow() raises an error, so that the program gets no row without the interceptor.
        """
        raise NotImplementedError

    def on_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Is called after the program or enable.auto.commit has committed offsets: within commit(), otherwise within a later call.

        Not called for offsets that a producer commits in a transaction.
        """

    def close(self) -> None:
        """Release resources. Called once, when the consumer is closed."""
