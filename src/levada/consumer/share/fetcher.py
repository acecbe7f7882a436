"""ShareFetch and ShareAcknowledge requests to the leaders of a share consumer (ShareConsumeRequestManager in Java, KIP-932).

At most one request per broker is in flight, because a share session counts them. A fetch is sent only for a poll() that has no records yet,
and while the buffer is empty: acquired records are locked for a limited time, which must not pass in a buffer. Acknowledgements are sent
with a fetch, or alone if no fetch is due, if they renew locks, if their partition is not fetched any more, or while the consumer is closed.
They are sent only to the broker that the records came from: locks end with its session and its leadership. Acknowledgements that cannot be
delivered are settled with an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from levada.acls import ResourceType
from levada.base import permissions
from levada.base.clock import NEVER_MS, ExponentialBackoff
from levada.base.promise import Promise
from levada.client.driver_interface import Deferred
from levada.client.metadata.metadata import Metadata
from levada.client.network.network_client import NetworkClient
from levada.client.requests.retry import Reaction
from levada.consumer.counters import ShareCounters
from levada.consumer.fetch.fetch_session import CLOSING_EPOCH
from levada.consumer.group.consumer_heartbeat import Owned
from levada.consumer.share.acknowledging import Batch, Sending
from levada.consumer.share.acquired import Acquired, Batches, Chunk, fault_of
from levada.consumer.share.answers import (
    ON_ACKNOWLEDGE_ERROR,
    ON_PARTITION_ERROR,
    ON_SESSION_ERROR,
    AckAnswer,
    acks_alone,
    acks_of_fetch,
    closed_before,
    no_session,
    not_said,
    out_of_time,
    partitions_of,
    refused,
    session_lost,
    session_refused,
    unanswered,
)
from levada.consumer.share.leaders import NOTHING_WANTED, Leader, Sent, Wanted
from levada.consumer.share.member import Assignment
from levada.consumer.share.requests import (
    FIRST_VERSION_WITH_RENEWAL,
    ShareFetchSettings,
    by_partition,
    share_acknowledge_request,
    share_fetch_request,
)
from levada.error_codes import ErrorCode
from levada.errors import ConnectError, KafkaError, ProtocolError, UnsupportedVersionError
from levada.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from levada.protocol.messages.share_fetch import PartitionData, ShareFetchRequest, ShareFetchResponse
from levada.types import Node, TopicPartition


class ShareFetcher:
    """The poller that fetches and acknowledges for one share consumer. Used under the engine's lock.

    assignment: returns the partitions to fetch. arrived: called with each chunk of acquired records. changed: called when records, a result
    or an error have arrived.
    """

    def __init__(
        self,
        settings: ShareFetchSettings,
        *,
        assignment: Callable[[], Assignment],
        arrived: Callable[[Chunk], None],
        changed: Callable[[], None],
        metadata: Metadata,
        network: NetworkClient,
        backoff: ExponentialBackoff,
        deferred: Deferred,
    ) -> None:
        self.buffer: deque[Chunk] = deque()
        """Acquired chunks that were not returned yet, in order."""
        self.wants_records = False
        """Whether the program has called poll() and has not got records yet."""
        self.is_awaited = False
        """Whether that poll() is still waiting. If not, records are fetched once, for the next poll()."""
        self.awaited_until_ms = NEVER_MS
        """When the time of that poll() is over."""
        self.error: KafkaError | None = None
        """The error that the next poll() raises."""
        self.lock_timeout_ms: int | None = None
        """How long brokers lock acquired records, in ms; None before the first response that has it."""
        self.counters = ShareCounters()
        self._settings = settings
        self._assignment = assignment
        self._arrived = arrived
        self._changed = changed
        self._metadata = metadata
        self._network = network
        self._backoff = backoff
        self._log = deferred.log(__name__)
        self._leaders: dict[int, Leader] = {}
        self._retry_at: dict[TopicPartition, tuple[int, int]] = {}
        """Partitions in backoff: until when, and how many errors there were in a row."""
        self._next_leader = 0
        self.is_closing = False
        """Whether the consumer is closing: nothing is fetched or returned any more."""
        self.closed: Promise[None] = Promise()
        """Resolved when all sessions are closed."""
        self._now_ms = 0

    # Requests of the core

    def acknowledge(self, batch: Batch, now_ms: int) -> None:
        """Queue acknowledgements. Their broker gets them when no request to it is in flight, its backoff is over, and its connection can be
        written to. Renewals of expired locks are settled with an error at once.
        """
        for part in batch.parts:
            if part.is_too_late(now_ms):
                self._settle_late(part, now_ms)
            else:
                self._leader(part.decided.node_id).pending.append(part)

    def holds(self, chunk: Chunk) -> bool:
        """Whether the session in which a chunk was acquired is still open, as far as the client knows."""
        return self._leader(chunk.node_id).session.lost_before == chunk.session

    def close(self) -> None:
        """Begin to send pending acknowledgements and to close all sessions; `closed` is resolved at the end. Drops the buffered records."""
        self.is_closing, self.wants_records = True, False
        self.buffer.clear()
        self._see_whether_closed()

    def give_up(self) -> None:
        """Settle all acknowledgements that are left with an error, because the time of close() is over."""
        for leader in self._leaders.values():
            sent, leader.sent = leader.sent, None
            for part in [*(sent.all if sent is not None else ()), *leader.take_pending()]:
                part.settle(closed_before(part.decided.tp))

    # The poller

    def poll(self, now_ms: int) -> int:
        """Send the requests that are due; return the time, in ms, of the next poll."""
        self._now_ms = now_ms
        self._notice_lost_connections()
        fetches = self.wants_records and not self.buffer and not self.is_closing
        if not fetches and not self.is_closing and not any(leader.pending for leader in self._leaders.values()):
            return NEVER_MS
        wanted = self._wanted(now_ms) if fetches else {}
        deadline_ms = (
            min((until_ms for until_ms, _ in self._retry_at.values() if until_ms > now_ms), default=NEVER_MS) if fetches else NEVER_MS
        )
        for leader in list(self._leaders.values()):
            deadline_ms = min(deadline_ms, self._expire(leader, now_ms), self._serve(leader, wanted.get(leader.node_id), now_ms))
        if not self.is_awaited and any(leader.in_flight for leader in self._leaders.values()):
            self.wants_records = False
        return deadline_ms

    def _notice_lost_connections(self) -> None:
        """End the sessions whose connection was lost, as their brokers do. A request in flight fails anyway."""
        for leader in self._leaders.values():
            if leader.session.is_open and self._network.losses(leader.connection) != leader.losses:
                leader.session.lost()

    def _wanted(self, now_ms: int) -> dict[int, Wanted]:
        """Return the partitions to fetch now, by node id: of all leaders, or with share.acquire.mode=record_limit of one leader at a
        time. If a partition has no known leader, request a metadata update.
        """
        found: dict[int, dict[Owned, TopicPartition]] = {}
        for tp, topic_id in self._assignment().items():
            node = self._metadata.snapshot.leader(tp)
            if node is None:
                self._metadata.request_update()
                continue
            partitions = found.setdefault(node.id, {})
            if self._retry_at.get(tp, (0, 0))[0] <= now_ms:
                partitions[Owned(topic_id, tp.partition)] = tp
        for node_id in found:
            self._leader(node_id)
        return self._one_of(found, now_ms) if self._settings.record_limit else dict(found)

    def _one_of(self, found: Mapping[int, Wanted], now_ms: int) -> dict[int, Wanted]:
        """Return the partitions to fetch from one leader, by its node id: the next leader in turn that can be written to.

        If no leader can be written to, the next in turn is returned. The result is empty while a request to any leader is in flight, and if
        nothing is to be fetched now.
        """
        asked = [node_id for node_id in sorted(found) if found[node_id] and self._leaders[node_id].retry_at_ms <= now_ms]
        if not asked or any(leader.in_flight for leader in self._leaders.values()):
            return {}
        at = self._next_leader % len(asked)
        in_turn = asked[at:] + asked[:at]
        ready = (node_id for node_id in in_turn if self._network.ready(self._leaders[node_id].connection, now_ms))
        turn = next(ready, in_turn[0])
        return {turn: found[turn]}

    def _leader(self, node_id: int) -> Leader:
        if node_id not in self._leaders:
            self._leaders[node_id] = Leader(node_id)
        return self._leaders[node_id]

    def _expire(self, leader: Leader, now_ms: int) -> int:
        """Settle acknowledgements that could not be sent in time; return the time, in ms, of the next check."""
        for part in [part for part in leader.pending if part.deadline_ms <= now_ms]:
            leader.pending.remove(part)
            self._settle_late(part, now_ms)
        return min((part.deadline_ms for part in leader.pending), default=NEVER_MS)

    def _settle_late(self, part: Sending, now_ms: int) -> None:
        tp, node_id = part.decided.tp, part.decided.node_id
        is_unlocked = part.is_too_late(now_ms)
        part.settle(refused(tp, node_id, ErrorCode.INVALID_RECORD_STATE, "not sent") if is_unlocked else out_of_time(tp, node_id))

    def _serve(self, leader: Leader, wanted: Wanted | None, now_ms: int) -> int:
        """Send a request to a broker if one is due and it can be written to; return the time, in ms, of the next attempt.

        wanted: the partitions to fetch; None if nothing is to be fetched from this broker.
        """
        if leader.in_flight or leader.is_closed:
            return NEVER_MS
        if not leader.session.is_open:
            for part in leader.take_pending():
                part.settle(no_session(part.decided.tp, leader.node_id))
            if self.is_closing:
                self._end(leader)
                return NEVER_MS
        if not (leader.pending or wanted or self.is_closing):
            return NEVER_MS
        if now_ms < leader.retry_at_ms:
            return leader.retry_at_ms
        is_known = self._network.knows(leader.connection)
        if not is_known or not self._network.ready(leader.connection, now_ms):
            if self.is_closing and not leader.pending:
                # The broker ends a session when its connection is lost.
                self._end(leader)
            return now_ms + self._network.poll_delay_ms(leader.connection, now_ms) if is_known else NEVER_MS
        self._refuse_renewals(leader)
        if self.is_closing or any(part.is_renewal or not _is_wanted(part, wanted) for part in leader.pending):
            self._send_acknowledgements(leader, now_ms)
        elif wanted:
            self._send_fetch(leader, wanted, now_ms)
        return NEVER_MS

    def _refuse_renewals(self, leader: Leader) -> None:
        """If the broker does not support renewals, settle them with an error. Other acknowledgements are still sent."""
        renewals = [part for part in leader.pending if part.is_renewal]
        if not renewals:
            return
        try:
            self._network.version_for(leader.connection, ShareAcknowledgeRequest, min_version=FIRST_VERSION_WITH_RENEWAL)
        except UnsupportedVersionError as error:
            leader.pending = [part for part in leader.pending if not part.is_renewal]
            for part in renewals:
                part.settle(UnsupportedVersionError(f"{part.decided.tp}: locks can be renewed since Kafka 4.2 (KIP-1222): {error.reason}"))

    def _send_fetch(self, leader: Leader, wanted: Wanted, now_ms: int) -> None:
        self._next_leader += 1
        parts = by_partition(leader.take_pending())
        wait_ms = self._wait_ms(now_ms)
        if not leader.session.is_open:
            leader.losses = self._network.losses(leader.connection)
        request = share_fetch_request(self._settings, leader.session.begin(wanted), parts, wait_ms)
        timeout_ms = wait_ms + self._settings.request_timeout_ms
        answer = self._network.send(leader.connection, request, now_ms, timeout_ms=timeout_ms)
        sent = leader.sent = Sent(leader, parts, wanted)
        self._count(sent)
        answer.on_done(lambda done: self._fetched(sent, done))

    def _wait_ms(self, now_ms: int) -> int:
        """Return how long, in ms, a broker may wait for records: no longer than the poll(), because commit() and close() have to wait for
        the answer.

        After a poll() that did not wait, it is fetch.max.wait.ms: the next poll() returns the records that have arrived.
        """
        left_ms = self.awaited_until_ms - now_ms
        return min(self._settings.fetch_max_wait_ms, left_ms) if left_ms > 0 else self._settings.fetch_max_wait_ms

    def _send_acknowledgements(self, leader: Leader, now_ms: int) -> None:
        pending = leader.take_pending()
        renews = any(part.is_renewal for part in pending)
        parts = by_partition(pending)
        epoch = CLOSING_EPOCH if self.is_closing else leader.session.epoch
        request = share_acknowledge_request(self._settings, epoch, parts, renews=renews)
        answer = self._network.send(leader.connection, request, now_ms)
        sent = leader.sent = Sent(leader, parts, closes=self.is_closing)
        self._count(sent)
        answer.on_done(lambda done: self._acknowledged(sent, done))

    def _count(self, sent: Sent) -> None:
        for part in sent.all:
            self.counters.sent.note(sum(run.length for run in part.decided.runs), self._now_ms)

    # Responses

    def _fetched(self, sent: Sent, done: Promise[ShareFetchResponse]) -> None:
        answer = self._answer(sent, done)
        if answer is None:
            return
        self.counters.throttle_time.note(answer.throttle_time_ms, self._now_ms)
        self._learn_timeout(answer.acquisition_lock_timeout_ms)
        endpoints = [Node(node.node_id, node.host, node.port, node.rack) for node in answer.node_endpoints]
        self._settle(sent, acks_of_fetch(answer), endpoints)
        brought = 0
        for owned, data in partitions_of(answer):
            tp = sent.wanted.get(owned)
            if tp is not None:
                brought += len(data.records or b"")
                self._take_in(sent.leader, owned, tp, data, endpoints)
        self.counters.fetched.note(brought, self._now_ms)
        self._changed()

    def _acknowledged(self, sent: Sent, done: Promise[ShareAcknowledgeResponse]) -> None:
        answer = self._answer(sent, done)
        if answer is not None:
            self._learn_timeout(answer.acquisition_lock_timeout_ms)
            endpoints = [Node(node.node_id, node.host, node.port, node.rack) for node in answer.node_endpoints]
            self._settle(sent, acks_alone(answer), endpoints)
        if sent.closes:
            self._end(sent.leader)
        self._changed()

    def _answer(self, sent: Sent, done: Promise[Any]) -> Any:
        """Return the response to a request. If the request has failed, settle everything in it and return None."""
        leader = sent.leader
        if leader.sent is not sent:
            # close() has given up the request and settled everything in it.
            return None
        leader.sent = None
        if done.error is None and not done.result().error_code:
            leader.failures = 0
            leader.session.answered()
            return done.result()
        leader.session.lost()
        if done.error is None:
            self._refused_whole(sent, done.result().error_code, done.result().error_message)
        else:
            self._failed(sent, done.error)
        self._changed()
        return None

    def _refused_whole(self, sent: Sent, code: int, message: str | None) -> None:
        """Handle an error code of a whole response, which concerns the session or the group. code, message: from the response."""
        leader = sent.leader
        reaction = ON_SESSION_ERROR.reaction(code)
        if reaction is Reaction.RAISE:
            self.error = session_refused(self._settings.group_id, leader.node_id, code, message)
        if reaction is not Reaction.AT_ONCE or leader.failures:
            leader.retry_at_ms = self._now_ms + self._backoff.delay_ms(leader.failures)
        leader.failures += 1
        for part in sent.all:
            part.settle(session_lost(part.decided.tp, leader.node_id, code, message))

    def _failed(self, sent: Sent, error: BaseException) -> None:
        """Handle a request without a response. The network client reconnects by itself."""
        if not isinstance(error, KafkaError):
            raise error
        if not isinstance(error, ConnectError):
            self.error = error
        for part in sent.all:
            is_unknown = isinstance(error, ConnectError)
            part.settle(unanswered(part.decided.tp, sent.leader.node_id, error) if is_unknown else error)

    def _settle(self, sent: Sent, answers: Mapping[Owned, AckAnswer], endpoints: Iterable[Node]) -> None:
        """Settle the acknowledgements of a request by its answers. Those with a retriable error are sent again, unless the request
        has closed the session.
        """
        for owned, parts in sent.parts.items():
            answer = answers.get(owned)
            for part in parts:
                tp = part.decided.tp
                if answer is None:
                    part.settle(not_said(tp, sent.leader.node_id))
                elif not answer.code:
                    part.settle(None)
                elif ON_ACKNOWLEDGE_ERROR.reaction(answer.code) is Reaction.RETRY and not sent.closes:
                    sent.leader.pending.append(part)
                    sent.leader.retry_at_ms = self._now_ms + self._backoff.delay_ms(sent.leader.failures)
                    sent.leader.failures += 1
                else:
                    if ON_ACKNOWLEDGE_ERROR.reaction(answer.code) is Reaction.REFRESH:
                        self._refresh(tp, answer.leader_id, answer.leader_epoch, endpoints)
                    part.settle(refused(tp, sent.leader.node_id, answer.code, answer.message))

    def _refresh(self, tp: TopicPartition, leader_id: int, leader_epoch: int, endpoints: Iterable[Node]) -> bool:
        """Request a metadata refresh. Return whether the response named a newer leader (KIP-951), so that a retry need not wait for the
        refresh.

        leader_id, leader_epoch, endpoints: from the response; leader_id is -1 if the response names no leader.
        """
        self._metadata.request_update()
        return leader_id >= 0 and self._metadata.apply_leader_hint(tp, leader_id, leader_epoch, endpoints)

    def _take_in(self, leader: Leader, owned: Owned, tp: TopicPartition, data: PartitionData, endpoints: Iterable[Node]) -> None:
        if data.error_code:
            self._take_error(leader, tp, data, endpoints)
            return
        self._retry_at.pop(tp, None)
        acquired = tuple(Acquired(part.first_offset, part.last_offset, part.delivery_count) for part in data.acquired_records)
        if fault := fault_of(acquired):
            self.error = ProtocolError(f"{tp}: node {leader.node_id} says that this consumer has acquired {fault}; it is broken")
        elif acquired:
            until_ms = NEVER_MS if self.lock_timeout_ms is None else self._now_ms + self.lock_timeout_ms
            batches = Batches(data.records or b"", check_crcs=self._settings.check_crcs)
            self._arrived(Chunk(tp, owned.topic_id, leader.node_id, batches, acquired, until_ms, leader.session.lost_before))

    def _take_error(self, leader: Leader, tp: TopicPartition, data: PartitionData, endpoints: Iterable[Node]) -> None:
        reaction = ON_PARTITION_ERROR.reaction(data.error_code)
        if reaction is Reaction.RAISE:
            text = f"{tp}: share fetch from node {leader.node_id}: {data.error_message or 'refused'}"
            self.error = permissions.refused(ShareFetchRequest.NAME, data.error_code, text, {ResourceType.TOPIC: tp.topic})
        elif reaction is Reaction.REFRESH:
            hint = data.current_leader
            if self._refresh(tp, hint.leader_id, hint.leader_epoch, endpoints):
                return
        attempts = self._retry_at.get(tp, (0, 0))[1]
        self._retry_at[tp] = self._now_ms + self._backoff.delay_ms(attempts), attempts + 1
        code = ErrorCode.of(data.error_code)
        self._log.debug("%s: share fetch from node %d: %s", tp, leader.node_id, code.name, tp=tp, node_id=leader.node_id)

    def _learn_timeout(self, timeout_ms: int) -> None:
        if timeout_ms > 0:
            self.lock_timeout_ms = timeout_ms

    # The end

    def _end(self, leader: Leader) -> None:
        leader.is_closed = True
        self._see_whether_closed()

    def _see_whether_closed(self) -> None:
        if all(leader.is_closed for leader in self._leaders.values()):
            self.closed.resolve(None)


def _is_wanted(part: Sending, wanted: Wanted | None) -> bool:
    return Owned(part.decided.topic_id, part.decided.tp.partition) in (wanted or NOTHING_WANTED)
