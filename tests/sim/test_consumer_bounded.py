"""assign() with ends: exactly the records up to them, no bytes beyond, and nothing under way afterwards. In virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from consumer_sim import World
from levada.broker.node.node import BrokerNode
from levada.consumer.fetch.fetch_request import FIRST_GUESS_BYTES, LEAST_BYTES, partition_bytes
from levada.consumer.positions.subscription_state import Generations, PartitionState
from levada.errors import OffsetOutOfRangeError
from levada.protocol.messages.fetch import FetchRequest
from levada.sync.consumer import KafkaConsumer
from levada.testing.simulation import Simulation
from levada.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(seed=21) as simulation:
        yield simulation


@pytest.fixture
def world(simulation: Simulation) -> World:
    """100 records in each of two partitions, in batches of ten."""
    world = World(simulation)
    world.topic("t", 2)
    for partition in (0, 1):
        for first in range(0, 100, 10):
            world.append("t", [b"%d" % n for n in range(first, first + 10)], partition)
    return world


def offsets(consumer: KafkaConsumer[Any, Any]) -> dict[int, list[int]]:
    """What a loop over the consumer gets, which ends by itself."""
    found: dict[int, list[int]] = {}
    for record in consumer:
        found.setdefault(record.partition, []).append(record.offset)
    return found


def test_a_loop_ends_with_the_last_record_before_the_ends(world: World, simulation: Simulation) -> None:
    consumer = world.consumer()
    consumer.assign([T0, T1], ends={T0: 25, T1: 40})
    consumer.seek(T1, 38)
    assert offsets(consumer) == {0: list(range(25)), 1: [38, 39]}
    assert consumer.finished() == {T0, T1}
    assert (consumer.position(T0), consumer.position(T1)) == (25, 40)
    before_ms = simulation.now_ms
    assert not consumer.poll(timeout=10)
    assert simulation.now_ms == before_ms


def test_a_partition_without_an_end_keeps_poll_waiting(world: World, simulation: Simulation) -> None:
    consumer = world.consumer()
    consumer.assign([T0, T1], ends={T0: 5})
    seen = 0
    while seen < 105:
        seen += len(list(consumer.poll(timeout=1)))
    before_ms = simulation.now_ms
    assert not consumer.poll(timeout=3)
    assert simulation.now_ms == before_ms + 3_000
    assert consumer.finished() == {T0}


def test_an_end_that_is_not_written_yet_is_waited_for(world: World) -> None:
    consumer = world.consumer()
    consumer.assign([T0], ends={T0: 105})
    seen = 0
    while seen < 100:
        seen += len(list(consumer.poll(timeout=1)))
    assert not consumer.poll(timeout=1)
    world.append("t", [b"late"] * 10)
    assert offsets(consumer) == {0: [100, 101, 102, 103, 104]}


def test_partitions_that_stay_go_on_to_another_end(world: World) -> None:
    consumer = world.consumer()
    consumer.assign([T0], ends={T0: 15})
    assert offsets(consumer) == {0: list(range(15))}
    consumer.assign([T0], ends={T0: 33})
    assert consumer.finished() == set()
    assert offsets(consumer) == {0: list(range(15, 33))}
    consumer.assign([T0])
    assert next(iter(consumer)).offset == 33


def test_an_end_before_the_position_reads_nothing(world: World) -> None:
    consumer = world.consumer()
    consumer.assign([T0], ends={T0: 7})
    consumer.seek(T0, 20)
    assert offsets(consumer) == {}
    assert consumer.finished() == {T0}


def test_auto_offset_reset_does_not_move_a_bounded_position(world: World) -> None:
    consumer = world.consumer(auto_offset_reset="earliest")
    consumer.assign([T0], ends={T0: 500})
    consumer.seek(T0, 300)
    with pytest.raises(OffsetOutOfRangeError):
        consumer.poll(timeout=5)
    assert consumer.position(T0) == 300


@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_ranges_one_after_the_other_are_read_exactly(data: st.DataObject) -> None:
    with Simulation(seed=data.draw(st.integers(0, 1000))) as simulation:
        world = World(simulation)
        world.topic("t", 2)
        for partition in (0, 1):
            for size in data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=6), label=f"batches of {partition}"):
                world.append("t", [b"v" * data.draw(st.sampled_from([1, 500, 6000]))] * size, partition)
        consumer = world.consumer(max_partition_fetch_bytes=data.draw(st.sampled_from([100, 5_000, 1 << 20])))
        for _ in range(3):
            ranges = {tp: data.draw(st.tuples(st.integers(0, 40), st.integers(0, 40)), label=str(tp)) for tp in (T0, T1)}
            last = {tp: log_end(world, tp) for tp in (T0, T1)}
            ranges = {tp: (min(start, last[tp]), min(end, last[tp])) for tp, (start, end) in ranges.items()}
            consumer.assign([T0, T1], ends={tp: end for tp, (_, end) in ranges.items()})
            for tp, (start, _) in ranges.items():
                consumer.seek(tp, start)
            wanted = {tp.partition: list(range(*span)) for tp, span in ranges.items() if span[0] < span[1]}
            assert offsets(consumer) == wanted


def log_end(world: World, tp: TopicPartition) -> int:
    return int(world.partition("t", tp.partition).log.end_offset)


# What it costs


class Traffic:
    """The fetches that a node received, and the bytes that it answered them with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answered_bytes = 0
        self.unanswered = 0
        self.lookups_beside_a_fetch = 0
        receive, send = BrokerNode.receive, BrokerNode._send
        fetching: set[int] = set()

        def count_in(node: BrokerNode, conn_id: int, frame: Any, now_ms: int) -> None:
            if int.from_bytes(frame[:2], "big") == FetchRequest.API_KEY:
                fetching.add(conn_id)
            elif conn_id in fetching:
                self.lookups_beside_a_fetch += 1
            self.unanswered = len(fetching)
            receive(node, conn_id, frame, now_ms)

        def count_out(node: BrokerNode, connection: Any, frame: list[Any]) -> None:
            if connection.id in fetching:
                self.answered_bytes += sum(len(piece) for piece in frame)
                fetching.discard(connection.id)
            self.unanswered = len(fetching)
            send(node, connection, frame)

        monkeypatch.setattr(BrokerNode, "receive", count_in)
        monkeypatch.setattr(BrokerNode, "_send", count_out)


