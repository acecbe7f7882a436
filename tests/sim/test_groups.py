"""Members of classic groups in virtual time: what a rebalance does, and what members do about whatever the coordinator says."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from consumer_sim import World
from group_sim import PARTITIONS, SimulatedGroup
from levada.base.promise import Promise
from levada.consumer.group.requests import ON_HEARTBEAT_ERROR, ON_JOIN_ERROR, ON_SYNC_ERROR, ClassicReaction, Generation
from levada.error_codes import ErrorCode
from levada.errors import (
    BrokerError,
    ClosedError,
    CommitFailedError,
    FencedInstanceIdError,
    GroupAuthorizationError,
    IllegalStateError,
    InvalidGroupIdError,
    InvalidTopicError,
    RebalanceInProgressError,
    TransactionAbortableError,
    UnsupportedVersionError,
)
from levada.groups import MemberAssignment, MemberSubscription, PartitionAssignor, RebalanceListener, TopicLayout
from levada.testing.simulation import Simulation
from levada.types import ConsumerGroupMetadata, TopicPartition
from told_listener import Told

COOPERATIVE: dict[str, Any] = {"partition_assignment_strategy": "cooperative-sticky"}
SLOW_S = 300
"""max.poll.interval.ms, in seconds."""


class Group(SimulatedGroup):
    """Of the classic protocol."""

    def read(self, count: int) -> None:
        """Poll until so many records were handed out."""
        while len(self.seen) < count:
            self.poll(timeout=1)

    def settle(self, *members: Any) -> None:
        """Poll until the group is stable and everything has an owner."""
        for _ in range(200):
            self.poll(*members, timeout=1)
            owned = [tp for member in members or self.members for tp in member.assignment()]
            generations = {member.group_metadata().generation_id for member in members or self.members}
            if len(owned) == len(set(owned)) == PARTITIONS and len(generations) == 1:
                self.poll(*members)
                return
        pytest.fail(f"{[self.owned(member) for member in members or self.members]}")


@pytest.fixture
def group() -> Iterator[Group]:
    with Simulation(seed=11) as simulation:
        world = World(simulation)
        world.topic("t", PARTITIONS)
        yield Group(world)


# Rebalances


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky"])
def test_G12_an_eager_group_gives_everything_up_before_it_shares_out_anew(group: Group, name: str) -> None:
    first, second = Told(), Told()
    group.join(first, partition_assignment_strategy=name)
    group.settle()
    group.join(second, partition_assignment_strategy=name)
    group.settle()
    assert [what for what, _ in first.heard] == ["assigned", "revoked", "assigned"]
    assert first.heard[:2] == [("assigned", [0, 1, 2, 3]), ("revoked", [0, 1, 2, 3])]
    assert [what for what, _ in second.heard] == ["assigned"]
    assert len(second.heard[0][1]) == 2


def test_G12_a_cooperative_group_gives_up_only_what_goes_elsewhere(group: Group) -> None:
    first, second = Told(), Told()
    one = group.join(first, **COOPERATIVE)
    group.settle()
    group.produce()
    group.read(12)
    requests = group.world.requests("OffsetFetch")
    two = group.join(second, **COOPERATIVE)
    group.settle()
    assert first.heard == [("assigned", [0, 1, 2, 3]), ("revoked", [2, 3]), ("assigned", []), ("assigned", [])]
    assert second.heard == [("assigned", []), ("assigned", [2, 3])]
    assert (group.owned(one), group.owned(two)) == ([0, 1], [2, 3])
    # What stays keeps its position: only the second member looks offsets up.
    assert group.world.requests("OffsetFetch") == requests + 1
    assert [one.position(TopicPartition("t", 0)), two.position(TopicPartition("t", 2))] == [3, 3]
    assert len(group.seen) == len(set(group.seen)) == 12


def test_G12_reading_goes_on_through_a_cooperative_rebalance(group: Group) -> None:
    one = group.join(**COOPERATIVE)
    group.settle()
    two = group.join(**COOPERATIVE)
    # The second member has not joined, but is about to: the group waits for the first one, which reads on.
    held = group.world.faults.hold("SyncGroup", times=2)
    while not held.waiting:
        group.poll(timeout=1)
    group.produce()
    group.read(12)
    with pytest.raises(RebalanceInProgressError, match=r"Call poll\(\)"):
        one.commit()
    held.release()
    group.settle()
    assert len(group.owned(two)) == 2


def test_G7_what_was_handed_out_is_committed_before_it_is_given_up(group: Group) -> None:
    heard: list[Any] = []
    first = Told(revoked=lambda partitions: heard.append([group.committed(tp.partition) for tp in partitions]))
    group.join(first, auto_commit_interval_ms=3_600_000)
    group.settle()
    group.produce()
    group.read(12)
    assert group.committed(0) is None
    group.join()
    group.settle()
    assert heard == [[3, 3, 3, 3]]
    group.produce()
    group.read(24)
    assert len(set(group.seen)) == 24


def test_O12_what_was_not_handed_out_is_not_committed_before_a_revocation(group: Group) -> None:
    def look(partitions: list[TopicPartition]) -> None:
        handed_out = dict.fromkeys(range(PARTITIONS), 0) | {where: at + 1 for where, at in group.seen}
        assert {tp.partition: group.committed(tp.partition) for tp in partitions} == handed_out
        assert sum(handed_out.values()) == len(group.seen) < 12

    one = group.join(Told(revoked=look), auto_commit_interval_ms=3_600_000, max_poll_records=2)
    group.settle()
    group.produce()
    group.read(4)
    two = group.join()
    two.poll(10)
    group.poll(one)
    assert group.world.requests("OffsetCommit") == 1


def test_G13_a_listener_may_commit_what_it_gives_up(group: Group) -> None:
    member: Any = None
    first = Told(revoked=lambda partitions: member.commit(dict.fromkeys(partitions, 7)))
    member = group.join(first, enable_auto_commit=False)
    group.settle()
    group.join(enable_auto_commit=False)
    group.settle()
    assert [group.committed(partition) for partition in range(PARTITIONS)] == [7, 7, 7, 7]


def test_O18_a_listener_decides_where_to_begin(group: Group) -> None:
    group.produce()
    member: Any = None
    member = group.join(Told(assigned=lambda partitions: [member.seek(tp, 2) for tp in partitions]))
    group.settle()
    group.poll(times=5)
    assert sorted(group.seen) == [(partition, 2) for partition in range(PARTITIONS)]


def test_G12_what_a_listener_raises_comes_out_of_poll_once_the_assignment_stands(group: Group) -> None:
    def fail(partitions: list[TopicPartition]) -> None:
        raise LookupError(f"{len(partitions)} partitions")

    told = Told(assigned=fail)
    one = group.join(told)
    with pytest.raises(LookupError, match="4 partitions"):
        group.poll(times=20)
    assert group.owned(one) == [0, 1, 2, 3]
    told.does = {"revoked": fail}
    group.produce()
    group.read(12)
    group.join()
    with pytest.raises(LookupError):
        group.poll(times=20, timeout=1)
    assert group.owned(one) == []
    group.settle()
    with pytest.raises(LookupError):
        one.close()
    assert told.heard[-1][0] == "revoked"
    assert group.world.requests("LeaveGroup") == 1


def test_O18_a_listener_may_not_ask_for_records(group: Group) -> None:
    member: Any = None
    member = group.join(Told(assigned=lambda partitions: member.poll(1)))
    with pytest.raises(IllegalStateError, match="may not ask for records"):
        group.poll(times=20)


def test_G13_functions_hear_as_a_listener_does(group: Group) -> None:
    heard: list[tuple[str, int]] = []
    member = group.world.consumer(group_id="g")
    member.subscribe(["t"], on_assigned=lambda tps: heard.append(("+", len(tps))), on_revoked=lambda tps: heard.append(("-", len(tps))))
    group.settle(member)
    member.unsubscribe()
    assert heard == [("+", 4), ("-", 4)]
    assert not member.assignment()
    assert not member.subscription()


def test_G13_a_coroutine_function_needs_the_clients_of_aio(group: Group) -> None:
    async def listen(partitions: list[TopicPartition]) -> None:
        pass

    member = group.world.consumer(group_id="g")
    member.subscribe(["t"], on_assigned=listen)
    with pytest.raises(TypeError, match=r"on_partitions_assigned is a coroutine function; only the clients of levada\.aio await it"):
        group.poll(member, times=20)


# Slow programs


def test_G14_a_member_whose_program_is_slow_leaves_and_comes_back(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    told = Told()
    slow = group.join(told)
    group.settle()
    group.produce()
    group.read(12)
    other = group.join()
    group.poll(other)
    with caplog.at_level(logging.WARNING):
        group.world.simulation.advance((SLOW_S + 1) * 1000)
    assert "left group 'g': no call for records for 300 s (max.poll.interval.ms)" in caplog.text
    group.settle(other)
    assert group.owned(other) == [0, 1, 2, 3]
    with pytest.raises(CommitFailedError, match="no member of it any more"):
        slow.commit()
    group.settle()
    assert told.heard[1] == ("lost", [0, 1, 2, 3])
    assert len(group.owned(slow)) == 2


def test_G14_a_batch_that_is_worked_on_holds_a_rebalance_back(group: Group) -> None:
    told = Told()
    slow = group.join(told)
    group.settle()
    other = group.join()
    for _ in range(20):
        other.poll(10)
    assert group.owned(other) == []
    assert [what for what, _ in told.heard] == ["assigned"]
    slow.commit({TopicPartition("t", 0): 1})
    group.settle()


def test_G14_a_call_that_waits_for_records_is_no_slow_program(group: Group) -> None:
    one = group.join(max_poll_interval_ms=10_000)
    group.settle()
    generation = one.group_metadata()
    assert one.poll(60) == []
    assert one.group_metadata() == generation


def test_G14_polls_that_wait_long_for_their_partitions_say_so_once(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if "no records yet: the consumer has waited" in record.getMessage()]

    group.join(max_poll_interval_ms=60_000)
    group.settle()
    two = group.join()
    assert two.poll(2) == []
    assert told() == [], "most rebalances take no longer"
    for _ in range(10):
        assert two.poll(2) == []
    assert len(told()) == 1
    assert "session.timeout.ms" in told()[0]
    group.settle()
    assert two.poll(60) == []
    assert len(told()) == 1, "without new records nothing is wrong"


def test_G2_G14_heartbeats_go_on_while_the_program_works_and_a_fetch_waits(group: Group) -> None:
    group.join(session_timeout_ms=6_000, fetch_max_wait_ms=60_000)
    group.settle()
    before = group.world.requests("Heartbeat")
    group.world.simulation.advance(60_000)
    assert 19 <= group.world.requests("Heartbeat") - before <= 21


# Subscriptions


def test_G13_a_topic_that_is_subscribed_besides_is_shared_out_too(group: Group) -> None:
    group.world.topic("u", 2)
    one = group.join()
    group.settle()
    one.subscribe(["t", "u"])
    for _ in range(20):
        group.poll()
    assert {str(tp) for tp in one.assignment()} == {"t-0", "t-1", "t-2", "t-3", "u-0", "u-1"}
    one.subscribe(["u"])
    group.poll(times=20)
    assert {str(tp) for tp in one.assignment()} == {"u-0", "u-1"}


def test_G13_a_pattern_follows_the_topics_that_match_it(group: Group) -> None:
    group.world.topic("other", 1)
    member = group.world.consumer(group_id="g", metadata_max_age_ms=5_000)
    member.subscribe(pattern="t.*")
    group.settle(member)
    assert member.subscription() == {"t"}
    group.world.topic("t2", 1)
    for _ in range(20):
        member.poll(1)
    assert member.subscription() == {"t", "t2"}
    assert TopicPartition("t2", 0) in member.assignment()


def test_G13_partitions_that_are_added_are_shared_out(group: Group) -> None:
    one = group.join(metadata_max_age_ms=5_000)
    group.join(metadata_max_age_ms=5_000)
    group.settle()
    rebalances = one.group_metadata().generation_id
    group.world.simulation.advance(20_000)
    group.poll(times=3)
    assert one.group_metadata().generation_id == rebalances
    grow(group)
    group.poll(times=20, timeout=1)
    assert sum(len(member.assignment()) for member in group.members) == PARTITIONS + 2


def grow(group: Group) -> None:
    """Add two partitions to the topic."""
    topic = group.world.cluster.topic("t")
    assert topic is not None
    topic.partitions.extend(group.world.cluster.plan("more", 2).partitions)


def learn(group: Group) -> None:
    """Let time pass until metadata was refreshed."""
    before = group.world.requests("Metadata")
    while group.world.requests("Metadata") == before:
        group.world.simulation.advance(1_000)


def test_G13_partitions_that_are_added_while_a_leader_shares_out_are_noticed(group: Group) -> None:
    one = group.join(metadata_max_age_ms=30_000)
    one.poll(0)
    held = group.world.faults.hold("SyncGroup")
    while not held.waiting:
        group.poll()
    grow(group)
    learn(group)
    held.release()
    group.poll(times=10, timeout=1)
    assert len(one.assignment()) == PARTITIONS + 2, "the next refresh of metadata is far"


def test_G13_what_a_leader_shares_out_anyhow_is_no_reason_for_one_more_rebalance(group: Group) -> None:
    one = group.join(metadata_max_age_ms=30_000)
    group.settle()
    before = one.group_metadata().generation_id
    held = group.world.faults.hold("JoinGroup")
    one.enforce_rebalance()
    while not held.waiting:
        group.poll()
    grow(group)
    learn(group)
    held.release()
    group.poll(times=10, timeout=1)
    assert len(one.assignment()) == PARTITIONS + 2
    assert one.group_metadata().generation_id == before + 1


def test_G13_a_member_that_changes_to_a_pattern_keeps_what_matches_it(group: Group) -> None:
    told = Told()
    one = group.join(told, **COOPERATIVE)
    group.settle()
    held = group.world.faults.hold("Metadata", times=100)
    one.subscribe(pattern="t.*", listener=told)
    one.enforce_rebalance("what the brokers say of other topics is still on its way")
    group.poll(times=10, timeout=1)
    assert held.waiting
    held.release()
    group.settle()
    assert [what for what, partitions in told.heard if partitions] == ["assigned"]


def test_G13_a_rebalance_can_be_asked_for(group: Group) -> None:
    one = group.join()
    group.settle()
    before = one.group_metadata().generation_id
    one.enforce_rebalance("rack changed")
    group.settle()
    group.poll(times=5)
    assert one.group_metadata().generation_id == before + 1
    with pytest.raises(IllegalStateError, match="not subscribed"):
        group.world.consumer(group_id="g").enforce_rebalance()


def test_O1_kinds_of_subscriptions_exclude_one_another(group: Group) -> None:
    member = group.world.consumer(TopicPartition("t", 0), group_id="g")
    with pytest.raises(IllegalStateError, match=r"assign\(\[\]\) before subscribe\(\)"):
        member.subscribe(["t"])
    member.assign([])
    member.subscribe(["t"])
    with pytest.raises(IllegalStateError, match=r"unsubscribe\(\) before assign\(\)"):
        member.assign([TopicPartition("t", 0)])
    group.settle(member)
    with pytest.raises(ValueError, match=r"unsubscribe\(\) ends a subscription"):
        member.subscribe([])
    member.unsubscribe()
    assert member.subscription() == set()
    with pytest.raises(IllegalStateError, match="there is nothing to read"):
        member.poll(0)
    with pytest.raises(InvalidGroupIdError, match="give the consumer a group"):
        group.world.consumer().subscribe(["t"])


@pytest.mark.parametrize(
    ("arguments", "keywords", "error"),
    [
        ((), {}, TypeError),
        ((["t"],), {"pattern": "t"}, TypeError),
        (("t",), {}, TypeError),
        (([None],), {}, TypeError),
        (([" "],), {}, ValueError),
        ((), {"pattern": "("}, ValueError),
        ((), {"pattern": 5}, TypeError),
        ((["t"], object()), {}, TypeError),
        ((["t"],), {"on_lost": 5}, TypeError),
        ((["t"], RebalanceListener()), {"on_lost": print}, TypeError),
    ],
)
def test_O1_wrong_arguments_are_refused_where_they_are_passed(group: Group, arguments: Any, keywords: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        group.world.consumer(group_id="g").subscribe(*arguments, **keywords)


def test_a_topic_that_can_never_be_is_told_by_poll(group: Group) -> None:
    member = group.world.consumer(group_id="g")
    member.subscribe(["no such topic!"])
    with pytest.raises(InvalidTopicError):
        group.poll(member, times=20)


# Static members


def test_G16_a_static_member_that_comes_back_gets_its_partitions_without_a_rebalance(group: Group) -> None:
    other_told = Told()
    one = group.join(group_instance_id="one")
    group.join(other_told, group_instance_id="other")
    group.settle()
    held, joins = group.owned(one), group.world.requests("JoinGroup")
    generation = one.group_metadata().generation_id
    one.close()
    group.members.remove(one)
    again = group.join(group_instance_id="one")
    group.settle()
    assert group.owned(again) == held
    assert again.group_metadata().generation_id == generation
    assert group.world.requests("JoinGroup") == joins + 1
    assert group.world.requests("LeaveGroup") == 0
    assert [what for what, _ in other_told.heard] == ["assigned"]


def test_G16_the_older_of_two_with_the_same_instance_id_is_fenced_for_good(group: Group) -> None:
    told = Told()
    older = group.join(told, group_instance_id="one")
    group.settle()
    newer = group.join(group_instance_id="one")
    group.settle(newer)
    with pytest.raises(FencedInstanceIdError):
        for _ in range(100):
            older.poll(0.1)
    assert told.heard == [("assigned", [0, 1, 2, 3]), ("lost", [0, 1, 2, 3])]
    with pytest.raises(FencedInstanceIdError):
        older.poll(0)
    with pytest.raises(CommitFailedError):
        older.commit({TopicPartition("t", 0): 1})
    assert group.owned(newer) == [0, 1, 2, 3]


@pytest.mark.parametrize(("settings", "leave_group", "leaves"), [({}, None, 1), ({}, False, 0), ({"group_instance_id": "one"}, True, 1)])
def test_G15_who_leaves_with_close(group: Group, settings: Any, leave_group: bool | None, leaves: int) -> None:
    one = group.join(**settings)
    group.settle()
    one.close(leave_group=leave_group)
    assert group.world.requests("LeaveGroup") == leaves


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_G15_close_does_not_wait_for_a_coordinator_that_is_gone(group: Group, protocol: str) -> None:
    one = group.join(enable_auto_commit=False, group_protocol=protocol)
    group.poll(one, times=40)
    assert group.owned(one) == [0, 1, 2, 3]
    group.world.network.stop("b1", 9092)
    group.poll(one, times=10)
    begun_ms = group.world.now_ms
    one.close()
    assert group.world.now_ms - begun_ms <= 600


@pytest.mark.parametrize("error", [CommitFailedError("by the program", code=ErrorCode.UNKNOWN_MEMBER_ID), ValueError("by the program")])
def test_O18_what_a_listener_raises_comes_out_of_close_once_the_group_is_left(group: Group, error: Exception) -> None:
    def fail(partitions: list[TopicPartition]) -> None:
        raise error

    one = group.join(Told(revoked=fail))
    group.settle()
    with pytest.raises(type(error), match="by the program"):
        one.close()
    assert group.world.requests("LeaveGroup") == 1
    with pytest.raises(ClosedError):
        one.poll(0)


@pytest.mark.parametrize("end", ["close", "unsubscribe"])
def test_G7_who_leaves_amid_a_rebalance_has_lost_what_it_kept(group: Group, end: str) -> None:
    told = Told()
    one = group.join(told, **COOPERATIVE)
    group.settle()
    held = group.world.faults.hold("JoinGroup")
    one.enforce_rebalance()
    while not held.waiting:
        one.poll(0.05)
    getattr(one, end)()
    assert told.heard == [("assigned", [0, 1, 2, 3]), ("lost", [0, 1, 2, 3])]


def test_O12_a_commit_of_an_unsubscribe_that_was_broken_off_is_not_taken_for_a_later_one(group: Group) -> None:
    one = group.join(auto_commit_interval_ms=3_600_000)
    group.settle()
    group.produce()
    group.read(12)
    unsubscribing = one._consuming.unsubscribe()
    next(unsubscribing)  # It waits for the commit.
    with pytest.raises(KeyboardInterrupt):
        unsubscribing.throw(KeyboardInterrupt())
    group.produce()
    group.read(24)
    group.join()
    group.settle()
    assert [group.committed(partition) for partition in range(PARTITIONS)] == [6, 6, 6, 6]


def test_O12_close_commits_tells_the_listener_and_leaves(group: Group) -> None:
    told = Told()
    one = group.join(told)
    other = group.join(enable_auto_commit=False)
    group.settle()
    group.produce()
    group.read(12)
    held = group.owned(one)
    one.close()
    assert told.heard[-1] == ("revoked", held)
    assert [group.committed(partition) for partition in held] == [3, 3]
    before = group.world.now_ms
    group.members.remove(one)
    group.settle()
    # Nobody waited for the session of the one that left to end.
    assert group.world.now_ms - before < 10_000
    assert group.owned(other) == [0, 1, 2, 3]


# What the coordinator says

FATAL = [
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.INVALID_SESSION_TIMEOUT,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


def joins_although(group: Group, api: str, code: ErrorCode) -> None:
    """A member whose first request of this API gets the code joins all the same; the program is told of a fatal one."""
    group.world.faults.fail_next(api, code)
    one = group.join()
    if code in FATAL:
        with pytest.raises(BrokerError) as refused:
            group.poll(times=20)
        assert refused.value.code is code
    group.settle()
    assert group.owned(one) == [0, 1, 2, 3]


@pytest.mark.parametrize("code", [code for code, reaction in ON_JOIN_ERROR.items() if reaction is not ClassicReaction.TAKE_ID] + FATAL)
def test_G8_every_code_of_a_join(group: Group, code: ErrorCode) -> None:
    joins_although(group, "JoinGroup", code)


@pytest.mark.parametrize("code", [*ON_SYNC_ERROR, *FATAL])
def test_G10_every_code_of_a_sync(group: Group, code: ErrorCode) -> None:
    joins_although(group, "SyncGroup", code)


@pytest.mark.parametrize("code", [*ON_HEARTBEAT_ERROR, *FATAL])
def test_G14_every_code_of_a_heartbeat(group: Group, code: ErrorCode) -> None:
    told = Told()
    one = group.join(told)
    group.settle()
    generation = one.group_metadata().generation_id
    group.world.faults.fail_next("Heartbeat", code)
    group.world.simulation.advance(4_000)
    if code in FATAL:
        with pytest.raises(BrokerError) as refused:
            group.poll()
        assert refused.value.code is code
    group.settle()
    group.poll(times=10)
    assert group.owned(one) == [0, 1, 2, 3]
    reaction = ON_HEARTBEAT_ERROR.get(code)
    stays = reaction in (ClassicReaction.RETRY, ClassicReaction.REFIND)
    assert (one.group_metadata().generation_id == generation) is stays
    assert [what for what, _ in told.heard][1:] == (
        [] if stays else ["revoked", "assigned"] if reaction is ClassicReaction.REJOIN else ["lost", "assigned"]
    )


@pytest.mark.parametrize(
    ("code", "error", "told_of"),
    [
        (ErrorCode.ILLEGAL_GENERATION, CommitFailedError, "lost"),
        (ErrorCode.UNKNOWN_MEMBER_ID, CommitFailedError, "lost"),
        (ErrorCode.REBALANCE_IN_PROGRESS, RebalanceInProgressError, "revoked"),
        (ErrorCode.FENCED_INSTANCE_ID, FencedInstanceIdError, "lost"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationError, None),
    ],
)
def test_O15_every_code_of_a_members_commit(group: Group, code: ErrorCode, error: type[BrokerError], told_of: str | None) -> None:
    told = Told()
    one = group.join(told, enable_auto_commit=False)
    group.settle()
    group.world.faults.fail_next("OffsetCommit", code, topic="t")
    with pytest.raises(error):
        one.commit({TopicPartition("t", 0): 1})
    if code is ErrorCode.FENCED_INSTANCE_ID:
        with pytest.raises(FencedInstanceIdError):
            group.poll(times=5)
    else:
        group.poll(times=20)
    assert [what for what, _ in told.heard][1:2] == ([] if told_of is None else [told_of])


def test_O14_an_asynchronous_commit_of_nobodys_is_told_so(group: Group) -> None:
    one = group.join(enable_auto_commit=False)
    outcomes: list[Any] = []
    one.commit_async({TopicPartition("t", 0): 1}, lambda offsets, error: outcomes.append(error))
    group.settle()
    assert isinstance(outcomes[0], CommitFailedError)


def test_G3_a_group_outlives_the_move_of_its_coordinator() -> None:
    with Simulation(seed=12) as simulation:
        world = World(simulation, nodes=2)
        world.topic("t", PARTITIONS)
        group = Group(world)
        told = Told()
        one = group.join(told)
        group.settle()
        before = one.group_metadata()
        placement = world.cluster.group_coordinators
        moves_to = 3 - placement.coordinator("g") if hasattr(placement, "coordinator") else 2
        placement.move("g", moves_to)
        simulation.advance(10_000)
        group.poll(times=3)
        one.commit({TopicPartition("t", 0): 1})
        assert one.group_metadata() == before
        assert [what for what, _ in told.heard] == ["assigned"]


def test_G14_a_coordinator_that_does_not_answer_is_looked_for_again(group: Group) -> None:
    one = group.join(session_timeout_ms=10_000)
    group.settle()
    searches = group.world.requests("FindCoordinator")
    group.world.faults.drop_response("Heartbeat")
    group.world.simulation.advance(20_000)
    group.poll(times=5)
    assert group.world.requests("FindCoordinator") == searches + 1
    assert group.owned(one) == [0, 1, 2, 3]


def test_G14_while_heartbeats_fail_the_pauses_between_them_grow(group: Group) -> None:
    one = group.join()
    group.settle()
    group.world.faults.fail_next("Heartbeat", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=1_000)
    group.world.simulation.advance(5_000)
    before = group.world.requests("Heartbeat")
    group.world.simulation.advance(20_000)
    assert 15 < group.world.requests("Heartbeat") - before < 35, "one each second: retry.backoff.max.ms"
    group.world.faults.clear()
    group.settle()
    assert group.owned(one) == [0, 1, 2, 3]


def test_G8_a_join_whose_answer_is_lost_is_sent_again(group: Group) -> None:
    group.world.faults.disconnect("JoinGroup", applied=True)
    one = group.join()
    group.settle()
    assert group.owned(one) == [0, 1, 2, 3]


# Assignors of the program's own


class Upwards(PartitionAssignor):
    """Gives everything to the member whose user data is the largest."""

    NAME = "upwards"

    def __init__(self, rank: bytes) -> None:
        self.rank = rank
        self.got: list[tuple[int, int]] = []

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        return self.rank

    def assign(self, topics: dict[str, TopicLayout], members: dict[str, MemberSubscription]) -> dict[str, MemberAssignment]:  # type: ignore[override]
        best = max(members, key=lambda member: members[member].user_data or b"")
        return {best: MemberAssignment(tuple(tp for topic in topics.values() for tp in topic.partitions), b"all")}

    def on_assignment(self, assignment: MemberAssignment, generation: int) -> None:
        self.got.append((len(assignment.partitions), generation))


def test_G9_an_assignor_of_the_programs_own_shares_out(group: Group) -> None:
    low, high = Upwards(b"1"), Upwards(b"2")
    one = group.join(partition_assignment_strategy=low)
    group.settle()
    two = group.join(partition_assignment_strategy=["range", high])
    group.settle()
    assert (group.owned(one), group.owned(two)) == ([], [0, 1, 2, 3])
    assert [count for count, _ in low.got] == [4, 0]
    assert [count for count, _ in high.got] == [4]


def test_G9_what_an_assignor_raises_comes_out_of_the_leaders_poll(group: Group) -> None:
    class Broken(Upwards):
        def assign(self, topics: Any, members: Any) -> Any:
            raise LookupError("nobody deserves it")

    group.join(partition_assignment_strategy=Broken(b""))
    with pytest.raises(LookupError, match="nobody deserves it"):
        group.poll(times=20)


def test_G8_members_that_have_no_assignor_in_common_are_told_so(group: Group) -> None:
    group.join(partition_assignment_strategy="range")
    group.settle()
    two = group.join(partition_assignment_strategy="sticky")
    with pytest.raises(
        BrokerError, match="group 'g': the coordinator refuses this member; its members do not all offer one of these assignors: "
    ):
        group.poll(two, times=20)


# Who commits


def test_O14_offsets_are_committed_for_the_generation(group: Group) -> None:
    assert group.world.consumer(group_id="g").group_metadata() == ConsumerGroupMetadata("g")
    one = group.join(group_instance_id="one", enable_auto_commit=False)
    group.settle()
    found = one.group_metadata()
    assert (found.group_id, found.generation_id, found.group_instance_id) == ("g", 1, "one")
    assert found.member_id.startswith("one-")
    one.commit({TopicPartition("t", 0): 5})
    assert group.committed(0) == 5
    one.unsubscribe()
    assert one.group_metadata() == ConsumerGroupMetadata("g")


@pytest.mark.parametrize(
    ("api", "newest"), [("JoinGroup", 0), ("JoinGroup", 3), ("JoinGroup", 4), ("SyncGroup", 0), ("Heartbeat", 0), ("LeaveGroup", 2)]
)
def test_G4_older_brokers_have_groups_too(group: Group, api: str, newest: int) -> None:
    group.world.faults.cap_version(api, newest)
    told = Told()
    one = group.join(told, heartbeat_interval_ms=500)
    group.settle()
    group.join(heartbeat_interval_ms=500)
    group.settle()
    one.close()
    assert [what for what, _ in told.heard] == ["assigned", "revoked", "assigned", "revoked"]
    assert group.world.requests("LeaveGroup") == 1


def test_G16_an_older_broker_has_no_static_members(group: Group) -> None:
    group.world.faults.cap_version("JoinGroup", 4)
    group.join(group_instance_id="one")
    with pytest.raises(UnsupportedVersionError, match="JoinGroup"):
        group.poll(times=20)


def test_T12_offsets_in_a_transaction_are_refused_once_the_partitions_are_somebody_elses(group: Group) -> None:
    group.produce()
    slow = group.join(enable_auto_commit=False)
    group.settle()
    group.read(12)
    producer = group.world.simulation.producer({"bootstrap.servers": "b1:9092"}, transactional_id="copier")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send_offsets_to_transaction(slow.consumed_offsets(), slow.group_metadata())
    producer.commit_transaction()
    assert group.committed(0) == 3
    other = group.join(enable_auto_commit=False)
    group.poll(other)
    group.world.simulation.advance((SLOW_S + 1) * 1000)
    group.settle(other)
    producer.begin_transaction()
    # The member is out of its group, and the program has not called poll() since, so it does not know.
    with pytest.raises(TransactionAbortableError, match=r"UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION"):
        producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, slow.group_metadata())
    producer.abort_transaction()
    assert group.committed(0) == 3


def test_G13_a_topic_that_is_not_there_yet_is_read_once_it_is(group: Group) -> None:
    member = group.world.consumer(group_id="g", allow_auto_create_topics=False)
    member.subscribe(["later"])
    group.poll(member, times=5, timeout=1)
    assert not member.assignment()
    group.world.topic("later", 2)
    group.poll(member, times=10, timeout=1)
    assert len(member.assignment()) == 2


def test_G15_a_consumer_that_waits_for_others_closes_at_once(group: Group) -> None:
    group.join()
    group.settle()
    waiting = group.join()
    group.poll(waiting, times=3)
    before = group.world.now_ms
    waiting.close()
    assert group.world.now_ms - before < 1_000
    assert group.world.requests("LeaveGroup") == 1
    group.members.remove(waiting)
    group.settle()


def test_G7_a_commit_that_takes_longer_than_a_call_is_waited_for_by_the_next_ones(group: Group) -> None:
    told = Told()
    one = group.join(told, auto_commit_interval_ms=3_600_000)
    group.settle()
    group.produce()
    group.read(12)
    two = group.join()
    two.poll(10)
    held = group.world.faults.hold("OffsetCommit")
    group.produce()
    for timeout in (0, 0.05, 0.05):
        began = group.world.now_ms
        assert one.poll(timeout) == []
        assert group.world.now_ms - began <= 60
    assert [what for what, _ in told.heard] == ["assigned"]
    held.release()
    group.settle()
    assert group.world.requests("OffsetCommit") == 1
    assert told.heard[1] == ("revoked", [0, 1, 2, 3])


def test_G7_a_commit_that_was_begun_for_lost_partitions_is_not_taken_for_a_later_one(group: Group) -> None:
    one = group.join(auto_commit_interval_ms=3_600_000)
    group.settle()
    group.produce()
    group.read(12)
    group.world.faults.delay("OffsetCommit", 2_000)
    one.enforce_rebalance()
    assert one.poll(0.05) == []
    group.world.simulation.advance((SLOW_S + 1) * 1000)
    group.settle()
    group.produce()
    group.read(24)
    one.enforce_rebalance()
    group.poll(times=10)
    assert [group.committed(partition) for partition in range(PARTITIONS)] == [6, 6, 6, 6]


@pytest.mark.parametrize(("how", "committed"), [("commit", [3, 7]), ("commit_async", [3, 7]), ("automatic", [3])])
def test_O13_the_commit_before_a_revocation_overtakes_no_later_one(
    group: Group, how: str, committed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    tp = TopicPartition("t", 0)
    one = group.join(auto_commit_interval_ms=1_000)
    group.settle()
    group.produce()
    group.read(12)
    group.world.faults.fail_next("OffsetCommit", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    stored: list[int] = []
    monkeypatch.setattr(group.world.cluster.group_offsets, "commit", lambda of, offsets, *_: stored.append(offsets[tp].offset))
    one.enforce_rebalance()
    assert one.poll(0.02) == [], "the commit of offset 3 was refused for a moment, and is repeated"
    one.seek(tp, 7)
    if how == "automatic":
        one._consuming.core.commits.due_ms = 0
        one.poll(0.001)
    else:
        getattr(one, how)({tp: 7})
    group.world.simulation.advance(500)
    assert stored == committed


def test_G7_what_a_cooperative_member_read_during_the_rebalance_is_committed_before_it_is_handed_over(group: Group) -> None:
    told = Told(revoked=lambda partitions: heard.extend(group.committed(tp.partition) for tp in partitions))
    heard: list[int | None] = []
    one = group.join(told, auto_commit_interval_ms=3_600_000, **COOPERATIVE)
    group.settle()
    group.join(auto_commit_interval_ms=3_600_000, **COOPERATIVE)
    held = group.world.faults.hold("SyncGroup", times=2)
    while not held.waiting:
        group.poll(timeout=1)
    group.produce()
    while len(group.seen) < 12:
        group.poll(one, timeout=1)
    held.release()
    group.settle()
    assert heard == [3, 3]


def test_G14_no_heartbeat_is_sent_behind_a_join_that_waits_for_others(group: Group) -> None:
    waiting = group.join(heartbeat_interval_ms=100)
    slow = group.join(heartbeat_interval_ms=40_000)
    group.settle()
    waiting.enforce_rebalance()
    waiting.poll(0.05)
    beats = group.world.requests("Heartbeat")
    waiting.poll(10)
    slow.enforce_rebalance()
    slow.poll(0.02)
    assert waiting.group_metadata().generation_id == slow.group_metadata().generation_id
    assert group.world.requests("Heartbeat") == beats
    group.settle()


def test_O15_a_refused_commit_of_an_older_generation_costs_nothing(group: Group) -> None:
    one = group.join(enable_auto_commit=False)
    group.settle()
    member, now = one._consuming.core.member, one.group_metadata()
    for code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
        told = member.refused(BrokerError("t-0", code=code), now._replace(generation_id=0))
        assert isinstance(told, RebalanceInProgressError)
    assert one.group_metadata() == now


def test_G14_an_answer_to_an_older_heartbeat_does_not_count(group: Group) -> None:
    one = group.join()
    group.settle()
    member, now = one._consuming.core.member, one.group_metadata()
    member._end_heartbeat(Promise.resolved(ErrorCode.UNKNOWN_MEMBER_ID), Generation(0, now.member_id), 0)
    assert one.group_metadata() == now
    member._end_heartbeat(Promise.resolved(ErrorCode.UNKNOWN_MEMBER_ID), member.generation, 0)
    assert not member.has_generation


def test_G12_an_assignment_of_a_membership_that_was_lost_since_is_not_taken(group: Group) -> None:
    told = Told()
    one = group.join(told)
    held = group.world.faults.hold("SyncGroup")
    while not held.waiting:
        group.poll()
    held.release()
    group.world.faults.fail_next("Heartbeat", ErrorCode.UNKNOWN_MEMBER_ID)
    group.world.simulation.advance(4_000)
    held = group.world.faults.hold("JoinGroup", times=100)
    group.poll(times=3, timeout=1)
    assert (told.heard, group.owned(one), held.waiting) == ([], [], 1)
    held.release()
    group.settle()


def test_G14_a_listener_that_takes_too_long_costs_the_membership(group: Group) -> None:
    told = Told(revoked=lambda partitions: group.world.simulation.advance((SLOW_S + 1) * 1000))
    one = group.join(told, **COOPERATIVE)
    group.settle()
    two = group.join(**COOPERATIVE)
    for _ in range(10):
        group.poll(timeout=1)
        if len(told.heard) > 1:
            break
    told.does = {}
    assert told.heard[:2] == [("assigned", [0, 1, 2, 3]), ("revoked", [2, 3])]
    group.settle()
    assert ("lost", [0, 1]) in told.heard
    assert len(group.owned(one)) == len(group.owned(two)) == 2


def test_O12_nothing_is_committed_nor_warned_of_while_a_group_is_rebalanced(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    one = group.join(auto_commit_interval_ms=100, **COOPERATIVE)
    group.settle()
    group.produce()
    group.read(12)
    group.join(**COOPERATIVE)
    held = group.world.faults.hold("SyncGroup", times=2)
    while not held.waiting:
        group.poll(timeout=1)
    commits = group.world.requests("OffsetCommit")
    with caplog.at_level(logging.WARNING):
        group.poll(one, times=3, timeout=1)
    assert group.world.requests("OffsetCommit") == commits
    assert not [record for record in caplog.records if record.name.startswith("levada")]
    held.release()
    group.settle()


def test_G7_columns_that_were_decoded_ahead_are_not_handed_out_once_partitions_are_to_be_given_up(group: Group) -> None:
    told = Told()
    one = group.join(told)
    group.settle()
    group.world.append("t", [b"v"] * 100, 0, epoch=0)
    while not one.poll_arrow(1, max_records=10).num_rows:
        pass
    one.enforce_rebalance()
    assert one.poll_arrow(0.001, max_records=10).num_rows == 0
    one.poll_arrow(0.01, max_records=10)
    assert told.heard[1] == ("revoked", [0, 1, 2, 3])
    assert group.committed(0) == 10


def test_a_member_counts_under_the_names_of_java(group: Group) -> None:
    one = group.join()
    group.settle()
    group.world.simulation.advance(10_000)
    found = one.metrics()
    values = {name: found.value(name) for name in ("assigned-partitions", "rebalance-total", "failed-rebalance-total", "join-total")}
    assert values == {"assigned-partitions": 4, "rebalance-total": 1, "failed-rebalance-total": 0, "join-total": 2}
    assert found.value("heartbeat-total") >= 3
    assert 0 <= found.value("last-heartbeat-seconds-ago") < 3.1
    assert found.value("last-rebalance-seconds-ago") >= 10
    group.world.faults.fail_next("SyncGroup", ErrorCode.GROUP_AUTHORIZATION_FAILED)
    one.enforce_rebalance()
    with pytest.raises(GroupAuthorizationError):
        group.poll(times=10)
    assert one.metrics().value("failed-rebalance-total") == 1
    with pytest.raises(KeyError):
        group.world.consumer().metrics().value("rebalance-total")
