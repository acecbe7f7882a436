"""Members of consumer groups (KIP-848) in virtual time: what they tell, how they reconcile, and what they do about each answer."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from altered_answers import altered
from consumer_sim import World
from group_sim import PARTITIONS, SimulatedGroup
from levada.broker.coordinators.groups.consumer_groups import ConsumerGroups
from levada.consumer.group.consumer_heartbeat import ON_HEARTBEAT_ERROR, HeartbeatReaction
from levada.error_codes import ErrorCode
from levada.errors import (
    BrokerError,
    CommitFailedError,
    GroupError,
    IllegalStateError,
    RetriableCommitError,
    TopicAuthorizationError,
    UnsupportedVersionError,
)
from levada.groups import SubscriptionPattern
from levada.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from levada.testing.simulation import Simulation
from levada.types import TopicPartition
from told_listener import Told

INTERVAL_S = 5
"""Of heartbeats, by the brokers' default."""
SLOW_S = 300
"""max.poll.interval.ms, in seconds."""
HEARTBEAT = "ConsumerGroupHeartbeat"
FAILING = [
    "GROUP_AUTHORIZATION_FAILED",
    "INVALID_REQUEST",
    "GROUP_MAX_SIZE_REACHED",
    "UNSUPPORTED_ASSIGNOR",
    "UNSUPPORTED_VERSION",
    "UNRELEASED_INSTANCE_ID",
    "FENCED_INSTANCE_ID",
    "INVALID_REGULAR_EXPRESSION",
    "UNKNOWN_SERVER_ERROR",
]
"""Codes that end a membership for good (G37)."""


class Group(SimulatedGroup):
    """Of the consumer protocol."""

    def __init__(self, world: World) -> None:
        super().__init__(world, group_protocol="consumer")

    def settle(self, *members: Any, partitions: int = PARTITIONS) -> None:
        """Poll until everything has one owner, and all have been told so."""
        for _ in range(200):
            self.poll(*members, timeout=1)
            shares = [self.owned(member) for member in members or self.members]
            epochs = {member.group_metadata().generation_id for member in members or self.members}
            if sum(map(len, shares)) == partitions and all(shares) and len(epochs) == 1:
                return
        pytest.fail(f"{[self.owned(member) for member in members or self.members]}")

    @property
    def known(self) -> dict[str, Any]:
        """The members that the coordinator knows."""
        group: Any = self.world.nodes[0]._state.groups.existing_consumer("g")
        return dict(group.members)


@pytest.fixture
def group() -> Iterator[Group]:
    with Simulation(seed=11) as simulation:
        world = World(simulation)
        world.topic("t", PARTITIONS)
        yield Group(world)


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> list[ConsumerGroupHeartbeatRequest]:
    """The heartbeats that came in, but for those that leave."""
    came: list[ConsumerGroupHeartbeatRequest] = []
    handle = ConsumerGroups.heartbeat

    def note(groups: ConsumerGroups, group: Any, request: ConsumerGroupHeartbeatRequest, *arguments: Any) -> Any:
        came.append(request)
        return handle(groups, group, request, *arguments)

    monkeypatch.setattr(ConsumerGroups, "heartbeat", note)
    return came


def fields(request: ConsumerGroupHeartbeatRequest) -> set[str]:
    """What a heartbeat says beside who the member is."""
    said = {
        "timeout": request.rebalance_timeout_ms != -1,
        "topics": request.subscribed_topic_names is not None,
        "pattern": request.subscribed_topic_regex is not None,
        "assignor": request.server_assignor is not None,
        "rack": request.rack_id is not None,
        "owned": request.topic_partitions is not None,
    }
    return {name for name, is_said in said.items() if is_said}


# Heartbeats


