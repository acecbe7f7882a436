"""Offsets are committed and begun at, as users do it: both APIs, every broker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

import levada as lv
from api_kit import BOTH_APIS, EVERYWHERE, api_and_broker
from levada import aio
from levada.error_codes import ErrorCode
from levada.errors import IllegalStateError, InvalidGroupIdError, RetriableCommitError
from levada.testing import EmbeddedKafka

PATIENCE_S = 30
COUNT = 10


@pytest.fixture(params=EVERYWHERE)
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from api_and_broker(request, monkeypatch)


@pytest.fixture
def topic(kafka: Any, new_topic: Callable[..., str]) -> str:
    """A topic of two partitions with COUNT records in the first one."""
    name = new_topic(kafka, partitions=2)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(COUNT):
            producer.send(name, value=b"%d" % number, partition=0)
    return name


def consumer(kafka: Any, group: str, *partitions: lv.TopicPartition, **settings: Any) -> Any:
    made = lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group, auto_offset_reset="earliest", **settings)
    made.assign(partitions)
    return made


def values(reader: Any, count: int) -> list[int]:
    found: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += [int(record.value) for record in reader.poll(1, count - len(found))]
    return found


def test_O6_O14_reading_goes_on_where_the_group_has_committed(kafka: Any, topic: str) -> None:
    group, first, second = f"g-{uuid4().hex}", lv.TopicPartition(topic, 0), lv.TopicPartition(topic, 1)
    with consumer(kafka, group, first, second, enable_auto_commit=False) as reader:
        assert reader.committed([first, second]) == {first: None, second: None}
        assert values(reader, 4) == [0, 1, 2, 3]
        reader.commit()
        assert values(reader, 2) == [4, 5]
    with consumer(kafka, group, first, second) as reader:
        at = reader.committed([first])[first]
        assert (at.offset, at.leader_epoch, at.metadata) == (4, 0, "")
        assert reader.position(second) == 0
        assert values(reader, 3) == [4, 5, 6]
    with consumer(kafka, group, first) as reader:
        assert values(reader, 3) == [7, 8, 9]
        reader.commit({first: lv.OffsetAndMetadata(5, 0, "back")})
        assert reader.committed([first]) == {first: lv.OffsetAndMetadata(5, 0, "back")}
        assert reader.group_metadata() == lv.ConsumerGroupMetadata(group)
        assert reader.consumed_offsets()[first].offset == COUNT


def test_O12_a_record_whose_handling_failed_is_read_again(kafka: Any, topic: str) -> None:
    group, first = f"g-{uuid4().hex}", lv.TopicPartition(topic, 0)
    with pytest.raises(LookupError), consumer(kafka, group, first) as reader:
        for record in reader:
            if record.offset == 4:
                raise LookupError("not handled")
    with consumer(kafka, group, first) as reader:
        assert values(reader, 1) == [4]


def test_O12_a_record_at_which_a_loop_was_left_is_read_again(kafka: Any, topic: str) -> None:
    """A loop is done with a record when it asks for the next one, or when the program says so."""
    group, first = f"g-{uuid4().hex}", lv.TopicPartition(topic, 0)

    def leaves_at(offset: int, commit: Callable[[Any, Any], None] = lambda reader, record: None) -> int:
        """Where the group goes on after a program that leaves its loop at a record."""
        with consumer(kafka, group, first) as reader:
            for record in reader:
                if record.offset == offset:
                    commit(reader, record)
                    break
        with consumer(kafka, group, first, enable_auto_commit=False) as reader:
            return int(reader.committed([first])[first].offset)

    assert leaves_at(0) == 0
    assert leaves_at(2) == 2
    assert leaves_at(2, lambda reader, record: reader.commit()) == 3
    assert leaves_at(4, lambda reader, record: reader.commit(record)) == 5
    assert leaves_at(6, lambda reader, record: reader.commit_async({first: record.offset + 1})) == 7
    assert leaves_at(8, lambda reader, record: reader.commit({first: record.offset})) == 8
    with consumer(kafka, group, first, stop_at_end=True) as reader:
        assert [record.offset for record in reader] == [8, 9]
        assert reader.committed([first])[first].offset == 8
    with consumer(kafka, group, first) as reader:
        assert reader.committed([first])[first].offset == COUNT


def test_O12_a_loop_that_is_left_and_begun_again_is_done_with_what_it_was_given(kafka: Any, topic: str) -> None:
    group, first = f"g-{uuid4().hex}", lv.TopicPartition(topic, 0)
    with consumer(kafka, group, first) as reader:
        for wanted in (3, 5):
            for record in reader:
                if record.offset == wanted:
                    break
    with consumer(kafka, group, first) as reader:
        assert reader.committed([first])[first].offset == 5


@pytest.mark.parametrize("kafka", BOTH_APIS, indirect=True)
def test_O12_unsubscribing_leaves_such_a_record_out_as_closing_does(kafka: Any, topic: str) -> None:
    group, first = f"g-{uuid4().hex}", lv.TopicPartition(topic, 0)
    with consumer(kafka, group) as reader:
        reader.subscribe([topic])
        for record in reader:
            if record.offset == 3:
                break
        reader.unsubscribe()
        assert reader.committed([first])[first].offset == 3


def test_O13_part_of_a_poll_is_committed(kafka: Any, topic: str) -> None:
    group, first, second = f"g-{uuid4().hex}", lv.TopicPartition(topic, 0), lv.TopicPartition(topic, 1)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(topic, b"%d" % COUNT, partition=1)
    with consumer(kafka, group, first, second, enable_auto_commit=False) as reader:
        records: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(records) < COUNT + 1 and time.monotonic() < deadline:
            records += reader.poll(1)
        of_first = [record for record in records if record.partition == 0]
        of_second = [record for record in records if record.partition == 1]

        def committed() -> list[Any]:
            return [at and at.offset for at in reader.committed([first, second]).values()]

        reader.commit(of_first[:3])
        assert committed() == [3, None]
        reader.commit([])
        assert committed() == [3, None]
        reader.commit(of_first[4])
        assert reader.committed([first]) == {first: lv.OffsetAndMetadata(5, of_first[4].leader_epoch)}
        reader.commit(record for record in [of_second[0], of_first[7], of_first[6]])
        assert committed() == [8, 1]
        reader.commit_async(of_first[8])
        reader.commit(of_second)
        assert committed() == [9, 1]
        assert reader.consumed_offsets()[first].offset == COUNT


def test_O13_what_is_no_record_of_the_consumer_is_not_committed(kafka: Any, topic: str) -> None:
    first, second = lv.TopicPartition(topic, 0), lv.TopicPartition(topic, 1)
    with consumer(kafka, f"g-{uuid4().hex}", first, second, enable_auto_commit=False) as reader:
        records: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while not records and time.monotonic() < deadline:
            records = reader.poll(1)
        share = lv.ShareRecord.delivered(records[0], 1)
        for wrong in (topic, b"0", 5, [5], first, [first], [records[0], None], share):
            for call in (reader.commit, reader.commit_async):
                with pytest.raises(TypeError, match="record"):
                    call(wrong)
        with pytest.raises(TypeError, match="takes one record or several"):
            reader.commit(getattr(reader, "_inner", reader))
        reader.assign([second])
        with pytest.raises(IllegalStateError, match=rf"commit\(\): {topic}-0 is not assigned"):
            reader.commit(records)
        assert reader.committed([first]) == {first: None}
        reader.assign([first, second])
        with reader.acks() as acks:
            found: list[Any] = []
            while not found and time.monotonic() < deadline:
                found = acks.poll(1)
            with pytest.raises(IllegalStateError, match=r"call ack\(\) of the records, and commit\(\) without them"):
                reader.commit(found)


# What is different on asyncio


def test_O13_on_asyncio_a_commit_is_awaited_or_not(caplog: pytest.LogCaptureFixture) -> None:
    first = lv.TopicPartition("t", 0)

    async def main(servers: str, broker: EmbeddedKafka) -> None:
        async with aio.KafkaConsumer(bootstrap_servers=servers, group_id="g", enable_auto_commit=False) as reader:
            reader.assign([first])
            broker.faults.fail_next("OffsetCommit", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            refused, done, cancelled = (reader.commit_async({first: offset}) for offset in (1, 2, 3))
            cancelled.cancel()
            with pytest.raises(RetriableCommitError):
                await refused
            await done
            await reader.commit({first: 4})
            assert await reader.committed([first]) == {first: lv.OffsetAndMetadata(4)}
        async with aio.KafkaConsumer(bootstrap_servers=servers) as nobody:
            with pytest.raises(InvalidGroupIdError):
                await nobody.commit()
            with pytest.raises(InvalidGroupIdError):
                nobody.commit_async({first: 1})

    with EmbeddedKafka() as broker, caplog.at_level(logging.WARNING):
        broker.create_topic("t", 1)
        asyncio.run(main(broker.bootstrap_servers, broker))
    assert not [record for record in caplog.records if record.name.startswith("levada.")]
