"""Sends fetches to every broker that leads a partition with data to fetch (Fetcher in Java).

At most one fetch per broker is in flight. It names every partition of the broker that needs data. Its response goes into the fetch buffer
unchanged; the collector decodes it in the caller's context.

A broker delays its response until it has data or max_wait_ms is over. This must not delay a partition that was left out only because enough
of it is buffered. So while a partition is left out, the wait is short, and grows with each empty response.

Each broker has a share of the partitions: those that are requested, and those that are left out for now. When a partition changes, it is
checked again and moved to where it belongs. A request is sent to a broker that has partitions to request and no fetch in flight. So a poll
without changes costs nothing, however many partitions there are.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import Any

from levada.base.clock import NEVER_MS, ExponentialBackoff
from levada.base.promise import Promise
from levada.client.driver_interface import Deferred
from levada.client.metadata.metadata import Metadata
from levada.client.metadata.snapshot import ClusterSnapshot
from levada.client.network.connection_key import ConnectionKey, Purpose
from levada.client.network.network_client import NetworkClient
from levada.consumer.fetch.fetch_buffer import READ_AHEAD, CompletedFetch, FetchBuffer
from levada.consumer.fetch.fetch_request import (
    FIRST_VERSION_WITH_IDS,
    FIRST_VERSION_WITH_WHOLE_BATCH,
    FetchSettings,
    closing_request,
    fetch_request,
    grown_bytes,
    partition_bytes,
)
from levada.consumer.fetch.fetch_response import Asked, FetchResponseHandler
from levada.consumer.fetch.fetch_session import NO_SESSION, NO_TOPIC_ID, FetchSession, FetchTarget, SessionRequest
from levada.consumer.positions.subscription_state import PartitionState, SubscriptionState
from levada.errors import ConnectError, DisconnectError, KafkaError
from levada.protocol.messages.fetch import FetchRequest, FetchResponse
from levada.types import TopicPartition

SHORT_WAIT_MS = 10
SLOW_PART = 4
"""A response is slow if it took more than this part of request.timeout.ms."""
MOST_NAMED = 5
"""How many partitions a log line names."""
LAST_VERSION_WITHOUT_IDS = FIRST_VERSION_WITH_IDS - 1


class Share:
    """The partitions that are fetched from one broker, and the state of the broker.

    wanted: partitions to request, in the order of their last change, so that those that just got data come last. held: partitions that are
    left out because enough data of them is buffered. failing: partitions whose last fetch has failed. changed: partitions that the next
    request must consider. asked: the partitions of the last request. sent_ms: when it was sent. cuts_first: whether the broker is so old
    that it truncates even the first message of a partition. empty_answers: how many responses in a row had no data. heard_ms: when the last
    valid response arrived. losses: how often the connection had been lost when that was last checked.
    """

    __slots__ = (
        "asked",
        "changed",
        "connection",
        "cuts_first",
        "empty_answers",
        "failing",
        "heard_ms",
        "held",
        "in_flight",
        "losses",
        "sent_ms",
        "session",
        "wanted",
    )

    def __init__(self, connection: ConnectionKey, losses: int) -> None:
        self.connection = connection
        self.session = FetchSession()
        self.wanted: dict[TopicPartition, PartitionState] = {}
        self.held: set[PartitionState] = set()
        self.failing: set[PartitionState] = set()
        self.changed: dict[TopicPartition, None] = {}
        self.asked: dict[TopicPartition, tuple[PartitionState, int, int]] = {}
        self.in_flight = False
        self.sent_ms = 0
        self.cuts_first = False
        self.empty_answers = 0
        self.heard_ms = 0
        self.losses = losses

    @property
    def node_id(self) -> int:
        """The node id of the broker."""
        return self.connection.node_id

    def want(self, state: PartitionState) -> None:
        """Include a partition in the next requests, at its present fetch offset."""
        self.held.discard(state)
        self.wanted.pop(state.tp, None)
        self.wanted[state.tp] = state
        self.changed[state.tp] = None
        state.source = self
        if state.failed_attempts:
            self.failing.add(state)

    def hold(self, state: PartitionState) -> None:
        """Leave a partition out of requests until enough of its buffered data was read."""
        self.remove(state)
        self.held.add(state)

    def remove(self, state: PartitionState) -> None:
        """Leave a partition out of requests, because it is not to be fetched from this broker."""
        self.held.discard(state)
        self.failing.discard(state)
        if self.wanted.get(state.tp) is state:
            del self.wanted[state.tp]
            self.changed[state.tp] = None
        if state.source is self:
            state.leave_source()

    def heard(self, now_ms: int) -> None:
        """Clear the errors of partitions that were requested and answered without an error."""
        for state in [state for state in self.failing if state.source is self and state.tp in self.asked]:
            self.failing.discard(state)
            state.heard(now_ms)


class Fetcher:
    """The poller that sends fetches. Used under the engine's lock."""

    def __init__(
        self,
        *,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        metadata: Metadata,
        network: NetworkClient,
        settings: FetchSettings,
        backoff: ExponentialBackoff,
        deferred: Deferred,
    ) -> None:
        self._subscription = subscription
        self._buffer = buffer
        self._metadata = metadata
        self._network = network
        self._settings = settings
        self._log = deferred.log(__name__)
        self._responses = FetchResponseHandler(buffer, metadata, settings, backoff)
        self._marks = subscription.listen()
        self._snapshot: ClusterSnapshot | None = None
        self._shares: dict[int, Share] = {}
        self._where: dict[PartitionState, Share] = {}
        self._due: dict[int, Share] = {}
        """Brokers with partitions to request and no fetch in flight."""
        self._answered: list[tuple[Share, Asked]] = []
        """Requests that have ended since the last poll()."""
        self._timers: list[tuple[int, int, PartitionState]] = []
        """When to check partitions again that no event will mark."""
        self._timed: dict[PartitionState, int] = {}
        self._numbers = count()
        self._now_ms = 0

    def poll(self, now_ms: int) -> int:
        """Send a fetch to every broker that has partitions to request and no fetch in flight; return the time, in ms, of the next poll.

        If the fetch buffer is full, nothing is sent while it has entries that may be read.
        """
        self._now_ms = now_ms
        self._note_slow(now_ms)
        self._note_changes(now_ms)
        if self._marks:
            marked = list(self._marks)
            self._marks.clear()
            for state in marked:
                self._place(state, now_ms)
        deadline_ms = self._timers[0][0] if self._timers else NEVER_MS
        if self._due and not (self._buffer.is_full and self._buffer.has_readable):
            for share in list(self._due.values()):
                deadline_ms = min(deadline_ms, self._ask(share, now_ms))
        return now_ms if self._marks or self._buffer.amounts else deadline_ms

    @property
    def is_due(self) -> bool:
        """Whether poll() may have something to send even if no timer has expired and no network event has come."""
        return bool(self._marks or self._buffer.amounts or self._due)

    def close_sessions(self, now_ms: int) -> list[Promise[Any]]:
        """Close the fetch sessions at brokers that can be written to at once; return the promises of the requests."""
        return [
            self._network.send(share.connection, closing_request(share.session.session_id), now_ms, min_version=7)
            for share in self._shares.values()
            if share.session.session_id != NO_SESSION and self._network.is_ready(share.connection, now_ms)
        ]

    def _note_slow(self, now_ms: int) -> None:
        """After a slow response request only max.partition.fetch.bytes of its partitions: a larger one might time out each time."""
        for share, asked in self._answered:
            if (now_ms - share.sent_ms) * SLOW_PART > self._settings.request_timeout_ms:
                for state, _, _ in asked.partitions.values():
                    state.largest_response = 0
        self._answered.clear()

    # Shares of the brokers

    def _note_changes(self, now_ms: int) -> None:
        """Mark the partitions for which a timer has expired, or which new metadata may concern."""
        if self._metadata.snapshot is not self._snapshot:
            self._snapshot = self._metadata.snapshot
            self._marks.update(dict.fromkeys(self._subscription))
        if self._buffer.amounts:
            self._marks.update(self._buffer.amounts)
            self._buffer.amounts.clear()
        while self._timers and self._timers[0][0] <= now_ms:
            at_ms, _, state = heappop(self._timers)
            if self._timed.get(state) == at_ms:
                del self._timed[state]
                self._marks[state] = None

    def _place(self, state: PartitionState, now_ms: int) -> None:
        """Assign a partition to the share of the broker that it is to be fetched from now; to none if it is not to be fetched."""
        share = self._share_for(state, now_ms)
        before = self._where.pop(state, None)
        if before is not None and before is not share:
            before.remove(state)
        if share is None:
            return
        self._where[state] = share
        if self._has_enough(state):
            share.hold(state)
        else:
            share.want(state)
        if share.wanted and not share.in_flight:
            self._due[share.node_id] = share

    def _share_for(self, state: PartitionState, now_ms: int) -> Share | None:
        if state.retired or not state.wants_data:
            return None
        if state.retry_at_ms > now_ms:
            self._look_again(state, state.retry_at_ms)
            return None
        node_id = self._node_for(state, now_ms)
        if node_id is None:
            self._metadata.request_update()
            return None
        share = self._shares.get(node_id)
        if share is None:
            connection = ConnectionKey(node_id, Purpose.FETCH)
            share = self._shares[node_id] = Share(connection, self._network.losses(connection))
        return share

    def _look_again(self, state: PartitionState, at_ms: int) -> None:
        if self._timed.get(state) != at_ms:
            self._timed[state] = at_ms
            heappush(self._timers, (at_ms, next(self._numbers), state))

    def _has_enough(self, state: PartitionState) -> bool:
        """Whether the partition has its maximum of buffered entries."""
        return state.buffered - state.passed >= READ_AHEAD

    def _node_for(self, state: PartitionState, now_ms: int) -> int | None:
        """Return the node id of the replica that the leader has named, while its lease lasts; else of the leader. None without a leader."""
        snapshot = self._metadata.snapshot
        preferred = state.preferred_replica
        if preferred is not None and now_ms < state.preferred_until_ms and preferred in snapshot.nodes:
            self._look_again(state, state.preferred_until_ms)
            return preferred
        leader = snapshot.leader(state.tp)
        return None if leader is None else leader.id

    # Requests

    def _ask(self, share: Share, now_ms: int) -> int:
        """Send the fetch if the broker can be written to; return the time, in ms, of the next attempt."""
        if share.in_flight or not share.wanted:
            del self._due[share.node_id]
            return NEVER_MS
        if not self._network.ready(share.connection, now_ms):
            self._leave_replica(share)
            return now_ms + self._network.poll_delay_ms(share.connection, now_ms)
        del self._due[share.node_id]
        share.losses = self._network.losses(share.connection)
        try:
            self._send(share, now_ms)
        except KafkaError as error:
            self._give_up(list(share.wanted.values()), error)
        return NEVER_MS

    def _leave_replica(self, share: Share) -> None:
        """If the connection to a broker was lost or cannot be made, read the partitions for which it is the preferred replica from their
        leaders.
        """
        losses = self._network.losses(share.connection)
        if losses > share.losses:
            share.losses = losses
            for state in [*share.wanted.values(), *share.held]:
                if state.preferred_replica == share.node_id:
                    state.prefer(None)

    def _send(self, share: Share, now_ms: int) -> None:
        # A partition that was removed, and added again since, is in `wanted`.
        changes = {tp: self._target(share, state) if (state := share.wanted.get(tp)) else None for tp in share.changed}
        newest = FetchRequest.MAX_VERSION if self._all_have_ids(share, changes) else LAST_VERSION_WITHOUT_IDS
        version = self._network.version_for(share.connection, FetchRequest, max_version=newest)
        # Such a broker has no sessions either, so _begin() names every partition again.
        share.cuts_first = version < FIRST_VERSION_WITH_WHOLE_BATCH
        session = self._begin(share, changes, by_id=version >= FIRST_VERSION_WITH_IDS)
        wait_ms = self._wait_ms(share)
        request = fetch_request(session, self._settings, max_wait_ms=wait_ms, max_bytes=self._max_bytes())
        asked = Asked(share.node_id, session, share.asked, cuts_first=share.cuts_first, source=share)
        timeout_ms = wait_ms + self._settings.request_timeout_ms
        promise = self._network.send(share.connection, request, now_ms, max_version=newest, timeout_ms=timeout_ms)
        share.in_flight = True
        share.sent_ms = now_ms
        promise.on_done(lambda promise: self._done(share, asked, promise))

    def _begin(self, share: Share, changes: dict[TopicPartition, FetchTarget | None], *, by_id: bool) -> SessionRequest:
        share.changed.clear()
        if share.session.needs_all(by_id=by_id):
            share.asked = {}
            changes = {tp: self._target(share, state) for tp, state in share.wanted.items()}
            session = share.session.begin({tp: target for tp, target in changes.items() if target is not None}, by_id=by_id)
        else:
            session = share.session.go_on(changes)
        for tp in changes:
            state = share.wanted.get(tp)
            if state is None:
                share.asked.pop(tp, None)
            else:
                share.asked[tp] = (state, state.round, state.fetch_offset)
        return session

    def _all_have_ids(self, share: Share, changes: dict[TopicPartition, FetchTarget | None]) -> bool:
        """Return whether the topic ids of all partitions in the request are known, so that the request may name topics by id.

        changes: the partitions that an incremental request names; None removes a partition from the session.
        """
        if share.session.topic_name(NO_TOPIC_ID) or share.session.needs_all(by_id=True):
            return all(self._target(share, state).topic_id.int for state in share.wanted.values())
        return 0 not in [target.topic_id.int for target in changes.values() if target is not None]

    def _target(self, share: Share, state: PartitionState) -> FetchTarget:
        snapshot = self._metadata.snapshot
        topic = snapshot.topics.get(state.tp.topic)
        topic_id = NO_TOPIC_ID if topic is None or topic.topic_id is None else topic.topic_id
        return FetchTarget(topic_id, state.fetch_offset, snapshot.leader_epoch(state.tp), self._partition_bytes(share, state))

    def _partition_bytes(self, share: Share, state: PartitionState) -> int:
        if share.cuts_first:
            return self._settings.max_partition_bytes
        room = self._settings.buffer_bytes // (READ_AHEAD * len(self._where))
        return partition_bytes(state, grown_bytes(state, self._settings, room))

    def _wait_ms(self, share: Share) -> int:
        if not share.held:
            return self._settings.max_wait_ms
        return min(self._settings.max_wait_ms, SHORT_WAIT_MS << min(share.empty_answers, 10))

    def _max_bytes(self) -> int:
        """Return max_bytes of a fetch: the free part of fetch.buffer.bytes, but at least max.partition.fetch.bytes and at most
        fetch.max.bytes.
        """
        left = self._settings.buffer_bytes - self._buffer.size_bytes
        return min(self._settings.max_bytes, max(left, self._settings.max_partition_bytes))

    # Responses

    def _done(self, share: Share, asked: Asked, promise: Promise[FetchResponse]) -> None:
        share.in_flight = False
        self._due[share.node_id] = share
        self._answered.append((share, asked))
        error = promise.error
        if error is None:
            brought_data = self._responses.handle(share.session, asked, promise.result(), self._now_ms)
            share.empty_answers = 0 if brought_data else share.empty_answers + 1
            if share.failing and share.heard_ms == self._now_ms:
                share.heard(self._now_ms)
            return
        share.session.failed(None)
        states = [state for state, round, _ in asked.partitions.values() if round == state.round]
        if isinstance(error, ConnectError):
            if isinstance(error, DisconnectError) and error.timed_out and states:
                self._tell_of_silence(states, error)
            # The network client reconnects by itself.
            for state in states:
                state.last_error = str(error)
                if state.preferred_replica is not None:
                    state.prefer(None)
        elif isinstance(error, KafkaError):
            self._give_up(states, error)
        else:
            raise error

    def _tell_of_silence(self, states: list[PartitionState], error: DisconnectError) -> None:
        """Log that a broker does not answer, because poll() just returns nothing, as for a topic without new records."""
        names = ", ".join(str(state.tp) for state in states[:MOST_NAMED])
        others = f" and {len(states) - MOST_NAMED} more" if len(states) > MOST_NAMED else ""
        text = "no records of %s%s came: %s; they are fetched again when the broker is back"
        self._log.warning(text, names, others, error, tp=states[0].tp if len(states) == 1 else None)

    def _give_up(self, states: list[PartitionState], error: KafkaError) -> None:
        """Make poll() raise a permanent error once, even if it applies to several partitions."""
        for state in states[:1]:
            self._buffer.add(CompletedFetch(state, state.generation, state.fetch_offset, error=error))
