"""The log under a position is not the one that was read: cut by a new leader, or of another topic of the same name. In virtual time."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from consumer_sim import World
from levada.broker.log.leader_epochs import EpochEnd
from levada.consumer.positions.position_resetter import PositionReset
from levada.error_codes import ErrorCode
from levada.errors import (
    DataLossError,
    LogTruncationError,
    OffsetOutOfRangeError,
    TopicAuthorizationError,
    TopicRecreatedError,
    UnknownTopicOrPartitionError,
)
from levada.sync.consumer import KafkaConsumer
from levada.sync.scan import scan
from levada.testing.simulation import Simulation
from levada.types import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

T0 = TopicPartition("t", 0)
API = "OffsetForLeaderEpoch"


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulation]:
    with Simulation(seed=11) as simulation:
        monkeypatch.setitem(globals(), "scan", simulation.scan)
        yield simulation


@pytest.fixture
def world(simulation: Simulation) -> World:
    """Two nodes; ten records written by node 1 in epoch 0, in batches of two."""
    world = World(simulation, nodes=2)
    world.topic("t")
    write(world, 0, 10)
    return world


def write(world: World, first: int, count: int, mark: bytes = b"") -> None:
    for number in range(first, first + count, 2):
        world.append("t", [b"%d" % n + mark for n in (number, number + 1)])


def elect(world: World, node_id: int, lose_from: int | None = None) -> None:
    world.cluster.move_leader(world.partition("t"), node_id, lose_from=lose_from)


def recreate(world: World, partitions: int = 1) -> None:
    world.cluster.remove(world.cluster.topics["t"])
    world.topic("t", partitions)


def read(consumer: KafkaConsumer, polls: int = 40) -> list[bytes | None]:
    """Poll for a while; return all values."""
    return [record.value for _ in range(polls) for record in consumer.poll(timeout=0.1)]


def numbers(*ranges: tuple[int, int], mark: bytes = b"") -> list[bytes]:
    return [b"%d" % n + mark for first, end in ranges for n in range(first, end)]


def test_O10_a_new_leader_with_the_same_records_is_followed_without_a_gap(world: World) -> None:
    resets: list[PositionReset] = []
    consumer = world.consumer(T0, on_reset=resets.append)
    assert read(consumer) == numbers((0, 10))
    assert world.requests(API) == 0
    for round, node_id in enumerate((2, 1), start=1):
        elect(world, node_id)
        write(world, 10 * round, 10)
        assert read(consumer) == numbers((10 * round, 10 * round + 10))
    assert resets == []


def test_O10_the_leader_is_asked_once_for_each_election(world: World) -> None:
    consumer = world.consumer(T0)
    read(consumer)
    for asked, node_id in enumerate((2, 1, 2), start=1):
        elect(world, node_id)
        read(consumer)
        assert world.requests(API) == asked
    write(world, 10, 4)
    assert read(consumer) == numbers((10, 14))


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_M_A26_a_log_that_was_cut_is_read_on_from_where_it_diverges(world: World, reset: str, caplog: pytest.LogCaptureFixture) -> None:
    resets: list[PositionReset] = []
    consumer = world.consumer(T0, on_reset=resets.append, auto_offset_reset=reset)
    consumer.seek(T0, 0)
    assert read(consumer) == numbers((0, 10))
    elect(world, 2, lose_from=6)
    write(world, 6, 10, b"-new")
    with caplog.at_level(logging.WARNING, "levada.sync.consumer"):
        assert read(consumer) == numbers((6, 16), mark=b"-new")
    assert resets == [PositionReset(T0, 10, 6, "the log was truncated")]
    assert "t-0 at offset 10: the log was truncated; going on at 6" in caplog.text
    assert world.requests(API) == 1, "the answer holds for the offset it names"


@pytest.mark.parametrize("knows_the_leader", [False, True])
def test_O10_a_seek_with_the_leader_epoch_of_a_log_that_was_cut_since_goes_back_to_where_it_diverges(
    world: World, knows_the_leader: bool
) -> None:
    resets: list[PositionReset] = []
    consumer = world.consumer(T0, on_reset=resets.append)
    elect(world, 2, lose_from=6)
    write(world, 6, 10, b"-new")
    if knows_the_leader:
        read(consumer)
    consumer.seek(T0, OffsetAndMetadata(10, 0))
    assert read(consumer) == numbers((6, 16), mark=b"-new")
    assert resets == [PositionReset(T0, 10, 6, "the log was truncated")]


def test_O10_a_seek_with_the_leader_epoch_of_a_log_that_is_whole_stays_where_it_is(world: World) -> None:
    resets: list[PositionReset] = []
    consumer = world.consumer(T0, on_reset=resets.append)
    elect(world, 2)
    write(world, 10, 4)
    consumer.seek(T0, OffsetAndMetadata(10, 0))
    assert read(consumer) == numbers((10, 14))
    assert resets == []


def test_M_A26_without_a_policy_the_error_is_raised_until_the_caller_seeks(world: World) -> None:
    consumer = world.consumer(T0, auto_offset_reset="none")
    consumer.seek(T0, 0)
    assert read(consumer) == numbers((0, 10))
    elect(world, 2, lose_from=6)
    write(world, 6, 10, b"-new")
    for _ in range(3):
        with pytest.raises(LogTruncationError, match=r"t-0 at offset 10: .*records from offset 6 on are gone or replaced") as raised:
            read(consumer)
        assert (raised.value.partition, raised.value.offset, raised.value.divergent_offset) == (T0, 10, 6)
        assert isinstance(raised.value, OffsetOutOfRangeError)
        assert consumer.position(T0) == 10
    consumer.seek(T0, 6)
    assert read(consumer) == numbers((6, 16), mark=b"-new")


def test_M_A26_what_was_fetched_before_goes_out_first(world: World) -> None:
    consumer = world.consumer(T0, auto_offset_reset="none")
    consumer.seek(T0, 0)
    assert [record.value for record in consumer.poll(timeout=5, max_records=3)] == numbers((0, 3))
    elect(world, 2, lose_from=6)
    world.simulation.advance(1_000)
    found: list[bytes | None] = []
    with pytest.raises(LogTruncationError, match="t-0 at offset 10"):
        while True:
            found.extend(record.value for record in consumer.poll(timeout=5, max_records=3))
    assert found == numbers((3, 10))


def test_M_A26_what_an_earlier_leader_says_late_does_not_count(world: World) -> None:
    consumer = world.consumer(T0)
    assert read(consumer) == numbers((0, 10))
    world.nodes[0].faults.delay("Fetch", ms=5_000)
    world.simulation.advance(600)
    write(world, 10, 2, b"-lost")
    world.simulation.advance(600)
    elect(world, 2, lose_from=10)
    consumer._engine.metadata.apply_leader_hint(T0, 2, 1)
    assert read(consumer, 100) == []
    write(world, 10, 2, b"-new")
    assert read(consumer) == numbers((10, 12), mark=b"-new")


@pytest.mark.parametrize("end", [EpochEnd(), EpochEnd(epoch=0), EpochEnd(end_offset=4)], ids=["neither", "no offset", "no epoch"])
def test_M_A26_a_leader_that_does_not_know_where_an_epoch_ended(world: World, end: EpochEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    resets: list[PositionReset] = []
    consumer = world.consumer(T0, on_reset=resets.append)
    assert read(consumer) == numbers((0, 10))
    monkeypatch.setattr(world.partition("t").epochs, "end_of", lambda epoch, log_end: end)
    elect(world, 2)
    assert read(consumer) == numbers((0, 10))
    assert resets == [PositionReset(T0, 10, 0, "the log was truncated")]
    strict = world.consumer(T0, auto_offset_reset="none")
    strict.seek(T0, 0)
    read(strict)
    elect(world, 1)
    with pytest.raises(LogTruncationError, match="it cannot be told where") as raised:
        read(strict)
    assert raised.value.divergent_offset is None


CODES = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR]


@pytest.mark.parametrize("code", CODES)
def test_O10_a_leader_that_is_not_ready_is_asked_again(world: World, code: ErrorCode) -> None:
    consumer = world.consumer(T0)
    read(consumer)
    for node in world.nodes:
        node.faults.fail_next(API, code, times=2, topic="t")
    elect(world, 2)
    write(world, 10, 2)
    assert read(consumer, 100) == numbers((10, 12))
    assert world.requests(API) == 3


def test_O10_a_lost_answer_is_asked_for_again(world: World) -> None:
    consumer = world.consumer(T0)
    read(consumer)
    world.nodes[1].faults.disconnect(API)
    elect(world, 2)
    write(world, 10, 2)
    assert read(consumer, 100) == numbers((10, 12))


def test_O10_a_user_who_may_not_ask_for_epochs_gets_an_error(world: World) -> None:
    consumer = world.consumer(T0)
    read(consumer)
    world.nodes[1].faults.fail_next(API, ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic="t")
    elect(world, 2)
    with pytest.raises(TopicAuthorizationError, match="t-0: the end of a leader epoch at node 2"):
        read(consumer)
    write(world, 10, 2)
    assert read(consumer) == numbers((10, 12))


@pytest.mark.parametrize("newest", [-1, 2])
def test_O10_without_offset_for_leader_epoch_positions_are_kept(world: World, newest: int) -> None:
    for node in world.nodes:
        node.faults.cap_version(API, newest)
    consumer = world.consumer(T0)
    read(consumer)
    elect(world, 2)
    write(world, 10, 2)
    assert read(consumer) == numbers((10, 12))


def test_O10_a_seek_ends_the_question(world: World) -> None:
    consumer = world.consumer(T0, auto_offset_reset="none")
    consumer.seek(T0, 0)
    read(consumer)
    world.nodes[1].faults.delay(API, ms=3_000)
    elect(world, 2, lose_from=6)
    assert read(consumer, 10) == []
    consumer.seek(T0, 2)
    assert read(consumer) == numbers((2, 6))


def test_O10_a_leader_that_never_answers_is_a_stall(world: World, caplog: pytest.LogCaptureFixture) -> None:
    consumer = world.consumer(T0, default_api_timeout_ms=20_000)
    read(consumer)
    world.nodes[1].faults.fail_next(API, ErrorCode.NOT_LEADER_OR_FOLLOWER, times=10_000, topic="t")
    elect(world, 2)
    assert consumer.poll(timeout=60) == []
    assert len([line for line in caplog.messages if "t-0 (position 10): node 2: NOT_LEADER_OR_FOLLOWER" in line]) == 1


@pytest.mark.parametrize(("reset", "seen"), [("earliest", numbers((0, 6), mark=b"-new")), ("latest", [])])
def test_M_A24_a_topic_that_was_created_again_is_read_by_policy_and_reported(
    world: World, reset: str, seen: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    resets: list[PositionReset] = []
    consumer = world.consumer(T0, on_reset=resets.append, auto_offset_reset=reset)
    consumer.seek(T0, 0)
    assert read(consumer) == numbers((0, 10))
    elect(world, 2)
    read(consumer)
    recreate(world)
    write(world, 0, 6, b"-new")
    with caplog.at_level(logging.WARNING, "levada.sync.consumer"):
        assert read(consumer, 200) == seen
    assert resets == [PositionReset(T0, 10, 0 if reset == "earliest" else 6, "the topic was deleted and created again")]
    assert "the topic was deleted and created again" in caplog.text
    write(world, 6, 2, b"-later")
    assert read(consumer) == numbers((6, 8), mark=b"-later")


def test_M_A24_a_longer_topic_of_the_same_name_is_not_read_on_silently(world: World) -> None:
    consumer = world.consumer(T0)
    read(consumer)
    recreate(world)
    write(world, 0, 20, b"-new")
    assert read(consumer, 200) == numbers((0, 20), mark=b"-new")


def test_M_A24_without_a_policy_the_error_is_raised_until_the_caller_seeks(world: World) -> None:
    consumer = world.consumer(T0, auto_offset_reset="none")
    consumer.seek(T0, 0)
    assert read(consumer) == numbers((0, 10))
    recreate(world)
    write(world, 0, 20, b"-new")
    for _ in range(2):
        with pytest.raises(
            TopicRecreatedError, match=r"t-0 at offset [0-9]+: the topic was deleted and created again, .*; seek\(\) to continue"
        ) as raised:
            read(consumer, 200)
        assert (raised.value.partition, raised.value.offset) == (T0, 10)
    consumer.seek_to_beginning()
    assert read(consumer) == numbers((0, 20), mark=b"-new")


@pytest.mark.parametrize("reset", ["none", "earliest"])
def test_M_A24_a_seek_is_into_the_topic_that_there_is_and_not_into_the_one_that_metadata_knew(world: World, reset: str) -> None:
    resets: list[PositionReset] = []
    consumer = world.consumer(T0, auto_offset_reset=reset, on_reset=resets.append)
    consumer.seek(T0, 0)
    assert read(consumer) == numbers((0, 10))
    recreate(world)
    write(world, 0, 20, b"-new")
    consumer.seek(T0, 15)
    assert read(consumer, 200) == numbers((15, 20), mark=b"-new")
    assert resets == []
    recreate(world)
    write(world, 0, 30, b"-newer")
    if reset == "none":
        with pytest.raises(TopicRecreatedError, match="t-0 at offset 20: "):
            read(consumer, 200)
    else:
        assert read(consumer, 200) == numbers((0, 30), mark=b"-newer")


def test_M_A24_a_late_answer_about_the_old_topic_is_no_position_in_the_new_one(world: World) -> None:
    consumer = world.consumer(T0)
    read(consumer)
    elect(world, 2)
    read(consumer)
    world.nodes[1].faults.delay("ListOffsets", ms=5_000)
    consumer.seek_to_end()
    assert read(consumer, 10) == []
    recreate(world)
    write(world, 0, 20, b"-new")
    consumer._engine.metadata.request_update()
    assert read(consumer, 100) == []
    assert consumer.position(T0) == 20
    write(world, 20, 2, b"-new")
    assert read(consumer) == numbers((20, 22), mark=b"-new")


def test_M_A24_a_partition_that_the_new_topic_lacks_is_named(world: World) -> None:
    consumer = world.consumer(TopicPartition("u", 1))
    world.topic("u", 2)
    world.append("u", [b"0"], 1)
    assert read(consumer) == [b"0"]
    world.cluster.remove(world.cluster.topics["u"])
    world.topic("u", 1)
    with pytest.raises(UnknownTopicOrPartitionError, match="u-1 does not exist; topic 'u' has one partition"):
        consumer.poll(timeout=30)


def scanned(world: World, disturb: Any, *, after: int = 4, **options: Any) -> tuple[list[bytes], Any]:
    """Read offsets 0 to 10 in a scan, disturbed as record number `after`, from 0, comes out."""
    servers = ",".join(f"b{number}:9092" for number in (1, 2))
    found = scan("t", {"bootstrap.servers": servers}, end={0: 10}, max_partition_fetch_bytes=1_100, fetch_max_bytes=100, **options)
    values: list[Any] = []
    for record in found:
        if len(values) == after:
            disturb()
        values.append(record.value)
    return values, found


def test_M_A26_a_scan_of_a_log_that_is_cut_loses_data_and_says_so(world: World) -> None:
    with pytest.raises(DataLossError, match="the log was truncated by a leader that lacked records"):
        scanned(world, lambda: elect(world, 2, lose_from=2))


def test_M_A26_a_scan_may_go_on_with_what_replaced_the_cut_records(world: World) -> None:
    def disturb() -> None:
        elect(world, 2, lose_from=2)
        write(world, 2, 20, b"-new")

    values, found = scanned(world, disturb, on_data_loss="skip")
    (loss,) = found.losses
    assert values == numbers((0, loss.asked_offset)) + numbers((2, 10), mark=b"-new")
    assert (loss.partition, loss.next_offset) == (T0, 2)


def test_M_A26_a_scan_goes_on_as_far_as_the_new_log_goes(world: World) -> None:
    def disturb() -> None:
        elect(world, 2, lose_from=2)
        write(world, 2, 4, b"-new")

    values, found = scanned(world, disturb, on_data_loss="skip")
    cut, ended = found.losses
    assert values == numbers((0, cut.asked_offset)) + numbers((2, 6), mark=b"-new")
    assert (cut.next_offset, ended[1:]) == (2, (6, 10))


def test_M_A26_a_scan_reads_nothing_before_its_start_again(world: World) -> None:
    def disturb() -> None:
        elect(world, 2, lose_from=2)
        write(world, 2, 20, b"-new")

    values, found = scanned(world, disturb, on_data_loss="skip", start={0: 4}, after=2)
    (loss,) = found.losses
    assert values == numbers((4, loss.asked_offset)) + numbers((4, 10), mark=b"-new")
    assert loss.next_offset == 4


def test_M_A26_a_scan_may_skip_what_cannot_be_determined(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.partition("t").epochs, "end_of", lambda epoch, log_end: EpochEnd())
    values, found = scanned(world, lambda: elect(world, 2), on_data_loss="skip")
    assert values == numbers((0, len(values)))
    assert [loss[1:] for loss in found.losses] == [(len(values), 10)]


def test_M_A24_a_scan_of_a_topic_that_is_created_again_loses_data_and_says_so(world: World) -> None:
    def disturb() -> None:
        recreate(world)
        write(world, 0, 20, b"-new")

    with pytest.raises(DataLossError, match="the topic was deleted and created again"):
        scanned(world, disturb)


def test_D16_the_leader_epoch_in_an_answer_about_offsets_makes_metadata_stale(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked_for_metadata(epochs_ahead: int) -> int:
        def found(offset: int, timestamp: int, epoch: int) -> OffsetAndTimestamp:
            return OffsetAndTimestamp(offset, timestamp, epoch + epochs_ahead)

        monkeypatch.setattr("levada.consumer.positions.offsets._found", found)
        consumer = world.consumer(T0)
        before = world.requests("Metadata")
        assert len(read(consumer)) == 10
        return world.requests("Metadata") - before

    assert asked_for_metadata(epochs_ahead=7) > asked_for_metadata(epochs_ahead=0)
