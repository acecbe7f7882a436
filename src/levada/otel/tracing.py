"""Spans for records: sent, received with a poll, and processed. Their names follow OpenTelemetry's conventions for messaging.

A record's headers contain the context of the span in which it was sent. The span of its processing continues this trace. The span of a poll
may have records of many traces, so it is linked to their spans.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias, TypeVar

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
from opentelemetry.util.types import AttributeValue

from levada import __version__
from levada.api.arguments import header_pairs
from levada.base.text import as_text
from levada.interceptors import ConsumerInterceptor, ProducerInterceptor, ProducerRecord
from levada.types import AnyRecord, ConsumerRecords, Headers, HeadersIn, RecordMetadata

R = TypeVar("R")

MOST_LINKS = 128
"""The most records to which the span of a poll is linked. SDKs keep this number of links by default."""


def _tracer(provider: TracerProvider | None) -> Tracer:
    return trace.get_tracer("levada", __version__, provider)


class ProducerTracing(ProducerInterceptor):
    """Makes a span for each send(), and one for all rows of a send_arrow(), and puts the span's context into the headers of the records.

    A span lasts from the call until the acknowledgement.

    Give each producer its own ProducerTracing, as the last of its `interceptors`. The new span is a child of the current span. The headers
    may already have a context, for example if a consumed record is sent on. Then the new span gets a link to that context, and the new
    context replaces it in the headers. tracer_provider: default: the global tracer provider.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = _tracer(tracer_provider)
        self._attributes: dict[str, AttributeValue] = {}
        self._open: dict[int, Span] = {}

    def configure(self, settings: Mapping[str, str]) -> None:
        """See ProducerInterceptor."""
        self._attributes = _attributes("send", "send", settings)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Begin a span."""
        headers = pairs_of(record.headers)
        attributes: dict[str, AttributeValue] = {"messaging.kafka.message.tombstone": True} if record.value is None else {}
        if isinstance(record.key, str):
            attributes["messaging.kafka.message.key"] = record.key
        span = self._begin(record.topic, attributes, links_to(context_of(headers)))
        return record._replace(headers=with_context(headers, trace.set_span_in_context(span)))

    def on_send_arrow(self, topic: str) -> Headers:
        """Begin one span for all rows of a call. Return its context as headers, which each row gets."""
        return with_context([], trace.set_span_in_context(self._begin(topic, {}, [])))

    def on_arrow_acknowledgement(self, topic: str, rows: int, error: Exception | None, headers: Headers) -> None:
        """End the span of a send_arrow() call. rows: the number of rows with an outcome. error: None if all rows were written."""
        self._end(headers, {"messaging.batch.message_count": rows}, error)

    def _begin(self, topic: str, attributes: Mapping[str, AttributeValue], links: Sequence[Link]) -> Span:
        about = {**self._attributes, "messaging.destination.name": topic, **attributes}
        span = self._tracer.start_span(f"send {topic}", None, SpanKind.PRODUCER, about, links)
        if span.is_recording():
            self._open[span.get_span_context().span_id] = span
        return span

    def _end(self, headers: Headers, attributes: Mapping[str, AttributeValue], error: Exception | None) -> None:
        span = self._open.pop(trace.get_current_span(context_of(headers)).get_span_context().span_id, None)
        if span is not None:
            span.set_attributes(attributes)
            if error is not None:
                _failed(span, error)
            span.end()

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, headers: Any) -> None:
        """End the span of one record. error: None if the record was written."""
        attributes: dict[str, AttributeValue] = {}
        if metadata.partition >= 0:
            attributes["messaging.destination.partition.id"] = str(metadata.partition)
        if metadata.offset >= 0:
            attributes["messaging.kafka.offset"] = metadata.offset
        self._end(pairs_of(headers), attributes, error)

    def close(self) -> None:
        """End the spans for which no acknowledgement was reported, for example because a later interceptor has removed their context."""
        while self._open:
            self._open.popitem()[1].end()


class ConsumerTracing(ConsumerInterceptor):
    """Makes a span for each poll that returns records, linked to the spans in which they were sent.

    Give each consumer its own ConsumerTracing, as one of its `interceptors`. processing() or traced() make the span for the processing of a
    record. tracer_provider: default: the global tracer provider.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = _tracer(tracer_provider)
        self._attributes: dict[str, AttributeValue] = {}

    def configure(self, settings: Mapping[str, str]) -> None:
        """See ConsumerInterceptor."""
        self._attributes = _attributes("poll", "receive", settings)

    def on_consume(self, records: ConsumerRecords[Any, Any]) -> ConsumerRecords[Any, Any]:
        """Make a span for the poll."""
        self._received(len(records), {record.topic for record in records}, [record.headers for record in records[:MOST_LINKS]])
        return records

    def on_consume_arrow(self, batch: Any) -> None:
        """Make a span for the poll. It has links only if the batch has the column headers."""
        names = batch.schema.names
        topics = set(batch.column("topic").unique().to_pylist()) if "topic" in names else set()
        carried = batch.column("headers").slice(0, MOST_LINKS).to_pylist() if "headers" in names else []
        self._received(batch.num_rows, topics, [[(header["key"], header["value"]) for header in row or ()] for row in carried])

    def _received(self, count: int, topics: set[str], headers: Iterable[Headers]) -> None:
        attributes = {**self._attributes, "messaging.batch.message_count": count}
        name = "poll"
        if len(topics) == 1:
            (topic,) = topics
            attributes["messaging.destination.name"] = topic
            name = f"poll {topic}"
        self._tracer.start_span(name, None, SpanKind.CLIENT, attributes, links_to(*map(context_of, headers))).end()


