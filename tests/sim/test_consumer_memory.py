"""What fetched data holds is bounded by fetch.buffer.bytes, and counted as it is. Memory is measured, not asked of the counters."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from consumer_sim import World
from levada.consumer.fetch.fetch_buffer import FetchBuffer
from levada.sync.consumer import KafkaConsumer
from levada.testing.simulation import Simulation
from levada.types import TopicPartition

PARTITIONS = 20
MIB = 1 << 20
TPS = [TopicPartition("t", partition) for partition in range(PARTITIONS)]


@pytest.fixture
def world() -> Iterator[World]:
    """Eight batches of 64 KiB in each of twenty partitions."""
    with Simulation(seed=1) as simulation:
        world = World(simulation)
        world.topic("t", PARTITIONS)
        for partition in range(PARTITIONS):
            for _ in range(8):
                world.append("t", [b"x" * 1024] * 64, partition)
        yield world


def held(read: Callable[[], object]) -> int:
    """How many bytes more are allocated after reading than before."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        read()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before


def buffer_of(consumer: KafkaConsumer) -> FetchBuffer:
    return consumer._consuming.reading.core._buffer


def read_all_but_the_last_batch(consumer: KafkaConsumer) -> None:
    """Pause each partition when one batch of it is left, and go on until nothing comes any more."""
    empty = 0
    while empty < 5:
        found = consumer.poll(0.2, max_records=64)
        empty = 0 if found else empty + 1
        for tp in found.partitions:
            if consumer.position(tp) >= 7 * 64:
                consumer.pause([tp])


def test_F8_little_rests_of_paused_partitions_do_not_hold_whole_responses(world: World) -> None:
    consumer = world.consumer(*TPS, fetch_buffer_bytes=3 * MIB)
    memory = held(lambda: read_all_but_the_last_batch(consumer))
    assert consumer.paused() == set(TPS)
    buffer = buffer_of(consumer)
    assert buffer.size_bytes <= 3 * MIB
    assert memory <= buffer.size_bytes + MIB
    consumer.resume(TPS)
    left = 0
    while found := consumer.poll(1):
        left += len(found)
    assert left == PARTITIONS * 64
    assert buffer.size_bytes == 0


def test_what_is_buffered_is_bounded_and_reading_goes_on(world: World) -> None:
    consumer = world.consumer(*TPS, fetch_buffer_bytes=MIB, max_partition_fetch_bytes=128 << 10)
    consumer.poll(1, max_records=1)
    consumer.pause(TPS[:10])
    seen = 0
    memory = held(lambda: world.simulation.advance(5_000))
    assert memory <= 2 * MIB
    most = 0
    while found := consumer.poll(1, max_records=200):
        seen += len(found)
        most = max(most, buffer_of(consumer).size_bytes)
    assert {consumer.position(tp) for tp in TPS[10:]} == {512}
    assert most <= 2 * MIB


def test_paused_partitions_that_fill_the_buffer_do_not_stop_the_others(world: World) -> None:
    consumer = world.consumer(*TPS, fetch_buffer_bytes=MIB)
    consumer.poll(1, max_records=1)
    world.simulation.advance(5_000)
    assert buffer_of(consumer).is_full
    consumer.pause(TPS[1:])
    while consumer.poll(1):
        pass
    assert consumer.position(TPS[0]) == 512
