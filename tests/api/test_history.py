"""Both APIs' producers and a consumer tell a history, and what they did is clean."""

from __future__ import annotations

import asyncio
import re

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
    name = re.sub(r"[^a-z_A-Z]", "-", request.node.name)
    embedded.create_topic(name, PARTITIONS)
    return name


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


def test_a_service_is_recorded_by_giving_it_the_recording_producer(embedded: EmbeddedKafka, topic: str) -> None:
    events: list[Event] = []
    offsets = {lv.TopicPartition(topic, 0): 7}

    async def run() -> None:
        async with levada.aio.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, transactional_id=f"{topic}-tasks") as producer:
            await producer.init_transactions()
            recording = AsyncRecordingProducer(producer, Recorder(events.append, 2))
            async with recording.transaction():
                await recording.send(topic)
                await recording.send_offsets_to_transaction(offsets, f"{topic}-tasks")
            with pytest.raises(LookupError):
                async with recording.transaction():
                    await recording.send(topic)
                    await recording.flush(5)
                    raise LookupError

    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        recording = RecordingProducer(producer, Recorder(events.append, 1))
        with recording.transaction():
            recording.send(topic)
            recording.send_offsets_to_transaction(offsets, topic)
        with pytest.raises(LookupError), recording.transaction():
            recording.send(topic)
            recording.flush(5)
            raise LookupError
    asyncio.run(run())
    report = judged(embedded, topic, events)
    report.require_clean()
    assert (report.transactions, report.records) == ({"committed": 2, "not committed": 2}, 4)
    with lv.KafkaAdmin(bootstrap_servers=embedded.bootstrap_servers) as admin:
        for group in (topic, f"{topic}-tasks"):
            assert [at.offset for at in admin.list_consumer_group_offsets(group).values() if at] == [7]


@pytest.mark.parametrize("value", [None, b"short", bytes(8), bytes(12), b"not recorded by anybody"])
def test_a_record_that_nobody_recorded_is_refused(embedded: EmbeddedKafka, topic: str, value: bytes | None) -> None:
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        producer.send(topic, value)
    with lv.KafkaClient(bootstrap_servers=embedded.bootstrap_servers) as client:
        with pytest.raises(ValueError, match="nobody recorded this"):
            read_log(client, [topic])
        with pytest.raises(TypeError, match="expected a list of topics"):
            read_log(client, topic)


@pytest.mark.parametrize("process", [0, -4, 1 << 23])
def test_a_recorder_refuses_a_number_that_values_cannot_hold(process: int) -> None:
    events: list[Event] = []
    with pytest.raises(ValueError, match=f"from 1 to 8388607 that nobody else in the run has, got {process}"):
        Recorder(events.append, process)
