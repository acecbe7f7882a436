"""Interceptors, which see or change every record between a program and its client, as in Java (KIP-42)."""

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
    """Sees each record before it is sent, and its result. Derive a class from it and pass objects as `interceptors`.

    If a method raises, the error is logged and the record is not affected. The methods have to be fast, and on_acknowledgement() must not
    block.
    """

    def configure(self, settings: Mapping[str, str]) -> None:
        """Is called once, before all other methods. settings: the producer's "client.id"; later versions may add more."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to be sent, this one or another one. Called in the thread of send(), in the order of `interceptors`.

        Each interceptor gets the record that the previous one returned or, if that raised an error, the record that the previous one got.
        """
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, headers: Any) -> None:
        """Is called when a record was acknowledged, or has failed with `error`. Called where and before on_delivery is called.

        A failed record has offset -1 in its metadata, and partition -1 if no partition was chosen. headers: the record's headers as
        on_send() returned them. If send() raises instead of returning a handle, for example SerializationError, this is called in the
        thread of send().
        """

    def on_send_arrow(self, topic: str) -> Headers:
        """Return headers to add after the headers of every row of one send_arrow(); [] for none. Called in the thread of send_arrow().

        It does not see the rows. If an interceptor does not define this method, send_arrow() of its producer raises an error, so that no
        row is sent without the interceptor.
        """
        raise NotImplementedError

    def on_arrow_acknowledgement(self, topic: str, rows: int, error: Exception | None, headers: Headers) -> None:
        """Is called when all rows of one send_arrow() were acknowledged or have failed.

        error: the error of one failed row; None without one.
        Called where callbacks are called. rows: how many rows were appended. headers: those that on_send_arrow() returned.
        """

    def close(self) -> None:
        """Release resources. Called once, when the producer is closed and no record will follow."""


class ConsumerInterceptor:
    """Sees the records of each poll() before the program, and committed offsets. Derive a class from it and pass objects as `interceptors`.

    If a method raises, the error is logged and changes nothing. The methods run in the thread or task that calls the consumer, and have to
    be fast.
    """

    def configure(self, settings: Mapping[str, str]) -> None:
        """Is called once, before all other methods. settings: "client.id", and "group.id" if there is one; later versions may add more."""

    def on_consume(self, records: ConsumerRecords[Any, Any]) -> ConsumerRecords[Any, Any]:
        """Return the records for the program, these or others. Called in the order of `interceptors`, if poll() has records.

        Each interceptor gets the records that the previous one returned or, if that raised an error, those that the previous one got.
        Positions and committed offsets are those of the fetched records, whatever is returned.
        """
        return records

    def on_consume_arrow(self, batch: Any) -> None:
        """Is called with the Arrow batch of each poll_arrow() that has rows, before the program gets the batch.

        If an interceptor does not define this method, poll_arrow() of its consumer raises an error, so that no row passes unseen.
        """
        raise NotImplementedError

    def on_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Is called when the program or enable.auto.commit has committed offsets: within commit(), otherwise within a later call.

        It is not called for offsets that a producer commits in a transaction.
        """

    def close(self) -> None:
        """Release resources. Called once, when the consumer is closed."""
