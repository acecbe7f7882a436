"""ShareFetch: acquire records for a member of a share group, and acknowledge earlier ones (KIP-932).

A request that finds too little to acquire waits in the purgatory. It is checked again when records are appended to its partitions, or
become available again. This check only compares the size of the available records with min_bytes. The records are acquired when the
response is built.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from itertools import groupby

from levada.base.promise import Promise
from levada.broker.coordinators.groups.consumer_member import TopicIdPartition
from levada.broker.node.purgatory import Delayed
from levada.broker.node.state import Answer, Api, Call
from levada.broker.quotas.client_quotas import CONSUMER_BYTE_RATE
from levada.broker.share.requests import Outcome, Outcomes, acknowledge_each, check_member, failure, has_acknowledgements, open_share
from levada.broker.share.share_partition import BY_BATCH, BY_RECORD, Asked
from levada.broker.share.share_partitions import Delivery, OpenShare
from levada.broker.share.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSession
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from levada.protocol.schema import Response


def handle(call: Call) -> Answer:
    """Apply the acknowledgements in the request. Then answer at once if there are enough bytes, an error, or no records to wait for;
    otherwise wait for up to max_wait_ms. The last request of a session acquires nothing, and closes the session.
    """
    request: ShareFetchRequest = call.request
    try:
        session = _session(call, request)
    except BrokerError as error:
        return ShareFetchResponse(error_code=error.code, error_message=error.reason)
    fetch = _ShareFetch(call, session, acknowledge_each(call, request.topics))
    if request.share_session_epoch == FINAL_EPOCH:
        call.state.shares.end_session(session, call.now_ms)
        return fetch.response({})
    if request.max_wait_ms <= 0 or fetch.is_ready():
        return fetch.answer(call.now_ms)
    promise: Promise[Response] = Promise()
    waiting = Delayed(fetch.is_ready, lambda now_ms: _settle(promise, fetch, now_ms), fetch.keys(), call.connection_id)
    call.state.purgatory.add(waiting, call.now_ms + request.max_wait_ms)
    return promise


def refuse(request: ShareFetchRequest, version: int, code: ErrorCode) -> ShareFetchResponse:
    """Answer with an error."""
    return ShareFetchResponse(error_code=code)


def _settle(promise: Promise[Response], fetch: _ShareFetch, now_ms: int) -> None:
    promise.resolve(fetch.answer(now_ms))


def _session(call: Call, request: ShareFetchRequest) -> ShareSession:
    """Return the share session that a request opens, continues or closes, with the partitions that the request adds and removes."""
    group, member = check_member(call)
    wanted = [TopicIdPartition(topic.topic_id, partition.partition_index) for topic in request.topics for partition in topic.partitions]
    _check(request)
    sessions = call.state.shares.sessions
    if request.share_session_epoch == INITIAL_EPOCH:
        if has_acknowledgements(request.topics):
            raise _invalid("nothing can be acknowledged before a share session is open")
        session = sessions.open(group, member, call.connection_id)
        session.update(wanted, ())
        return session
    session = sessions.find(group, member, request.share_session_epoch)
    if request.share_session_epoch != FINAL_EPOCH:
        forgotten = (TopicIdPartition(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions)
        session.update(wanted, forgotten)
        session.follow()
    return session


def _check(request: ShareFetchRequest) -> None:
    if request.share_acquire_mode not in (BY_BATCH, BY_RECORD):
        raise _invalid(f"there is no acquire mode {request.share_acquire_mode}")
    if request.is_renew_ack and any((request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records)):
        raise _invalid("a request that renews locks cannot fetch")


def _invalid(fault: str) -> BrokerError:
    return BrokerError(fault, code=ErrorCode.INVALID_REQUEST)


class _ShareFetch:
    """One ShareFetch request. Its partitions are looked up again when the response is made, because a topic may be deleted while the
    request waits.
    """

    def __init__(self, call: Call, session: ShareSession, acknowledged: Outcomes) -> None:
        self._call = call
        self._request: ShareFetchRequest = call.request
        self._session = session
        self._acknowledged = acknowledged
        self._next_epoch = session.epoch
        self._is_full = self._request.share_session_epoch == INITIAL_EPOCH
        most_bytes = min(self._request.max_bytes, call.state.settings.fetch_max_bytes)
        self._max_bytes = call.state.throttles.window_bytes(CONSUMER_BYTE_RATE, call.quoted, most_bytes)
        self._wants_records = most_bytes > 0 and self._request.max_records > 0

    def keys(self) -> Iterator[Hashable]:
        """Yield the purgatory keys of the request's partitions. They wake the request when there may be more records to acquire."""
        for part in self._session.parts:
            opened = self._open(part, self._call.now_ms)
            yield opened.partition.name
            yield opened.key

    def is_ready(self) -> bool:
        """Return whether to answer now: min_bytes can be acquired, an error has to be reported, the request asks for no records, or the
        session has no partitions or was used by another request.
        """
        now_ms, available = self._call.state.cluster.now_ms, 0
        if self._is_over or not self._wants_records:
            return True
        for part in self._session.parts:
            try:
                available += self._open(part, now_ms).available_bytes
            except BrokerError:
                return True
        return not self._session.parts or available >= max(self._request.min_bytes, 1)

    def answer(self, now_ms: int) -> ShareFetchResponse:
        """Acquire records within the limits of the request and make the response."""
        if self._is_over:
            return ShareFetchResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        found: dict[TopicIdPartition, Delivery | Outcome] = {}
        readable: dict[TopicIdPartition, OpenShare] = {}
        for part in self._session.parts:
            try:
                opened = self._open(part, now_ms)
                self._call.state.raise_planned_fault(ShareFetchRequest.NAME, opened.partition.name)
                readable[part] = opened
            except BrokerError as error:
                found[part] = failure(self._call, part, error)
        if self._wants_records:
            acquired = self._acquire(readable, now_ms)
            self._count(acquired, now_ms)
            found.update(acquired)
        return self.response(self._news(found))

    def response(self, found: Mapping[TopicIdPartition, Delivery | Outcome]) -> ShareFetchResponse:
        """Make the response. found: the records or the error by partition. The results of the acknowledgements are added."""
        parts = sorted({**self._acknowledged, **found})
        outcomes = [*self._acknowledged.values(), *(one for one in found.values() if isinstance(one, Outcome))]
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=self._call.state.cluster.group_config(self._session.group).share_limits.lock_ms,
            responses=[
                ShareFetchableTopicResponse(topic_id=topic_id, partitions=[self._partition(part, found.get(part)) for part in alike])
                for topic_id, alike in groupby(parts, key=lambda part: part.topic_id)
            ],
            node_endpoints=self._leaders({outcome.moved.leader for outcome in outcomes if outcome.moved is not None}),
        )

    @property
    def _is_over(self) -> bool:
        """Whether another request has continued or closed the session while this request waited."""
        is_open = self._session in self._call.state.shares.sessions
        return not is_open or self._session.epoch != self._next_epoch

    def _open(self, part: TopicIdPartition, now_ms: int) -> OpenShare:
        return open_share(self._call, part, now_ms)

    def _acquire(self, readable: Mapping[TopicIdPartition, OpenShare], now_ms: int) -> dict[TopicIdPartition, Delivery]:
        """Acquire records from the partitions that have room (OpenShare.has_room). Partitions with records get equal parts of max_bytes.

        Return the acquired records by partition.
        """
        request = self._request
        with_records = sum(opened.available_bytes > 0 for opened in readable.values())
        found: dict[TopicIdPartition, Delivery] = {}
        left = request.max_records
        for part, opened in readable.items():
            if not opened.has_room:
                continue
            asked = Asked(left, request.batch_size, request.share_acquire_mode)
            max_bytes = self._max_bytes // max(with_records, 1)
            is_first = left == request.max_records
            found[part] = self._call.state.shares.acquire(opened, self._session.member, asked, max_bytes, now_ms, at_least_one=is_first)
            left -= sum(one.last - one.first + 1 for one in found[part].acquired)
        return found

    def _count(self, acquired: Mapping[TopicIdPartition, Delivery], now_ms: int) -> None:
        """Count the acquired records against the client's quota. They are sent even if they exceed it, because they are already locked for
        the client.
        """
        size_bytes = sum(len(one.records) for one in acquired.values())
        self._call.throttle(self._call.state.throttles.record(CONSUMER_BYTE_RATE, self._call.quoted, size_bytes, now_ms))

    def _news(self, found: Mapping[TopicIdPartition, Delivery | Outcome]) -> dict[TopicIdPartition, Delivery | Outcome]:
        """Return the answers to send, and remember in the session which partitions have failed or were served. If the request continues a
        session, partitions without records or errors are left out, unless their last answer was an error.
        """
        told: dict[TopicIdPartition, Delivery | Outcome] = {}
        for part, one in found.items():
            is_failure = isinstance(one, Outcome)
            if self._is_full or is_failure or part in self._session.failed or (isinstance(one, Delivery) and one.acquired):
                told[part] = one
            if is_failure:
                self._session.failed.add(part)
            else:
                self._session.failed.discard(part)
            if isinstance(one, Delivery) and one.acquired:
                self._session.served(part)
        return told

    def _partition(self, part: TopicIdPartition, found: Delivery | Outcome | None) -> PartitionData:
        acknowledged = self._acknowledged.get(part, Outcome())
        answer = PartitionData(
            partition_index=part.partition,
            acknowledge_error_code=acknowledged.code,
            acknowledge_error_message=acknowledged.reason,
            records=b"",
        )
        if isinstance(found, Outcome):
            answer.error_code, answer.error_message = found.code, found.reason
        elif found is not None:
            answer.records = found.records
            answer.acquired_records = [
                AcquiredRecords(first_offset=one.first, last_offset=one.last, delivery_count=one.deliveries) for one in found.acquired
            ]
        moved = (found.moved if isinstance(found, Outcome) else None) or acknowledged.moved
        if moved is not None:
            answer.current_leader = LeaderIdAndEpoch(leader_id=moved.leader, leader_epoch=moved.leader_epoch)
        return answer

    def _leaders(self, node_ids: set[int]) -> list[NodeEndpoint]:
        nodes = self._call.nodes
        return [NodeEndpoint(node_id=one, host=nodes[one].host, port=nodes[one].port, rack=nodes[one].rack) for one in sorted(node_ids)]


API = Api(ShareFetchRequest, 1, 2, handle, refuse, 1)
