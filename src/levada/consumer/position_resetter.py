"""Looks up positions for partitions that await one (behaviour O6, O7).

Each leader is asked in a conversation of its own, so a broker that does not answer holds up its own partitions only. An answer counts only
if the partition still awaits the same reset: a seek in between wins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from levada.client.backoff import ExponentialBackoff
from levada.client.metadata import Metadata
from levada.clock import NEVER_MS
from levada.consumer.fetch_buffer import CompletedFetch, FetchBuffer
from levada.consumer.offsets import OffsetsAnswer, Spawn, ask_leader
from levada.consumer.subscription_state import OUT_OF_RANGE, PartitionState, PartitionStatus, SubscriptionState
from levada.errors import KafkaError
from levada.promise import Promise
from levada.types import IsolationLevel, OffsetAndTimestamp, TopicPartition

Waiting = dict[TopicPartition, tuple[PartitionState, int]]


class PositionReset(NamedTuple):
    """A position that could not be kept and was moved by auto.offset.reset: `offset - asked_offset` records were skipped or come again.

    reason: OUT_OF_RANGE, TRUNCATED or RECREATED.
    """

    partition: TopicPartition
    asked_offset: int
    offset: int
    reason: str = OUT_OF_RANGE


class PositionResetter:
    """The poller that finds positions. Used under the engine's lock."""

    def __init__(
        self,
        *,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        metadata: Metadata,
        isolation_level: IsolationLevel,
        backoff: ExponentialBackoff,
        spawn: Spawn,
        on_reset: Callable[[PositionReset], None],
    ) -> None:
        self._buffer = buffer
        self._metadata = metadata
        self._isolation_level = isolation_level
        self._backoff = backoff
        self._spawn = spawn
        self._on_reset = on_reset
        self._marks = subscription.listen()
        self._waiting: dict[PartitionState, None] = {}
        """What awaits a position."""
        self._asked: dict[PartitionState, int] = {}
        self._now_ms = 0

    def poll(self, now_ms: int) -> int:
        """Ask for the positions nobody asked for yet; return when the next one may be asked for again."""
        self._now_ms = now_ms
        for state in self._marks:
            if state.status is PartitionStatus.AWAIT_RESET and not state.retired:
                self._waiting[state] = None
            else:
                self._waiting.pop(state, None)
        self._marks.clear()
        groups, deadline_ms = self._plan(now_ms)
        for node_id, waiting in groups.items():
            self._ask(node_id, waiting)
        return deadline_ms

    def _plan(self, now_ms: int) -> tuple[dict[int, Waiting], int]:
        groups: dict[int, Waiting] = {}
        deadline_ms = NEVER_MS
        for state in self._waiting:
            if state.faulted or self._asked.get(state) == state.generation:
                continue
            leader = self._metadata.snapshot.leader(state.tp)
            if leader is None:
                self._metadata.request_update()
            elif state.retry_at_ms > now_ms:
                deadline_ms = min(deadline_ms, state.retry_at_ms)
            else:
                groups.setdefault(leader.id, {})[state.tp] = (state, state.generation)
        return groups, deadline_ms

    def _ask(self, node_id: int, waiting: Waiting) -> None:
        wanted = {tp: int(state.reset_to) for tp, (state, _) in waiting.items() if state.reset_to is not None}
        for state, generation in waiting.values():
            self._asked[state] = generation
            # Only a leader of this epoch answers.
            state.validated_epoch = self._metadata.snapshot.leader_epoch(state.tp)
        promise = self._spawn(ask_leader(node_id, wanted, self._metadata, self._isolation_level))
        promise.on_done(lambda promise: self._answered(waiting, promise))

    def _answered(self, waiting: Waiting, promise: Promise[OffsetsAnswer]) -> None:
        current = {tp: state for tp, (state, generation) in waiting.items() if generation == state.generation}
        for state, generation in waiting.values():
            if self._asked.get(state) == generation:
                del self._asked[state]
        error = promise.error
        if error is None:
            self._take_in(current, promise.result())
        elif isinstance(error, KafkaError):
            for state in list(current.values())[:1]:
                self._raise_to_caller(state, error)
        else:
            raise error

    def _take_in(self, current: dict[TopicPartition, PartitionState], answer: OffsetsAnswer) -> None:
        for tp, state in current.items():
            if tp in answer.errors:
                self._raise_to_caller(state, answer.errors[tp])
            elif (found := answer.found.get(tp)) is not None:
                self._move(state, found)
            else:
                reason = answer.again.get(tp, "the broker knows no such offset")
                state.failed(reason, self._now_ms + self._backoff.delay_ms(state.failed_attempts))
                self._metadata.request_update()

    def _move(self, state: PartitionState, found: OffsetAndTimestamp) -> None:
        asked, reason = state.asked_offset, state.reset_reason
        state.move_to(found.offset, found.leader_epoch)
        state.asked_offset = None
        state.heard(self._now_ms)
        self._buffer.announce()
        if asked is not None:
            self._on_reset(PositionReset(state.tp, asked, found.offset, reason))

    def _raise_to_caller(self, state: PartitionState, error: KafkaError) -> None:
        self._buffer.add(CompletedFetch(state, state.generation, state.fetch_offset, error=error))
