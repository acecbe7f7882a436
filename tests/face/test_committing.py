"""Offsets are committed and begun at, as users do it: both faces, every broker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

import levada as lv
from face_kit import EVERYWHERE, face_and_broker
from levada import aio
from levada.error_codes import ErrorCode
from levada.errors import InvalidGroupIdError, RetriableCommitError
from levada.testing import EmbeddedKafka

PATIENCE_S = 30
COUNT = 10


@pytest.fixture(params=EVERYWHERE)
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, embedded: Any) -> Iterator[Any]:
    yield from face_and_broker(request, monkeypatch)


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
