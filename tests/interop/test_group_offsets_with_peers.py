"""M-B20: what one client commits for a group without members, every other one finds, on the embedded broker and on Kafka 4.4."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import uuid4

import aiokafka
import aiokafka.structs
import confluent_kafka
import kafka as kafka_python
import pytest

import levada as lv

TIMEOUT_S = 30


def levada_commit(servers: str, group: str, topic: str, offset: int) -> None:
    with lv.KafkaConsumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False) as consumer:
        consumer.commit({lv.TopicPartition(topic, 1): lv.OffsetAndMetadata(offset, 0, "m")})


def levada_committed(servers: str, group: str, topic: str) -> list[int]:
    tps = [lv.TopicPartition(topic, partition) for partition in (0, 1)]
    with lv.KafkaConsumer(bootstrap_servers=servers, group_id=group) as consumer:
        found = consumer.committed(tps)
    return [-1 if at is None else at.offset for at in (found[tp] for tp in tps)]


def _librdkafka(servers: str, group: str) -> Any:
    return confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False})


def librdkafka_commit(servers: str, group: str, topic: str, offset: int) -> None:
    consumer = _librdkafka(servers, group)
    at = confluent_kafka.TopicPartition(topic, 1, offset)
    consumer.assign([at])
    consumer.commit(offsets=[at], asynchronous=False)
    consumer.close()


def librdkafka_committed(servers: str, group: str, topic: str) -> list[int]:
    consumer = _librdkafka(servers, group)
    found = consumer.committed([confluent_kafka.TopicPartition(topic, partition) for partition in (0, 1)], timeout=TIMEOUT_S)
    consumer.close()
    return [max(at.offset, -1) for at in found]


def aiokafka_commit(servers: str, group: str, topic: str, offset: int) -> None:
    async def commit() -> None:
        async with aiokafka.AIOKafkaConsumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False) as consumer:
            tp = aiokafka.structs.TopicPartition(topic, 1)
            consumer.assign([tp])
            await consumer.commit({tp: offset})

    asyncio.run(commit())


def aiokafka_committed(servers: str, group: str, topic: str) -> list[int]:
    async def committed() -> list[int]:
        async with aiokafka.AIOKafkaConsumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False) as consumer:
            tps = [aiokafka.structs.TopicPartition(topic, partition) for partition in (0, 1)]
            consumer.assign(tps)
            return [-1 if at is None else at for at in [await consumer.committed(tp) for tp in tps]]

    return asyncio.run(committed())


class Peer(NamedTuple):
    name: str
    commit: Callable[[str, str, str, int], None]
    committed: Callable[[str, str, str], list[int]]


PEERS = (
    Peer("levada", levada_commit, levada_committed),
    Peer("confluent-kafka", librdkafka_commit, librdkafka_committed),
    Peer("aiokafka", aiokafka_commit, aiokafka_committed),
)


@pytest.mark.parametrize("broker", ["embedded", pytest.param("kafka44", marks=pytest.mark.kafka)])
@pytest.mark.parametrize("writer", PEERS, ids=lambda peer: peer.name)
def test_M_B20_what_one_commits_all_find(request: pytest.FixtureRequest, new_topic: Callable[..., str], writer: Peer, broker: str) -> None:
    kafka = request.getfixturevalue(broker)
    topic, group = new_topic(kafka, partitions=2), f"g-{uuid4().hex}"
    writer.commit(kafka.bootstrap_servers, group, topic, 42)
    for reader in PEERS:
        assert reader.committed(kafka.bootstrap_servers, group, topic) == [-1, 42], reader.name


@pytest.mark.parametrize("broker", ["embedded", pytest.param("kafka44", marks=pytest.mark.kafka)])
def test_M_B20_O11_metadata_and_leader_epochs_go_both_ways(
    request: pytest.FixtureRequest, new_topic: Callable[..., str], broker: str
) -> None:
    kafka = request.getfixturevalue(broker)
    topic, group = new_topic(kafka, partitions=2), f"g-{uuid4().hex}"
    theirs = _librdkafka(kafka.bootstrap_servers, group)
    try:
        at = confluent_kafka.TopicPartition(topic, 0, 3, metadata="theirs", leader_epoch=0)
        theirs.assign([at])
        theirs.commit(offsets=[at], asynchronous=False)
        with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group, enable_auto_commit=False) as ours:
            tp = lv.TopicPartition(topic, 0)
            # confluent-kafka sends the zero that ends a text in C along with it.
            assert ours.committed([tp]) == {tp: lv.OffsetAndMetadata(3, 0, "theirs\0")}
            ours.commit({tp: lv.OffsetAndMetadata(4, 0)})
            (found,) = theirs.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=TIMEOUT_S)
            assert (found.offset, found.metadata, found.leader_epoch) == (4, None, 0)
            # Where there is no such zero, confluent-kafka reads on behind the text.
            ours.commit({tp: lv.OffsetAndMetadata(5, 0, "ours")})
    finally:
        theirs.close()
    reader = kafka_python.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group, enable_auto_commit=False)
    at = reader.committed(kafka_python.TopicPartition(topic, 0), metadata=True)
    reader.close()
    assert (at.offset, at.metadata, at.leader_epoch) == (5, "ours", 0)
