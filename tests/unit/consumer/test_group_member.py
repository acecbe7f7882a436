"""The parts of a classic member: its table of states, what members write for one another, heartbeats, and the flow that joins."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from levada.base.clock import NEVER_MS, ExponentialBackoff
from levada.base.flow import Call, Sleep, Wait
from levada.base.promise import Promise
from levada.base.state_table import following
from levada.client.metadata.snapshot import ClusterSnapshot, TopicMetadata
from levada.client.requests.group_offsets import CoordinatedGroup
from levada.consumer.group.assignors import assignors_of
from levada.consumer.group.classic_states import TRANSITIONS, MemberEvent, MemberState
from levada.consumer.group.consumer_protocol import assignment_bytes, read_assignment, read_subscription, subscription_bytes
from levada.consumer.group.heartbeats import Heartbeats
from levada.consumer.group.joining import Joining, Received
from levada.consumer.group.leading import have_changed, layouts
from levada.consumer.group.requests import Generation, GroupSettings, Requests, refusal
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, DisconnectError, IllegalStateError
from levada.groups import MemberAssignment, MemberSubscription, TopicLayout
from levada.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from levada.protocol.messages.sync_group import SyncGroupResponse
from levada.types import Node, PartitionInfo, TopicPartition
from settings_kit import new_metadata

# States


def test_G5_joining_anew_and_losing_the_membership_are_possible_everywhere() -> None:
    for events in TRANSITIONS.values():
        assert events[MemberEvent.JOIN] is MemberState.PREPARING_REBALANCE
        assert events[MemberEvent.LOST] is MemberState.UNJOINED


def test_G5_stable_is_reached_by_an_assignment_alone() -> None:
    ways = [(state, event) for state, events in TRANSITIONS.items() for event, to in events.items() if to is MemberState.STABLE]
    assert ways == [(MemberState.COMPLETING_REBALANCE, MemberEvent.SYNCED)]


def test_G5_what_the_table_does_not_have_is_an_error() -> None:
    assert following(TRANSITIONS, MemberState.UNJOINED, MemberEvent.JOIN, "it") is MemberState.PREPARING_REBALANCE
    with pytest.raises(IllegalStateError, match=r"^it in the state 'not a member' has no transition for 'SyncGroup was answered "):
        following(TRANSITIONS, MemberState.UNJOINED, MemberEvent.SYNCED, "it")


# What members write for one another


def tps(text: str) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(word[0], int(word[1:])) for word in text.split())


def test_G17_a_subscription_is_written_with_topics_in_order() -> None:
    said = MemberSubscription(frozenset("ba"), tps("b1 a0 a2"), 7, "r", None, b"u")
    topics = b"\0\0\0\2\0\1a\0\1b" + b"\0\0\0\1u"
    owned = b"\0\0\0\2" + b"\0\1a\0\0\0\2\0\0\0\0\0\0\0\2" + b"\0\1b\0\0\0\1\0\0\0\1"
    assert subscription_bytes(said) == b"\0\3" + topics + owned + b"\0\0\0\7" + b"\0\1r"
    assert read_subscription(subscription_bytes(said), "one") == said._replace(owned=tps("a0 a2 b1"), instance_id="one")


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_G17_older_and_newer_subscriptions_are_read(version: int) -> None:
    parts = [b"\0\0\0\1\0\1a\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\5", b"\0\1r", b"what comes later"]
    found = read_subscription(bytes([0, version]) + b"".join(parts[: version + 1]), None)
    assert found.topics == frozenset("a")
    assert found.generation == (5 if version >= 2 else -1)
    assert found.rack == ("r" if version >= 3 else None)


def test_G17_an_assignment_goes_there_and_back_and_no_bytes_are_no_partitions() -> None:
    given = MemberAssignment(tps("a0 a1 b0"), b"data")
    assert assignment_bytes(given)[:2] == b"\0\3"
    assert read_assignment(assignment_bytes(given)) == given
    assert read_assignment(b"") == MemberAssignment(())


# Heartbeats


def new_beats(longest_pause_ms: int = 100) -> Heartbeats:
    return Heartbeats(interval_ms=3_000, backoff=ExponentialBackoff(100, longest_pause_ms, Random(1)), max_poll_interval_ms=60_000)


def test_G14_a_heartbeat_is_due_an_interval_after_the_last_and_sooner_after_a_failed_one() -> None:
    beats = new_beats()
    assert beats.due_ms == NEVER_MS
    beats.begin(1_000)
    assert beats.due_ms == 4_000
    beats.sent()
    assert beats.due_ms == NEVER_MS
    beats.answered(4_000, 4_500, ok=True)
    assert beats.due_ms == 7_000
    beats.answered(7_000, 7_600, ok=False)
    assert beats.due_ms == 7_700


@pytest.mark.parametrize("end", [lambda beats: beats.answered(0, 0, ok=True), lambda beats: beats.end()])
def test_G14_pauses_after_failed_heartbeats_grow_until_one_succeeds(end: Any) -> None:
    beats = new_beats(longest_pause_ms=1_000)
    pauses = []
    for _ in range(6):
        beats.answered(0, 10_000, ok=False)
        pauses.append(beats.due_ms - 10_000)
    assert 80 <= pauses[0] <= 120
    assert pauses == sorted(pauses)
    assert pauses[-1] == 1_000
    assert beats.failures == 6
    end(beats)
    beats.answered(0, 10_000, ok=False)
    assert 80 <= beats.due_ms - 10_000 <= 120


def test_G14_the_programs_clock_stands_still_within_a_call() -> None:
    beats = new_beats()
    beats.entered(1_000)
    assert beats.missed_ms == NEVER_MS
    beats.returned(5_000)
    assert beats.missed_ms == 65_000


# What a leader watches


def snapshot(partitions: int, error: ErrorCode = ErrorCode.NONE, rack: str = "r") -> ClusterSnapshot:
    infos = tuple(PartitionInfo("t", index, 1, 0, (1,), (1,)) for index in range(partitions))
    return ClusterSnapshot(nodes={1: Node(1, "h", 1, rack)}, topics={"t": TopicMetadata("t", error=error, partitions=infos)})


def test_G13_partitions_racks_and_deletion_are_changes_and_errors_that_pass_are_none() -> None:
    before = layouts(snapshot(2), ["t"], with_racks=True)
    assert before == {"t": TopicLayout("t", (frozenset("r"), frozenset("r")))}
    changed = [snapshot(2), snapshot(3), snapshot(2, rack="s"), snapshot(0, ErrorCode.LEADER_NOT_AVAILABLE), ClusterSnapshot()]
    assert [have_changed(before, ["t"], now, with_racks=True) for now in changed] == [False, True, True, False, False]
    assert have_changed(before, ["t"], snapshot(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), with_racks=True)
    without = layouts(snapshot(2), ["t"], with_racks=False)
    assert not have_changed(without, ["t"], snapshot(2, rack="s"), with_racks=False)


# The flow that joins

SETTINGS = GroupSettings("g", None, "classic", None, assignors_of(["range"]), 45_000, 3_000, 300_000, 30_000, True, "")


class Finder:
    """Notes who was forgotten."""

    def __init__(self) -> None:
        self.forgotten = 0

    def forget(self, kind: Any, key: str) -> None:
        self.forgotten += 1


class Joiner:
    """A member without an engine."""

    def __init__(self) -> None:
        self.generation = Generation()
        self.events: list[str] = []
        self.holds_partitions = False

    def move(self, event: MemberEvent) -> None:
        self.events.append(event.name)

    def offers(self) -> list[tuple[str, bytes]]:
        return [("range", b"")]

    def take_generation(self, generation: Generation) -> None:
        self.generation = generation

    def lose(self, *, keeps_id: bool) -> None:
        self.generation = Generation(member_id=self.generation.member_id if keeps_id else "")
        self.move(MemberEvent.LOST)

    def watch_topics(self, topics: frozenset[str]) -> None:
        self.events.append(f"watch {sorted(topics)}")

    def asks(self, asks: bool) -> None:
        pass


class Conversation:
    """A joining flow, and what it asks."""

    def __init__(self) -> None:
        self.member, self.finder = Joiner(), Finder()
        group = CoordinatedGroup("g", self.finder)  # type: ignore[arg-type]
        metadata = new_metadata()
        metadata.snapshot = snapshot(2)
        joining = Joining(
            self.member,
            settings=SETTINGS,
            requests=Requests(SETTINGS, group),
            group=group,
            metadata=metadata,
            backoff=ExponentialBackoff(100, 100, Random(0)),
            run_beside=lambda run: Promise.resolved(run()),
        )
        self.flow = joining.run("because")
        self.asked: list[Any] = []
        self._go_on(next(self.flow))

    def _go_on(self, step: Any) -> None:
        while isinstance(step, Sleep | Wait):
            self.asked.append("pause" if isinstance(step, Sleep) else "assignor")
            step = self.flow.send(step.promise.result() if isinstance(step, Wait) else None)
        assert isinstance(step, Call)
        self.asked.append(step.request)

    def answer(self, answer: Any) -> None:
        self._go_on(self.flow.throw(answer) if isinstance(answer, Exception) else self.flow.send(answer))

    def end(self, answer: Any) -> Received | None:
        with pytest.raises(StopIteration) as done:
            self.flow.send(answer)
        received: Received | None = done.value.value
        return received


def joined(**fields: Any) -> JoinGroupResponse:
    said = {"generation_id": 4, "protocol_type": "consumer", "protocol_name": "range", "leader": "m", "member_id": "m"}
    metadata = subscription_bytes(MemberSubscription(frozenset("t")))
    members = [JoinGroupResponseMember(member_id="m", metadata=metadata)]
    return JoinGroupResponse(**{**said, "members": members, **fields})


def test_G6_G9_a_leader_joins_shares_out_and_syncs() -> None:
    run = Conversation()
    run.answer(joined())
    join, _, sync = run.asked
    assert (join.session_timeout_ms, join.rebalance_timeout_ms, join.reason) == (45_000, 300_000, "because")
    assert (sync.generation_id, sync.member_id, sync.protocol_name) == (4, "m", "range")
    (given,) = sync.assignments
    received = run.end(SyncGroupResponse(assignment=given.assignment))
    assert received is not None
    assert received.assignment.partitions == tps("t0 t1")
    assert received.led is not None
    assert run.member.events == ["JOIN", "JOINED", "watch ['t']"]


@pytest.mark.parametrize(("max_poll_ms", "timeout_ms"), [(300_000, 305_000), (1_000, 30_000)])
def test_G6_TR67_a_join_may_take_as_long_as_the_slowest_member_and_a_little_longer(max_poll_ms: int, timeout_ms: int) -> None:
    settings = replace(SETTINGS, max_poll_interval_ms=max_poll_ms)
    requests = Requests(settings, CoordinatedGroup("g", Finder()))  # type: ignore[arg-type]
    join, sync = requests.join("", [], "because"), requests.sync(Generation(), "range", {})
    assert (join.timeout_ms, sync.timeout_ms) == (timeout_ms, timeout_ms)
    assert (join.may_block, sync.may_block) == (True, True)


def test_G9_a_follower_sends_no_assignments() -> None:
    run = Conversation()
    run.answer(joined(leader="other", members=[]))
    assert run.asked[-1].assignments == []
    received = run.end(SyncGroupResponse(assignment=assignment_bytes(MemberAssignment(tps("t1")))))
    assert received is not None
    assert (received.assignment.partitions, received.led) == (tps("t1"), None)


def test_G9_a_leader_that_is_to_skip_the_assignment_watches_all_the_same() -> None:
    run = Conversation()
    run.answer(joined(skip_assignment=True))
    assert run.asked[-1].assignments == []
    received = run.end(SyncGroupResponse(assignment=assignment_bytes(MemberAssignment(tps("t1")))))
    assert received is not None
    assert received.led is not None
    assert received.led.topics == frozenset("t")


def test_G8_a_member_id_is_taken_and_sent_at_once() -> None:
    run = Conversation()
    run.answer(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m-7"))
    assert [request.member_id for request in run.asked] == ["", "m-7"]


def test_G3_a_lost_answer_has_the_coordinator_looked_for_and_is_asked_again_after_a_pause() -> None:
    run = Conversation()
    run.answer(DisconnectError("gone"))
    assert run.finder.forgotten == 1
    assert run.asked[1] == "pause"
    assert run.asked[2].member_id == ""


@pytest.mark.parametrize(
    "answer",
    [
        joined(protocol_type="connect"),
        joined(protocol_name="sticky"),
    ],
)
def test_G11_another_protocol_in_the_answer_is_refused(answer: JoinGroupResponse) -> None:
    run = Conversation()
    with pytest.raises(BrokerError, match="INCONSISTENT_GROUP_PROTOCOL"):
        run.flow.send(answer)


def test_G11_another_protocol_in_the_answer_to_a_sync_is_refused() -> None:
    run = Conversation()
    run.answer(joined(leader="other", members=[]))
    with pytest.raises(BrokerError, match="INCONSISTENT_GROUP_PROTOCOL"):
        run.flow.send(SyncGroupResponse(protocol_type="consumer", protocol_name="sticky"))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "do not all offer one of these assignors: range (partition.assignment.strategy)"),
        (ErrorCode.INVALID_SESSION_TIMEOUT, "session.timeout.ms=45000 is not between the broker's group.min.session.timeout.ms and"),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, "group.max.size"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "this user needs the permission READ on group 'g'"),
        (ErrorCode.FENCED_INSTANCE_ID, "another consumer has joined with group.instance.id='one'"),
        (ErrorCode.INVALID_GROUP_ID, "refuses this member: INVALID_GROUP_ID"),
    ],
)
def test_G8_a_refusal_says_what_is_wrong_and_what_to_do(code: ErrorCode, text: str) -> None:
    error = refusal(replace(SETTINGS, group_instance_id="one"), code, "this member")
    assert str(error).startswith("group 'g': the coordinator refuses this member")
    assert text in str(error)


def test_G12_a_membership_that_is_lost_with_partitions_goes_back_to_the_program_first() -> None:
    run = Conversation()
    run.member.holds_partitions = True
    assert run.end(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)) is None
    assert run.member.events == ["JOIN", "LOST"]
