"""Work grows with what changes, not with how many partitions are assigned: counted, not timed."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from consumer_sim import World
from levada.groups import SubscriptionPattern
from levada.sync.consumer import KafkaConsumer
from levada.testing.simulation import Simulation
from levada.types import ConsumerRecords, TopicPartition

TURNS = 100


def lines_run(consumer: KafkaConsumer, now_ms: int) -> int:
    """How many lines run in turns of the engine, and looks for what is wrong, with nothing new."""
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal lines
        lines += event == "line"
        return trace

    reading = consumer._consuming.reading
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        for _ in range(TURNS):
            reading._engine.advance(now_ms)
            reading.core.begin_call(0)
            assert reading.core.explain(now_ms, last_word=True) is None
            assert not reading.core.changed().done
            consumer._consuming.iterate(ConsumerRecords())
    finally:
        sys.settrace(None)
    return lines


def idle(partitions: int) -> int:
    with Simulation(seed=2) as simulation:
        world = World(simulation)
        world.topic("t", partitions)
        consumer = world.consumer(*[TopicPartition("t", partition) for partition in range(partitions)])
        for _ in range(3):
            assert consumer.poll(1.0) == []
        return lines_run(consumer, simulation.now_ms)


def test_a_turn_with_nothing_new_costs_the_same_whatever_is_assigned() -> None:
    assert idle(1_000) <= idle(10) + TURNS


def awaiting_positions(partitions: int) -> int:
    with Simulation(seed=2) as simulation:
        world = World(simulation)
        world.topic("t", partitions)
        world.faults.delay("ListOffsets", ms=20_000)
        consumer = world.consumer(*[TopicPartition("t", partition) for partition in range(partitions)])
        assert consumer.poll(3.0) == []
        assert world.requests("ListOffsets") == 1
        return lines_run(consumer, simulation.now_ms)


def test_a_turn_costs_the_same_however_many_partitions_await_a_position() -> None:
    each_looked_at_once = 1_000
    assert awaiting_positions(1_000) <= awaiting_positions(10) + each_looked_at_once + TURNS


def idle_member(topics: int, *, protocol: str, by_pattern: bool) -> int:
    with Simulation(seed=2) as simulation:
        world = World(simulation)
        names = [f"t{number}" for number in range(topics)]
        for name in names:
            world.topic(name)
        consumer = world.consumer(group_id="g", group_protocol=protocol, auto_commit_interval_ms=3_600_000)
        if by_pattern:
            consumer.subscribe(pattern=SubscriptionPattern("t.*"))
        else:
            consumer.subscribe(names)
        while len(consumer.assignment()) < topics:
            consumer.poll(1.0)
        for _ in range(3):
            assert consumer.poll(1.0) == []
        return lines_run(consumer, simulation.now_ms)


@pytest.mark.parametrize(("protocol", "by_pattern"), [("classic", False), ("consumer", False), ("consumer", True)])
def test_a_turn_of_a_member_costs_the_same_whatever_it_is_subscribed_to(protocol: str, by_pattern: bool) -> None:
    assert idle_member(300, protocol=protocol, by_pattern=by_pattern) <= idle_member(10, protocol=protocol, by_pattern=by_pattern) + TURNS
