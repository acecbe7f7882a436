"""A consumer of assigned partitions commits offsets for its group and begins where the group has read to, in virtual time."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from consumer_sim import World
from levada.error_codes import ErrorCode
from levada.errors import (
    BrokerError,
    ConfigError,
    GroupAuthorizationError,
    IllegalStateError,
    InvalidGroupIdError,
    NoOffsetForPartitionError,
    RetriableCommitError,
    TimeoutError,
    TopicRecreatedError,
)
from levada.testing.simulation import Simulation
from levada.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from log_lines import said

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MANUAL = {"group_id": "g", "enable_auto_commit": False}


@pytest.fixture
def world() -> Iterator[World]:
    with Simulation(seed=17) as simulation:
        world = World(simulation)
        world.topic("t", 2)
        for number in range(3):
            world.append("t", [b"%d" % number], epoch=0)
        yield world


def committed(world: World, tp: TopicPartition = T0, group: str = "g") -> int | None:
    at = world.cluster.group_offsets.committed(group, tp)
    return None if at is None else at.offset


def store(world: World, offset: int, epoch: int = 0, tp: TopicPartition = T0) -> None:
    world.cluster.group_offsets.commit("g", {tp: OffsetAndMetadata(offset, epoch)})


def values(records: Any) -> list[bytes]:
    return [record.value for record in records]


def read(consumer: Any, count: int) -> list[bytes]:
    """Poll until so many records are there."""
    found: list[bytes] = []
    while len(found) < count:
        found += values(consumer.poll(5))
    return found


# commit()


def test_O14_commit_stores_the_positions_after_what_was_handed_out(world: World) -> None:
    consumer = world.consumer(T0, T1, **MANUAL)
    read(consumer, 3)
    consumer.commit()
    assert world.cluster.group_offsets.committed("g", T0) == OffsetAndMetadata(3, 0)
    assert committed(world, T1) == 0
    assert consumer.committed([T0, T1]) == {T0: OffsetAndMetadata(3, 0), T1: OffsetAndMetadata(0, 0)}


def test_O11_offsets_are_numbers_or_have_epoch_and_metadata(world: World) -> None:
    consumer = world.consumer(**MANUAL)
    consumer.commit({T0: 1, T1: OffsetAndMetadata(2, 7, "mine")})
    assert consumer.committed([T0, T1]) == {T0: OffsetAndMetadata(1), T1: OffsetAndMetadata(2, 7, "mine")}
    assert consumer.committed([TopicPartition("t", 5)]) == {TopicPartition("t", 5): None}


@pytest.mark.parametrize(
    ("offsets", "error"),
    [
        ({T0: -1}, ValueError),
        ({T0: "1"}, TypeError),
        ({T0: OffsetAndMetadata(1, 0, None)}, TypeError),  # type: ignore[arg-type]
        ([T0], TypeError),
        ({"t": 1}, TypeError),
        ({T0: 2**63}, ValueError),
        ({T0: OffsetAndMetadata(1, -2)}, ValueError),
        ({T0: OffsetAndMetadata(1, 2**31)}, ValueError),
        ({T0: OffsetAndMetadata(1, 0, "x" * 32_768)}, ValueError),
        ({T0: OffsetAndMetadata(1, 0, "\u00fc" * 16_384)}, ValueError),
        ({T0: OffsetAndMetadata(1, 0, "\ud800")}, ValueError),
    ],
)
def test_O11_what_is_no_offset_is_refused_where_it_is_passed(world: World, offsets: Any, error: type[Exception]) -> None:
    consumer = world.consumer(**MANUAL)
    with pytest.raises(error, match=r"t-0|TopicPartition"):
        consumer.commit(offsets)
    with pytest.raises(error):
        consumer.commit_async(offsets)
    assert world.requests("OffsetCommit") == 0


def test_a_loop_that_commits_commits_what_it_was_given_and_goes_on_without_fetching_again(world: World) -> None:
    consumer = world.consumer(T0, **MANUAL)
    seen = []
    for record in consumer:
        consumer.commit()
        seen.append((record.offset, committed(world)))
        assert consumer.consumed_offsets() == {T0: OffsetAndMetadata(record.offset + 1, 0)}
        fetches = world.requests("Fetch")
        if len(seen) == 3:
            break
    assert seen == [(0, 1), (1, 2), (2, 3)]
    assert fetches <= 2


def test_O12_without_a_group_nothing_can_be_committed(world: World) -> None:
    consumer = world.consumer(T0)
    for call in (
        consumer.commit,
        consumer.commit_async,
        consumer.group_metadata,
        lambda: consumer.committed([T0]),
        lambda: consumer.commit({T0: 1}),
    ):
        with pytest.raises(InvalidGroupIdError, match=r"give the consumer a group.id"):
            call()
    assert consumer.consumed_offsets() == {}


@pytest.mark.parametrize(
    ("settings", "text"),
    [({"enable_auto_commit": True}, "give a group.id"), ({"group_id": " "}, "must not be empty")],
)
def test_O12_settings_that_contradict_each_other_are_refused(world: World, settings: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        world.consumer(**settings)


def test_T6_what_a_transaction_needs_of_a_consumer(world: World) -> None:
    consumer = world.consumer(T0, **MANUAL)
    read(consumer, 3)
    assert consumer.consumed_offsets() == {T0: OffsetAndMetadata(3, 0)}
    assert consumer.group_metadata() == ConsumerGroupMetadata("g", -1, "", None)


RETRIED = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: 0,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 0,
    ErrorCode.UNKNOWN_TOPIC_ID: 0,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: 1,
    ErrorCode.NOT_COORDINATOR: 1,
    ErrorCode.REQUEST_TIMED_OUT: 1,
}
"""Codes after which a commit is repeated, each with how often the coordinator is looked for anew."""


FAILURES = [code for code in ErrorCode if code is not ErrorCode.NONE]


def test_M_B7_O15_every_code_of_a_commit(world: World) -> None:
    consumer = world.consumer(**MANUAL)
    consumer.commit({T0: 0, T1: 0})
    for offset, code in enumerate(FAILURES, start=1):
        searches, before = world.requests("FindCoordinator"), committed(world)
        world.faults.fail_next("OffsetCommit", code, topic="t")
        if code in RETRIED:
            consumer.commit({T0: offset, T1: offset})
            assert world.requests("FindCoordinator") - searches == RETRIED[code], code
            assert committed(world) == offset
        else:
            with pytest.raises(BrokerError, match="t-0: commit an offset") as failed:
                consumer.commit({T0: offset, T1: offset})
            assert failed.value.code is code
            assert failed.value.outcomes == {T0: failed.value, T1: None}
            assert committed(world) == before
        assert committed(world, T1) == offset


def test_O13_a_commit_that_cannot_succeed_in_time_says_why(world: World) -> None:
    consumer = world.consumer(**MANUAL)
    with pytest.raises(TimeoutError, match=r"offsets of group 'g' not committed in time.*no-such-0: .*UNKNOWN_TOPIC_OR_PARTITION"):
        consumer.commit({TopicPartition("no-such", 0): 1}, timeout=2)


def test_O15_a_lost_answer_is_asked_for_again(world: World) -> None:
    consumer = world.consumer(T0, **MANUAL)
    read(consumer, 3)
    world.faults.disconnect("OffsetCommit", applied=True)
    consumer.commit()
    assert committed(world) == 3
    assert world.requests("OffsetCommit") == 2


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_of_commit_and_fetch(world: World, version: int) -> None:
    world.faults.cap_version("OffsetCommit", version)
    world.faults.cap_version("OffsetFetch", min(version - 1, 10))
    consumer = world.consumer(T0, **MANUAL)
    read(consumer, 3)
    consumer.commit({T0: OffsetAndMetadata(2, 0, "m"), T1: 1})
    epoch = 0 if version >= 6 else -1
    assert consumer.committed([T0, T1]) == {T0: OffsetAndMetadata(2, epoch, "m"), T1: OffsetAndMetadata(1)}


def test_O15_a_coordinator_that_moved_is_found_again() -> None:
    with Simulation(seed=18) as simulation:
        three = World(simulation, nodes=3)
        three.topic("t", 1)
        consumer = three.consumer(**MANUAL)
        placement = three.cluster.group_coordinators
        for offset in range(1, 6):
            consumer.commit({T0: offset})
            placement.move("g", placement.leader_of("g") % 3 + 1)
            assert consumer.committed([T0]) == {T0: OffsetAndMetadata(offset)}
        placement.begin_loading("g")
        consumer.commit_async({T0: 9})
        with pytest.raises(TimeoutError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            consumer.commit({T0: 10}, timeout=2)
        placement.end_loading("g")
        consumer.commit({T0: 11})
        assert committed(three) == 11


# commit_async()


def test_O15_a_commit_to_a_topic_that_was_created_again_succeeds_a_moment_later(world: World) -> None:
    consumer = world.consumer(T0, **MANUAL)
    consumer.pause([T0])
    consumer.poll(0.5)
    consumer.commit({T0: 0})
    world.cluster.remove(world.cluster.topics["t"])
    world.topic("t", 2)
    told: list[Any] = []
    consumer.commit_async({T0: 1}, lambda offsets, error: told.append(error))
    world.simulation.advance(1_000)
    consumer.commit_async({T0: 2}, lambda offsets, error: told.append(error))
    world.simulation.advance(1_000)
    consumer.close()
    assert [type(error) for error in told] == [RetriableCommitError, type(None)]
    assert committed(world) == 2


def test_O13_TR66_callbacks_run_in_order_inside_a_later_call(world: World) -> None:
    consumer = world.consumer(T0, **MANUAL)
    read(consumer, 3)
    told: list[tuple[int, Any]] = []
    world.faults.fail_next("OffsetCommit", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    for offset in (1, 2, 3):
        consumer.commit_async({T0: offset}, lambda offsets, error: told.append((offsets[T0].offset, type(error))))
    world.simulation.advance(1_000)
    assert (told, committed(world)) == ([], 3)
    consumer.poll(0)
    assert told == [(1, RetriableCommitError), (2, type(None)), (3, type(None))]
    assert world.requests("OffsetCommit") == 3


def test_O13_a_commit_that_is_waited_for_comes_after_those_made_before(world: World) -> None:
    consumer = world.consumer(**MANUAL)
    told: list[Any] = []
    world.faults.delay("OffsetCommit", 500)
    consumer.commit_async({T0: 1}, lambda offsets, error: told.append((offsets, error)))
    consumer.commit({T0: 2})
    assert told == [({T0: OffsetAndMetadata(1)}, None)]
    assert committed(world) == 2


def test_O13_a_callback_that_raises_comes_out_and_the_next_one_is_not_lost(world: World) -> None:
    consumer = world.consumer(T0, **MANUAL)
    told: list[Any] = []

    def fail(offsets: Any, error: Any) -> None:
        raise RuntimeError("mine")

    consumer.commit_async({T0: 1}, fail)
    consumer.commit_async({T0: 2}, lambda offsets, error: told.append(offsets))
    world.simulation.advance(1_000)
    with pytest.raises(RuntimeError, match="mine"):
        consumer.poll(0)
    consumer.poll(0)
    assert told == [{T0: OffsetAndMetadata(2)}]


def test_O13_a_callback_may_commit_again(world: World) -> None:
    consumer = world.consumer(T0, **MANUAL)
    world.faults.fail_next("OffsetCommit", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    consumer.commit_async({T0: 1}, lambda offsets, error: consumer.commit(offsets))
    world.simulation.advance(1_000)
    consumer.poll(0)
    assert committed(world) == 1


def test_O13_a_failure_without_a_callback_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    consumer = world.consumer(T0, **MANUAL)
    world.faults.fail_next("OffsetCommit", ErrorCode.OFFSET_METADATA_TOO_LARGE)
    consumer.commit_async({T0: 1})
    world.simulation.advance(1_000)
    with caplog.at_level(logging.WARNING):
        consumer.poll(0)
    assert "t-0: commit an offset at the coordinator of group 'g': OFFSET_METADATA_TOO_LARGE (12)" in caplog.text


def test_O13_close_waits_for_commits_and_tells_of_them(world: World) -> None:
    consumer = world.consumer(**MANUAL)
    told: list[Any] = []
    world.faults.delay("OffsetCommit", 500)
    consumer.commit_async({T0: 1}, lambda offsets, error: told.append(error))
    consumer.close()
    assert (told, committed(world)) == ([None], 1)


@pytest.mark.parametrize("is_known", [False, True], ids=["unknown", "known"])
def test_M_A24_close_commits_no_offset_of_a_topic_for_the_one_that_was_made_in_its_place(world: World, is_known: bool) -> None:
    consumer = world.consumer(T0, group_id="g", auto_commit_interval_ms=600_000)
    assert len(read(consumer, 3)) == 3
    world.cluster.remove(world.cluster.topics["t"])
    world.topic("t", 2)
    for number in range(10):
        world.append("t", [b"new %d" % number], epoch=0)
    if is_known:
        # Another partition's answer tells the client, and nothing of this one is read before the end.
        consumer.pause([T0])
        consumer.partitions_for("t")
    consumer.close()
    assert committed(world) is None, "otherwise the group would skip records of the new topic"


def remake_topic(world: World) -> None:
    world.cluster.remove(world.cluster.topics["t"])
    world.topic("t", 2)
    for number in range(10):
        world.append("t", [b"new %d" % number], epoch=0)


@pytest.mark.parametrize("policy", ["earliest", "none"])
def test_M_A24_commit_leaves_a_topic_out_that_was_made_again_under_the_positions(world: World, policy: str) -> None:
    consumer = world.consumer(T0, auto_offset_reset=policy, **MANUAL)
    consumer.seek_to_beginning([T0])
    assert len(read(consumer, 3)) == 3
    consumer.pause([T0])
    remake_topic(world)
    for _ in range(2):
        consumer.commit()
        assert committed(world) in (None, 0), "otherwise the group would skip records of the new topic"


def test_M_A24_an_offset_that_the_program_names_is_not_committed_for_a_topic_made_meanwhile(world: World) -> None:
    consumer = world.consumer(T0, T1, **MANUAL)
    assert len(read(consumer, 3)) == 3
    remake_topic(world)
    with pytest.raises(TopicRecreatedError, match="t-0: the topic was deleted and created again") as error:
        consumer.commit({T0: 3})
    assert error.value.outcomes == {T0: error.value}
    assert committed(world) is None
    consumer.commit({T0: 4})
    assert committed(world) == 4, "by now it is known that there is a new topic"


def test_M_A24_an_automatic_commit_leaves_a_topic_out_that_was_made_again(world: World) -> None:
    consumer = world.consumer(T0, group_id="g", auto_commit_interval_ms=1_000)
    assert len(read(consumer, 3)) == 3
    world.simulation.advance(1_500)
    consumer.pause([T0])
    world.cluster.remove(world.cluster.topics["t"])
    world.topic("t", 2)
    for number in range(10):
        world.append("t", [b"new %d" % number], epoch=0)
    for _ in range(10):
        consumer.poll(1)
        assert committed(world) in (None, 0)
    consumer.resume([T0])
    assert read(consumer, 10)[0] == b"new 0"
    consumer.close()
    assert committed(world) == 10


# Where reading begins


@pytest.mark.parametrize("policy", ["earliest", "none"])
def test_M_A24_what_was_committed_of_a_topic_is_no_position_in_the_one_made_before_the_answer(world: World, policy: str) -> None:
    store(world, 2)
    held = world.faults.hold("OffsetFetch")
    consumer = world.consumer(T0, auto_offset_reset=policy, **MANUAL)
    consumer.seek(T0, 0)
    assert len(read(consumer, 3)) == 3
    consumer.seek_to_committed([T0])
    assert consumer.poll(1) == []
    remake_topic(world)
    consumer._engine.metadata.request_update()
    assert consumer.poll(1) == []
    held.release()
    if policy == "earliest":
        assert values(consumer.poll(5))[0] == b"new 0"
    else:
        with pytest.raises(NoOffsetForPartitionError):
            consumer.poll(5)


def test_O6_reading_begins_at_what_the_group_has_committed(world: World) -> None:
    store(world, 2)
    consumer = world.consumer(T0, T1, **MANUAL)
    assert read(consumer, 1) == [b"2"]
    assert (consumer.position(T0), consumer.position(T1)) == (3, 0)
    assert world.requests("OffsetFetch") == 1


@pytest.mark.parametrize(("policy", "position"), [("earliest", 0), ("latest", 3)])
def test_O6_without_a_committed_offset_the_reset_policy_decides(world: World, policy: str, position: int) -> None:
    consumer = world.consumer(T0, auto_offset_reset=policy, **MANUAL)
    assert consumer.position(T0) == position


def test_O6_without_a_policy_the_missing_offset_is_an_error_for_each_call(world: World) -> None:
    store(world, 2)
    consumer = world.consumer(T0, T1, auto_offset_reset="none", **MANUAL)
    for _ in range(2):
        with pytest.raises(NoOffsetForPartitionError, match="t-1: group 'g' has committed nothing"):
            while True:
                consumer.poll(5)
    with pytest.raises(NoOffsetForPartitionError, match="t-1: group 'g' has committed nothing"):
        consumer.position(T1)
    consumer.seek(T1, 0)
    assert (consumer.position(T0), consumer.position(T1)) == (2, 0)


def test_O16_a_look_up_that_is_refused_as_out_of_range_moves_no_position(world: World) -> None:
    store(world, 2)
    world.faults.fail_next("OffsetFetch", ErrorCode.OFFSET_OUT_OF_RANGE)
    consumer = world.consumer(T0, **MANUAL)
    with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE"):
        consumer.poll(5)
    assert read(consumer, 1) == [b"2"]


def test_O6_a_seek_wins_over_what_is_committed(world: World) -> None:
    store(world, 2)
    world.faults.delay("OffsetFetch", 500)
    consumer = world.consumer(T0, **MANUAL)
    consumer.poll(0)
    consumer.seek(T0, 1)
    world.simulation.advance(1_000)  # The answer comes meanwhile.
    assert consumer.position(T0) == 1
    assert read(consumer, 2) == [b"1", b"2"]


def test_O5_seek_to_committed_reads_again_what_was_not_committed(world: World) -> None:
    consumer = world.consumer(T0, T1, **MANUAL)
    read(consumer, 2)
    store(world, 1)
    consumer.seek_to_committed()
    assert consumer.consumed_offsets() == {}
    assert read(consumer, 2) == [b"1", b"2"]
    consumer.seek_to_committed([T0])
    assert (consumer.position(T0), consumer.position(T1)) == (1, 0)


def test_O5_seek_to_committed_where_nothing_is_committed_goes_where_the_policy_says(world: World) -> None:
    consumer = world.consumer(T0, **MANUAL)
    read(consumer, 3)
    consumer.seek_to_committed()
    assert consumer.position(T0) == 0
    strict = world.consumer(T0, **MANUAL, auto_offset_reset="none")
    strict.seek(T0, 2)
    strict.seek_to_committed()
    with pytest.raises(NoOffsetForPartitionError, match="has committed nothing"):
        strict.poll(5)
    with pytest.raises(InvalidGroupIdError):
        world.consumer(T0).seek_to_committed()
    with pytest.raises(IllegalStateError, match="t-1 is not assigned"):
        consumer.seek_to_committed([T1])


def test_O5_seek_to_committed_asks_anew_though_a_look_up_is_under_way(world: World) -> None:
    store(world, 2)
    world.faults.delay("OffsetFetch", 500)
    consumer = world.consumer(T0, **MANUAL)
    consumer.poll(0)
    world.simulation.advance(100)
    store(world, 1)
    consumer.seek_to_committed()
    begun_ms = world.now_ms
    assert read(consumer, 2) == [b"1", b"2"]
    assert world.now_ms - begun_ms < 2_000


def test_O5_a_seek_to_a_committed_offset_notices_a_log_that_was_truncated(world: World) -> None:
    consumer = world.consumer(T0, **MANUAL)
    read(consumer, 3)
    consumer.commit()
    at = consumer.committed([T0])[T0]
    assert at is not None
    consumer.seek(T0, at)
    assert consumer.consumed_offsets() == {T0: OffsetAndMetadata(3, 0)}
    world.cluster.move_leader(world.partition("t"), 1, lose_from=1)
    world.append("t", [b"new"], epoch=1)
    consumer.seek(T0, OffsetAndMetadata(3, 0, "of the first leader"))
    assert read(consumer, 1) == [b"new"]
    for wrong in ("3", OffsetAndMetadata("3")):  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            consumer.seek(T0, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cannot seek t-0 to -1"):
        consumer.seek(T0, OffsetAndMetadata(-1))


def test_O2_partitions_that_stay_keep_their_positions_and_new_ones_are_looked_up(world: World) -> None:
    consumer = world.consumer(T0, **MANUAL)
    read(consumer, 3)
    store(world, 1)
    store(world, 0, tp=T1)
    world.append("t", [b"a", b"b"], partition=1, epoch=0)
    consumer.assign([T0, T1])
    assert read(consumer, 2) == [b"a", b"b"]


def test_O10_a_log_that_was_truncated_since_the_commit_is_noticed(world: World) -> None:
    store(world, 3, epoch=0)
    partition = world.partition("t")
    world.cluster.move_leader(partition, 1, lose_from=1)
    world.append("t", [b"new"], epoch=1)
    consumer = world.consumer(T0, **MANUAL)
    assert read(consumer, 1) == [b"new"]


def test_D16_a_committed_epoch_that_metadata_does_not_know_yet_makes_it_stale(world: World) -> None:
    asked: list[int] = []
    for epoch in (0, 7):
        store(world, 1, epoch)
        before = world.requests("Metadata")
        consumer = world.consumer(T0, **MANUAL)
        assert read(consumer, 2) == [b"1", b"2"]
        consumer.poll(1)
        asked.append(world.requests("Metadata") - before)
    assert asked[1] == asked[0] + 1


def test_D16_a_committed_epoch_that_nobody_leads_in_does_not_keep_a_consumer_from_following_leaders() -> None:
    with Simulation(seed=17) as simulation:
        world = World(simulation, nodes=2)
        world.topic("t")
        world.append("t", [b"1"])
        store(world, 0, epoch=7)
        consumer = world.consumer(T0, **MANUAL)
        assert read(consumer, 1) == [b"1"]
        for number, node_id in enumerate((2, 1, 2), start=2):
            world.move_leader("t", 0, node_id)
            world.append("t", [b"%d" % number])
            assert read(consumer, 1) == [b"%d" % number]


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_O16_an_offset_that_a_transaction_may_change_is_waited_for_and_a_warning_says_so_once(
    world: World, isolation_level: str, caplog: pytest.LogCaptureFixture
) -> None:
    store(world, 1)
    world.cluster.group_offsets.commit_in_transaction("g", 7, 0, {T0: OffsetAndMetadata(2, 0)})
    consumer = world.consumer(T0, isolation_level=isolation_level, **MANUAL)
    for _ in range(3):
        assert not consumer.poll(1)
    (told,) = [text for text in said(caplog.records) if "wait for an open transaction" in text]
    assert told.startswith("t-0: no records yet, as the offsets of group 'g'") and "init_transactions()" in told
    with pytest.raises(TimeoutError, match="UNSTABLE_OFFSET_COMMIT"):
        consumer.committed([T0], timeout=2)
    world.cluster.group_offsets.end_transaction(7, committed=True, groups=["g"])
    assert read(consumer, 1) == [b"2"]


@pytest.mark.parametrize("topic", [None, "t"], ids=["group", "partition"])
def test_M_B7_O16_every_code_of_a_look_up(world: World, topic: str | None) -> None:
    store(world, 2)
    consumer = world.consumer(**MANUAL)
    for code in FAILURES:
        world.faults.fail_next("OffsetFetch", code, topic=topic)
        if (code.retriable and code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) or code is ErrorCode.UNKNOWN_TOPIC_ID:
            assert consumer.committed([T0]) == {T0: OffsetAndMetadata(2, 0)}
        else:
            with pytest.raises(BrokerError) as failed:
                consumer.committed([T0])
            assert failed.value.code is code


def test_O16_a_group_that_may_not_be_read_is_told_by_the_next_calls(world: World) -> None:
    consumer = world.consumer(T0, T1, **MANUAL)
    for _ in range(2):
        world.faults.fail_next("FindCoordinator", ErrorCode.GROUP_AUTHORIZATION_FAILED)
        with pytest.raises(GroupAuthorizationError):
            consumer.poll(5)
    assert read(consumer, 3) == [b"0", b"1", b"2"]


# Automatic commits

AUTO = {"group_id": "g", "auto_commit_interval_ms": 5_000}


def test_O12_a_call_for_records_commits_what_earlier_calls_handed_out(world: World) -> None:
    consumer = world.consumer(T0, **AUTO)
    read(consumer, 3)
    world.simulation.advance(60_000)
    assert committed(world) is None, "the program may still be working on what it was given"
    world.append("t", [b"3"], epoch=0)
    consumer.poll(5)
    world.simulation.advance(1_000)
    assert committed(world) == 3, "not what that very call handed out"


def test_O12_a_call_that_waits_commits_when_it_is_time(world: World) -> None:
    consumer = world.consumer(T0, **AUTO)
    read(consumer, 3)
    consumer.poll(4)
    assert committed(world) is None
    consumer.poll(4)
    assert committed(world) == 3
    commits = world.requests("OffsetCommit")
    consumer.poll(11)
    assert world.requests("OffsetCommit") - commits == 2


def test_O12_close_commits_what_a_loop_is_done_with(world: World) -> None:
    consumer = world.consumer(T0, **AUTO)
    for record in consumer:
        if record.offset == 2:
            break
    consumer.close()
    assert committed(world) == 2


def test_O12_a_record_whose_handling_failed_is_not_committed_at_close(world: World) -> None:
    world.append("t", [b"other"], epoch=0, partition=1)
    with pytest.raises(LookupError), world.consumer(T0, T1, **AUTO) as consumer:
        for record in consumer:
            if record.value == b"1":
                raise LookupError("not handled")
    assert committed(world) == 1
    with pytest.raises(LookupError), world.consumer(T0, **AUTO) as consumer:
        assert next(iter(consumer)).offset == 1
        raise LookupError("after a loop that was left")
    assert committed(world) == 1


def test_O12_an_error_after_a_record_was_done_with_takes_nothing_back(world: World) -> None:
    with pytest.raises(LookupError), world.consumer(T0, **AUTO) as consumer:
        for record in consumer:
            if record.offset == 1:
                consumer.commit()
                raise LookupError("after the commit")
    assert committed(world) == 2
    with pytest.raises(LookupError), world.consumer(T0, **AUTO) as consumer:
        for _ in consumer:
            break
        consumer.poll(0)
        raise LookupError("after a call for more")
    assert committed(world) == 3
    with pytest.raises(LookupError), world.consumer(T0, **AUTO) as consumer:
        consumer.seek(T0, 0)
        for _ in consumer:
            break
        consumer.seek(T0, 2)
        raise LookupError("after a seek")
    assert committed(world) == 2


def test_O12_close_commits_although_wakeup_was_called(world: World) -> None:
    consumer = world.consumer(T0, **AUTO)
    read(consumer, 3)
    consumer.wakeup()
    consumer.close()
    assert committed(world) == 3


def test_O12_a_commit_that_fails_at_close_is_logged_and_close_ends_in_its_time(world: World, caplog: pytest.LogCaptureFixture) -> None:
    consumer = world.consumer(T0, **AUTO)
    read(consumer, 3)
    world.network.blackhole("b1", 9092)
    begun_ms = world.now_ms
    with caplog.at_level(logging.WARNING):
        consumer.close(timeout=3)
    assert world.now_ms - begun_ms < 4_000
    assert "what was read last may not be committed" in caplog.text


def test_O12_what_fails_for_a_moment_is_committed_a_moment_later(world: World, caplog: pytest.LogCaptureFixture) -> None:
    consumer = world.consumer(T0, **AUTO)
    read(consumer, 3)
    world.faults.fail_next("OffsetCommit", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    world.simulation.advance(5_000)
    with caplog.at_level(logging.INFO):
        consumer.poll(0)
        consumer.poll(1)
    assert committed(world) == 3
    assert "automatic commit failed, and is repeated" in caplog.text
    assert not said(caplog.records, logging.WARNING), "a coordinator moves now and then, and nothing is wrong with that"


def test_O12_while_a_coordinator_loads_automatic_commits_are_rare_and_the_log_is_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = world.consumer(T0, **AUTO)
    read(consumer, 3)
    with caplog.at_level(logging.WARNING):
        for offset in (3, 4):
            world.cluster.group_coordinators.begin_loading("g")
            before = world.requests("OffsetCommit")
            consumer.poll(15)
            assert 10 <= world.requests("OffsetCommit") - before <= 20, "retry.backoff.max.ms is a second"
            world.cluster.group_coordinators.end_loading("g")
            consumer.poll(2)
            assert committed(world) == offset
            world.append("t", [b"more"], epoch=0)
            read(consumer, 1)
    assert caplog.text.count("automatic commit failed again, and is repeated until one succeeds") == 2


def test_O12_rows_decoded_ahead_are_not_committed(world: World) -> None:
    pytest.importorskip("pyarrow")
    consumer = world.consumer(T0, **AUTO)
    assert [consumer.poll_arrow(5, max_records=1).num_rows for _ in range(2)] == [1, 1]
    world.simulation.advance(6_000)
    consumer.poll_arrow(5, max_records=1)
    world.simulation.advance(100)
    assert committed(world) == 2


def test_O12_with_automatic_commits_off_none_is_sent(world: World) -> None:
    consumer = world.consumer(T0, **MANUAL)
    read(consumer, 3)
    consumer.poll(20)
    consumer.close()
    assert world.requests("OffsetCommit") == 0
