"""What a share consumer sends to the leaders of its partitions, and what it makes of their answers: without a network, by hand."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest

from consumer_kit import batch
from levada.base.clock import NEVER_MS, ExponentialBackoff
from levada.base.promise import Promise
from levada.client.driver_interface import Deferred
from levada.client.metadata.snapshot import ClusterSnapshot, TopicMetadata
from levada.consumer.share.acknowledging import Batch, Outcome
from levada.consumer.share.delivered import Decided
from levada.consumer.share.fetcher import ShareFetcher
from levada.consumer.share.offset_marks import Mark, Run
from levada.consumer.share.requests import ShareFetchSettings
from levada.error_codes import ErrorCode
from levada.errors import DisconnectError, UnsupportedVersionError
from levada.protocol.messages import share_acknowledge, share_fetch
from levada.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from levada.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from levada.types import Node, PartitionInfo, TopicPartition

T = UUID(int=7)
TP0, TP1 = TopicPartition("t", 0), TopicPartition("t", 1)


class FakeNetwork:
    """Takes requests, and answers when it is told to."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Any, Promise[Any]]] = []
        self.down: set[int] = set()
        self.renews = True

    def knows(self, peer: Any) -> bool:
        return True

    def ready(self, peer: Any, now_ms: int) -> bool:
        return peer.node_id not in self.down

    def poll_delay_ms(self, peer: Any, now_ms: int) -> int:
        return 50

    def losses(self, peer: Any) -> int:
        return 0

    def version_for(self, peer: Any, kind: Any, min_version: int = 0) -> int:
        if not self.renews:
            raise UnsupportedVersionError("the broker knows version 1 at most")
        return 2

    def send(self, peer: Any, request: Any, now_ms: int, **settings: Any) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        self.sent.append((peer.node_id, request, promise))
        return promise

    def take(self) -> tuple[int, Any, Promise[Any]]:
        """Return the oldest request that is not answered."""
        return self.sent.pop(0)


class FakeMetadata:
    def __init__(self, leaders: dict[TopicPartition, int]) -> None:
        self.updates = 0
        self.hints: list[tuple[TopicPartition, int]] = []
        self.lead(leaders)

    def lead(self, leaders: dict[TopicPartition, int]) -> None:
        infos = tuple(PartitionInfo("t", tp.partition, node, 1, (node,), (node,)) for tp, node in sorted(leaders.items()))
        nodes = {node: Node(node, f"b{node}", 9092) for node in leaders.values()}
        self.snapshot = ClusterSnapshot(nodes=nodes, topics={"t": TopicMetadata("t", T, partitions=infos)})

    def request_update(self) -> None:
        self.updates += 1

    def apply_leader_hint(self, tp: TopicPartition, leader_id: int, leader_epoch: int, endpoints: Any) -> bool:
        is_newer = leader_epoch > 1
        if is_newer:
            self.hints.append((tp, leader_id))
        return is_newer


class Bench:
    """A fetcher, with what is around it."""

    def __init__(self, leaders: dict[TopicPartition, int], **settings: Any) -> None:
        self.network, self.metadata = FakeNetwork(), FakeMetadata(leaders)
        self.assignment = dict.fromkeys(leaders, T)
        self.now_ms = 1_000
        defaults: dict[str, Any] = {
            "group_id": "g",
            "member_id": "m",
            "fetch_min_bytes": 1,
            "fetch_max_bytes": 1 << 20,
            "fetch_max_wait_ms": 500,
            "max_poll_records": 100,
            "record_limit": False,
            "request_timeout_ms": 30_000,
            "check_crcs": True,
        }
        network: Any = self.network
        metadata: Any = self.metadata
        deferred = Deferred({})
        self.fetcher = ShareFetcher(
            ShareFetchSettings(**{**defaults, **settings}),
            assignment=lambda: self.assignment,
            arrived=lambda chunk: self.fetcher.buffer.append(chunk),
            changed=lambda: None,
            metadata=metadata,
            network=network,
            backoff=ExponentialBackoff(100, 1_000, Random(1)),
            deferred=deferred,
        )
        self.outcomes: list[Outcome] = []

    def poll(self, ms: int = 0) -> int:
        self.now_ms += ms
        return self.fetcher.poll(self.now_ms)

    def ask(self) -> None:
        self.fetcher.wants_records = self.fetcher.is_awaited = True
        self.poll()

    def acknowledge(self, tp: TopicPartition, *runs: tuple[int, int, int], node: int = 1) -> None:
        decided = Decided(tp, T, node, tuple(Run(first, last, Mark(mark)) for first, last, mark in runs))
        self.fetcher.acknowledge(Batch([decided], self.now_ms + 60_000, lambda outcome, _: self.outcomes.append(outcome)), self.now_ms)
        self.poll()

    def open(self) -> None:
        """Have a session with node 1, and no fetch under way."""
        self.ask()
        self.answer()
        self.fetcher.wants_records = False

    def answer(self, *partitions: Any, **fields: Any) -> Any:
        """Answer the oldest request; return it."""
        _, request, promise = self.network.take()
        topics: list[Any]
        if isinstance(request, ShareFetchRequest):
            topics = [share_fetch.ShareFetchableTopicResponse(topic_id=T, partitions=list(partitions))] if partitions else []
            promise.resolve(ShareFetchResponse(responses=topics, acquisition_lock_timeout_ms=30_000, **fields))
        else:
            assert isinstance(request, ShareAcknowledgeRequest)
            topics = [share_acknowledge.ShareAcknowledgeTopicResponse(topic_id=T, partitions=list(partitions))] if partitions else []
            promise.resolve(ShareAcknowledgeResponse(responses=topics, **fields))
        return request

    def told(self) -> list[tuple[TopicPartition, ErrorCode | None]]:
        told, self.outcomes = self.outcomes, []
        return [(outcome.tp, None if outcome.error is None else getattr(outcome.error, "code", None)) for outcome in told]


