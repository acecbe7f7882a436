"""A share group's member: its table of states, what a heartbeat says, and what it makes of answers, by hand."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

import pytest

from levada.base.clock import ExponentialBackoff, Now
from levada.base.flow import Call
from levada.base.promise import Promise
from levada.client.driver_interface import Deferred
from levada.client.metadata.snapshot import ClusterSnapshot, TopicMetadata
from levada.consumer.group.consumer_heartbeat import HeartbeatReaction, Identity, reaction_to
from levada.consumer.share.member import ShareGroupMember, ShareMemberSettings, share_heartbeat, share_leaving
from levada.consumer.share.states import IN_GROUP, MAY_JOIN, TRANSITIONS
from levada.consumer.share.states import ShareMemberEvent as Event
from levada.consumer.share.states import ShareMemberState as State
from levada.error_codes import ErrorCode
from levada.errors import DisconnectError, UnsupportedVersionError
from levada.protocol.messages.share_group_heartbeat import Assignment, ShareGroupHeartbeatResponse, TopicPartitions
from levada.types import TopicPartition

T = UUID(int=7)
WHO = Identity("g", "m", None)
TP = TopicPartition("t", 0)


def test_a_member_may_leave_be_fenced_or_refused_wherever_it_is_in_the_group() -> None:
    for state in IN_GROUP:
        assert TRANSITIONS[state][Event.FENCE] is State.JOINING
        assert TRANSITIONS[state][Event.FAIL] is State.FATAL
        assert TRANSITIONS[state][Event.LEAVE] is State.LEAVING
    for state in State:
        assert (Event.JOIN in TRANSITIONS[state]) == (state in MAY_JOIN)
        assert (Event.LEAVE in TRANSITIONS[state]) == (state in IN_GROUP)
    assert set(TRANSITIONS[State.FATAL]) == {Event.UNSUBSCRIBE}


def test_what_has_changed_is_told_and_everything_at_first() -> None:
    first = share_heartbeat(WHO, 0, frozenset("ba"), None, "rack")
    assert (first.member_epoch, first.subscribed_topic_names, first.rack_id) == (0, ["a", "b"], "rack")
    same = share_heartbeat(WHO, 3, frozenset("ba"), frozenset("ab"), "rack")
    assert (same.member_epoch, same.subscribed_topic_names, same.rack_id) == (3, None, None)
    assert share_heartbeat(WHO, 3, frozenset("b"), frozenset("ab"), "rack").subscribed_topic_names == ["b"]
    assert share_leaving(WHO).member_epoch == -1


class FakeMetadata:
    def __init__(self) -> None:
        self.version, self.updates = 0, 0
        self.snapshot = ClusterSnapshot()

    def set_topics(self, topics: Any, now_ms: int) -> None: ...

    def request_update(self) -> int:
        self.updates += 1
        return self.version

    def learn(self) -> None:
        self.snapshot = ClusterSnapshot(topics={"t": TopicMetadata("t", T)})
        self.version += 1


class FakeFinder:
    def __init__(self) -> None:
        self.forgotten = 0

    def forget(self, *key: Any) -> None:
        self.forgotten += 1


class FakeSpawn:
    """Runs a flow up to its call, and lets a test answer that."""

    def __init__(self) -> None:
        self.running: list[tuple[Any, Call, Promise[Any]]] = []

    def start(self, flow: Any) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        self._step(flow, promise, lambda: next(flow))
        return promise

    def _step(self, flow: Any, promise: Promise[Any], step: Callable[[], Any]) -> None:
        try:
            self.running.append((flow, step(), promise))
        except StopIteration as done:
            promise.resolve(done.value)
        except Exception as error:
            promise.reject(error)

    def answer(self, outcome: Any) -> Any:
        flow, call, promise = self.running.pop(0)
        self._step(flow, promise, (lambda: flow.throw(outcome)) if isinstance(outcome, Exception) else (lambda: flow.send(outcome)))
        return call.request

    def cancel(self, promise: Promise[Any]) -> None:
        self.running = [task for task in self.running if task[2] is not promise]


class Bench:
    def __init__(self) -> None:
        self.metadata, self.finder, self.spawn, self.now = FakeMetadata(), FakeFinder(), FakeSpawn(), Now()
        self.now.ms = 1_000
        finder: Any = self.finder
        metadata: Any = self.metadata
        spawn: Any = self.spawn
        self.deferred = Deferred({})
        self.member = ShareGroupMember(
            ShareMemberSettings(group_id="g", max_poll_interval_ms=60_000, client_rack=""),
            member_id="m",
            changed=lambda: None,
            finder=finder,
            metadata=metadata,
            backoff=ExponentialBackoff(100, 100, Random(1)),
            spawn=spawn,
            now=self.now,
            deferred=self.deferred,
        )

    def poll(self, ms: int = 0) -> int:
        self.now.ms += ms
        return self.member.poll(self.now.ms)

    def join(self) -> None:
        self.member.subscribe(frozenset({"t"}), self.now.ms)
        self.member.entered(self.now.ms)
        self.poll()

    def answer(self, *partitions: int, epoch: int = 1, code: ErrorCode = ErrorCode.NONE, same: bool = False) -> Any:
        target = None if same or code else Assignment(topic_partitions=[TopicPartitions(topic_id=T, partitions=list(partitions))])
        return self.spawn.answer(
            ShareGroupHeartbeatResponse(error_code=int(code), member_epoch=epoch, heartbeat_interval_ms=5_000, assignment=target)
        )

    def stable(self) -> None:
        self.metadata.learn()
        self.join()
        self.answer(0)
        assert (self.member.state, list(self.member.assignment)) == (State.STABLE, [TP])


def test_a_call_for_records_joins_and_the_answer_is_taken_at_once() -> None:
    bench = Bench()
    bench.metadata.learn()
    bench.member.subscribe(frozenset({"t"}), bench.now.ms)
    bench.poll()
    assert not bench.spawn.running, "subscribe() alone does not join"
    bench.member.entered(bench.now.ms)
    bench.poll()
    assert bench.answer(0).member_epoch == 0
    assert (bench.member.state, list(bench.member.assignment)) == (State.STABLE, [TP])
    assert bench.poll() == bench.now.ms + 5_000


def test_names_that_are_not_known_yet_are_waited_for() -> None:
    bench = Bench()
    bench.join()
    bench.answer(0)
    assert (bench.member.state, list(bench.member.assignment), bench.metadata.updates > 0) == (State.RECONCILING, [], True)
    bench.metadata.learn()
    bench.poll()
    assert (bench.member.state, list(bench.member.assignment)) == (State.STABLE, [TP])


def test_another_target_replaces_the_one_before() -> None:
    bench = Bench()
    bench.stable()
    bench.poll(ms=5_000)
    assert bench.answer(1, 2, epoch=2).member_epoch == 1
    assert [tp.partition for tp in bench.member.assignment] == [1, 2]
    bench.poll(ms=5_000)
    bench.answer(epoch=2, same=True)
    assert [tp.partition for tp in bench.member.assignment] == [1, 2]


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_member_that_is_fenced_joins_again_by_itself(code: ErrorCode) -> None:
    bench = Bench()
    bench.stable()
    bench.poll(ms=5_000)
    bench.answer(code=code)
    assert (bench.member.state, dict(bench.member.assignment)) == (State.JOINING, {})
    bench.poll()
    again = bench.answer(0)
    assert (again.member_epoch, again.subscribed_topic_names) == (0, ["t"])
    assert bench.member.state is State.STABLE


def test_another_coordinator_is_looked_for_and_told_everything() -> None:
    bench = Bench()
    bench.stable()
    bench.poll(ms=5_000)
    bench.answer(code=ErrorCode.NOT_COORDINATOR)
    bench.poll()
    assert (bench.finder.forgotten, bench.answer(0).subscribed_topic_names) == (1, ["t"])


def test_what_was_not_answered_is_said_again_after_a_pause() -> None:
    bench = Bench()
    bench.stable()
    bench.poll(ms=5_000)
    bench.spawn.answer(DisconnectError("gone"))
    assert bench.poll() == bench.now.ms + 100
    bench.poll(ms=100)
    assert bench.answer(0).subscribed_topic_names == ["t"]


def test_every_other_code_ends_the_membership_for_good() -> None:
    for code in ErrorCode:
        if code is ErrorCode.NONE or reaction_to(code, 1) is not HeartbeatReaction.FAIL:
            continue
        bench = Bench()
        bench.stable()
        bench.poll(ms=5_000)
        bench.answer(code=code)
        assert (bench.member.state, dict(bench.member.assignment)) == (State.FATAL, {}), code
        assert bench.member.take_error() is bench.member.take_error() is not None
        bench.poll(ms=60_000)
        assert not bench.spawn.running


def test_a_broker_without_share_groups_is_an_error_with_what_has_them() -> None:
    bench = Bench()
    bench.join()
    bench.spawn.answer(UnsupportedVersionError("no ShareGroupHeartbeat"))
    error = bench.member.take_error()
    assert isinstance(error, UnsupportedVersionError)
    assert "share groups need Kafka 4.1, or better 4.2" in str(error)


def test_a_program_that_does_not_ask_for_records_makes_its_member_leave_until_it_does() -> None:
    bench = Bench()
    bench.stable()
    bench.member.returned(bench.now.ms)
    for _ in range(11):
        bench.poll(ms=5_000)
        bench.answer(same=True)
    bench.poll(ms=5_000)
    (_, call, _) = bench.spawn.running[0]
    assert (call.request.member_epoch, bench.member.state, dict(bench.member.assignment)) == (-1, State.LEAVING, {})
    bench.answer(epoch=-1, same=True)
    assert bench.member.state is State.STALE
    bench.member.entered(bench.now.ms)
    bench.poll()
    assert bench.answer(0).member_epoch == 0


def test_a_changed_subscription_is_told_at_once() -> None:
    bench = Bench()
    bench.stable()
    bench.member.subscribe(frozenset({"t", "u"}), bench.now.ms)
    bench.poll()
    assert bench.answer(0).subscribed_topic_names == ["t", "u"]


def test_a_call_that_begins_while_its_member_leaves_joins_once_it_has_left() -> None:
    bench = Bench()
    bench.stable()
    bench.member.returned(bench.now.ms)
    bench.poll(ms=60_000)
    assert bench.member.state is State.LEAVING
    bench.member.entered(bench.now.ms)
    bench.answer(epoch=-1, same=True)
    bench.poll()
    assert (bench.member.state, bench.answer(0).member_epoch) == (State.JOINING, 0)


def test_a_member_that_has_left_stays_out_while_the_program_asks_for_nothing() -> None:
    bench = Bench()
    bench.stable()
    bench.member.returned(bench.now.ms)
    bench.poll(ms=60_000)
    bench.member.entered(bench.now.ms)
    bench.member.returned(bench.now.ms)
    bench.answer(epoch=-1, same=True)
    assert bench.member.state is State.STALE