def test_G34_what_is_not_new_is_told_once(group: Group, beats: list[ConsumerGroupHeartbeatRequest]) -> None:
    member = group.join(group_remote_assignor="range", client_rack="r")
    member.poll(0)
    assert not beats, "it is sent in the background"
    group.settle()
    everything = {"timeout", "topics", "assignor", "rack", "owned"}
    assert (fields(beats[0]), beats[0].member_epoch, beats[0].topic_partitions) == (everything, 0, [])
    assert (fields(beats[1]), len(beats[1].topic_partitions or [])) == ({"owned"}, 1)
    group.world.simulation.advance(20_000)
    assert {frozenset(fields(beat)) for beat in beats[2:]} == {frozenset()}
    assert {beat.member_id for beat in beats} == {member.group_metadata().member_id}
    member.subscribe(["t", "u"])
    group.poll(times=2, timeout=1)
    assert [(fields(beat), beat.subscribed_topic_names) for beat in beats if fields(beat)][2] == ({"topics"}, ["t", "u"])


@pytest.mark.parametrize("fault", ["lost", "refused"])
def test_G34_after_an_error_everything_is_told_again(group: Group, beats: list[ConsumerGroupHeartbeatRequest], fault: str) -> None:
    group.join()
    group.settle()
    if fault == "lost":
        group.world.faults.disconnect(HEARTBEAT, applied=True)
    else:
        group.world.faults.fail_next(HEARTBEAT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    del beats[:]
    group.world.simulation.advance(4 * INTERVAL_S * 1000)
    told = [fields(beat) for beat in beats]
    assert told.count({"timeout", "topics", "owned"}) == 1
    assert told[-1] == set()
    assert len(group.members[0].assignment()) == PARTITIONS


def test_G34_what_changes_while_a_heartbeat_is_under_way_is_told_at_once_after_it(
    group: Group, beats: list[ConsumerGroupHeartbeatRequest]
) -> None:
    member = group.join()
    group.settle()
    held = group.world.faults.hold(HEARTBEAT)
    group.world.simulation.advance(INTERVAL_S * 1000)
    assert held.waiting == 1
    member.subscribe(["t", "u"])
    del beats[:]
    held.release()
    group.world.simulation.advance(1_000)
    assert [beat.subscribed_topic_names for beat in beats if beat.subscribed_topic_names] == [["t", "u"]]


def test_G34_an_answer_that_comes_after_the_member_has_left_changes_nothing(group: Group) -> None:
    member = group.join(enable_auto_commit=False)
    group.settle()
    held = group.world.faults.hold(HEARTBEAT)
    group.world.simulation.advance(INTERVAL_S * 1000)
    assert held.waiting == 1
    member.unsubscribe()
    held.release()
    group.world.simulation.advance(1_000)
    assert member.group_metadata().generation_id == -1
    member.subscribe(["t"])
    group.settle()


def test_G33_brokers_say_how_often_heartbeats_come_and_nothing_holds_them_up(group: Group) -> None:
    group.join(fetch_max_wait_ms=60_000)
    group.settle()
    before = group.world.requests(HEARTBEAT)
    group.world.simulation.advance(60_000)
    assert 11 <= group.world.requests(HEARTBEAT) - before <= 13


def test_G34_nothing_is_sent_before_the_first_call_for_records(group: Group) -> None:
    group.join()
    group.world.simulation.advance(60_000)
    assert group.world.requests(HEARTBEAT) == 0


# Reconciliation


def test_G36_only_what_goes_elsewhere_is_given_up_and_it_is_committed_before(group: Group) -> None:
    found: list[int | None] = []
    first = Told(revoked=lambda partitions: found.extend(group.committed(tp.partition) for tp in partitions))
    second = Told()
    one = group.join(first)
    group.settle()
    group.produce()
    while len(group.seen) < 3 * PARTITIONS:
        group.poll(timeout=1)
    two = group.join(second)
    group.settle()
    moved = group.owned(two)
    assert first.heard == [("assigned", [0, 1, 2, 3]), ("revoked", moved), ("assigned", [])]
    assert second.heard == [("assigned", []), ("assigned", moved)]
    assert found == [3, 3]
    assert {one.position(tp) for tp in one.assignment()} | {two.position(tp) for tp in two.assignment()} == {3}
    assert len(group.seen) == len(set(group.seen)) == 3 * PARTITIONS


def test_G36_an_acknowledgement_does_not_wait_for_the_next_interval(group: Group) -> None:
    one = group.join()
    group.settle()
    began_ms = group.world.now_ms
    one.subscribe(["t", "u"])
    group.world.topic("u", 1)
    group.settle(partitions=PARTITIONS + 1)
    two = group.join()
    two.subscribe(["t", "u"])
    while not two.assignment():
        group.poll()
    # One interval passes until the first member hears of it; what the second one waits for then is sent at once by the first, and one more
    # until the second hears of that.
    assert group.world.now_ms - began_ms < 3 * INTERVAL_S * 1000


def test_G14_G36_a_batch_that_is_worked_on_holds_a_revocation_back(group: Group) -> None:
    told = Told()
    slow = group.join(told)
    group.settle()
    other = group.join()
    for _ in range(20):
        other.poll(10)
    assert group.owned(other) == []
    assert [what for what, _ in told.heard] == ["assigned"]
    slow.commit({TopicPartition("t", 0): 1})
    assert group.committed(0) == 1
    group.settle()


def test_G36_a_newer_target_is_taken_afterwards(group: Group) -> None:
    third: list[Any] = []

    def let_another_join(partitions: list[TopicPartition]) -> None:
        if not third:
            third.append(group.join())
            for _ in range(20):
                third[0].poll(1)
                other.poll(1)

    told = Told(revoked=let_another_join)
    group.join(told)
    group.settle()
    other = group.join()
    group.settle()
    assert sorted(len(group.owned(member)) for member in group.members) == [1, 1, 2]
    given_up = [partitions for what, partitions in told.heard if what == "revoked"]
    assert len(given_up[0]) == 2, "the target that came while the listener ran changed nothing of what it was told"


def test_G36_topics_that_have_no_name_yet_are_waited_for(group: Group) -> None:
    def hide(answer: Any) -> None:
        answer.topics = []

    told = Told()
    member = group.new()
    with altered("Metadata", hide):
        member.subscribe(["t"], told)
        group.poll(times=20, timeout=1)
        assert (told.heard, member.assignment()) == ([], set())
    held = group.world.faults.hold(HEARTBEAT, times=100)
    group.poll(times=10, timeout=1)
    assert told.heard == [("assigned", [0, 1, 2, 3])], "metadata is enough, no answer to a heartbeat is waited for"
    held.release()
    group.settle()


def test_G36_what_a_listener_raises_comes_out_once_the_assignment_is_what_was_agreed(group: Group) -> None:
    def fail(partitions: list[TopicPartition]) -> None:
        raise ValueError(f"{len(partitions)} partitions")

    told = Told(assigned=fail, revoked=fail)
    one = group.join(told)
    with pytest.raises(ValueError, match="4 partitions"):
        group.poll(times=20, timeout=1)
    assert group.owned(one) == [0, 1, 2, 3]
    other = group.join()
    with pytest.raises(ValueError, match="2 partitions"):
        group.poll(times=20, timeout=1)
    group.settle()
    assert [len(partitions) for _, partitions in told.heard] == [4, 2, 0]
    assert len(group.owned(other)) == 2


def test_O18_ctrl_c_within_a_listener_leaves_the_member_in_order(group: Group) -> None:
    def interrupt(partitions: list[TopicPartition]) -> None:
        raise KeyboardInterrupt

    told = Told(revoked=interrupt)
    one = group.join(told)
    group.settle()
    other = group.join()
    with pytest.raises(KeyboardInterrupt):
        group.poll(times=20, timeout=1)
    assert len(group.owned(one)) == 2
    group.settle()
    assert [what for what, _ in told.heard] == ["assigned", "revoked", "assigned"], "who was called was told"
    assert len(group.owned(other)) == 2


def reading_group(group: Group, told: Told) -> Any:
    """A member that has read everything, and one that waits for partitions of it."""
    one = group.join(told)
    group.settle()
    group.produce()
    while len(group.seen) < 3 * PARTITIONS:
        group.poll(timeout=1)
    other = group.join()
    group.poll(other, times=3, timeout=1)
    return one


def test_G36_a_commit_that_takes_long_is_waited_for_over_several_calls(group: Group) -> None:
    told = Told()
    one = reading_group(group, told)
    held = group.world.faults.hold("OffsetCommit")
    group.world.simulation.advance(2 * INTERVAL_S * 1000)
    group.poll(one, times=10)
    assert held.waiting == 1
    assert [what for what, _ in told.heard] == ["assigned"]
    assert len(group.owned(one)) == PARTITIONS
    held.release()
    group.settle()
    assert [what for what, _ in told.heard] == ["assigned", "revoked", "assigned"]
    assert [group.committed(partition) for partition in range(PARTITIONS)] == [3] * PARTITIONS
    assert len(group.seen) == 3 * PARTITIONS


def test_G36_a_target_that_is_replaced_before_the_program_takes_it_is_not_taken(group: Group) -> None:
    """The coordinator may have given to another member what this one has not said that it has."""
    told = Told()
    slow = group.join(told)
    group.poll(slow, timeout=0)
    group.world.simulation.advance(100)
    other = group.join()
    group.poll(other, times=6, timeout=1)
    # The next heartbeat is that of the slow one, who tells everything after an error, also that it has nothing.
    group.world.faults.fail_next(HEARTBEAT, ErrorCode.NOT_COORDINATOR)
    group.poll(other, times=12, timeout=1)
    theirs = group.owned(other)
    group.settle()
    assert len(theirs) == 2
    assert group.owned(other) == theirs
    assert told.heard == [("assigned", [number for number in range(PARTITIONS) if number not in theirs])]


def test_G36_G37_who_is_fenced_while_it_gives_up_has_lost_everything(group: Group) -> None:
    told = Told()
    one = reading_group(group, told)
    held = group.world.faults.hold("OffsetCommit")
    group.world.simulation.advance(2 * INTERVAL_S * 1000)
    group.poll(one)
    assert held.waiting == 1
    # The answer of the coordinator waits behind that of the commit.
    group.world.faults.fail_next(HEARTBEAT, ErrorCode.UNKNOWN_MEMBER_ID)
    held.release()
    group.world.simulation.advance(2 * INTERVAL_S * 1000)
    group.settle()
    assert told.heard[1] == ("lost", [0, 1, 2, 3])


# Errors


@pytest.mark.parametrize(
    "code", [code for code, reaction in ON_HEARTBEAT_ERROR.items() if reaction in (HeartbeatReaction.REFIND, HeartbeatReaction.RETRY)]
)
def test_G37_a_coordinator_that_moves_or_loads_is_asked_again(group: Group, code: ErrorCode) -> None:
    told = Told()
    group.world.faults.fail_next(HEARTBEAT, code)
    group.join(told)
    group.settle()
    group.world.faults.fail_next(HEARTBEAT, code)
    look_ups = group.world.requests("FindCoordinator")
    group.world.simulation.advance(2 * INTERVAL_S * 1000)
    group.poll(times=5)
    assert told.heard == [("assigned", [0, 1, 2, 3])]
    is_moved = ON_HEARTBEAT_ERROR[code] is HeartbeatReaction.REFIND
    assert group.world.requests("FindCoordinator") - look_ups == is_moved


@pytest.mark.parametrize("code", [code for code, reaction in ON_HEARTBEAT_ERROR.items() if reaction is HeartbeatReaction.FENCE])
def test_G37_who_is_fenced_loses_its_partitions_and_joins_again(group: Group, code: ErrorCode) -> None:
    told = Told()
    member = group.join(told)
    group.settle()
    group.world.faults.fail_next(HEARTBEAT, code)
    group.world.simulation.advance(2 * INTERVAL_S * 1000)
    with pytest.raises(CommitFailedError, match="no member of it any more"):
        member.commit({TopicPartition("t", 0): 1})
    group.settle()
    assert told.heard == [("assigned", [0, 1, 2, 3]), ("lost", [0, 1, 2, 3]), ("assigned", [0, 1, 2, 3])]
    member.commit({TopicPartition("t", 0): 1})


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("when", ["joining", "stable"])
def test_G37_who_is_refused_for_good_says_so_until_it_unsubscribes(group: Group, name: str, when: str) -> None:
    told, code = Told(), ErrorCode[name]
    member = group.join(told)
    if when == "stable":
        group.settle()
    group.world.faults.fail_next(HEARTBEAT, code)
    group.world.simulation.advance(2 * INTERVAL_S * 1000)
    for _ in range(2):
        with pytest.raises(BrokerError, match="group 'g': the coordinator refuses this member") as caught:
            group.poll(times=20, timeout=1)
        assert caught.value.code is code
    assert told.heard == ([("assigned", [0, 1, 2, 3]), ("lost", [0, 1, 2, 3])] if when == "stable" else [])
    beaten = group.world.requests(HEARTBEAT)
    group.world.simulation.advance(4 * INTERVAL_S * 1000)
    assert group.world.requests(HEARTBEAT) == beaten
    member.unsubscribe()
    member.subscribe(["t"])
    group.settle()


def test_G37_a_topic_that_may_not_be_described_is_told_and_tried_again(group: Group) -> None:
    member = group.join()
    group.world.faults.fail_next(HEARTBEAT, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(TopicAuthorizationError):
        group.poll(times=20, timeout=1)
    group.settle(member)


def test_G37_a_group_of_another_kind_is_not_joined_again_and_again(group: Group) -> None:
    group.join()
    group.world.faults.fail_next(HEARTBEAT, ErrorCode.GROUP_ID_NOT_FOUND)
    with pytest.raises(GroupError, match="GROUP_ID_NOT_FOUND"):
        group.poll(times=20, timeout=1)


def test_G33_brokers_without_the_protocol_are_told_apart() -> None:
    with Simulation(seed=1) as simulation:
        world = World(simulation, group_version=0)
        world.topic("t", PARTITIONS)
        group = Group(world)
        group.join()
        with pytest.raises(UnsupportedVersionError, match=r"group\.protocol=classic works with every Kafka"):
            group.poll(times=20, timeout=1)


# Programs that are slow, and members that leave


def test_G38_a_member_whose_program_is_slow_leaves_and_comes_back(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    told = Told()
    slow = group.join(told)
    group.settle()
    other = group.join()
    group.poll(other)
    with caplog.at_level(logging.WARNING):
        group.world.simulation.advance((SLOW_S + 1) * 1000)
    assert "left group 'g': no call for records for 300 s (max.poll.interval.ms)" in caplog.text
    group.settle(other)
    assert group.owned(other) == [0, 1, 2, 3]
    with pytest.raises(CommitFailedError, match="no member of it any more"):
        slow.commit({TopicPartition("t", 0): 1})
    group.settle()
    assert told.heard[1] == ("lost", [0, 1, 2, 3])
    assert len(group.owned(slow)) == 2


def test_G38_nothing_that_was_lost_is_handed_out(group: Group) -> None:
    slow = group.join()
    group.settle()
    group.produce()
    group.world.simulation.advance((SLOW_S + 1) * 1000)
    other = group.join()
    group.settle(other)
    group.poll(other, times=20)
    other.commit()
    assert len(group.seen) == 3 * PARTITIONS
    group.settle()
    assert slow.assignment()
    assert len(group.seen) == len(set(group.seen))


def test_G38_a_call_that_waits_for_records_is_no_slow_program(group: Group) -> None:
    one = group.join(max_poll_interval_ms=10_000)
    group.settle()
    before = one.group_metadata()
    assert one.poll(60) == []
    assert one.group_metadata() == before


@pytest.mark.parametrize("leave_group", [None, True, False])
def test_G34_a_dynamic_member_leaves_unless_it_is_told_not_to(group: Group, leave_group: bool | None) -> None:
    one, other = group.join(), group.join()
    group.settle()
    group.members.remove(one)
    one.close(leave_group=leave_group)
    assert len(group.known) == (2 if leave_group is False else 1)
    group.settle(other)


@pytest.mark.parametrize("leave_group", [None, True, False])
def test_G34_a_static_member_leaves_for_a_while_unless_it_is_told_to_go(group: Group, leave_group: bool | None) -> None:
    told = Told()
    one, other = group.join(told, group_instance_id="one"), group.join()
    group.settle()
    held = group.owned(one)
    group.members.remove(one)
    one.close(leave_group=leave_group)
    assert [member.epoch for member in group.known.values()].count(-2) == (0 if leave_group else 1)
    group.poll(other, times=5, timeout=INTERVAL_S)
    assert len(group.owned(other)) == (PARTITIONS if leave_group else 2)
    again = group.join(group_instance_id="one")
    group.settle()
    assert leave_group or group.owned(again) == held


def kill(group: Group, member: Any) -> None:
    """End a member as kill -9 does: nobody is told."""
    group.members.remove(member)
    member._driver.close()


def waits(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What members have said of the group.instance.id that they wait for."""
    return [text for record in caplog.records if "belongs to a member whose session has not ended" in (text := record.getMessage())]


@pytest.mark.parametrize("session_s", [45, 50])
def test_G37_a_static_member_that_was_killed_is_followed_when_its_session_ends(
    group: Group, caplog: pytest.LogCaptureFixture, session_s: int
) -> None:
    with group.world.simulation.admin(bootstrap_servers="b1:9092") as admin:
        admin.incremental_alter_configs({("Group", "g"): {"consumer.session.timeout.ms": session_s * 1000}})
    one = group.join(group_instance_id="one")
    group.settle()
    began_ms = group.world.now_ms
    kill(group, one)
    with caplog.at_level(logging.WARNING):
        again = group.join(group_instance_id="one")
        group.settle()
    assert session_s - 2 * INTERVAL_S <= (group.world.now_ms - began_ms) / 1000 <= session_s + INTERVAL_S
    assert group.owned(again) == [0, 1, 2, 3]
    assert len(waits(caplog)) == 1
    assert f"for {session_s} s at most (consumer.session.timeout.ms of the group)" in waits(caplog)[0]


def test_G37_an_instance_id_that_is_in_use_is_refused_after_the_time_of_a_session(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    one = group.join(group_instance_id="one")
    group.settle()
    two = group.join(group_instance_id="one")
    began_ms = group.world.now_ms
    group.world.faults.fail_next("DescribeConfigs", ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused = r"after 45 s, consumer\.session\.timeout\.ms of the group.*each member needs a group\.instance\.id of its own, and 'one' is"
    with caplog.at_level(logging.WARNING), pytest.raises(GroupError, match=refused):
        group.poll(two, one, times=60, timeout=1)
    assert 45 <= (group.world.now_ms - began_ms) / 1000 <= 60
    assert len(waits(caplog)) == 1
    with pytest.raises(GroupError, match=refused):
        two.poll(1)
    group.members.remove(two)
    two.close()
    group.settle()
    assert group.owned(one) == [0, 1, 2, 3]


def test_G37_a_member_that_is_closed_while_it_waits_for_its_id_leaves_the_other_alone(
    group: Group, beats: list[ConsumerGroupHeartbeatRequest], caplog: pytest.LogCaptureFixture
) -> None:
    one = group.join(group_instance_id="one")
    group.settle()
    two = group.join(group_instance_id="one")
    group.poll(two, times=3, timeout=1)
    group.members.remove(two)
    with caplog.at_level(logging.INFO):
        two.close()
    assert "was not told that its member" not in caplog.text
    group.settle()
    assert group.owned(one) == [0, 1, 2, 3]


def test_G34_a_member_that_unsubscribes_may_join_again_at_once(group: Group) -> None:
    told = Told()
    member = group.join(told)
    group.settle()
    member.unsubscribe()
    assert member.group_metadata().generation_id == -1
    member.subscribe(["t"], told)
    group.settle()
    assert [what for what, _ in told.heard] == ["assigned", "revoked", "assigned"]


def test_G38_a_program_that_unsubscribes_after_it_was_too_slow_is_out(group: Group) -> None:
    told = Told()
    member = group.join(told)
    group.settle()
    group.world.simulation.advance((SLOW_S + 1) * 1000)
    member.unsubscribe()
    assert told.heard[-1] == ("lost", [0, 1, 2, 3])
    member.assign([TopicPartition("t", 0)])
    group.produce()
    group.poll(times=5, timeout=1)
    assert len(group.seen) == 3


def test_G38_a_listener_that_takes_too_long_has_lost_the_rest(group: Group) -> None:
    def be_slow_once(partitions: list[TopicPartition]) -> None:
        if len(told.heard) == 2:
            group.world.simulation.advance((SLOW_S + 1) * 1000)

    told = Told(revoked=be_slow_once)
    group.join(told)
    group.settle()
    other = group.join()
    group.settle()
    (_, given_up), (what, rest) = told.heard[1:3]
    assert (what, sorted(given_up + rest)) == ("lost", [0, 1, 2, 3])
    assert len(group.owned(other)) == 2


# Commits


def test_G39_a_commit_that_waits_for_an_epoch_ends_with_the_membership(group: Group) -> None:
    member = group.join(enable_auto_commit=False)
    group.settle()
    group.world.faults.fail_next("OffsetCommit", ErrorCode.STALE_MEMBER_EPOCH, topic="t")
    group.world.faults.fail_next(HEARTBEAT, ErrorCode.FENCED_MEMBER_EPOCH)
    with pytest.raises(CommitFailedError, match="no member of it any more"):
        member.commit({TopicPartition("t", 0): 1})


def test_G39_a_commit_for_an_old_epoch_is_repeated_after_the_next_heartbeat(group: Group) -> None:
    member = group.join(enable_auto_commit=False)
    group.settle()
    group.world.faults.fail_next("OffsetCommit", ErrorCode.STALE_MEMBER_EPOCH, topic="t")
    beaten = group.world.requests(HEARTBEAT)
    member.commit({TopicPartition("t", 0): 1})
    assert group.committed(0) == 1
    assert group.world.requests(HEARTBEAT) == beaten + 1
    group.world.faults.fail_next("OffsetCommit", ErrorCode.STALE_MEMBER_EPOCH, topic="t")
    told: list[Any] = []
    member.commit_async({TopicPartition("t", 0): 2}, lambda offsets, error: told.append(error))
    group.poll(times=3)
    assert [type(error) for error in told] == [RetriableCommitError]
    assert group.committed(0) == 1


def test_G39_a_member_that_was_left_behind_keeps_its_epoch_for_transactions(group: Group) -> None:
    slow = group.join()
    group.settle()
    before = slow.group_metadata()
    group.world.simulation.advance((SLOW_S + 1) * 1000)
    assert slow.group_metadata() == before, "whoever takes a transaction's offsets of it knows that it is none any more"
    group.settle()
    assert slow.group_metadata().generation_id > before.generation_id


def test_G33_a_broker_that_names_no_interval_is_not_told_without_a_pause(group: Group) -> None:
    def hurry(answer: Any) -> None:
        answer.heartbeat_interval_ms = 0

    group.join()
    with altered(HEARTBEAT, hurry):
        group.settle()
        before = group.world.requests(HEARTBEAT)
        group.world.simulation.advance(10_000)
        assert group.world.requests(HEARTBEAT) - before <= 130


def test_G37_while_heartbeats_fail_the_pauses_between_them_grow(group: Group) -> None:
    member = group.join()
    group.settle()
    group.world.faults.fail_next(HEARTBEAT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=1_000)
    group.world.simulation.advance(INTERVAL_S * 1000)
    before = group.world.requests(HEARTBEAT)
    group.world.simulation.advance(20_000)
    assert 15 < group.world.requests(HEARTBEAT) - before < 35, "one each second: retry.backoff.max.ms"
    group.world.faults.clear()
    group.settle()
    assert group.owned(member) == [0, 1, 2, 3]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_G39_a_commit_of_no_member_fails(group: Group, code: ErrorCode) -> None:
    member = group.join()
    group.settle()
    group.world.faults.fail_next("OffsetCommit", code, topic="t")
    with pytest.raises(CommitFailedError):
        member.commit({TopicPartition("t", 0): 1})


@pytest.mark.parametrize("code", [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_G39_what_is_committed_is_looked_up_by_the_member(group: Group, monkeypatch: pytest.MonkeyPatch, code: ErrorCode) -> None:
    asked: list[tuple[str | None, int]] = []
    check = ConsumerGroups.check_fetch

    def note(groups: ConsumerGroups, of: Any, member_id: str | None, epoch: int) -> None:
        asked.append((member_id, epoch))
        check(groups, of, member_id, epoch)

    monkeypatch.setattr(ConsumerGroups, "check_fetch", note)
    group.world.faults.fail_next("OffsetFetch", code)
    member = group.join()
    group.settle()
    group.poll(times=5, timeout=1)
    known = member.group_metadata()
    assert asked[-1] == (known.member_id, known.generation_id)
    assert {member.position(tp) for tp in member.assignment()} == {0}


# Subscriptions


def test_G34_a_pattern_of_the_client_follows_the_topics_that_match_it(group: Group) -> None:
    group.world.topic("other", 1)
    member = group.new(metadata_max_age_ms=5_000)
    member.subscribe(pattern="t.*")
    group.settle()
    assert member.subscription() == {"t"}
    group.world.topic("t2", 1)
    group.settle(partitions=PARTITIONS + 1)
    assert member.subscription() == {"t", "t2"}


def test_G34_a_pattern_of_the_brokers_needs_no_metadata_of_all_topics(
    group: Group, beats: list[ConsumerGroupHeartbeatRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    group.world.topic("other", 1)
    member = group.new()
    member.subscribe(pattern=SubscriptionPattern("t.*"))
    described: set[str | None] = set()
    with altered("Metadata", lambda answer: described.update(topic.name for topic in answer.topics)):
        group.settle()
        group.world.topic("t2", 1)
        group.settle(partitions=PARTITIONS + 1)
        group.world.append("t2", [b"v"], epoch=0)
        while not group.seen:
            group.poll(timeout=1)
    assert described == {"t", "t2"}
    assert member.subscription() == {"t", "t2"}
    assert (beats[0].subscribed_topic_names, beats[0].subscribed_topic_regex) == ([], "t.*")
    member.subscribe(["t"])
    group.settle()
    assert [(beat.subscribed_topic_names, beat.subscribed_topic_regex) for beat in beats if "pattern" in fields(beat)][1:] == [(["t"], "")]


def test_G37_a_pattern_that_the_brokers_cannot_read_is_refused(group: Group) -> None:
    group.new().subscribe(pattern=SubscriptionPattern("("))
    with pytest.raises(BrokerError) as caught:
        group.poll(times=20, timeout=1)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_G34_a_pattern_of_the_brokers_goes_with_the_consumer_protocol(group: Group) -> None:
    with pytest.raises(IllegalStateError, match=r"set group\.protocol=consumer"):
        group.world.consumer(group_id="g").subscribe(pattern=SubscriptionPattern("t"))
    with pytest.raises(ValueError, match="regular expression for whole names"):
        group.new().subscribe(pattern=SubscriptionPattern(""))


def test_G33_who_asks_for_a_rebalance_is_told_that_brokers_decide(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    member = group.join()
    group.settle()
    with caplog.at_level(logging.WARNING):
        member.enforce_rebalance()
        group.poll()
    assert "the brokers decide when group 'g' is rebalanced" in caplog.text


def test_metrics_tell_of_heartbeats_and_rebalances(group: Group) -> None:
    member = group.join()
    group.settle()
    found = {name.name: value for name, value in member.metrics().items() if name.group == "consumer-coordinator-metrics"}
    assert found["rebalance-total"] == 1
    assert found["assigned-partitions"] == PARTITIONS
    assert found["last-heartbeat-seconds-ago"] <= INTERVAL_S
