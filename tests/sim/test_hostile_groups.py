"""Members of groups, of either protocol, against hostile listeners, topics that disappear, and coordinators that lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from altered_answers import altered
from consumer_sim import World
from group_kit import assignment
from group_sim import PARTITIONS, SimulatedGroup
from levada.error_codes import ErrorCode
from levada.errors import ClosedError, IllegalStateError, KafkaError, ProtocolError
from levada.protocol.messages.consumer_group_heartbeat import Assignment, TopicPartitions
from levada.testing.simulation import Simulation
from levada.types import TopicPartition
from told_listener import Told

CLASSIC: dict[str, Any] = {"group_protocol": "classic"}
COOPERATIVE: dict[str, Any] = {"partition_assignment_strategy": "cooperative-sticky"}
CONSUMER: dict[str, Any] = {"group_protocol": "consumer"}
KINDS = pytest.mark.parametrize("kind", [CLASSIC, COOPERATIVE, CONSUMER], ids=["eager", "cooperative", "consumer"])
HEARTBEAT = "ConsumerGroupHeartbeat"
MOST_PER_S = 20
"""Requests of a member that is refused each time."""


@pytest.fixture
def world() -> Iterator[World]:
    with Simulation(seed=11) as simulation:
        world = World(simulation, auto_create_topics_enable=False)
        world.topic("t", PARTITIONS)
        yield world


def settled(group: SimulatedGroup, one: Any, partitions: int = PARTITIONS) -> None:
    for _ in range(100):
        group.poll(one, timeout=1)
        if len(one.assignment()) == partitions:
            return
    pytest.fail(str(one.assignment()))


# Listeners


@KINDS
@pytest.mark.parametrize("does", ["unsubscribe", "close"])
def test_G13_a_listener_that_ends_the_subscription_hears_of_each_partition_once(world: World, kind: dict[str, Any], does: str) -> None:
    group = SimulatedGroup(world, **kind)
    told = Told(revoked=lambda partitions: getattr(one, does)())
    one = group.join(told)
    settled(group, one)
    other = group.join()
    with pytest.raises((ClosedError, IllegalStateError), match=r"is closed|nothing to read"):
        for _ in range(100):
            group.poll(timeout=1)
    revoked = [partition for what, partitions in told.heard if what == "revoked" for partition in partitions]
    assert sorted(revoked) == list(range(PARTITIONS))
    settled(group, other)


@KINDS
def test_G13_a_listener_that_begins_the_subscription_anew_is_a_member_again(world: World, kind: dict[str, Any]) -> None:
    def begin_anew(partitions: list[TopicPartition]) -> None:
        one.unsubscribe()
        one.subscribe(["t"], told)

    group = SimulatedGroup(world, **kind)
    told = Told(revoked=begin_anew)
    one = group.join(told)
    settled(group, one)
    other = group.join()
    for _ in range(100):
        group.poll(timeout=1)
    assert len(one.assignment()) == len(other.assignment()) == PARTITIONS // 2
    assert not one.assignment() & other.assignment()


@KINDS
def test_G13_what_a_listener_assigns_by_itself_stays(world: World, kind: dict[str, Any]) -> None:
    mine = TopicPartition("t", 3)

    def choose(partitions: list[TopicPartition]) -> None:
        one.unsubscribe()
        one.assign([mine])

    group = SimulatedGroup(world, **kind)
    one = group.join(Told(revoked=choose))
    settled(group, one)
    group.join()
    for _ in range(20):
        group.poll(timeout=1)
    assert one.assignment() == {mine}


@KINDS
def test_O18_a_listener_may_not_ask_for_records_after_it_has_unsubscribed_either(world: World, kind: dict[str, Any]) -> None:
    def ask(partitions: list[TopicPartition]) -> None:
        if len(told.heard) == 1:
            one.unsubscribe()
            one.subscribe(["t"], told)
            with pytest.raises(IllegalStateError, match="may not ask for records"):
                one.poll(1)

    group = SimulatedGroup(world, **kind)
    told = Told(assigned=ask)
    one = group.join(told)
    settled(group, one)
    assert [what for what, _ in told.heard] == ["assigned", "revoked", "assigned"]


# Topics


@KINDS
@pytest.mark.parametrize("wanted", [{"topics": ["t", "u"]}, {"pattern": "t|u"}], ids=["names", "pattern"])
def test_G7_reading_goes_on_when_a_topic_is_deleted(world: World, kind: dict[str, Any], wanted: dict[str, Any]) -> None:
    world.topic("u", 2)
    group = SimulatedGroup(world, metadata_max_age_ms=5_000, **kind)
    one = group.new()
    one.subscribe(**wanted)
    settled(group, one, PARTITIONS + 2)
    group.produce()
    for partition in range(2):
        world.append("u", [b"v"], partition, epoch=0)
    while len(group.seen) < 3 * PARTITIONS + 2:
        group.poll(timeout=1)
    world.nodes[0].delete_topic("u")
    deleted_ms = last_ms = world.now_ms
    longest_ms = 0
    while world.now_ms < deleted_ms + 20_000:
        world.append("t", [b"v"], epoch=0)
        if one.poll(1):
            longest_ms, last_ms = max(longest_ms, world.now_ms - last_ms), world.now_ms
        world.simulation.advance(100)
    assert longest_ms < 2_000
    assert one.assignment() == {TopicPartition("t", partition) for partition in range(PARTITIONS)}
    began_ms = world.now_ms
    one.close()
    assert world.now_ms - began_ms < 1_000


# Coordinators


def lying(world: World, api: str, change: Callable[[Any], None], **kind: Any) -> tuple[Any, int, set[str]]:
    """A member that is lied to for ten seconds, how many requests of the API came then, and what its polls raised."""
    group = SimulatedGroup(world, **kind)
    one = group.join()
    raised: set[str] = set()
    before = world.requests(api)
    with altered(api, change):
        end_ms = world.now_ms + 10_000
        while world.now_ms < end_ms:
            try:
                group.poll(one, timeout=1)
            except KafkaError as error:
                raised.add(type(error).__name__)
                world.simulation.advance(100)
    return one, world.requests(api) - before, raised


@pytest.mark.parametrize("code", ["UNKNOWN_MEMBER_ID", "MEMBER_ID_REQUIRED", "ILLEGAL_GENERATION"])
def test_G8_a_coordinator_that_sends_a_member_away_each_time_is_not_asked_as_fast_as_it_answers(world: World, code: str) -> None:
    one, asked, _ = lying(world, "JoinGroup", lambda answer: setattr(answer, "error_code", ErrorCode[code]), **CLASSIC)
    assert 3 < asked < 10 * MOST_PER_S
    settled(SimulatedGroup(world), one)


@pytest.mark.parametrize("code", ["UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH"])
def test_G37_a_coordinator_that_fences_a_member_each_time_is_not_asked_as_fast_as_it_answers(world: World, code: str) -> None:
    one, asked, _ = lying(world, HEARTBEAT, lambda answer: setattr(answer, "error_code", ErrorCode[code]), **CONSUMER)
    assert 3 < asked < 10 * MOST_PER_S
    settled(SimulatedGroup(world), one)


@pytest.mark.parametrize("epoch", [0, -1, -2, -(2**31)])
def test_G34_an_epoch_that_no_member_has_is_no_answer(world: World, epoch: int) -> None:
    one, asked, raised = lying(world, HEARTBEAT, lambda answer: setattr(answer, "member_epoch", epoch), **CONSUMER)
    assert not raised
    assert 3 < asked < 10 * MOST_PER_S
    settled(SimulatedGroup(world), one)


def test_G36_a_target_with_partitions_that_cannot_be_is_no_answer(world: World) -> None:
    def assign(answer: Any) -> None:
        topic = world.cluster.topic("t")
        assert topic is not None
        answer.assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=topic.id, partitions=[-1])])

    one, _, raised = lying(world, HEARTBEAT, assign, **CONSUMER)
    assert not raised
    assert not one.assignment()


def test_G17_a_leader_that_assigns_what_cannot_be_is_told_as_such(world: World) -> None:
    one, _, raised = lying(world, "SyncGroup", lambda answer: setattr(answer, "assignment", assignment(t=[-1])), **CLASSIC)
    assert raised == {ProtocolError.__name__}
    settled(SimulatedGroup(world), one)
