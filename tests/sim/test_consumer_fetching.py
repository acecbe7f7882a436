"""A consumer's fetches against brokers that fail, move and forget, in virtual time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from consumer_kit import batch, emptied
from consumer_sim import World
from levada.base.clock import NEVER_MS
from levada.error_codes import ErrorCode
from levada.errors import (
    IllegalStateError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    ProtocolError,
    TimeoutError,
    TopicAuthorizationError,
    UnknownTopicOrPartitionError,
    WakeupError,
)
from levada.sync.consumer import KafkaConsumer
from levada.testing.simulation import Simulation
from levada.types import TopicPartition
from log_lines import said

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(seed=7) as simulation:
        yield simulation


@pytest.fixture
def world(simulation: Simulation) -> World:
    world = World(simulation)
    world.topic("t", 2)
    return world


def values(consumer: KafkaConsumer, count: int, tries: int = 100) -> list[bytes | None]:
    found: list[bytes | None] = []
    for _ in range(tries):
        found.extend(record.value for record in consumer.poll(timeout=1))
        if len(found) >= count:
            return found
    raise AssertionError(f"{len(found)} of {count} records")


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % n for n in range(first, first + count)]


def test_F3_records_come_in_order_over_all_batches(world: World) -> None:
    for first in range(0, 2000, 100):
        world.append("t", numbered(100, first))
    assert values(world.consumer(T0), 2000) == numbered(2000)


def test_F2_a_poll_without_an_assignment_is_refused(world: World) -> None:
    with pytest.raises(IllegalStateError, match="assign"):
        world.consumer().poll(timeout=1)


def test_F4_the_next_fetch_is_on_its_way_while_the_caller_works(world: World, simulation: Simulation) -> None:
    consumer = world.consumer(T0, max_partition_fetch_bytes=1)
    for n in range(20):
        world.append("t", [b"%d" % n])
    consumer.poll(timeout=1)
    simulation.advance(1000)
    seen = world.requests("Fetch")
    assert len(consumer.poll(timeout=1)) == 2
    assert world.requests("Fetch") == seen, "what was read ahead needs no request"


def test_F8_what_is_read_ahead_is_bounded(world: World, simulation: Simulation) -> None:
    consumer = world.consumer(T0, max_partition_fetch_bytes=1)
    for n in range(100):
        world.append("t", [b"%d" % n])
    assert len(consumer.poll(timeout=1)) >= 1
    simulation.advance(60_000)
    assert world.requests("Fetch") < 10


def test_F8_a_partition_with_much_to_read_does_not_wait_for_one_with_nothing(world: World, simulation: Simulation) -> None:
    consumer = world.consumer(T0, T1, max_partition_fetch_bytes=1)
    for n in range(50):
        world.append("t", [b"%d" % n])
    started = simulation.now_ms
    assert len(values(consumer, 50)) == 50
    assert simulation.now_ms - started < 2_000


def test_O7_the_position_begins_by_policy(world: World) -> None:
    world.append("t", numbered(5))
    assert world.consumer(T0).position(T0) == 0
    assert world.consumer(T0, auto_offset_reset="latest").position(T0) == 5
    with pytest.raises(NoOffsetForPartitionError, match="t-0: no position"):
        world.consumer(T0, auto_offset_reset="none").poll(timeout=1)


def test_O7_a_seek_wins_over_a_reset_on_its_way(world: World, simulation: Simulation) -> None:
    world.append("t", numbered(10))
    consumer = world.consumer(T0)
    world.network.delay_response("ListOffsets", ms=500)
    assert consumer.poll(timeout=0.1) == []
    consumer.seek(T0, 7)
    simulation.advance(2_000)
    assert values(consumer, 3) == [b"7", b"8", b"9"]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_F29_a_passing_error_costs_time_only(world: World, simulation: Simulation, code: ErrorCode) -> None:
    world.append("t", numbered(3))
    world.faults.fail_next("Fetch", code, times=3, topic="t")
    started = simulation.now_ms
    assert values(world.consumer(T0), 3) == numbered(3)
    assert 250 <= simulation.now_ms - started < 5_000, "tried again with a growing pause"


def test_F29_a_refusal_is_raised_once_per_answer(world: World) -> None:
    world.append("t", numbered(3))
    world.faults.fail_next("Fetch", ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic="t")
    consumer = world.consumer(T0)
    with pytest.raises(TopicAuthorizationError, match="t-0: fetch at offset 0 from node 1"):
        values(consumer, 3)
    assert values(consumer, 3) == numbered(3)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_O8_list_offsets_is_asked_again(world: World, code: ErrorCode) -> None:
    world.append("t", numbered(3))
    world.faults.fail_next("ListOffsets", code, times=2)
    assert world.consumer().end_offsets([T0]) == {T0: 3}
    world.faults.fail_next("ListOffsets", code, times=2)
    assert values(world.consumer(T0), 3) == numbered(3)


def test_O8_a_refusal_is_raised(world: World) -> None:
    world.faults.fail_next("ListOffsets", ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=2)
    with pytest.raises(TopicAuthorizationError, match="t-1: list offsets at node 1"):
        world.consumer().beginning_offsets([T1])
    with pytest.raises(TopicAuthorizationError, match="t-0"):
        world.consumer(T0).poll(timeout=5)


def test_O9_one_request_goes_to_each_leader(simulation: Simulation) -> None:
    world = World(simulation, nodes=3)
    world.topic("t", 6)
    tps = [TopicPartition("t", n) for n in range(6)]
    assert world.consumer().end_offsets(tps) == dict.fromkeys(tps, 0)
    assert [node.faults.requests["ListOffsets"] for node in world.nodes] == [1, 1, 1]


def test_D13_reading_goes_on_at_the_new_leader(simulation: Simulation) -> None:
    world = World(simulation, nodes=2)
    world.topic("t")
    world.append("t", numbered(3))
    consumer = world.consumer(T0)
    assert values(consumer, 3) == numbered(3)
    old = world.partition("t").leader
    world.move_leader("t", 0, 3 - old)
    world.append("t", numbered(3, 3))
    started = simulation.now_ms
    assert values(consumer, 3) == numbered(3, 3)
    assert simulation.now_ms - started < 3_000


def test_F20_a_broken_connection_loses_nothing_and_repeats_nothing(world: World, simulation: Simulation) -> None:
    consumer = world.consumer(T0, max_partition_fetch_bytes=1)
    found: list[bytes | None] = []
    for n in range(60):
        world.append("t", [b"%d" % n])
        if n % 7 == 0:
            world.network.disconnect("b1", 9092)
        found.extend(record.value for record in consumer.poll(timeout=0.01))
    while len(found) < 60:
        found.extend(record.value for record in consumer.poll(timeout=1))
    assert found == numbered(60)


def test_N13_a_lost_answer_is_asked_for_again(world: World, simulation: Simulation) -> None:
    world.append("t", numbered(3))
    consumer = world.consumer(T0, request_timeout_ms=5_000)
    consumer.position(T0)
    world.network.drop_response("Fetch")
    started = simulation.now_ms
    assert values(consumer, 3) == numbered(3)
    assert 5_000 <= simulation.now_ms - started < 8_000


def test_N13_a_fetch_may_take_its_wait_and_the_request_timeout(
    world: World, simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = world.consumer(T0, request_timeout_ms=1_000, fetch_max_wait_ms=5_000)
    before = world.requests("Fetch")
    for _ in range(30):
        assert consumer.poll(timeout=1) == []
    assert world.requests("Fetch") - before <= 7
    assert caplog.messages == []


def test_N13_what_waits_behind_an_idle_fetch_does_not_end_its_connection(world: World, simulation: Simulation) -> None:
    consumer = world.consumer(T0, request_timeout_ms=1_000, fetch_max_wait_ms=5_000, metadata_max_age_ms=1_000)
    assert consumer.poll(timeout=0.5) == []
    connections = world.requests("ApiVersions")
    assert consumer.end_offsets([T0], timeout=10) == {T0: 0}
    simulation.advance(20_000)
    assert world.requests("ApiVersions") == connections


def test_F16_a_replica_that_cannot_be_reached_is_left_at_once(simulation: Simulation) -> None:
    world = World(simulation, nodes=2)
    world.topic("t")
    consumer = world.consumer(T0)
    world.append("t", numbered(1))
    assert values(consumer, 1) == numbered(1)
    world.network.stop("b2", 9092)
    consumer._consuming.reading.core.subscription.state(T0).prefer(2, NEVER_MS)
    world.append("t", numbered(1, 1))
    started = simulation.now_ms
    assert values(consumer, 1) == numbered(1, 1)
    assert simulation.now_ms - started <= 1_000


def test_M_A27_what_retention_removed_is_skipped_by_policy_and_reported(world: World) -> None:
    resets: list[Any] = []
    world.append("t", numbered(10))
    consumer = world.consumer(T0, on_reset=resets.append)
    assert len(consumer.poll(timeout=1, max_records=10)) == 10
    world.append("t", numbered(10, 10))
    consumer.seek(T0, 3)
    world.partition("t").log.advance_start(10)
    assert values(consumer, 10) == numbered(10, 10)
    assert [tuple(reset) for reset in resets] == [(T0, 3, 10, "out of range")]


def test_M_A27_without_a_policy_it_is_an_error_that_names_the_place(world: World) -> None:
    world.append("t", numbered(10))
    world.partition("t").log.advance_start(10)
    consumer = world.consumer(T0, auto_offset_reset="none")
    consumer.seek(T0, 3)
    for _ in range(2):
        with pytest.raises(OffsetOutOfRangeError, match=r"t-0: fetch at offset 3 .* no such offset; seek\(\) to continue") as raised:
            consumer.poll(timeout=5)
        assert (raised.value.partition, raised.value.offset) == (T0, 3)


def test_M_P4_records_read_ahead_are_handed_out_before_a_reset(world: World, simulation: Simulation) -> None:
    consumer = world.consumer(T0, max_partition_fetch_bytes=1)
    world.append("t", [b"0"])
    world.append("t", [b"1"])
    consumer.position(T0)
    assert [record.value for record in consumer.poll(timeout=1, max_records=1)] == [b"0"]
    simulation.advance(2_000)
    world.partition("t").log.advance_start(2)
    world.append("t", [b"2"])
    assert values(consumer, 2) == [b"1", b"2"]


def test_M_A28_a_compacted_log_is_read_to_its_end(world: World) -> None:
    world.append_raw("t", batch(0, [b"a"], last_offset=9))
    world.append_raw("t", emptied(batch(10, last_offset=9 + 10)))
    world.append_raw("t", batch(20, [b"b"]))
    consumer = world.consumer(T0)
    assert values(consumer, 2) == [b"a", b"b"]
    assert consumer.position(T0) == 21
    assert consumer.current_lag(T0) == 0


def test_M_B15_a_batch_larger_than_every_limit_is_read(world: World) -> None:
    world.append("t", [b"x" * 100_000])
    assert values(world.consumer(T0, max_partition_fetch_bytes=10, fetch_max_bytes=10), 1) == [b"x" * 100_000]


def test_F28_the_lag_needs_no_request(world: World) -> None:
    world.append("t", numbered(10))
    consumer = world.consumer(T0)
    assert consumer.current_lag(T0) is None
    consumer.poll(timeout=1, max_records=4)
    asked = world.requests("ListOffsets")
    assert consumer.current_lag(T0) == 6
    assert world.requests("ListOffsets") == asked


def test_a_broker_that_answers_with_older_batches_does_not_turn_the_position_back(world: World) -> None:
    for first in range(3):
        world.append("t", numbered(2, 2 * first))
    consumer = world.consumer(T0)
    assert values(consumer, 6) == numbered(6)
    log = world.partition("t").log
    oldest, read = log.read(0, 1), log.read
    log.read = lambda offset, max_bytes, **options: oldest
    world.append("t", [b"6"])
    with pytest.raises(ProtocolError, match="t-0 at offset 6: the broker answered a fetch with nothing but batches before offset 2"):
        consumer.poll(timeout=5)
    assert consumer.position(T0) == 6
    log.read = read
    assert values(consumer, 1) == [b"6"]


def test_F1_a_wakeup_ends_one_call(world: World, simulation: Simulation) -> None:
    world.append("t", numbered(1))
    consumer = world.consumer(T0)
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(timeout=1)
    assert values(consumer, 1) == numbered(1)
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.position(T0)
    assert consumer.position(T0) == 1


# Errors name their cause


def test_M_P5_an_unknown_topic_is_named_within_the_poll(simulation: Simulation) -> None:
    world = World(simulation, auto_create_topics_enable=False)
    consumer = world.consumer(TopicPartition("nowhere", 0))
    started = simulation.now_ms
    with pytest.raises(UnknownTopicOrPartitionError, match="'nowhere' does not exist"):
        consumer.poll(timeout=1)
    assert simulation.now_ms - started <= 1_100


def test_M_P5_an_unknown_partition_is_named(world: World) -> None:
    consumer = world.consumer(TopicPartition("t", 9))
    with pytest.raises(UnknownTopicOrPartitionError, match="t-9 does not exist; topic 't' has 2 partitions, 0 to 1"):
        consumer.poll(timeout=1)
    with pytest.raises(UnknownTopicOrPartitionError, match="t-9 does not exist"):
        consumer.position(TopicPartition("t", 9))


def test_a_topic_that_appears_a_little_later_is_no_error(simulation: Simulation) -> None:
    world = World(simulation, auto_create_topics_enable=False)
    consumer = world.consumer(T0)
    assert consumer.poll(timeout=0.2) == []
    world.topic("t")
    world.append("t", numbered(1))
    assert values(consumer, 1) == numbered(1)


def test_M_P5_unreachable_brokers_are_reported_once_by_address(simulation: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    world = World(simulation)
    world.network.stop("b1", 9092)
    consumer = world.consumer(T0)
    started = simulation.now_ms
    assert consumer.poll(timeout=2) == []
    assert 2_000 <= simulation.now_ms - started <= 2_100
    assert consumer.poll(timeout=2) == []
    warnings = [line for line in caplog.messages if "no broker could be reached" in line]
    assert len(warnings) == 1
    assert re.search(r"b1:9092 +connection refused", warnings[0])
    world.topic("t")
    world.append("t", numbered(1))
    world.network.start("b1", 9092)
    assert values(consumer, 1) == numbered(1)


@pytest.mark.parametrize(("count", "named"), [(1, "t-0"), (7, "t-0, t-1, t-2, t-3, t-4 and 2 more")])
def test_M_P5_a_fetch_without_an_answer_names_the_partitions(
    simulation: Simulation, caplog: pytest.LogCaptureFixture, count: int, named: str
) -> None:
    world = World(simulation)
    world.topic("t", count)
    consumer = world.consumer(*(TopicPartition("t", partition) for partition in range(count)), request_timeout_ms=3_000)
    assert consumer.poll(timeout=1) == []
    world.network.blackhole("b1", 9092)
    assert consumer.poll(timeout=10) == []
    (line,) = [line for line in said(caplog.records) if line.startswith("no records of")]
    assert line.startswith(f"no records of {named} came: Fetch v")
    assert line.endswith("was not answered within 3500 ms; they are fetched again when the broker is back")
    world.network.start("b1", 9092)
    world.append("t", numbered(1))
    assert values(consumer, 1) == numbered(1)


def test_M_P5_a_leader_that_went_silent_is_reported_once(world: World, simulation: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    world.append("t", numbered(1))
    consumer = world.consumer(T0, request_timeout_ms=3_000, default_api_timeout_ms=10_000, socket_connection_setup_timeout_ms=2_000)
    assert values(consumer, 1) == numbered(1)

    def silent() -> list[str]:
        return [
            line for line in said(caplog.records) if re.match(r"nothing was heard for 10.0 s of\n  t-0 \(position \d\)(.|\n)*b1:9092", line)
        ]

    for after in (1, 2):
        world.network.blackhole("b1", 9092)
        for _ in range(8):
            assert consumer.poll(timeout=1) == []
        assert len(silent()) == after - 1
        for _ in range(30):
            assert consumer.poll(timeout=1) == []
        assert len(silent()) == after
        world.network.start("b1", 9092)
        world.append("t", numbered(1, after))
        assert values(consumer, 1) == numbered(1, after)


def test_an_idle_topic_is_no_error(world: World, simulation: Simulation) -> None:
    consumer = world.consumer(T0, default_api_timeout_ms=2_000)
    started = simulation.now_ms
    assert [len(consumer.poll(timeout=10)) for _ in range(30)] == [0] * 30
    assert 299_000 <= simulation.now_ms - started <= 301_000


def test_a_caller_that_took_its_time_is_not_blamed(world: World, simulation: Simulation) -> None:
    consumer = world.consumer(T0, default_api_timeout_ms=5_000, max_partition_fetch_bytes=1)
    for n in range(5):
        world.append("t", [b"%d" % n])
    found: list[Any] = []
    while len(found) < 5:
        found += consumer.poll(timeout=1)
        simulation.advance(60_000)
    assert consumer.poll(timeout=1) == []


def test_look_ups_whose_time_is_over_ask_nothing_later(world: World, simulation: Simulation) -> None:
    consumer = world.consumer()
    assert consumer.end_offsets([T0], timeout=5) == {T0: 0}
    world.faults.throttle("ListOffsets", 60_000)
    consumer.end_offsets([T0], timeout=5)
    before = world.requests("ListOffsets")
    for _ in range(10):
        with pytest.raises(TimeoutError):
            consumer.end_offsets([T0], timeout=1)
    simulation.advance(60_000)
    assert world.requests("ListOffsets") == before


def test_O17_a_position_that_cannot_be_found_ends_in_time(world: World, simulation: Simulation) -> None:
    consumer = world.consumer(T0)
    consumer.poll(timeout=1)
    consumer.seek_to_end()
    world.faults.fail_next("ListOffsets", ErrorCode.LEADER_NOT_AVAILABLE, times=1_000)
    started = simulation.now_ms
    with pytest.raises(TimeoutError, match=r"offsets not found in time .*t-0: node 1: LEADER_NOT_AVAILABLE"):
        consumer.position(T0, timeout=5)
    assert 4_900 <= simulation.now_ms - started <= 5_500
