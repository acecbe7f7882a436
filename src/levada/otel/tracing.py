"""Spans of records on their way: sent, received with a poll, and worked on, as OpenTelemetry's conventions for messaging name them.

A record carries the context of the span in which it was sent. Whoever works on it goes on with that trace; the span of a poll, which may
have brought records of many traces, is linked to them.
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
"""A poll's span is linked to so many records at most, as many as SDKs keep by default."""


def _tracer(provider: TracerProvider | None) -> Tracer:
    return trace.get_tracer("levada", __version__, provider)


class ProducerTracing(ProducerInterceptor):
    """Makes a span for each send(), from the call until the acknowledgement, and puts the span's context into the record's headers.

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
        """Begin one span for all rows of a call. The headers of each row get its context."""
        return with_context([], trace.set_span_in_context(self._begin(topic, {}, [])))

    def on_arrow_acknowledgement(self, topic: str, rows: int, error: Exception | None, headers: Headers) -> None:
        """End the span."""
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
        """End the span."""
        attributes: dict[str, AttributeValue] = {}
        if metadata.partition >= 0:
            attributes["messaging.destination.partition.id"] = str(metadata.partition)
        if metadata.offset >= 0:
            attributes["messaging.kafka.offset"] = metadata.offset
        self._end(pairs_of(headers), attributes, error)

    def close(self) -> None:
        """End the spans of records that were never told of, as those whose context a later interceptor has taken away."""
        while self._open:
            self._open.popitem()[1].end()


class ConsumerTracing(ConsumerInterceptor):
    """Makes a span for each poll that brings records, linked to the spans in which they were sent.

    Give an object to each consumer, as one of its `interceptors`. The work on a record gets its span from processing() or traced().
    tracer_provider: None for the global one.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = _tracer(tracer_provider)
        self._attributes: dict[str, AttributeValue] = {}

    def configure(self, settings: Mapping[str, str]) -> None:
        """See ConsumerInterceptor."""
        self._attributes = _attributes("poll", "receive", settings)

    def on_consume(self, records: ConsumerRecords[Any, Any]) -> ConsumerRecords[Any, Any]:
        """Make a span."""
        self._received(len(records), {record.topic for record in records}, [record.headers for record in records[:MOST_LINKS]])
        return records

    def on_consume_arrow(self, batch: Any) -> None:
        """Make a span; it is linked where the batch has the headers."""
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
    """Make a span around the work on one record, of poll(), a loop, acks() or a share consumer: `with processing(record): ...`.

    It is the current span within the block, and a child of the span in which the record was sent; baggage is the record's. Where another
    span is current already, it is linked to that. What leaves the block is recorded, and comes out.
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
    """Return a handler for process() that runs within processing(record); a coroutine function becomes another one."""
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__):
        return _TracedCoroutine(handler, tracer_provider)  # type: ignore[return-value]
    return _Traced(handler, tracer_provider)


class _Traced:
    """A class, so that process(executor="process") can send it to its workers."""

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
    """Return what all spans of a client have."""
    found: dict[str, AttributeValue] = {**_SYSTEM, "messaging.operation.name": name, "messaging.operation.type": kind}
    found["messaging.client.id"] = settings["client.id"]
    if group := settings.get("group.id"):
        found["messaging.consumer.group.name"] = group
    return found


def _failed(span: Span, error: BaseException) -> None:
    # An SDK takes the exception's text, which may fail to be made.
    with suppress(Exception):
        span.record_exception(error)
    span.set_attribute("error.type", type(error).__name__)
    span.set_status(Status(StatusCode.ERROR, as_text(error)))


Pairs: TypeAlias = list[tuple[str, bytes | None]]


class _Reader(Getter[Headers]):
    """Reads headers. One that is null, or no text, is not there."""

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
    """Return a record's headers with a context, instead of the one they may have had."""
    own = propagate.get_global_textmap().fields
    pairs = [pair for pair in headers if pair[0] not in own]
    propagate.inject(pairs, context, _WRITER)
    return pairs


def context_of(headers: Headers) -> Context:
    """Return the context that headers carry, an empty one where they carry none."""
    return propagate.extract(headers, Context(), _READER)


def links_to(*contexts: Context) -> list[Link]:
    """Return links to the spans of contexts, each once, and none for a context without a span."""
    spans = {span.span_id: span for context in contexts if (span := trace.get_current_span(context).get_span_context()).is_valid}
    return [Link(span) for span in spans.values()]
