"""Fetch: read record batches, and wait until there are enough bytes (fetch.min.bytes).

A request that cannot be answered at once waits in the purgatory and is woken by appends to its partitions. While it waits only sizes are
compared; records are read for the response. A read_committed consumer gets records up to the last stable offset, and is woken by markers
as well. The fetch session decides which partitions are read and which answers are sent (fetch_sessions).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from levada.base.promise import Promise
from levada.broker.access.permissions import find_topic
from levada.broker.cluster.topic import Topic
from levada.broker.node.fetch_sessions import NO_SESSION, USES_TOPIC_IDS, Answered, Context, RequestedPartition
from levada.broker.node.purgatory import Delayed
from levada.broker.node.state import Answer, Api, Call
from levada.broker.quotas.client_quotas import CONSUMER_BYTE_RATE
from levada.broker.replication.partition import NO_LEADER, Partition
from levada.broker.replication.replica import Replica
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, OffsetOutOfRangeError
from levada.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from levada.protocol.schema import Response
from levada.types import IsolationLevel, TopicPartition

_HAS_RACK = 11
_NAMES_LEADERS = 16
# Kafka puts partitions that it does not have behind the others.
_NOT_THERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_UNKNOWN = -1


def handle(call: Call) -> Answer:
    """Answer at once if there are enough bytes, if an error or a preferred read replica has to be reported, if there are no partitions to
    read, or if max_wait_ms is 0. Otherwise wait for up to max_wait_ms.
    """
    request: FetchRequest = call.request
    try:
        fetch = _Fetch(call, call.state.fetch_sessions.context(request, call.version, call.now_ms))
    except BrokerError as error:
        return FetchResponse(error_code=error.code)
    if request.max_wait_ms <= 0 or fetch.is_ready():
        return fetch.answer(call.now_ms)
    promise: Promise[Response] = Promise()
    waiting = Delayed(fetch.is_ready, lambda now_ms: _settle(promise, fetch, now_ms), fetch.names(), call.connection_id)
    call.state.purgatory.add(waiting, call.now_ms + request.max_wait_ms)
    return promise


def refuse(request: FetchRequest, version: int, code: ErrorCode) -> FetchResponse:
    """Answer with an error in every partition, and in the top-level error code if the version has one."""
    return FetchResponse(
        error_code=code,
        responses=[_refuse_topic(topic, code) for topic in request.topics],
    )


def _settle(promise: Promise[Response], fetch: _Fetch, now_ms: int) -> None:
    promise.resolve(fetch.answer(now_ms))


def _refuse_topic(topic: FetchTopic, code: ErrorCode) -> FetchableTopicResponse:
    failures = [_failure(wanted.partition, code) for wanted in topic.partitions]
    return FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=failures)


class _Place(NamedTuple):
    """The replica from which to read. preferred: the preferred read replica, a node from which the client should fetch instead; -1 for
    none.
    """

    partition: Partition
    replica: Replica
    preferred: int


class _Fetch:
    """One Fetch request. Its partitions are looked up again when the response is made, because a topic may be deleted while the request
    waits.
    """

    def __init__(self, call: Call, context: Context) -> None:
        self._call = call
        self._request: FetchRequest = call.request
        self._context = context
        self._state = call.state
        self._by_id = call.version >= USES_TOPIC_IDS
        self._names_leaders = call.version >= _NAMES_LEADERS
        self._chooses_replicas = call.version >= _HAS_RACK and call.state.settings.replica_selector_class != ""
        most_bytes = min(self._request.max_bytes, call.state.settings.fetch_max_bytes)
        self._counts = not call.state.throttles.are_off
        self._max_bytes = call.state.throttles.window_bytes(CONSUMER_BYTE_RATE, call.quoted, most_bytes) if self._counts else most_bytes
        self._min_bytes = min(self._request.min_bytes, self._max_bytes)

    def names(self) -> Iterator[TopicPartition]:
        """Yield the partitions to read, in a session also those of earlier requests: an append to one of them may complete the request."""
        for wanted in self._context.wanted:
            yield self._found(wanted).partition.name

    def is_ready(self) -> bool:
        """Return whether to answer now: min_bytes can be read, an error or a preferred read replica has to be reported, or there are no
        partitions to read.
        """
        available = 0
        for wanted in self._context.wanted:
            try:
                found = self._found(wanted)
            except BrokerError:
                return True
            if found.preferred != _UNKNOWN:
                return True
            available += min(self._bytes_for(found.replica, wanted.request.fetch_offset), wanted.request.partition_max_bytes)
        return not self._context.wanted or available >= self._min_bytes

    def answer(self, now_ms: int) -> FetchResponse:
        """Read the records within the size limits of the request and make the response. The first batch is returned even if it exceeds the
        limits (KIP-74).

        The bytes count against the client's quota. If it does not allow sending them now, the response has no partitions.
        """
        budget = _Budget(self._max_bytes)
        answers = [(wanted, self._read(wanted, budget)) for wanted in self._context.wanted]
        answers.sort(key=lambda told: told[1].error_code in _NOT_THERE)
        try:
            session_id, told = self._context.respond(answers, now_ms) if self._may_be_given(answers, now_ms) else self._nothing(now_ms)
        except BrokerError as error:
            return FetchResponse(error_code=error.code, session_id=NO_SESSION)
        responses = _by_topic(told)
        return FetchResponse(session_id=session_id, responses=responses, node_endpoints=self._leaders_named(responses))

    def _may_be_given(self, answers: Sequence[Answered], now_ms: int) -> bool:
        """Return whether the client's quota allows sending the read bytes now. If so, they are counted. If they exceed the quota, the
        client is throttled.
        """
        if not self._counts:
            return True
        read = sum(len(data.records or b"") for _, data in answers)
        pause_ms, given = self._state.throttles.record_read(CONSUMER_BYTE_RATE, self._call.quoted, read, now_ms)
        self._call.throttle(pause_ms)
        return given

    def _nothing(self, now_ms: int) -> tuple[int, Sequence[Answered]]:
        """Return a response without partitions, as Kafka does for a throttled client. A fetch session is continued, but no new one is
        opened.
        """
        return self._context.respond((), now_ms) if self._context.is_incremental else (NO_SESSION, ())

    def _bytes_for(self, replica: Replica, offset: int) -> int:
        return replica.log.bytes_between(offset, replica.readable_end(self._request.isolation_level))

    def _read(self, wanted: RequestedPartition, budget: _Budget) -> PartitionData:
        try:
            place = self._found(wanted)
            self._state.raise_planned_fault("Fetch", place.partition.name)
        except BrokerError as error:
            return self._failure(wanted, error.code)
        replica, log, asked = place.replica, place.replica.log, wanted.request
        readable = self._bytes_for(replica, asked.fetch_offset) if place.preferred == _UNKNOWN else 0
        limit = min(asked.partition_max_bytes, budget.left, readable)
        found = log.read(asked.fetch_offset, limit, at_least_one=budget.untouched and readable > 0)
        budget.take(len(found))
        return PartitionData(
            partition_index=asked.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=replica.last_stable_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=self._aborted(replica, asked.fetch_offset),
            preferred_read_replica=place.preferred,
            records=found,
        )

    def _aborted(self, replica: Replica, offset: int) -> list[AbortedTransaction] | None:
        """Return the aborted transactions with records or markers from an offset to the log's end, as Kafka does for small logs. None
        unless read_committed.
        """
        if self._request.isolation_level != IsolationLevel.READ_COMMITTED:
            return None
        aborted = replica.transactions.aborted_between(offset, replica.log.end_offset)
        return [AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in aborted]

    def _failure(self, wanted: RequestedPartition, code: ErrorCode) -> PartitionData:
        failure = _failure(wanted.request.partition, code)
        cluster = self._state.cluster
        found = cluster.topic_by_id(wanted.topic_id) if self._by_id else cluster.topic(wanted.topic)
        moved = self._state.new_leader(found, wanted.request.partition, code)
        if moved is not None and self._names_leaders:
            failure.current_leader = LeaderIdAndEpoch(leader_id=moved.leader, leader_epoch=moved.leader_epoch)
        return failure

    def _leaders_named(self, responses: list[FetchableTopicResponse]) -> list[NodeEndpoint]:
        leaders = {partition.current_leader.leader_id for topic in responses for partition in topic.partitions} - {_UNKNOWN}
        nodes = self._call.nodes if leaders else {}
        named = [nodes[leader] for leader in sorted(leaders) if leader in nodes]
        return [NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack) for node in named]

    def _found(self, wanted: RequestedPartition) -> _Place:
        topic = find_topic(self._call, wanted.topic, wanted.topic_id, by_id=self._by_id)
        partition = self._readable(topic, wanted.request.partition)
        partition.check_leader_epoch(wanted.request.current_leader_epoch)
        replica = partition.replicas[self._state.node_id]
        log, offset = replica.log, wanted.request.fetch_offset
        if not log.start_offset <= offset <= log.end_offset:
            raise OffsetOutOfRangeError(f"{partition.name}: offset {offset}, log {log.start_offset} to {log.end_offset}")
        return _Place(partition, replica, self._preferred(partition, offset))

    def _readable(self, topic: Topic, index: int) -> Partition:
        """Return a partition that this node leads. With replica.selector.class, since version 11, a partition that it follows is allowed as
        well.
        """
        partition = self._state.hosted_partition(topic, index)
        if self._chooses_replicas and partition.leader != NO_LEADER and self._state.node_id in partition.replicas:
            return partition
        return self._state.lead_partition(topic, index)

    def _preferred(self, partition: Partition, offset: int) -> int:
        """Return the node from which the client should fetch instead of this leader (KIP-392), -1 for none."""
        if not self._chooses_replicas or not self._request.rack_id or partition.leader != self._state.node_id:
            return _UNKNOWN
        nodes = self._state.cluster.nodes
        in_rack = [node_id for node_id in self._state.cluster.alive if nodes[node_id].rack == self._request.rack_id]
        nearest = partition.nearest(in_rack, offset)
        return _UNKNOWN if nearest == partition.leader else nearest


class _Budget:
    """The number of bytes that can still be added to one response."""

    def __init__(self, size: int) -> None:
        self.left = max(size, 0)
        self.untouched = True

    def take(self, size: int) -> None:
        self.left = max(self.left - size, 0)
        self.untouched = self.untouched and size == 0


def _failure(index: int, code: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=index, error_code=code, high_watermark=_UNKNOWN, records=b"")


def _by_topic(told: Sequence[Answered]) -> list[FetchableTopicResponse]:
    """Make one entry per topic of consecutive answers for partitions of the same topic."""
    return [
        FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=[data for _, data in answers])
        for (topic, topic_id), answers in groupby(told, lambda one: (one[0].topic, one[0].topic_id))
    ]


API = Api(FetchRequest, 4, 18, handle, refuse, 4)
