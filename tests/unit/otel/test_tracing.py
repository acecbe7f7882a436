"""Spans of records: what the interceptors and processing() make of them, and which contexts travel in headers."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.trace import SpanKind, StatusCode

from levada.errors import TimeoutError
from levada.interceptors import ProducerRecord
from levada.otel import ConsumerTracing, ProducerTracing, processing, traced
from levada.types import ConsumerRecord, ConsumerRecords, RecordMetadata
from odd_error import OddError

WRITTEN = RecordMetadata("orders", 1, 5, 0)
KNOWN = {value for name, value in vars(messaging_attributes).items() if name.startswith("MESSAGING_")} | {"error.type"}


class Spans:
    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    @property
    def ended(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def only(self) -> ReadableSpan:
        (span,) = self.ended
        return span


@pytest.fixture
def spans() -> Iterator[Spans]:
    spans = Spans()
    yield spans
    for span in spans.ended:
        assert set(span.attributes or {}) <= KNOWN, "OpenTelemetry's conventions have no such attribute"
    spans.provider.shutdown()


def producing(spans: Spans) -> ProducerTracing:
    tracing = ProducerTracing(spans.provider)
    tracing.configure({"client.id": "p"})
    return tracing


def consumed(headers: Any, offset: int = 5, topic: str = "orders") -> ConsumerRecord[Any, Any]:
    return ConsumerRecord(topic, 1, offset, 0, 0, None, b"v", headers)


def sent(spans: Spans, **fields: Any) -> Any:
    """Return the headers of a record that was sent and acknowledged."""
    tracing = producing(spans)
    headers = tracing.on_send(ProducerRecord("orders", b"v", **fields)).headers
    tracing.on_acknowledgement(WRITTEN, None, headers)
    return headers


def test_a_send_has_a_span_until_its_acknowledgement(spans: Spans) -> None:
    tracing = producing(spans)
    with spans.tracer.start_as_current_span("request") as request:
        record = tracing.on_send(ProducerRecord("orders", b"v", "key", headers={"own": b"1"}))
    assert len(spans.ended) == 1, "the request's; that of the record has not ended"
    tracing.on_acknowledgement(WRITTEN, None, record.headers)
    span = spans.ended[1]
    assert (span.name, span.kind, span.status.status_code) == ("send orders", SpanKind.PRODUCER, StatusCode.UNSET)
    assert span.parent is not None and span.parent.span_id == request.get_span_context().span_id
    assert dict(span.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.client.id": "p",
        "messaging.destination.name": "orders",
        "messaging.kafka.message.key": "key",
        "messaging.destination.partition.id": "1",
        "messaging.kafka.offset": 5,
    }
    own = span.get_span_context()
    assert own is not None and record.headers is not None
    parent = f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"
    assert list(record.headers) == [("own", b"1"), ("traceparent", parent.encode())]


def test_a_failure_is_in_the_span(spans: Spans) -> None:
    tracing = producing(spans)
    headers = tracing.on_send(ProducerRecord("orders")).headers
    tracing.on_acknowledgement(RecordMetadata("orders", -1, -1, -1), TimeoutError("too late"), headers)
    span = spans.only()
    attributes = span.attributes or {}
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "too late")
    assert attributes["error.type"] == "TimeoutError"
    assert attributes["messaging.kafka.message.tombstone"] is True
    assert "messaging.kafka.offset" not in attributes
    assert [event.name for event in span.events] == ["exception"]


def test_a_record_that_is_passed_on_is_linked_to_where_it_came_from(spans: Spans) -> None:
    headers = sent(spans)
    again = sent(spans, headers=headers)
    first, second = spans.ended
    assert [link.context.span_id for link in second.links] == [first.get_span_context().span_id]  # type: ignore[union-attr]
    assert [name for name, _ in again] == ["traceparent"], "the old context is replaced"
    assert again != headers


def test_an_interceptor_behind_that_copies_headers_does_no_harm(spans: Spans) -> None:
    tracing = producing(spans)
    headers = tracing.on_send(ProducerRecord("orders", b"v")).headers
    tracing.on_acknowledgement(WRITTEN, None, dict(headers or ()))
    assert spans.only().name == "send orders"


def test_close_ends_spans_of_records_that_were_never_told_of(spans: Spans) -> None:
    tracing = producing(spans)
    tracing.on_send(ProducerRecord("orders", b"v"))
    tracing.on_acknowledgement(WRITTEN, None, [])
    assert not spans.ended
    tracing.close()
    assert spans.only().name == "send orders"


def test_a_span_that_is_not_sampled_is_not_kept() -> None:
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    tracing = ProducerTracing(TracerProvider(sampler=ALWAYS_OFF))
    tracing.configure({"client.id": "p"})
    headers = tracing.on_send(ProducerRecord("orders", b"v")).headers
    assert isinstance(headers, list)
    assert int(dict(headers)["traceparent"][-2:], 16) % 2 == 0, "whoever reads it does not sample either"
    assert not tracing._open


def test_tracestate_and_baggage_travel_too(spans: Spans) -> None:
    token = context.attach(baggage.set_baggage("tenant", "a"))
    headers = sent(spans)
    context.detach(token)
    assert dict(headers)["baggage"] == b"tenant=a"
    with processing(consumed([*headers, ("tracestate", b"vendor=1")]), spans.provider) as span:
        assert baggage.get_baggage("tenant") == "a"
        assert span.get_span_context().trace_state.get("vendor") == "1"
    assert baggage.get_baggage("tenant") is None


def test_a_poll_has_a_span_that_is_linked_to_what_it_brought(spans: Spans) -> None:
    headers = [sent(spans), sent(spans)]
    producers = spans.ended
    tracing = ConsumerTracing(spans.provider)
    tracing.configure({"client.id": "c", "group.id": "g"})
    records: ConsumerRecords[Any, Any] = ConsumerRecords([consumed(headers[0]), consumed(headers[1]), consumed([]), consumed(headers[1])])
    assert tracing.on_consume(records) is records
    span = spans.ended[2]
    assert (span.name, span.kind) == ("poll orders", SpanKind.CLIENT)
    assert [link.context.span_id for link in span.links] == [made.get_span_context().span_id for made in producers]  # type: ignore[union-attr]
    assert dict(span.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "poll",
        "messaging.operation.type": "receive",
        "messaging.client.id": "c",
        "messaging.consumer.group.name": "g",
        "messaging.destination.name": "orders",
        "messaging.batch.message_count": 4,
    }


def test_a_poll_of_several_topics_names_none(spans: Spans) -> None:
    tracing = ConsumerTracing(spans.provider)
    tracing.configure({"client.id": "c"})
    tracing.on_consume(ConsumerRecords([consumed([], topic="a"), consumed([], topic="b")]))
    assert spans.only().name == "poll"
    assert "messaging.destination.name" not in (spans.only().attributes or {})


def test_the_work_on_a_record_goes_on_with_its_trace(spans: Spans) -> None:
    headers = sent(spans)
    with spans.tracer.start_as_current_span("outside") as outside, processing(consumed(headers), spans.provider) as span:
        assert trace.get_current_span() is span
    producer, work, _ = spans.ended
    assert (work.name, work.kind) == ("process orders", SpanKind.CONSUMER)
    assert work.parent is not None and work.parent.span_id == producer.get_span_context().span_id  # type: ignore[union-attr]
    assert [link.context.span_id for link in work.links] == [outside.get_span_context().span_id]
    assert (work.attributes or {})["messaging.kafka.offset"] == 5


def test_what_a_handler_raises_is_recorded_and_comes_out(spans: Spans) -> None:
    def handle(record: Any) -> None:
        raise ValueError("bad order")

    with pytest.raises(ValueError, match="bad order"):
        traced(handle, spans.provider)(consumed([]))
    span = spans.only()
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "ValueError"
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_a_coroutine_function_stays_one(spans: Spans) -> None:
    async def handle(record: Any) -> int:
        await asyncio.sleep(0)
        assert trace.get_current_span().is_recording()
        offset: int = record.offset
        return offset

    async def together() -> list[int]:
        handler = traced(handle, spans.provider)
        return [await handler(consumed([], 0)), *(await asyncio.gather(*(handler(consumed([], offset)) for offset in (1, 2))))]

    assert asyncio.run(together()) == [0, 1, 2]
    assert [(span.attributes or {})["messaging.kafka.offset"] for span in spans.ended] == [0, 1, 2]


def a_handler(record: Any) -> int:
    offset: int = record.offset
    return offset


def test_a_traced_handler_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(traced(a_handler)))(consumed([])) == 5


def test_an_exception_whose_text_cannot_be_made_comes_out_of_the_block_as_it_is(spans: Spans) -> None:
    with pytest.raises(OddError), processing(consumed([]), spans.provider):
        raise OddError("x")
    assert spans.only().status.description == "OddError('x')"


@pytest.mark.parametrize("headers", [[("traceparent", None)], [("traceparent", b"\xff\xfe")], [("traceparent", b"00-zz-1-01")]])
def test_headers_that_carry_no_context_are_none(spans: Spans, headers: Any) -> None:
    with processing(consumed(headers), spans.provider):
        pass
    assert spans.only().parent is None
