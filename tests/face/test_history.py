"""Both faces' producers and a consumer tell a history, and what they did is clean."""

from __future__ import annotations

import asyncio

import pytest

import levada as lv
import levada.aio
from levada.error_codes import ErrorCode
from levada.testing import EmbeddedKafka
from levada.testing.history import (
    AsyncRecordingProducer,
    Event,
    History,
    Op,
    Recorder,
    RecordingConsumer,
    RecordingProducer,
    Report,
    Type,
    check,
    found_in,
    read_log,
)

PARTITIONS = 3


@pytest.fixture
def topic(embedded: EmbeddedKafka, request: pytest.FixtureRequest) -> str:
    name = request.node.name
    embedded.create_topic(name, PARTITIONS)
    return str(name)


def judged(embedded: EmbeddedKafka, topic: str, events: list[Event]) -> Report:
    with lv.KafkaClient(bootstrap_servers=embedded.bootstrap_servers) as client:
        log = read_log(client, [topic])
    committed = found_in(lv.scan(topic, bootstrap_servers=embedded.bootstrap_servers, isolation_level="read_committed"))
    return check(History.of(events), log=log, committed=committed)


def test_a_blocking_producer_and_consumer(embedded: EmbeddedKafka, topic: str) -> None:
    events: list[Event] = []
    recorder = Recorder(events.append, 1)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        recording = RecordingProducer(producer, recorder)
        for number in range(60):
            recording.send(topic, payload=b"x" * number, partition=number % PARTITIONS)
    with lv.KafkaConsumer(bootstrap_servers=embedded.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))
        reading = RecordingConsumer(consumer, Recorder(events.append, 2))
        read = 0
        while read < 60:
            read += len(reading.poll(5))
    recorder.closed()
    report = judged(embedded, topic, events)
    report.require_clean()
    assert report.sends == {"ok": 60}
    assert report.records == sum(len(event.read) for event in events) == 60
    assert report.figures["threads"] >= 1


def test_an_asyncio_producer(embedded: EmbeddedKafka, topic: str) -> None:
    events: list[Event] = []

    async def run() -> None:
        async with levada.aio.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
            recording = AsyncRecordingProducer(producer, Recorder(events.append, 1))
            for number in range(60):
                await recording.send(topic, partition=number % PARTITIONS)

    asyncio.run(run())
    report = judged(embedded, topic, events)
    report.require_clean()
    assert report.sends == {"ok": 60}


def test_what_send_raises_and_what_the_cluster_refuses_are_told(embedded: EmbeddedKafka, topic: str) -> None:
    events: list[Event] = []
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, max_request_size=1000) as producer:
        recording = RecordingProducer(producer, Recorder(events.append, 1))
        with pytest.raises(ValueError, match="partition"):
            recording.send(topic, partition=-5)
        assert recording.send(topic, payload=b"x" * 2000).exception() is not None
        embedded.faults.fail_next("Produce", ErrorCode.UNKNOWN_SERVER_ERROR)
        assert recording.send(topic).exception() is not None
        recording.send(topic).result()
    ends = [event for event in events if event.type is not Type.INVOKE]
    assert [(event.op, event.type) for event in ends] == [(Op.SEND, kind) for kind in (Type.INFO, Type.FAIL, Type.INFO, Type.OK)]
    judged(embedded, topic, events).require_clean()
