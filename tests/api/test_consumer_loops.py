"""Loops over a consumer that end by themselves, and topics that come and go under one. Both APIs, every broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

import levada as lv
from api_kit import BOTH_APIS, EVERYWHERE, api_and_broker
from levada.errors import ConfigError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from levada.testing import EmbeddedKafka

PATIENCE_S = 30
COUNT = 20


@pytest.fixture(params=BOTH_APIS)
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


@pytest.fixture
def tps(kafka: Any, new_topic: Callable[..., str]) -> list[lv.TopicPartition]:
    """Three partitions, the first with COUNT records, the second with one, the last one empty."""
    name = new_topic(kafka, partitions=3)
    write(kafka, name, range(COUNT))
    write(kafka, name, [100], partition=1)
    return [lv.TopicPartition(name, partition) for partition in range(3)]


def write(kafka: Any, topic: str, numbers: Any, partition: int = 0) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send_many(topic, [b"%d" % number for number in numbers], partition=partition)


def consumer(kafka: Any, partitions: list[lv.TopicPartition], **settings: Any) -> Any:
    made = lv.KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, **{"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50, **settings}
    )
    made.assign(partitions)
    return made


def values(loop: Any) -> list[int]:
    return sorted(int(record.value) for record in loop)


@pytest.mark.parametrize("kafka", EVERYWHERE, indirect=True)
def test_a_loop_ends_where_the_partitions_ended_when_it_began(kafka: Any, tps: list[lv.TopicPartition]) -> None:
    with consumer(kafka, tps, stop_at_end=True, max_poll_records=7) as reader:
        assert values(reader) == [*range(COUNT), 100]
        write(kafka, tps[0].topic, [20, 21])
        assert values(reader) == [20, 21]
        assert values(reader) == []
        write(kafka, tps[0].topic, [22])
        deadline = time.monotonic() + PATIENCE_S
        while not (polled := reader.poll(1)) and time.monotonic() < deadline:
            pass
        assert values(polled) == [22]


def test_a_member_of_a_group_reads_to_the_ends_of_what_it_is_given(kafka: Any, tps: list[lv.TopicPartition]) -> None:
    group = f"g-{uuid4().hex}"
    for expected in ([*range(COUNT), 100], []):
        with lv.KafkaConsumer(
            bootstrap_servers=kafka.bootstrap_servers, group_id=group, auto_offset_reset="earliest", stop_at_end=True, fetch_max_wait_ms=50
        ) as reader:
            reader.subscribe([tps[0].topic])
            started = time.monotonic()
            assert values(reader) == expected
            assert time.monotonic() - started < 30, "what is assigned gets its ends at once"


def test_a_loop_does_not_run_after_a_writer(kafka: Any, tps: list[lv.TopicPartition]) -> None:
    with consumer(kafka, tps, stop_at_end=True, max_poll_records=1) as reader:
        seen = []
        for record in reader:
            seen.append(int(record.value))
            if len(seen) == 3:
                write(kafka, tps[0].topic, range(1_000, 1_100))
        assert sorted(seen) == [*range(COUNT), 100]


def test_a_loop_that_is_left_keeps_no_end(kafka: Any, tps: list[lv.TopicPartition]) -> None:
    with consumer(kafka, tps[:1], stop_at_end=True) as reader:
        for record in reader:
            if int(record.value) == 4:
                break
        write(kafka, tps[0].topic, [20])
        found: list[int] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < 16 and time.monotonic() < deadline:
            found += [int(record.value) for record in reader.poll(1)]
        assert found == list(range(5, 21))
        assert reader.finished() == set()


def test_a_loop_that_ends_at_the_end_resets_positions_as_any_other(kafka: Any, tps: list[lv.TopicPartition]) -> None:
    with consumer(kafka, tps[:1], stop_at_end=True) as reader:
        reader.seek(tps[0], 500)
        assert values(reader) == list(range(COUNT))
    group = f"g-{uuid4().hex}"
    with consumer(kafka, tps[:1], stop_at_end=True, group_id=group, enable_auto_commit=False) as reader:
        reader.commit({tps[0]: 700})
        assert values(reader) == list(range(COUNT))
    with consumer(kafka, tps[:1], stop_at_end=True, auto_offset_reset="latest") as reader:
        assert values(reader) == []
    with consumer(kafka, tps[:1], stop_at_end=True, auto_offset_reset="none") as reader:
        reader.seek(tps[0], 500)
        with pytest.raises(OffsetOutOfRangeError):
            values(reader)


def test_ends_given_to_assign_stay(kafka: Any, tps: list[lv.TopicPartition]) -> None:
    with consumer(kafka, [], stop_at_end=True) as reader:
        reader.assign(tps, ends={tps[0]: 3})
        assert values(reader) == [0, 1, 2, 100]
        assert reader.finished() == {tps[0]}


def test_a_loop_ends_when_no_record_comes_for_a_while(kafka: Any, tps: list[lv.TopicPartition]) -> None:
    with consumer(kafka, tps, consumer_timeout_ms=300) as reader:
        started = time.monotonic()
        assert values(reader) == [*range(COUNT), 100]
        assert 0.3 <= time.monotonic() - started < 10
        write(kafka, tps[2].topic, [7], partition=2)
        assert values(reader) == [7]


def test_the_time_that_the_loop_takes_itself_does_not_count(kafka: Any, tps: list[lv.TopicPartition]) -> None:
    with consumer(kafka, tps[:1], consumer_timeout_ms=400, max_poll_records=COUNT // 2) as reader:
        seen = []
        for record in reader:
            seen.append(int(record.value))
            if len(seen) == COUNT // 2:
                time.sleep(0.5)
        assert seen == list(range(COUNT))


@pytest.mark.parametrize("kafka", EVERYWHERE, indirect=True)
def test_M_A24_a_partition_that_is_not_there_yet_is_read_once_it_is(kafka: Any, tps: list[lv.TopicPartition]) -> None:
    """What time cannot mend is told by each call, and the other partitions are read all the same."""
    missing = lv.TopicPartition(f"missing-{uuid4().hex}", 0)
    with (
        lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin,
        consumer(kafka, [tps[0], missing], allow_auto_create_topics=False) as reader,
    ):
        found: list[int] = []
        told = 0
        deadline = time.monotonic() + PATIENCE_S
        while (len(found) < COUNT or not told) and time.monotonic() < deadline:
            try:
                found += [int(record.value) for record in reader.poll(0.5)]
            except UnknownTopicOrPartitionError as error:
                assert missing.topic in str(error)
                told += 1
        assert (found, told > 0) == (list(range(COUNT)), True)
        admin.create_topics([lv.NewTopic(missing.topic, 1, 1)])
        write(kafka, missing.topic, [77])
        while len(found) == COUNT and time.monotonic() < deadline:
            try:
                found += [int(record.value) for record in reader.poll(0.5)]
            except UnknownTopicOrPartitionError:
                continue
        assert found[COUNT:] == [77]


@pytest.mark.parametrize("kafka", EVERYWHERE, indirect=True)
def test_M_A24_a_topic_that_is_deleted_is_told_and_the_others_are_read_on(kafka: Any, tps: list[lv.TopicPartition], new_topic: Any) -> None:
    gone = lv.TopicPartition(new_topic(kafka), 0)
    write(kafka, gone.topic, [1])
    with (
        lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin,
        consumer(kafka, [tps[0], gone], allow_auto_create_topics=False, metadata_max_age_ms=1_000) as reader,
    ):
        found: list[int] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < COUNT + 1 and time.monotonic() < deadline:
            found += [int(record.value) for record in reader.poll(1)]
        admin.delete_topics([gone.topic])
        with pytest.raises(UnknownTopicOrPartitionError, match=gone.topic):
            while time.monotonic() < deadline:
                assert reader.poll(1) == []
        write(kafka, tps[0].topic, [20])
        found = []
        while not found and time.monotonic() < deadline:
            try:
                found += [int(record.value) for record in reader.poll(1)]
            except UnknownTopicOrPartitionError:
                continue
        assert found == [20]
        reader.assign([tps[0]])
        assert reader.poll(0.1) == []


def test_a_loop_that_waits_can_be_woken(embedded: EmbeddedKafka, new_topic: Callable[..., str]) -> None:
    tp = lv.TopicPartition(new_topic(embedded), 0)
    with lv.KafkaConsumer(bootstrap_servers=embedded.bootstrap_servers, consumer_timeout_ms=60_000) as reader:
        reader.assign([tp])
        timer = threading.Timer(0.1, reader.wakeup)
        timer.start()
        with pytest.raises(lv.errors.WakeupError):
            list(reader)
        timer.join()


def test_a_time_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'consumer\.timeout\.ms': must be between -1"):
        lv.KafkaConsumer(bootstrap_servers="localhost:1", consumer_timeout_ms=-2)