def records(partition: int = 0, *, acquired: tuple[tuple[int, int, int], ...] = ((0, 0, 1),), **fields: Any) -> share_fetch.PartitionData:
    parts = [share_fetch.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count) for first, last, count in acquired]
    return share_fetch.PartitionData(partition_index=partition, records=batch(0), acquired_records=parts, **fields)


def named(request: ShareFetchRequest | ShareAcknowledgeRequest) -> dict[int, list[tuple[int, int, list[int]]]]:
    """Return the partitions of a request, with their acknowledgements."""
    return {
        partition.partition_index: [
            (found.first_offset, found.last_offset, found.acknowledge_types) for found in partition.acknowledgement_batches
        ]
        for topic in request.topics
        for partition in topic.partitions
    }


def test_nothing_is_fetched_before_the_program_asks() -> None:
    bench = Bench({TP0: 1})
    assert bench.poll() == NEVER_MS
    assert not bench.network.sent


def test_a_session_names_partitions_once_and_counts_requests() -> None:
    bench = Bench({TP0: 1, TP1: 1})
    bench.ask()
    first = bench.answer()
    assert (first.share_session_epoch, named(first)) == (0, {0: [], 1: []})
    bench.poll()
    second = bench.answer()
    assert (second.share_session_epoch, named(second), second.forgotten_topics_data) == (1, {}, [])
    del bench.assignment[TP1]
    bench.poll()
    third = bench.answer()
    assert (third.share_session_epoch, named(third), [topic.partitions for topic in third.forgotten_topics_data]) == (2, {}, [[1]])


def test_one_request_at_a_time_goes_to_a_node() -> None:
    bench = Bench({TP0: 1, TP1: 2})
    bench.ask()
    bench.poll()
    assert sorted(node for node, _, _ in bench.network.sent) == [1, 2]
    bench.acknowledge(TP0, (0, 0, 1))
    assert len(bench.network.sent) == 2


def test_no_more_is_fetched_while_something_is_there() -> None:
    bench = Bench({TP0: 1})
    bench.ask()
    bench.answer(records(acquired=((0, 0, 3),)))
    (chunk,) = bench.fetcher.buffer
    assert (chunk.tp, chunk.node_id, chunk.acquired[0].delivery_count, chunk.until_ms) == (TP0, 1, 3, bench.now_ms + 30_000)
    assert bench.poll() == NEVER_MS
    assert not bench.network.sent


def test_a_call_that_did_not_wait_has_records_fetched_once() -> None:
    bench = Bench({TP0: 1})
    bench.fetcher.wants_records = True
    bench.poll()
    bench.answer()
    bench.poll()
    assert not bench.network.sent


@pytest.mark.parametrize(("left_ms", "waits_ms"), [(200, 200), (60_000, 500), (0, 500)])
def test_no_fetch_waits_for_longer_than_the_call_that_asks(left_ms: int, waits_ms: int) -> None:
    bench = Bench({TP0: 1})
    bench.fetcher.awaited_until_ms = bench.now_ms + left_ms
    bench.ask()
    assert bench.answer().max_wait_ms == waits_ms, "a call that does not wait leaves its fetch to the next one"


