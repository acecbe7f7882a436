"""Metrics for Prometheus, traces and log fields, of real clients of both APIs on an embedded broker."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable
from typing import Any
from urllib.request import Request, urlopen

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

import levada as lv
from invalid_peers import closed_port
from levada import aio
from levada.api.metric_tables import MEANINGS
from levada.metrics import MetricName
from levada.metrics.prometheus import exposition, prometheus_name, start_exporter
from levada.otel import ConsumerTracing, ProducerTracing, processing, traced
from levada.testing import EmbeddedKafka

NewTopicName = Callable[..., str]
PATIENCE_S = 30
EXPORTED = {prometheus_name(MetricName(name, group)) for group, name in MEANINGS}


def scraped(text: str, parse: Any = parse_text) -> dict[str, set[str]]:
    """Return the names that a scrape brought, by client."""
    found: dict[str, set[str]] = {}
    for family in parse(text):
        for sample in family.samples:
            found.setdefault(sample.labels["client_id"], set()).add(sample.name)
    return found


class Spans:
    """What was traced."""

    def __init__(self) -> None:
        self._exporter, self.provider = InMemorySpanExporter(), TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def ended(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def by_name(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.ended()}


def of_this_process() -> dict[str, set[str]]:
    return scraped(exposition().body.decode())


@pytest.mark.parametrize(("accept", "parse"), [("text/plain", parse_text), ("application/openmetrics-text", parse_openmetrics)])
def test_an_exporter_answers_for_all_clients_of_the_process(embedded: EmbeddedKafka, accept: str, parse: Any) -> None:
    where = {"bootstrap.servers": embedded.bootstrap_servers}
    with (
        start_exporter(0, "127.0.0.1") as exporter,
        lv.KafkaProducer(where, client_id="w-producer") as producer,
        lv.KafkaConsumer(where, client_id="w-consumer"),
        lv.KafkaShareConsumer(where, client_id="w-share", group_id="w-share"),
        lv.KafkaAdmin(where, client_id="w-admin"),
        lv.KafkaClient(where, client_id="w-client"),
    ):
        producer.send("watched", b"v").result(PATIENCE_S)
        request = Request(f"http://127.0.0.1:{exporter.port}/metrics", headers={"Accept": accept})
        with urlopen(request, timeout=PATIENCE_S) as answer:
            assert answer.headers["Content-Type"].startswith(accept)
            found = scraped(answer.read().decode(), parse)
    assert {"w-producer", "w-consumer", "w-share", "w-admin", "w-client"} <= set(found)
    assert set().union(*found.values()) <= EXPORTED
    assert "kafka_producer_producer_topic_metrics_record_send_total" in found["w-producer"]
    assert "kafka_consumer_consumer_share_metrics_records_unacknowledged" in found["w-share"]
    assert not {client for client in of_this_process() if client.startswith("w-")}, "closed clients disappear"


def test_clients_of_asyncio_are_scraped_from_another_thread(embedded: EmbeddedKafka) -> None:
    async def run() -> tuple[dict[str, set[str]], float]:
        async with aio.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, client_id="w-aio") as producer:
            await (await producer.send("watched", b"v"))
            found = await asyncio.to_thread(of_this_process)
            return found, (await asyncio.to_thread(producer.metrics)).value("record-send-total")

    found, sent = asyncio.run(run())
    assert "kafka_producer_producer_metrics_record_send_total" in found["w-aio"]
    assert sent == 1
    assert "w-aio" not in of_this_process()


def test_an_exporter_does_not_keep_a_client_alive(embedded: EmbeddedKafka) -> None:
    consumer = lv.KafkaConsumer(bootstrap_servers=embedded.bootstrap_servers, client_id="w-dropped")
    consumer.list_topics()
    with start_exporter(0, "127.0.0.1", clients=[consumer]) as exporter:
        thread = next(thread for thread in threading.enumerate() if "w-dropped" in thread.name)
        del consumer
        gc.collect()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        with urlopen(f"http://127.0.0.1:{exporter.port}/metrics", timeout=PATIENCE_S) as answer:
            assert b"w-dropped" not in answer.read()


def test_a_trace_goes_through_produce_poll_and_process(embedded: EmbeddedKafka) -> None:
    traces = Spans()
    provider = traces.provider
    where = {"bootstrap.servers": embedded.bootstrap_servers}
    reading = {**where, "group.id": "w-traced", "client.id": "w-in", "auto.offset.reset": "earliest", "stop.at.end": True}
    with lv.KafkaProducer(where, client_id="w-out", interceptors=[ProducerTracing(provider)]) as producer:
        producer.send("w-traced", b"v").result(PATIENCE_S)
        with lv.KafkaConsumer(reading, interceptors=[ConsumerTracing(provider)]) as consumer:
            consumer.subscribe(["w-traced"])
            consumer.process(traced(lambda record: producer.send("w-traced-on", record.value).result(PATIENCE_S), provider))
        with lv.KafkaConsumer(where) as consumer:
            consumer.assign([lv.TopicPartition("w-traced-on", 0)])
            consumer.seek_to_beginning([lv.TopicPartition("w-traced-on", 0)])
            (record,) = consumer.poll(PATIENCE_S)
            with processing(record, provider):
                pass
    spans = traces.by_name()
    assert set(spans) == {"send w-traced", "poll w-traced", "process w-traced", "send w-traced-on", "process w-traced-on"}
    contexts = {name: span.get_span_context() for name, span in spans.items()}
    for name, parent in (
        ("process w-traced", "send w-traced"),
        ("send w-traced-on", "process w-traced"),
        ("process w-traced-on", "send w-traced-on"),
    ):
        found = spans[name].parent
        assert found is not None and contexts[parent] is not None
        assert (found.span_id, found.trace_id) == (contexts[parent].span_id, contexts["send w-traced"].trace_id)  # type: ignore[union-attr]
    assert [link.context.span_id for link in spans["poll w-traced"].links] == [contexts["send w-traced"].span_id]  # type: ignore[union-attr]
    assert (spans["poll w-traced"].attributes or {})["messaging.consumer.group.name"] == "w-traced"
    assert (spans["send w-traced"].attributes or {})["messaging.client.id"] == "w-out"


def test_lines_of_two_idle_clients_tell_which_is_which(caplog: pytest.LogCaptureFixture) -> None:
    address = closed_port()
    for client_id in ("w-one", "w-two"):
        settings = {"bootstrap.servers": address, "client.id": client_id, "group.id": f"{client_id}s"}
        with lv.KafkaConsumer(settings) as consumer, pytest.raises(lv.errors.KafkaError):
            consumer.list_topics(timeout=0.2)
    lines = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [vars(line)["kafka_client_id"] for line in lines] == ["w-one", "w-two"]
    assert [vars(line)["kafka_group_id"] for line in lines] == ["w-ones", "w-twos"]
    assert {vars(line)["kafka_address"] for line in lines} == {address}
    assert [line.getMessage().split(": ")[0] for line in lines] == ["w-one", "w-two"]


@pytest.mark.parametrize("own", [None, "own"])
def test_the_rows_of_a_send_arrow_carry_one_context(embedded: EmbeddedKafka, new_topic: NewTopicName, own: str | None) -> None:
    pa = pytest.importorskip("pyarrow")
    topic, spans = new_topic(embedded, 2), Spans()
    given = [[("a", b"1"), ("b", None)], None, []]
    table = pa.table({"value": [b"1", b"2", b"3"], "own": pa.array(given, pa.map_(pa.string(), pa.binary()))})
    with (
        lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, interceptors=[ProducerTracing(spans.provider)]) as producer,
        lv.KafkaConsumer(bootstrap_servers=embedded.bootstrap_servers, interceptors=[ConsumerTracing(spans.provider)]) as consumer,
    ):
        producer.send_arrow(topic, table, value="value", headers=own).result(PATIENCE_S)
        producer.flush(PATIENCE_S)
        partitions = [lv.TopicPartition(topic, partition) for partition in (0, 1)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        rows = consumer.poll_arrow(PATIENCE_S, columns=["value", "topic", "headers"]).to_pylist()
    found = {row["value"]: [(header["key"], header["value"]) for header in row["headers"]] for row in rows}
    traceparent = found[b"2"][0]
    assert traceparent[0] == "traceparent"
    before = given[0] if own else []
    assert found == {b"1": [*(before or ()), traceparent], b"2": [traceparent], b"3": [traceparent]}
    sent, polled = spans.by_name()[f"send {topic}"], spans.by_name()[f"poll {topic}"]
    assert (sent.attributes or {})["messaging.batch.message_count"] == 3
    assert f"{sent.get_span_context().span_id:016x}".encode() in traceparent[1]  # type: ignore[union-attr]
    assert [link.context.span_id for link in polled.links] == [sent.get_span_context().span_id]  # type: ignore[union-attr]
    assert (polled.attributes or {})["messaging.batch.message_count"] == 3


def test_a_send_arrow_that_fails_ends_its_span_with_the_error(embedded: EmbeddedKafka, new_topic: NewTopicName) -> None:
    pa = pytest.importorskip("pyarrow")
    topic, spans = new_topic(embedded), Spans()
    settings: dict[str, Any] = {"interceptors": [ProducerTracing(spans.provider)], "max_request_size": 1_000}
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, **settings) as producer:
        delivery = producer.send_arrow(topic, pa.table({"v": [b"x", b"y" * 2_000]}), value="v")
        assert delivery.counts().failed == 1
        with pytest.raises(lv.errors.SerializationError):
            producer.send_arrow(topic, pa.table({"v": [1]}), value="v")
    first, second = sorted(spans.ended(), key=lambda span: span.start_time or 0)
    assert (first.attributes or {})["error.type"] == "RecordTooLargeError"
    assert (first.attributes or {})["messaging.batch.message_count"] == 2
    assert (second.attributes or {})["error.type"] == "SerializationError"


def test_on_asyncio_rows_are_traced_too(embedded: EmbeddedKafka, new_topic: NewTopicName) -> None:
    pa = pytest.importorskip("pyarrow")
    topic, spans = new_topic(embedded), Spans()

    async def run() -> None:
        settings: dict[str, Any] = {"interceptors": [ProducerTracing(spans.provider)]}
        async with aio.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, **settings) as producer:
            await producer.send_arrow(topic, pa.table({"v": [b"x"]}), value="v")

    asyncio.run(run())
    assert spans.by_name()[f"send {topic}"].status.is_unset


def test_records_that_are_not_acknowledged_are_counted(embedded: EmbeddedKafka, new_topic: NewTopicName) -> None:
    topic, where = new_topic(embedded), {"bootstrap.servers": embedded.bootstrap_servers, "auto.offset.reset": "earliest"}
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        producer.send_many(topic, [b"1", b"2", b"3"])
    with lv.KafkaConsumer(where, group_id=f"{topic}-acks") as consumer:
        consumer.subscribe([topic])
        assert consumer.metrics().value("records-unacknowledged") == 0
        with consumer.acks() as acks:
            records = acks.poll(PATIENCE_S)
            assert consumer.metrics().value("records-unacknowledged") == 3
            records[0].ack()
            acks.poll(0)
            assert consumer.metrics().value("records-unacknowledged") == 2
    with lv.KafkaShareConsumer(bootstrap_servers=embedded.bootstrap_servers, group_id=f"{topic}-share") as sharing:
        sharing.subscribe([topic])
        with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
            while not (held := sharing.poll(0.2)):
                producer.send(topic, b"4").result(PATIENCE_S)
        assert sharing.metrics().value("records-unacknowledged") == len(held)
        sharing.commit()
        assert sharing.metrics().value("records-unacknowledged") == 0
