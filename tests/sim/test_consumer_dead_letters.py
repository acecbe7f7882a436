"""Dead letters when a program is interrupted and brokers fail, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from consumer_sim import World
from levada.dead_letter import DeadLetter
from levada.errors import DeadLetterError, WakeupError
from levada.testing.simulation import Simulation
from levada.types import TopicPartition

T0 = TopicPartition("t", 0)
VALUES = [b"0", b"x", b"2", b"y", b"4", b"z", b"6"]


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(seed=13) as simulation:
        yield simulation


@pytest.fixture
def world(simulation: Simulation) -> World:
    world = World(simulation)
    world.topic("t")
    world.topic("dead")
    world.append("t", VALUES)
    return world


class Interrupted:
    """A producer whose send() is interrupted, at its nth call."""

    def __init__(self, producer: Any, nth: int) -> None:
        self._producer = producer
        self._left = nth

    def send(self, *arguments: Any, **keywords: Any) -> Any:
        self._left -= 1
        if not self._left:
            raise KeyboardInterrupt
        return self._producer.send(*arguments, **keywords)


def reading(world: World, to: DeadLetter, **settings: Any) -> Any:
    return world.consumer(T0, value_deserializer=int, on_decode_error=to, **settings)


def read_all(consumer: Any, interrupts: list[BaseException] | None = None) -> list[int]:
    found: list[int] = []
    for _ in range(30):
        try:
            found += [record.value for record in consumer.poll(2)]
        except KeyboardInterrupt as interrupt:
            assert interrupts is not None
            interrupts.append(interrupt)
    return found


def letters(simulation: Simulation) -> list[bytes | None]:
    return [record.value for record in simulation.scan("dead", bootstrap_servers="b1:9092")]


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("at_once", [1, 3, 500])
def test_M_P4_an_interrupted_program_loses_neither_records_nor_letters(
    simulation: Simulation, world: World, nth: int, at_once: int
) -> None:
    interrupts: list[BaseException] = []
    with simulation.producer(bootstrap_servers="b1:9092") as producer:
        to = DeadLetter(Interrupted(producer, nth), "dead")
        with reading(world, to, max_poll_records=at_once) as consumer:
            assert read_all(consumer, interrupts) == [0, 2, 4, 6]
            assert consumer.position(T0) == len(VALUES)
    assert len(interrupts) == 1
    assert letters(simulation) == [b"x", b"y", b"z"]


def test_letters_that_take_long_are_waited_for_by_later_calls(simulation: Simulation, world: World) -> None:
    world.faults.delay("Produce", ms=7_000)
    with simulation.producer(bootstrap_servers="b1:9092") as producer:
        to = DeadLetter(producer, "dead")
        with reading(world, to) as consumer:
            assert [record.value for record in consumer.poll(2)] == [0]
            assert consumer.poll(2) == []
            assert consumer.position(T0) == 1
            assert read_all(consumer) == [2, 4, 6]
    assert letters(simulation) == [b"x", b"y", b"z"]


def test_a_broker_that_is_away_for_longer_than_the_producer_waits_is_told(simulation: Simulation, world: World) -> None:
    settings: dict[str, Any] = {"delivery_timeout_ms": 3_000, "request_timeout_ms": 1_000}
    with simulation.producer(bootstrap_servers="b1:9092", **settings) as producer:
        producer.partitions_for("dead")
        to = DeadLetter(producer, "dead")
        with reading(world, to) as consumer:
            world.faults.blackhole("Produce")
            assert [record.value for record in consumer.poll(2)] == [0]
            with pytest.raises(DeadLetterError, match=r"t-0 at offset 1: .*DeliveryTimeout|not acknowledged"):
                for _ in range(5):
                    assert consumer.poll(2) == []
            world.faults.clear()
            assert read_all(consumer) == [2, 4, 6]
    assert [value for value in letters(simulation) if value == b"x"] == [b"x"]


def test_a_call_sleeps_while_a_letter_is_on_its_way(simulation: Simulation, world: World) -> None:
    """Though more records are buffered behind it."""
    for _ in range(20):
        world.append("t", VALUES)
    world.faults.delay("Produce", ms=7_000)
    with simulation.producer(bootstrap_servers="b1:9092") as producer:
        to = DeadLetter(producer, "dead")
        with reading(world, to, max_partition_fetch_bytes=200) as consumer:
            calls: list[int] = []
            collect = consumer._consuming.core.collect_records

            def counted(*arguments: Any) -> Any:
                calls.append(simulation.now_ms)
                return collect(*arguments)

            consumer._consuming.core.collect_records = counted
            assert [record.value for record in consumer.poll(2)] == [0]
            before = len(calls)
            assert consumer.poll(5) == []
            assert len(calls) - before < 30
            timer = simulation.now_ms
            consumer.wakeup()
            with pytest.raises(WakeupError):
                consumer.poll(5)
            assert simulation.now_ms == timer
