"""ListOffsets flows, with canned replies."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from levada.base.clock import ExponentialBackoff, Now
from levada.base.flow import Call, Flow, Sleep, Wait
from levada.base.promise import Promise
from levada.client.metadata.known_topics import check_exists
from levada.client.metadata.metadata import Metadata
from levada.client.metadata.snapshot import ClusterSnapshot, TopicMetadata
from levada.client.requests.retry import Reaction
from levada.consumer.positions.offsets import ON_LIST_OFFSETS_ERROR, OffsetFinder, ask_leader
from levada.error_codes import ErrorCode
from levada.errors import DisconnectError, TimeoutError, UnknownTopicOrPartitionError, broker_error
from levada.protocol.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse
from levada.types import IsolationLevel, Node, OffsetAndTimestamp, PartitionInfo, TopicPartition
from settings_kit import new_metadata

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def cluster(*leaders: int, error: ErrorCode = ErrorCode.NONE) -> Metadata:
    """Metadata of topic t whose partitions are led by these nodes."""
    metadata = new_metadata()
    infos = tuple(PartitionInfo("t", number, leader, 3, (), ()) for number, leader in enumerate(leaders))
    nodes = {leader: Node(leader, "h", leader) for leader in leaders if leader >= 0}
    metadata.snapshot = ClusterSnapshot(nodes=nodes, topics={"t": TopicMetadata("t", None, error, False, infos)})
    return metadata


def reply(*parts: tuple[int, int, int]) -> ListOffsetsResponse:
    """(partition, error code, offset) of topic t."""
    answers = [ListOffsetsPartitionResponse(partition_index=p, error_code=c, offset=o, timestamp=7, leader_epoch=3) for p, c, o in parts]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=answers)])


def returned(flow: Flow[Any], answer: Any) -> Any:
    with pytest.raises(StopIteration) as done:
        flow.throw(answer) if isinstance(answer, BaseException) else flow.send(answer)
    return done.value.value


def test_O7_the_leader_is_asked_with_epoch_and_isolation() -> None:
    flow = ask_leader(4, {A: -1, B: -2}, cluster(4, 4), IsolationLevel.READ_COMMITTED)
    call = next(flow)
    assert isinstance(call, Call)
    assert (call.node, call.request.isolation_level, call.request.replica_id) == (4, 1, -1)
    asked = [(part.partition_index, part.current_leader_epoch, part.timestamp) for part in call.request.topics[0].partitions]
    assert asked == [(0, 3, -1), (1, 3, -2)]
    answer = returned(flow, reply((0, 0, 12), (1, 0, -1)))
    assert answer.found == {A: OffsetAndTimestamp(12, 7, 3), B: None}


def test_O8_a_broken_connection_and_a_missing_answer_are_asked_again() -> None:
    flow = ask_leader(4, {A: -1}, cluster(4), IsolationLevel.READ_UNCOMMITTED)
    next(flow)
    assert returned(flow, DisconnectError("gone")).again == {A: "gone"}
    flow = ask_leader(4, {A: -1, B: -1}, cluster(4, 4), IsolationLevel.READ_UNCOMMITTED)
    next(flow)
    assert returned(flow, reply((0, 0, 1))).again == {B: "node 4 left it out of its answer"}


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
def test_M_B7_every_code(code: ErrorCode) -> None:
    flow = ask_leader(4, {A: -1}, cluster(4), IsolationLevel.READ_UNCOMMITTED)
    next(flow)
    answer = returned(flow, reply((0, code, -1)))
    places = {Reaction.REFRESH: answer.again, Reaction.NOTHING: answer.found, Reaction.RAISE: answer.errors}
    assert [reaction for reaction, place in places.items() if A in place] == [ON_LIST_OFFSETS_ERROR.reaction(code)]


class Spawned:
    """The flows that were started beside the one under test, to be run by hand, and the promises of their results."""

    def __init__(self) -> None:
        self.flows: list[Flow[Any]] = []
        self.promises: list[Promise[Any]] = []

    def start(self, flow: Flow[Any]) -> Promise[Any]:
        self.flows.append(flow)
        self.promises.append(Promise())
        return self.promises[-1]

    def cancel(self, promise: Promise[Any]) -> None:
        self.flows[self.promises.index(promise)].close()

    def answer(self, number: int, answer: Any) -> Promise[Any]:
        """Hand one of them its answer, which ends it."""
        self.promises[number].resolve(returned(self.flows[number], answer))
        return self.promises[number]


def is_waiting(step: Any) -> bool:
    """Whether a flow waits until one of those that it has started ends."""
    return isinstance(step, Wait) and not step.promise.done


def finder(metadata: Metadata, spawn: Spawned) -> OffsetFinder:
    backoff = ExponentialBackoff(100, 100, Random(0))
    return OffsetFinder(metadata=metadata, isolation_level=IsolationLevel.READ_UNCOMMITTED, backoff=backoff, spawn=spawn, now=Now())


def test_O9_all_leaders_are_asked_at_once() -> None:
    spawned = Spawned()
    flow = finder(cluster(4, 5), spawned).find({A: -1, B: -1})
    assert is_waiting(next(flow))
    assert [next(one).node for one in spawned.flows] == [4, 5]  # type: ignore[union-attr]
    assert is_waiting(flow.send(spawned.answer(0, reply((0, 0, 10)))))
    assert returned(flow, spawned.answer(1, reply((1, 0, 20)))) == {A: OffsetAndTimestamp(10, 7, 3), B: OffsetAndTimestamp(20, 7, 3)}


def test_O8_what_is_left_is_asked_again_after_a_pause_and_fresh_metadata() -> None:
    spawned = Spawned()
    flow = finder(cluster(4, 5), spawned).find({A: -1, B: -1})
    next(flow)
    for asking in spawned.flows:
        next(asking)
    missing = spawned.answer(0, reply((0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)))
    assert is_waiting(flow.send(missing))
    pause = spawned.flows[2]
    assert next(pause) == Sleep(100)
    assert isinstance(pause.send(None), Wait)
    assert is_waiting(flow.send(spawned.answer(1, reply((1, 0, 20)))))
    flow.send(spawned.answer(2, None))
    assert len(spawned.flows) == 4, "only the partition that is missing"
    with pytest.raises(TimeoutError, match=r"offsets not found in time \(late\): t-0: node 4: NOT_LEADER_OR_FOLLOWER$"):
        flow.throw(TimeoutError("late"))


def test_an_error_of_one_partition_is_raised() -> None:
    spawned = Spawned()
    flow = finder(cluster(4), spawned).find({A: -1})
    next(flow)
    next(spawned.flows[0])
    with pytest.raises(type(broker_error(29)), match="t-0"):
        flow.send(spawned.answer(0, reply((0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1))))


def test_a_topic_that_does_not_exist_is_reported_at_the_deadline_at_the_latest() -> None:
    flow = finder(cluster(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), Spawned()).find({A: -1})
    assert is_waiting(next(flow))
    with pytest.raises(UnknownTopicOrPartitionError, match="topic 't' does not exist"):
        flow.throw(TimeoutError("late"))


def test_what_may_yet_appear_is_given_time() -> None:
    snapshot = cluster(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION).snapshot
    check_exists(A, snapshot, 1_999)
    with pytest.raises(UnknownTopicOrPartitionError):
        check_exists(A, snapshot, 2_000)
    check_exists(A, cluster(error=ErrorCode.LEADER_NOT_AVAILABLE).snapshot, 1 << 40)
    with pytest.raises(type(broker_error(29))):
        check_exists(A, cluster(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED).snapshot, 0)