def test_with_a_limit_of_records_one_node_is_asked_after_the_other() -> None:
    bench = Bench({TP0: 1, TP1: 2}, record_limit=True)
    bench.ask()
    asked = []
    for _ in range(4):
        ((node, _, _),) = bench.network.sent
        asked.append(node)
        assert bench.answer().share_acquire_mode == 1
        bench.poll()
    assert asked in ([1, 2, 1, 2], [2, 1, 2, 1])


def test_with_a_limit_of_records_a_node_that_is_down_does_not_keep_the_others_waiting() -> None:
    bench = Bench({TP0: 1, TP1: 2}, record_limit=True)
    bench.network.down.add(1)
    bench.ask()
    for _ in range(3):
        ((node, _, _),) = bench.network.sent
        assert node == 2
        bench.answer()
        bench.poll()


def test_acknowledgements_go_along_with_a_fetch() -> None:
    bench = Bench({TP0: 1})
    bench.open()
    bench.fetcher.wants_records = True
    bench.acknowledge(TP0, (0, 4, 1), (5, 5, 0))
    request = bench.answer(share_fetch.PartitionData(partition_index=0))
    assert isinstance(request, ShareFetchRequest)
    assert named(request) == {0: [(0, 5, [1, 1, 1, 1, 1, 0])]}
    assert bench.told() == [(TP0, None)]


def test_they_go_alone_where_nothing_is_fetched_or_a_lock_is_renewed() -> None:
    bench = Bench({TP0: 1})
    bench.open()
    bench.acknowledge(TP0, (0, 4, 1))
    request = bench.answer(share_acknowledge.PartitionData(partition_index=0))
    assert isinstance(request, ShareAcknowledgeRequest)
    assert (request.share_session_epoch, request.is_renew_ack, named(request)) == (1, False, {0: [(0, 4, [1])]})
    bench.fetcher.wants_records = True
    bench.acknowledge(TP0, (5, 5, 4))
    request = bench.answer(share_acknowledge.PartitionData(partition_index=0), acquisition_lock_timeout_ms=9_000)
    assert (request.is_renew_ack, named(request)) == (True, {0: [(5, 5, [4])]})
    assert bench.fetcher.lock_timeout_ms == 9_000
    assert bench.told() == [(TP0, None), (TP0, None)]


def test_a_node_that_cannot_renew_gets_the_rest() -> None:
    bench = Bench({TP0: 1})
    bench.open()
    bench.network.renews = False
    bench.acknowledge(TP0, (0, 0, 1), (1, 1, 4))
    assert bench.told() == [(TP0, ErrorCode.UNSUPPORTED_VERSION)]
    assert named(bench.answer(share_acknowledge.PartitionData(partition_index=0))) == {0: [(0, 0, [1])]}
    assert bench.told() == [(TP0, None)]


def test_what_is_not_fetched_any_more_is_acknowledged_alone() -> None:
    bench = Bench({TP0: 1, TP1: 1})
    bench.open()
    del bench.assignment[TP1]
    bench.fetcher.wants_records = True
    bench.acknowledge(TP1, (0, 0, 1))
    assert isinstance(bench.answer(share_acknowledge.PartitionData(partition_index=1)), ShareAcknowledgeRequest)


@pytest.mark.parametrize("code", [ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH])
def test_a_lost_session_is_told_and_opened_anew(code: ErrorCode) -> None:
    bench = Bench({TP0: 1})
    bench.open()
    bench.fetcher.wants_records = True
    bench.acknowledge(TP0, (0, 0, 1))
    bench.answer(error_code=int(code))
    assert bench.told() == [(TP0, code)]
    bench.acknowledge(TP0, (1, 1, 1))
    assert bench.told() == [(TP0, ErrorCode.SHARE_SESSION_NOT_FOUND)], "locks end with the session that gave them"
    bench.poll()
    request = bench.answer()
    assert (request.share_session_epoch, named(request)) == (0, {0: []})


def test_a_lost_connection_leaves_it_open_what_was_taken() -> None:
    bench = Bench({TP0: 1})
    bench.open()
    bench.acknowledge(TP0, (0, 0, 1))
    _, _, promise = bench.network.take()
    promise.reject(DisconnectError("the peer closed the connection"))
    ((outcome),) = bench.outcomes
    assert "which it may have taken" in str(outcome.error)
    bench.ask()
    assert bench.answer().share_session_epoch == 0