@contextmanager
def processing(record: AnyRecord, tracer_provider: TracerProvider | None = None) -> Iterator[Span]:
    """Make a span for the processing of one record from any consumer: `with processing(record): ...`.

    The new span is the current span within the block, and a child of the span in which the record was sent. The baggage is the record's. If
    another span was current before, the new span is linked to it. An exception that leaves the block is recorded in the span and raised.
    tracer_provider: None for the global one.
    """
    sent = context_of(record.headers)
    attributes: dict[str, AttributeValue] = {
        **_SYSTEM,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": record.topic,
        "messaging.destination.partition.id": str(record.partition),
        "messaging.kafka.offset": record.offset,
    }
    span = _tracer(tracer_provider).start_span(
        f"process {record.topic}", sent, SpanKind.CONSUMER, attributes, links_to(trace.set_span_in_context(trace.get_current_span()))
    )
    token = context.attach(trace.set_span_in_context(span, sent))
    try:
        yield span
    except BaseException as error:
        _failed(span, error)
        raise
    finally:
        context.detach(token)
        span.end()


def traced(handler: Callable[[Any], R], tracer_provider: TracerProvider | None = None) -> Callable[[Any], R]:
    """Return a handler for process() that runs the given handler within processing(record). A coroutine function stays one.

    tracer_provider: None for the global one.
    """
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__):
        return _TracedCoroutine(handler, tracer_provider)  # type: ignore[return-value]
    return _Traced(handler, tracer_provider)


class _Traced:
    """A class, because process(executor="process") must pickle it for its workers."""

    def __init__(self, handler: Callable[[Any], Any], provider: TracerProvider | None) -> None:
        self._handler = handler
        self._provider = provider

    def __call__(self, record: AnyRecord) -> Any:
        with processing(record, self._provider):
            return self._handler(record)


class _TracedCoroutine(_Traced):
    async def __call__(self, record: AnyRecord) -> Any:
        with processing(record, self._provider):
            return await self._handler(record)


_SYSTEM: Mapping[str, AttributeValue] = {"messaging.system": "kafka"}


def _attributes(name: str, kind: str, settings: Mapping[str, str]) -> dict[str, AttributeValue]:
    """Return the attributes that all spans of a client have. name, kind: name and type of the operation."""
    found: dict[str, AttributeValue] = {**_SYSTEM, "messaging.operation.name": name, "messaging.operation.type": kind}
    found["messaging.client.id"] = settings["client.id"]
    if group := settings.get("group.id"):
        found["messaging.consumer.group.name"] = group
    return found


def _failed(span: Span, error: BaseException) -> None:
    # An SDK calls str() on the exception, which may raise.
    with suppress(Exception):
        span.record_exception(error)
    span.set_attribute("error.type", type(error).__name__)
    span.set_status(Status(StatusCode.ERROR, as_text(error)))


Pairs: TypeAlias = list[tuple[str, bytes | None]]


class _Reader(Getter[Headers]):
    """Reads context from headers. Null headers are skipped; invalid UTF-8 is replaced."""

    def get(self, carrier: Headers, key: str) -> list[str] | None:
        found = [value.decode("utf-8", "replace") for name, value in carrier if name == key and value is not None]
        return found or None

    def keys(self, carrier: Headers) -> list[str]:
        return [name for name, _ in carrier]


class _Writer(Setter[Pairs]):
    def set(self, carrier: Pairs, key: str, value: str) -> None:
        carrier.append((key, value.encode()))


_READER, _WRITER = _Reader(), _Writer()


def pairs_of(headers: HeadersIn | None) -> Pairs:
    """Return a record's headers as pairs."""
    return header_pairs(headers or ())


def with_context(headers: Headers, context: Context) -> Pairs:
    """Return a record's headers with this context. It replaces a context that they may have."""
    own = propagate.get_global_textmap().fields
    pairs = [pair for pair in headers if pair[0] not in own]
    propagate.inject(pairs, context, _WRITER)
    return pairs


def context_of(headers: Headers) -> Context:
    """Return the context in a record's headers. It is empty if they have none."""
    return propagate.extract(headers, Context(), _READER)


def links_to(*contexts: Context) -> list[Link]:
    """Return links to the spans of contexts. Each span is linked once. A context without a span gives no link."""
    spans = {span.span_id: span for context in contexts if (span := trace.get_current_span(context).get_span_context()).is_valid}
    return [Link(span) for span in spans.values()]