@pytest.mark.parametrize("value_bytes", [100, 1000])
def test_a_range_is_fetched_without_what_follows_it_and_nothing_is_under_way_afterwards(
    world: World, simulation: Simulation, monkeypatch: pytest.MonkeyPatch, value_bytes: int
) -> None:
    world.topic("big")
    per_batch = 16_000 // value_bytes
    for _ in range(4 << 20 >> 14):
        world.append("big", [b"v" * value_bytes] * per_batch)
    traffic = Traffic(monkeypatch)
    records = (1 << 20) // value_bytes
    big = TopicPartition("big", 0)
    consumer = world.consumer()
    for start in (0, records):
        traffic.answered_bytes = 0
        consumer.assign([big], ends={big: start + records})
        consumer.seek(big, start)
        assert len(offsets(consumer)[0]) == records
        assert traffic.answered_bytes <= 1.5 * records * (value_bytes + 10)
        simulation.advance(2_000)
        assert traffic.unanswered == 0


def test_a_lookup_does_not_wait_behind_a_fetch(world: World, simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    traffic = Traffic(monkeypatch)
    consumer = world.consumer(T0)
    consumer.seek_to_end([T0])
    assert not consumer.poll(timeout=2)
    assert traffic.unanswered == 1, "a long poll"
    began_ms = simulation.now_ms
    assert consumer.end_offsets([T1]) == {T1: 100}
    assert [info.partition for info in consumer.partitions_for("t")] == [0, 1]
    assert simulation.now_ms - began_ms <= 8, "two round trips"
    assert traffic.lookups_beside_a_fetch == 0


def test_how_much_is_asked_for() -> None:
    state = PartitionState(T0, 0, Generations())
    state.move_to(100)
    assert partition_bytes(state, 1 << 20) == 1 << 20
    state.stop_at(110)
    assert partition_bytes(state, 1 << 20) == LEAST_BYTES
    state.stop_at(10_100)
    assert partition_bytes(state, 1 << 20) == 10_000 * FIRST_GUESS_BYTES * 5 // 4
    state.bytes_per_offset = 70.0
    assert partition_bytes(state, 1 << 20) == 875_000
    state.bytes_per_offset = 1e6
    assert partition_bytes(state, 1 << 20) == 1 << 20
