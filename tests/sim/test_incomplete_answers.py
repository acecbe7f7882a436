"""Answers of coordinators that carry no error and leave out what was asked for: they are no success, and are asked for again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import levada as lv
from altered_answers import altered, truncated
from consumer_sim import World
from levada.broker.node.node import BrokerNode
from levada.errors import RetriableCommitError, TimeoutError, TransactionAbortableError
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS
from levada.types import OffsetAndMetadata, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SERVERS = "kafka:9092"
SOON: dict[str, Any] = {"linger_ms": 0, "request_timeout_ms": 1000, "delivery_timeout_ms": 5000, "max_block_ms": 4000}
MANUAL: dict[str, Any] = {"group_id": "g", "enable_auto_commit": False, "auto_offset_reset": "latest"}


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=5) as sim:
        yield sim


@pytest.fixture
def world(sim: Simulation) -> World:
    world = World(sim)
    world.topic("t", 2)
    for number in range(3):
        world.append("t", [b"%d" % number], epoch=0)
    world.cluster.group_offsets.commit("g", {T0: OffsetAndMetadata(2, 0), T1: OffsetAndMetadata(0, 0)})
    return world


def new_producer(sim: Simulation, transaction_version: int) -> lv.KafkaProducer:
    node = BrokerNode(host="kafka", port=9092, random=sim.random, wall_offset_ms=EPOCH_MS, transaction_version=transaction_version)
    sim.network.add_server(node, "kafka", 9092)
    node.create_topic("t", 2)
    return sim.producer(bootstrap_servers=SERVERS, transactional_id="x", **SOON)


def no_topics(answer: Any) -> None:
    answer.topics = []


def other_partition(answer: Any) -> None:
    for topic in answer.topics:
        for part in topic.partitions:
            part.partition_index = 77


@pytest.mark.parametrize("change", [no_topics, other_partition])
def test_T6_offsets_that_an_answer_says_nothing_about_are_sent_again(sim: Simulation, change: Any) -> None:
    producer = new_producer(sim, 2)
    producer.init_transactions()
    with altered("TxnOffsetCommit", change, times=2) as changed, producer.transaction():
        producer.send_offsets_to_transaction({T0: 5}, "g")
    assert len(changed) == 2
    producer.begin_transaction()
    left_out = r"group 'g'.*the answer leaves out: group 'g', t-0"
    with altered("TxnOffsetCommit", change), pytest.raises(TransactionAbortableError, match=left_out):
        producer.send_offsets_to_transaction({T0: 6}, "g")


def test_T6_partitions_that_an_answer_says_nothing_about_are_announced_again(sim: Simulation) -> None:
    def leave_out(answer: Any) -> None:
        answer.results_by_topic_v3_and_below = []

    producer = new_producer(sim, 1)
    producer.init_transactions()
    with altered("AddPartitionsToTxn", leave_out, times=2) as changed, producer.transaction():
        written = producer.send("t", b"v", partition=0)
    assert len(changed) == 2
    assert written.result().offset == 0


@pytest.mark.parametrize("field", ["producer_id", "producer_epoch"])
def test_T3_an_answer_without_producer_id_does_not_initialize(sim: Simulation, field: str) -> None:
    producer = new_producer(sim, 2)
    with altered("InitProducerId", lambda answer: setattr(answer, field, -1)), pytest.raises(TimeoutError):
        producer.init_transactions()
    producer.init_transactions()
    with producer.transaction():
        assert producer.send("t", b"v", partition=0).result(5).offset == 0


def first_group_twice(answer: Any) -> None:
    answer.groups *= 2


def another_group_first(answer: Any) -> None:
    other = type(answer.groups[0])(group_id="other", topics=[], error_code=0)
    answer.groups.insert(0, other)


@pytest.mark.parametrize("change", [first_group_twice, another_group_first])
def test_O16_the_group_that_was_asked_for_is_taken_out_of_an_answer(world: World, change: Any) -> None:
    consumer = world.consumer(T0, **MANUAL)
    with altered("OffsetFetch", change) as changed:
        assert consumer.position(T0) == 2
    assert changed


def without_groups(answer: Any) -> None:
    answer.groups = []


def without_topics(answer: Any) -> None:
    answer.groups[0].topics = []


def with_other_partition(answer: Any) -> None:
    other_partition(answer.groups[0])


@pytest.mark.parametrize("change", [without_groups, without_topics, with_other_partition])
def test_O6_O16_what_an_answer_leaves_out_is_not_taken_for_nothing_committed(world: World, change: Any) -> None:
    consumer = world.consumer(T0, **MANUAL)
    with altered("OffsetFetch", change):
        assert not consumer.poll(3)
        with pytest.raises(TimeoutError, match=r"coordinator of group 'g' left (it|the group) out of its answer"):
            consumer.committed([T0], timeout=2)
    assert consumer.position(T0) == 2
    with altered("OffsetFetch", change, times=2) as changed:
        assert consumer.committed([T1, T0]) == {T1: OffsetAndMetadata(0, 0), T0: OffsetAndMetadata(2, 0)}
    assert len(changed) == 2


def test_O16_a_partition_that_was_not_asked_for_is_ignored(world: World) -> None:
    def with_more(answer: Any) -> None:
        for topic in answer.groups[0].topics:
            topic.partitions.append(type(topic.partitions[0])(partition_index=77, committed_offset=5))

    with altered("OffsetFetch", with_more) as changed:
        assert world.consumer(T0, **MANUAL).committed([T0]) == {T0: OffsetAndMetadata(2, 0)}
    assert changed


def test_O15_O16_what_cannot_be_read_is_asked_for_again_and_the_error_names_the_group(world: World) -> None:
    consumer = world.consumer(T0, **MANUAL)
    with truncated("OffsetFetch", times=2) as cut:
        assert consumer.position(T0) == 2
    assert len(cut) == 2
    with truncated("OffsetCommit", times=2) as cut:
        consumer.commit({T0: 1})
    assert len(cut) == 2
    assert consumer.committed([T0]) == {T0: OffsetAndMetadata(1)}
    with truncated("OffsetFetch", times=1000), pytest.raises(TimeoutError, match=r"committed offsets .*group 'g'.*OffsetFetch.*"):
        consumer.committed([T0], timeout=2)
    with truncated("OffsetCommit", times=1000), pytest.raises(TimeoutError, match=r"coordinator of group 'g'.*OffsetCommit"):
        consumer.commit({T0: 1}, timeout=2)


def test_O13_a_commit_that_nobody_waits_for_may_be_made_again_after_an_answer_that_cannot_be_read(world: World) -> None:
    consumer = world.consumer(T0, **MANUAL)
    told: list[Any] = []
    with truncated("OffsetCommit", times=1):
        consumer.commit_async({T0: 1}, lambda offsets, error: told.append(error))
        while not told:
            consumer.poll(1)
    assert [type(error) for error in told] == [RetriableCommitError]


def topics_twice(answer: Any) -> None:
    answer.topics *= 2


def topics_of_groups_twice(answer: Any) -> None:
    topics_twice(answer.groups[0])


@pytest.mark.parametrize(
    ("api", "change"), [("OffsetCommit", topics_twice), ("ListOffsets", topics_twice), ("OffsetFetch", topics_of_groups_twice)]
)
def test_a_partition_that_an_answer_names_twice_is_answered_once(world: World, api: str, change: Any) -> None:
    consumer = world.consumer(T0, **MANUAL)
    with altered(api, change) as changed:
        consumer.commit({T0: 1})
        assert consumer.committed([T0])[T0] == OffsetAndMetadata(1)
        assert consumer.beginning_offsets([T0]) == {T0: 0}
    assert changed
