"""The interceptors of one client (KIP-42). An exception of an interceptor is logged, and does not affect the records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from levada.api.arguments import header_pairs
from levada.errors import IllegalStateError
from levada.interceptors import ConsumerInterceptor, ProducerInterceptor, ProducerRecord
from levada.logs import Log
from levada.producer.append.producer_batch import DeliveryCallback
from levada.producer.append.record_accumulator import ToSend
from levada.types import NO_TIMESTAMP, UNKNOWN_OFFSET, ConsumerRecords, Headers, OffsetAndMetadata, RecordMetadata, TopicPartition

NO_PARTITION = -1

ArrowHeaders: TypeAlias = list[tuple[ProducerInterceptor, Headers]]
"""The interceptors whose on_send_arrow() succeeded, each with the headers that it adds to every row of the send_arrow() call."""


def _configure(interceptors: Sequence[ProducerInterceptor | ConsumerInterceptor], settings: Mapping[str, str | None]) -> None:
    """Call configure() of each interceptor, with the settings that have a value. Exceptions are raised by the client's constructor."""
    known = {name: value for name, value in settings.items() if value}
    for interceptor in interceptors:
        interceptor.configure(known)


def _check_columns(interceptors: Sequence[Any], method: Callable[..., Any], instead: str, client: str) -> None:
    for interceptor in interceptors:
        if getattr(type(interceptor), method.__name__) is method:
            name = type(interceptor).__name__
            raise IllegalStateError(
                f"interceptors see records one by one, and {name} has no {method.__name__}(), so that these rows would pass it by; "
                f"use {instead}, or a {client} without it"
            )


class Interceptors:
    """The interceptors of a producer."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor], log: Log, client_id: str) -> None:
        self._interceptors = tuple(interceptors)
        self._log = log
        _configure(self._interceptors, {"client.id": client_id})

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Pass a record through all interceptors, one after the other; return the result. An interceptor that fails is left out."""
        for interceptor in self._interceptors:
            try:
                changed = interceptor.on_send(record)
                if not isinstance(changed, ProducerRecord):
                    raise TypeError(f"on_send() returned {changed!r}, not a ProducerRecord")
                record = changed
            except Exception as raised:
                text = "%s: the interceptor %r failed; the record is sent without it"
                self._log.error(text, record.topic, interceptor, topic=record.topic, error=raised)
        return record

    def before(self, callback: DeliveryCallback | None, headers: Any) -> DeliveryCallback:
        """Return a callback that passes a record's result to the interceptors, and then calls the program's callback."""

        def told(metadata: RecordMetadata, error: Exception | None) -> None:
            # SystemExit is held, too, as for callbacks: an exception must not end the thread that completes all records.
            self._acknowledge(metadata, error, headers, held=BaseException)
            if callback is not None:
                callback(metadata, error)  # type: ignore[arg-type]

        return told

    def check_columns(self) -> None:
        """Raise IllegalStateError for send_arrow() if an interceptor supports only records."""
        _check_columns(self._interceptors, ProducerInterceptor.on_send_arrow, "send()", "producer")

    def on_send_arrow(self, topic: str) -> ArrowHeaders:
        """Return the headers that each interceptor adds to every row. An interceptor that fails is left out."""
        found: ArrowHeaders = []
        for interceptor in self._interceptors:
            try:
                headers = header_pairs(interceptor.on_send_arrow(topic))
            except Exception as raised:
                text = "%s: the interceptor %r failed; the rows are sent without it"
                self._log.error(text, topic, interceptor, topic=topic, error=raised)
            else:
                found.append((interceptor, headers))
        return found

    def on_arrow_acknowledgement(self, topic: str, rows: int, error: Exception | None, given: ArrowHeaders) -> None:
        """Tell interceptors that all rows of a send_arrow() are done. It runs in the thread that runs callbacks.

        rows: how many rows were appended. error: the error of send_arrow() or of one failed row; None without one. given: the result of
        on_send_arrow().
        """
        for interceptor, headers in given:
            try:
                interceptor.on_arrow_acknowledgement(topic, rows, error, headers)
            except BaseException as raised:
                self._log.error("%s: the interceptor %r failed", topic, interceptor, topic=topic, error=raised)

    def on_send_error(self, record: ProducerRecord | ToSend, error: Exception) -> None:
        """Tell the interceptors about a record for which send() raised an error.

        It runs in the thread that called send(), so KeyboardInterrupt and SystemExit are passed on to the program.
        """
        partition = record.partition if isinstance(record.partition, int) else NO_PARTITION
        metadata = RecordMetadata(record.topic, partition, UNKNOWN_OFFSET, NO_TIMESTAMP)
        self._acknowledge(metadata, error, record.headers, held=Exception)

    def _acknowledge(self, metadata: RecordMetadata, error: Exception | None, headers: Any, *, held: type[BaseException]) -> None:
        """Call on_acknowledgement() of all interceptors. held: exceptions of this type are logged; others are raised."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_acknowledgement(metadata, error, headers)
            except held as raised:
                tp = TopicPartition(metadata.topic, metadata.partition)
                self._log.error("%s: the interceptor %r failed", tp, interceptor, tp=tp, error=raised)


class ConsumerInterceptors:
    """The interceptors of a consumer."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor], log: Log, client_id: str, group_id: str | None) -> None:
        self._interceptors = tuple(interceptors)
        self._log = log
        _configure(self._interceptors, {"client.id": client_id, "group.id": group_id})

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_consume(self, records: ConsumerRecords[Any, Any]) -> ConsumerRecords[Any, Any]:
        """Pass records through all interceptors, one after the other; return the result. An interceptor that fails is left out."""
        for interceptor in self._interceptors:
            try:
                changed = interceptor.on_consume(records)
                if not isinstance(changed, ConsumerRecords):
                    raise TypeError(f"on_consume() returned {type(changed).__name__}, not ConsumerRecords")
                records = changed
            except Exception as raised:
                self._log.error("the interceptor %r failed; the records are handed out without it", interceptor, error=raised)
        return records

    def check_columns(self) -> None:
        """Raise IllegalStateError for poll_arrow() if an interceptor supports only records."""
        _check_columns(self._interceptors, ConsumerInterceptor.on_consume_arrow, "poll()", "consumer")

    def on_consume_arrow(self, batch: Any) -> None:
        """Pass a record batch to the interceptors."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_consume_arrow(batch)
            except Exception as raised:
                self._log.error("the interceptor %r failed on an Arrow batch", interceptor, error=raised)

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Tell the interceptors which offsets were committed."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_commit(dict(offsets))
            except Exception as raised:
                self._log.error("the interceptor %r failed on a commit", interceptor, error=raised)
