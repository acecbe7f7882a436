"""Members of groups that acknowledge records one by one: what a rebalance waits for, and what it never loses. In virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from consumer_sim import World
from group_sim import PARTITIONS, SimulatedGroup
from levada.errors import KafkaError
from levada.testing.simulation import Simulation

PROTOCOLS: dict[str, dict[str, Any]] = {
    "range": {},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}
SLOW_S = 20
SEEDS = 2
"""max.poll.interval.ms, in seconds."""


class Member:
    """A consumer that is subscribed, and its acks(). records: what it was handed out and has said nothing of."""

    def __init__(self, group: SimulatedGroup, **how: Any) -> None:
        self.consumer = group.join()
        self.acks = self.consumer.acks(**how)
        self.records: list[Any] = []

    def poll(self, timeout: float = 0.05) -> None:
        self.records += self.acks.poll(timeout)

    def ack_all(self) -> None:
        for record in self.records:
            record.ack()
        self.records.clear()

    def owned(self) -> set[int]:
        return {tp.partition for tp in self.consumer.assignment()}


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def group(protocol: str) -> Iterator[SimulatedGroup]:
    with Simulation(seed=5) as simulation:
        world = World(simulation)
        world.topic("t", PARTITIONS)
        made = SimulatedGroup(world, auto_commit_interval_ms=100, max_poll_interval_ms=SLOW_S * 1000, **PROTOCOLS[protocol])
        made.produce()
        yield made


def until(condition: Any, *members: Member, timeout: float = 0.05) -> None:
    for _ in range(500):
        if condition():
            return
        for member in members:
            member.poll(timeout)
    pytest.fail("it does not come to that")


def test_a_rebalance_waits_for_work_on_what_it_takes_away_and_commits_it(group: SimulatedGroup, protocol: str) -> None:
    first = Member(group, ordering="none")
    until(lambda: len(first.records) == 12, first)
    second = Member(group)
    for _ in range(100):
        first.poll()
        second.poll()
    assert not second.owned(), "all of it is at work"
    assert not second.records
    first.ack_all()
    until(lambda: len(second.owned()) == 2 and len(first.owned()) == 2, first, second)
    assert [group.committed(partition) for partition in sorted(second.owned())] == [3, 3]
    for _ in range(20):
        first.poll()
        second.poll()
    assert not first.records + second.records, "nothing comes twice"


def test_kept_partitions_go_on_while_others_are_waited_for(group: SimulatedGroup, protocol: str) -> None:
    if protocol == "range":
        pytest.skip("a member gives up everything")
    first = Member(group, ordering="none")
    until(lambda: len(first.records) == 12, first)
    stuck, first.records = first.records, []
    second = Member(group)
    for _ in range(100):
        first.poll()
        second.poll()
    group.produce()
    until(lambda: len(first.records) == 6, first, second)
    for _ in range(100):
        first.poll()
        second.poll()
    kept = {record.partition for record in first.records}
    assert len(first.records) == 6
    assert not second.owned(), "the two others are at work"
    for record in stuck:
        record.ack()
    until(lambda: len(second.owned()) == 2, first, second)
    assert first.owned() == kept


def test_work_that_takes_too_long_is_given_up(group: SimulatedGroup, protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    first = Member(group, ordering="none")
    until(lambda: len(first.records) == 12, first)
    for record in first.records:
        if record.offset == 0:
            record.ack()
    second = Member(group)
    began_ms = group.world.now_ms
    until(lambda: len(second.owned()) == 2 and len(second.records) >= 4, first, second, timeout=1)
    assert SLOW_S * 800 < group.world.now_ms - began_ms < SLOW_S * 1_000 + 10_000, "and some heartbeats"
    given_up = [record for record in first.records if record.is_given_up]
    assert {record.partition for record in given_up} >= second.owned()
    assert "were not acknowledged within 18 s" in caplog.text
    assert {(record.partition, record.offset) for record in second.records} == {
        (partition, offset) for partition in second.owned() for offset in (1, 2)
    }
    for record in given_up:
        record.ack()
    for _ in range(20):
        first.poll()
    assert [group.committed(partition) for partition in sorted(second.owned())] == [1, 1], "that came too late"
    second.ack_all()
    until(lambda: all(group.committed(partition) == 3 for partition in second.owned()), first, second)


def test_what_was_lost_is_not_committed(group: SimulatedGroup, protocol: str) -> None:
    first = Member(group, ordering="none")
    until(lambda: len(first.records) == 12, first)
    group.world.simulation.advance((SLOW_S + 60) * 1000)
    second = Member(group, ordering="none")
    until(lambda: len(second.records) == 12, second)
    first.ack_all()
    for _ in range(20):
        first.poll()
        second.poll()
    assert {group.committed(partition) for partition in range(PARTITIONS)} <= {None, 0}
    second.ack_all()
    until(lambda: all(group.committed(partition) == 3 for partition in range(PARTITIONS)), first, second)


def test_delays_and_lanes_do_not_outlive_a_partition(group: SimulatedGroup, protocol: str) -> None:
    first = Member(group, ordering="partition", lanes=PARTITIONS)
    until(lambda: len(first.records) == PARTITIONS, first)
    for record in first.records:
        record.nack(delay=15)
    first.records.clear()
    second = Member(group, ordering="partition")
    until(lambda: len(second.records) == 2, first, second)
    assert {record.offset for record in second.records} == {0}
    until(lambda: len(first.records) == 2, first, second, timeout=0.5)
    assert {record.partition for record in first.records} == first.owned()


def test_a_slow_loop_stays_in_its_group_as_long_as_each_record_is_done_in_time(group: SimulatedGroup) -> None:
    member = group.join()
    seen = []
    generations = set()
    with member.acks() as acks:
        for record in acks:
            seen.append((record.partition, record.offset))
            group.world.simulation.advance(SLOW_S * 900)
            record.ack()
            generations.add(member.group_metadata().generation_id)
            if len(seen) == 12:
                break
    assert len(set(seen)) == 12
    assert len(generations) == 1


def ack_within_a_call(group: SimulatedGroup, record: Any) -> None:
    """As another thread does: acknowledge a record a second from now, while a call waits."""
    producer = group.world.simulation.producer(bootstrap_servers="b1:9092", linger_ms=1_000)
    producer.send("other", b"v", on_delivery=lambda metadata, error: record.ack())


def test_a_call_that_waits_goes_on_as_soon_as_a_lane_is_free(group: SimulatedGroup, protocol: str) -> None:
    """While a record of a partition that is to be given up is still at work; with an eager assignor once it is done."""
    first = Member(group, ordering="none", lanes=1 if protocol == "range" else 3)
    until(lambda: len(first.records) == (1 if protocol == "range" else 3), first)
    second = Member(group, ordering="none")
    for _ in range(100):
        first.poll()
        second.poll()
    before = len(first.records)
    assert not second.owned()
    assert {record.partition for record in first.records} & {2, 3} or protocol == "range"
    ack_within_a_call(group, min(first.records, key=lambda record: record.partition))
    began_ms = group.world.now_ms
    first.poll(60)
    assert len(first.records) == before + 1
    assert group.world.now_ms - began_ms < 3_000


def test_a_call_that_waits_goes_on_when_its_records_are_lost(group: SimulatedGroup, protocol: str) -> None:
    first = Member(group, ordering="none", lanes=1)
    until(lambda: len(first.records) == 1, first)
    if protocol == "consumer":
        group.world.faults.fail_next("ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID")
    else:
        group.world.faults.fail_next("Heartbeat", "UNKNOWN_MEMBER_ID")
    began_ms = group.world.now_ms
    first.poll(60)
    assert len(first.records) == 2
    assert first.records[0].is_given_up
    assert not first.records[1].is_given_up
    assert group.world.now_ms - began_ms < 30_000, "the coordinator waits for the member that it believes in"


class Chaos:
    """Members that come, go and die, whose records are acknowledged, delayed or forgotten at random. `done`: what was acknowledged."""

    def __init__(self, world: World, random: Random, **settings: Any) -> None:
        self.group = SimulatedGroup(world, auto_commit_interval_ms=500, session_timeout_ms=6_000, max_poll_interval_ms=20_000, **settings)
        self.random = random
        self.members: list[Member] = []
        self.produced = Counter[int]()
        self.done: set[tuple[int, int]] = set()

    def join(self) -> None:
        if len(self.members) < 4:
            ordering = self.random.choice(["key", "partition", "none"])
            self.members.append(Member(self.group, ordering=ordering, max_unacked=self.random.choice([2, 10, 1000])))

    def leave(self) -> None:
        if self.members:
            member = self.members.pop(self.random.randrange(len(self.members)))
            member.acks.close()
            member.consumer.close(timeout=1)

    def die(self) -> None:
        """What it had in its hands is acknowledged afterwards, in vain."""
        if self.members:
            member = self.members.pop(self.random.randrange(len(self.members)))
            member.consumer._driver.close()
            for record in member.records:
                record.ack()

    def produce(self) -> None:
        partition = self.random.randrange(PARTITIONS)
        self.group.world.append("t", [b"v"] * 3, partition, epoch=0)
        self.produced[partition] += 3

    def work(self) -> None:
        for member in self.members:
            member.poll(self.random.choice([0, 0.05, 1]))
            for record in list(member.records):
                if self.random.random() < 0.6:
                    member.records.remove(record)
                    self.say(record)

    def say(self, record: Any) -> None:
        if self.random.random() < 0.2:
            record.nack(self.random.choice([0, 0.1, 2]))
        else:
            record.ack()
            self.done.add((record.partition, record.offset))

    def be_slow(self) -> None:
        self.group.world.simulation.advance(self.random.choice([100, 5_000, 25_000]))

    def check(self) -> None:
        for partition in range(PARTITIONS):
            committed = self.group.committed(partition) or 0
            assert all((partition, offset) in self.done for offset in range(committed)), "a commit passed a record that is not done"

    def end(self) -> None:
        """All that was produced is acknowledged by somebody."""
        self.join()
        for _ in range(600):
            if sum(self.produced.values()) == len(self.done):
                return
            for member in self.members:
                member.poll(0.2)
                for record in member.records:
                    record.ack()
                    self.done.add((record.partition, record.offset))
                member.records.clear()
            self.check()
        pytest.fail(f"{sum(self.produced.values())} produced, {len(self.done)} done")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_commit_passes_a_record_that_is_not_done_whatever_happens(protocol: str, seed: int) -> None:
    random = Random(seed)
    with Simulation(seed=seed) as simulation:
        world = World(simulation, group_min_session_timeout_ms=100, group_consumer_session_timeout_ms=45_000)
        world.topic("t", PARTITIONS)
        settings = dict(PROTOCOLS[protocol])
        chaos = Chaos(world, random, **settings) if protocol != "consumer" else ChaosOfConsumers(world, random, **settings)
        steps = [chaos.join, chaos.leave, chaos.die, chaos.be_slow, *[chaos.produce] * 4, *[chaos.work] * 12]
        chaos.join()
        for _ in range(100):
            try:
                random.choice(steps)()
            except KafkaError as error:
                assert error.retriable, error
            chaos.check()
        chaos.end()


class ChaosOfConsumers(Chaos):
    """The brokers keep the session's time (KIP-848)."""

    def __init__(self, world: World, random: Random, **settings: Any) -> None:
        super().__init__(world, random, **settings)
        self.group = SimulatedGroup(world, auto_commit_interval_ms=500, max_poll_interval_ms=20_000, **settings)