def test_a_refused_acknowledgement_is_told_for_its_partition_alone() -> None:
    bench = Bench({TP0: 1, TP1: 1})
    bench.open()
    for tp in (TP0, TP1):
        bench.fetcher.acknowledge(
            Batch([Decided(tp, T, 1, (Run(0, 0, Mark.ACCEPT),))], NEVER_MS, lambda outcome, _: bench.outcomes.append(outcome)), bench.now_ms
        )
    bench.poll()
    bench.answer(
        share_acknowledge.PartitionData(partition_index=0, error_code=int(ErrorCode.INVALID_RECORD_STATE)),
        share_acknowledge.PartitionData(partition_index=1),
    )
    assert sorted(bench.told()) == [(TP0, ErrorCode.INVALID_RECORD_STATE), (TP1, None)]


def test_an_answer_that_passes_over_an_acknowledgement_has_not_taken_it() -> None:
    bench = Bench({TP0: 1})
    bench.open()
    bench.acknowledge(TP0, (0, 0, 1))
    bench.answer()
    ((outcome),) = bench.outcomes
    assert "does not say whether" in str(outcome.error)


def test_what_may_pass_is_sent_again_until_its_time_is_over() -> None:
    bench = Bench({TP0: 1})
    bench.open()
    bench.acknowledge(TP0, (0, 0, 1))
    busy = share_acknowledge.PartitionData(partition_index=0, error_code=int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    bench.answer(busy)
    assert bench.poll() > bench.now_ms
    bench.poll(ms=1_000)
    bench.answer(busy)
    assert bench.told() == []
    bench.poll(ms=60_000)
    assert isinstance(bench.outcomes[0].error, TimeoutError)


def test_a_new_leader_is_fetched_from_and_has_no_locks_of_the_old_one() -> None:
    bench = Bench({TP0: 1})
    bench.open()
    bench.acknowledge(TP0, (0, 0, 1))
    moved = share_acknowledge.PartitionData(
        partition_index=0,
        error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        current_leader=share_acknowledge.LeaderIdAndEpoch(leader_id=2, leader_epoch=5),
    )
    bench.answer(moved, node_endpoints=[share_acknowledge.NodeEndpoint(node_id=2, host="b2", port=9092)])
    assert bench.told() == [(TP0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert (bench.metadata.hints, bench.metadata.updates) == ([(TP0, 2)], 1)
    bench.metadata.lead({TP0: 2})
    bench.ask()
    (node, request, _), *_ = bench.network.sent
    assert (node, request.share_session_epoch) == (2, 0)


def test_a_partition_with_an_error_is_left_alone_for_a_while() -> None:
    bench = Bench({TP0: 1, TP1: 1})
    bench.ask()
    bench.answer(share_fetch.PartitionData(partition_index=0, error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER)))
    assert bench.metadata.updates == 1
    bench.poll()
    request = bench.answer()
    assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]
    bench.poll(ms=2_000)
    assert named(bench.answer()) == {0: []}


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CORRUPT_MESSAGE])
def test_what_time_cannot_mend_is_raised(code: ErrorCode) -> None:
    bench = Bench({TP0: 1})
    bench.ask()
    bench.answer(share_fetch.PartitionData(partition_index=0, error_code=int(code)))
    assert "t-0: share fetch from node 1" in str(bench.fetcher.error)
    bench.fetcher.error = None
    bench.poll(ms=2_000)
    bench.answer(error_code=int(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert "share fetch from node 1" in str(bench.fetcher.error)


def test_a_broker_without_room_for_a_session_is_asked_again_after_a_pause() -> None:
    bench = Bench({TP0: 1})
    bench.ask()
    bench.answer(error_code=int(ErrorCode.SHARE_SESSION_LIMIT_REACHED))
    due_ms = bench.poll()
    assert due_ms > bench.now_ms
    assert not bench.network.sent
    bench.poll(ms=due_ms - bench.now_ms)
    assert bench.answer().share_session_epoch == 0


def test_the_last_request_acknowledges_and_closes() -> None:
    bench = Bench({TP0: 1, TP1: 2})
    bench.open()
    bench.acknowledge(TP0, (0, 0, 1))
    bench.answer()
    bench.fetcher.acknowledge(Batch([Decided(TP0, T, 1, (Run(1, 1, Mark.ACCEPT),))], NEVER_MS, lambda outcome, _: None), 0)
    bench.fetcher.close()
    bench.poll()
    assert not bench.fetcher.closed.done
    while bench.network.sent:
        request = bench.answer(share_acknowledge.PartitionData(partition_index=0))
        bench.poll()
    assert isinstance(request, ShareAcknowledgeRequest)
    assert bench.fetcher.closed.done


def test_what_was_not_answered_at_the_end_is_told() -> None:
    bench = Bench({TP0: 1})
    bench.open()
    bench.network.down.add(1)
    bench.acknowledge(TP0, (0, 0, 1))
    bench.fetcher.close()
    bench.poll()
    assert not bench.fetcher.closed.done
    bench.fetcher.give_up()
    assert "closed before the acknowledgement was answered" in str(bench.outcomes[0].error)


def test_what_was_sent_and_not_answered_at_the_end_is_told_once() -> None:
    bench = Bench({TP0: 1})
    bench.open()
    bench.acknowledge(TP0, (0, 0, 1))
    bench.fetcher.close()
    bench.poll()
    bench.fetcher.give_up()
    ((outcome),) = bench.outcomes
    assert "closed before the acknowledgement was answered; it may have been taken" in str(outcome.error)
    bench.answer(share_acknowledge.PartitionData(partition_index=0))
    assert len(bench.outcomes) == 1


def test_a_lock_that_has_ended_is_not_renewed_whatever_the_broker_would_say() -> None:
    bench = Bench({TP0: 1})
    bench.open()
    late = Decided(TP0, T, 1, (Run(0, 0, Mark.RENEW), Run(1, 1, Mark.ACCEPT)), until_ms=bench.now_ms)
    bench.fetcher.acknowledge(Batch([late], NEVER_MS, lambda outcome, _: bench.outcomes.append(outcome)), bench.now_ms)
    assert bench.told() == [(TP0, ErrorCode.INVALID_RECORD_STATE)]
    bench.poll()
    assert named(bench.answer(share_acknowledge.PartitionData(partition_index=0))) == {0: [(1, 1, [1])]}


def test_a_lock_that_ends_before_its_renewal_can_be_sent_is_not_renewed() -> None:
    bench = Bench({TP0: 1})
    bench.open()
    renewal = Decided(TP0, T, 1, (Run(0, 0, Mark.RENEW),), until_ms=bench.now_ms + 50)
    bench.fetcher.acknowledge(Batch([renewal], NEVER_MS, lambda outcome, _: bench.outcomes.append(outcome)), bench.now_ms)
    bench.poll()
    bench.answer(share_acknowledge.PartitionData(partition_index=0, error_code=int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)))
    assert bench.poll() <= bench.now_ms + 50
    bench.poll(ms=2_000)
    assert not bench.network.sent
    assert bench.told() == [(TP0, ErrorCode.INVALID_RECORD_STATE)]


def test_an_answer_to_a_request_from_before_the_end_does_not_end_the_session() -> None:
    bench = Bench({TP0: 1})
    bench.open()
    bench.acknowledge(TP0, (0, 0, 1))
    bench.acknowledge(TP0, (1, 1, 1))
    bench.fetcher.close()
    bench.answer(share_acknowledge.PartitionData(partition_index=0))
    assert not bench.fetcher.closed.done
    bench.poll()
    last = bench.answer(share_acknowledge.PartitionData(partition_index=0))
    assert (last.share_session_epoch, named(last)) == (-1, {0: [(1, 1, [1])]})
    assert (bench.told(), bench.fetcher.closed.done) == ([(TP0, None), (TP0, None)], True)


@pytest.mark.parametrize(
    "acquired",
    [((0, 2**63 - 1, 1),), ((0, 1 << 22, 1),), ((-1, 3, 1),), ((5, 4, 1),), ((0, 4, 1), (4, 6, 1)), ((7, 9, 1), (0, 1, 1))],
    ids=str,
)
def test_offsets_that_no_broker_can_have_acquired_are_an_error(acquired: tuple[tuple[int, int, int], ...]) -> None:
    bench = Bench({TP0: 1})
    bench.ask()
    bench.answer(records(acquired=acquired))
    assert not bench.fetcher.buffer
    assert "t-0: node 1 says that this consumer has acquired " in str(bench.fetcher.error)


def test_a_gap_may_be_larger_than_any_list() -> None:
    bench = Bench({TP0: 1})
    bench.open()
    bench.acknowledge(TP0, (0, 2**62, 0))
    request = bench.answer(share_acknowledge.PartitionData(partition_index=0))
    assert named(request) == {0: [(0, 2**62, [0])]}
