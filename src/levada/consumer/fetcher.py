"""Keeps fetches on their way to every broker that leads a partition somebody wants (behaviour 16.3 to 16.5).

At most one fetch per broker is in flight; it names every partition there that wants data. Its answer goes into the fetch buffer as it came:
the collector looks at it in the caller's thread.

A broker holds an answer back until it has something, or max_wait_ms is over. That wait must not hold up a partition which was left out only
because enough of it is buffered: while one is left out, the wait is short, and grows with each answer that brings nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from levada.client.backoff import ExponentialBackoff
from levada.client.metadata import Metadata
from levada.client.network_client import NetworkClient
from levada.clock import NEVER_MS
from levada.consumer.fetch_buffer import READ_AHEAD, CompletedFetch, FetchBuffer
from levada.consumer.fetch_request import (
    FIRST_VERSION_WITH_IDS,
    FIRST_VERSION_WITH_WHOLE_BATCH,
    FetchSettings,
    all_have_ids,
    closing_request,
    fetch_request,
)
from levada.consumer.fetch_response import Asked, FetchResponseHandler
from levada.consumer.fetch_session import NO_SESSION, NO_TOPIC_ID, FetchSession, FetchTarget
from levada.consumer.subscription_state import PartitionState, SubscriptionState
from levada.errors import ConnectError, KafkaError
from levada.promise import Promise
from levada.protocol.messages.fetch import FetchRequest, FetchResponse
from levada.types import TopicPartition

SHORT_WAIT_MS = 10
LAST_VERSION_WITHOUT_IDS = FIRST_VERSION_WITH_IDS - 1


@dataclass(slots=True)
class NodePlan:
    """What one broker is to be asked for. holds_back: whether a partition it leads is left out because enough is buffered."""

    wanted: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    holds_back: bool = False


@dataclass(slots=True)
class NodeState:
    """What is remembered of one broker."""

    session: FetchSession = field(default_factory=FetchSession)
    in_flight: bool = False
    empty_answers: int = 0


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
    ) -> None:
        self._subscription = subscription
        self._buffer = buffer
        self._metadata = metadata
        self._network = network
        self._settings = settings
        self._responses = FetchResponseHandler(subscription, buffer, metadata, settings, backoff)
        self._nodes: dict[int, NodeState] = {}
        self._now_ms = 0

    def poll(self, now_ms: int) -> int:
        """Send a fetch to every broker that has something to give and none in flight; return when to be polled again."""
        self._now_ms = now_ms
        plans, deadline_ms = self._plan(now_ms)
        for node_id, plan in plans.items():
            if plan.wanted and not self._node(node_id).in_flight:
                deadline_ms = min(deadline_ms, self._ask(node_id, plan, now_ms))
        return deadline_ms

    def close_sessions(self, now_ms: int) -> list[Promise[Any]]:
        """Tell the brokers that can be told at once that their sessions are over (F22)."""
        return [
            self._network.send(node_id, closing_request(node.session.session_id), now_ms, min_version=7)
            for node_id, node in self._nodes.items()
            if node.session.session_id != NO_SESSION and self._network.is_ready(node_id, now_ms)
        ]

    def _plan(self, now_ms: int) -> tuple[dict[int, NodePlan], int]:
        """Decide which broker is to be asked for what, and when the next partition that must wait may be asked for."""
        plans: dict[int, NodePlan] = {}
        deadline_ms = NEVER_MS
        for state in self._subscription:
            if not state.wants_data:
                continue
            if state.retry_at_ms > now_ms:
                deadline_ms = min(deadline_ms, state.retry_at_ms)
                continue
            node_id = self._node_for(state, now_ms)
            if node_id is None:
                self._metadata.request_update()
                continue
            plan = plans.setdefault(node_id, NodePlan())
            if self._has_enough(state):
                plan.holds_back = True
            else:
                plan.wanted[state.tp] = state
        return plans, deadline_ms

    def _has_enough(self, state: PartitionState) -> bool:
        """Whether as much of the partition is buffered as may be; what is buffered in all bounds reading ahead, not reading."""
        ahead = state.buffered - state.passed
        return ahead >= READ_AHEAD or (ahead > 0 and self._buffer.size_bytes >= self._settings.max_bytes)

    def _node_for(self, state: PartitionState, now_ms: int) -> int | None:
        """Return the replica a leader pointed to while its lease lasts, else the leader, None without one (F13)."""
        snapshot = self._metadata.snapshot
        preferred = state.preferred_replica
        if preferred is not None and now_ms < state.preferred_until_ms and preferred in snapshot.nodes:
            return preferred
        leader = snapshot.leader(state.tp)
        return None if leader is None else leader.id

    def _node(self, node_id: int) -> NodeState:
        return self._nodes.setdefault(node_id, NodeState())

    def _ask(self, node_id: int, plan: NodePlan, now_ms: int) -> int:
        """Send the fetch if the broker can be written to; return when to look again."""
        if not self._network.ready(node_id, now_ms):
            return now_ms + self._network.poll_delay_ms(node_id, now_ms)
        try:
            self._send(node_id, plan, now_ms)
        except KafkaError as fault:
            self._give_up(list(plan.wanted.values()), fault)
        return NEVER_MS

    def _send(self, node_id: int, plan: NodePlan, now_ms: int) -> None:
        node = self._node(node_id)
        targets = {tp: self._target(state) for tp, state in plan.wanted.items()}
        newest = FetchRequest.MAX_VERSION if all_have_ids(targets.values()) else LAST_VERSION_WITHOUT_IDS
        version = self._network.version_for(node_id, FetchRequest, max_version=newest)
        session = node.session.begin(targets, by_id=version >= FIRST_VERSION_WITH_IDS)
        request = fetch_request(session, self._settings, max_wait_ms=self._wait_ms(node, plan))
        partitions = {tp: (state, state.round, state.fetch_offset) for tp, state in plan.wanted.items()}
        asked = Asked(node_id, session, partitions, cuts_first=version < FIRST_VERSION_WITH_WHOLE_BATCH)
        promise = self._network.send(node_id, request, now_ms, max_version=newest)
        node.in_flight = True
        promise.on_done(lambda promise: self._done(node, asked, promise))

    def _target(self, state: PartitionState) -> FetchTarget:
        snapshot = self._metadata.snapshot
        topic = snapshot.topics.get(state.tp.topic)
        topic_id = NO_TOPIC_ID if topic is None or topic.topic_id is None else topic.topic_id
        return FetchTarget(topic_id, state.fetch_offset, snapshot.leader_epoch(state.tp), self._settings.max_partition_bytes)

    def _wait_ms(self, node: NodeState, plan: NodePlan) -> int:
        if not plan.holds_back:
            return self._settings.max_wait_ms
        return min(self._settings.max_wait_ms, SHORT_WAIT_MS << min(node.empty_answers, 10))

    def _done(self, node: NodeState, asked: Asked, promise: Promise[FetchResponse]) -> None:
        node.in_flight = False
        error = promise.error
        if error is None:
            brought_data = self._responses.handle(node.session, asked, promise.result(), self._now_ms)
            node.empty_answers = 0 if brought_data else node.empty_answers + 1
            return
        node.session.failed(None)
        states = [state for state, round, _ in asked.partitions.values() if round == state.round]
        if isinstance(error, ConnectError):
            # Connections come back by themselves, at the network client's pace.
            for state in states:
                state.last_error = str(error)
                state.preferred_replica = None
        elif isinstance(error, KafkaError):
            self._give_up(states, error)
        else:
            raise error

    def _give_up(self, states: list[PartitionState], error: KafkaError) -> None:
        """Let the caller see an error that trying again does not mend; once, though it holds for several partitions."""
        for state in states[:1]:
            self._buffer.add(CompletedFetch(state, state.generation, state.fetch_offset, error=error))
