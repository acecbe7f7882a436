"""Resets positions: looks up the offset of partitions that await a reset.

An answer counts only if the partition still awaits the same reset: a seek in between wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from levada.base.clock import NEVER_MS, ExponentialBackoff, Now
from levada.base.flow import Flow
from levada.client.metadata.metadata import Metadata
from levada.client.requests.fan_out import Answer, Spawn, Whom
from levada.client.requests.partition_answer import PartitionAnswer
from levada.consumer.fetch.fetch_buffer import FetchBuffer
from levada.consumer.positions.auto_offset_reset import ResetTo
from levada.consumer.positions.leader_requests import LeaderQuestions
from levada.consumer.positions.offsets import ask_where_to_begin
from levada.consumer.positions.subscription_state import OUT_OF_RANGE, PartitionState, SubscriptionState
from levada.types import IsolationLevel, OffsetAndTimestamp, TopicPartition


class PositionReset(NamedTuple):
    """An invalid position that was moved, because auto.offset.reset is not "none". The new position is where the option says. After a
    truncation whose place the leader knows, it is the end of the records that are left.

    asked_offset: the invalid position. offset: the new one. If `offset - asked_offset` is positive, that many offsets are skipped; if
    negative, read again. reason: OUT_OF_RANGE, TRUNCATED or RECREATED.
    """

    partition: TopicPartition
    asked_offset: int
    offset: int
    reason: str = OUT_OF_RANGE


class _Question(NamedTuple):
    """A reset of a partition that awaits an offset. It belongs to one generation of the position."""

    state: PartitionState
    generation: int
    reset_to: ResetTo

    @property
    def still_holds(self) -> bool:
        """Whether there was no seek and no other reset since."""
        return self.generation == self.state.generation


class PositionResetter:
    """The poller that looks up offsets for resets. Used under the engine's lock."""

    def __init__(
        self,
        *,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        metadata: Metadata,
        isolation_level: IsolationLevel,
        backoff: ExponentialBackoff,
        spawn: Spawn,
        now: Now,
        wall_ms: Callable[[], int],
        on_reset: Callable[[PositionReset], None],
    ) -> None:
        self._buffer = buffer
        self._metadata = metadata
        self._isolation_level = isolation_level
        self._now = now
        self._wall_ms = wall_ms
        self._on_reset = on_reset
        self._marks = subscription.listen()
        self._questions: LeaderQuestions[_Question, OffsetAndTimestamp] = LeaderQuestions(
            buffer=buffer, metadata=metadata, backoff=backoff, spawn=spawn, ask=self._ask, take=self._take
        )

    def poll(self, now_ms: int) -> int:
        """Ask for the offsets of partitions that await a reset."""
        if self._marks:
            awaiting = [state for state in self._marks if not (state.faulted or state.retired)]
            self._marks.clear()
            self._questions.put([_Question(state, state.generation, to) for state in awaiting if (to := state.reset_to) is not None])
        return NEVER_MS

    def _ask(self, node: Whom, questions: Mapping[TopicPartition, _Question]) -> Flow[PartitionAnswer[OffsetAndTimestamp]]:
        for tp, question in questions.items():
            # Only a leader of this epoch answers: the position is valid in its log.
            question.state.holds_in(self._metadata.snapshot.leader_epoch(tp))
        wanted = {tp: question.reset_to for tp, question in questions.items()}
        answer = yield from ask_where_to_begin(node, wanted, self._metadata, self._isolation_level, self._wall_ms())
        found = {tp: at for tp, at in answer.found.items() if at is not None}
        nothing = dict.fromkeys(answer.found.keys() - found.keys(), "the broker knows no such offset")
        return Answer(found, answer.again | nothing, answer.errors)

    def _take(self, question: _Question, found: OffsetAndTimestamp) -> None:
        state = question.state
        asked, reason = state.asked_offset, state.reset_reason
        state.move_to(found.offset, found.leader_epoch)
        self._metadata.saw_leader_epoch(state.tp, found.leader_epoch)
        state.heard(self._now.ms)
        self._buffer.announce()
        if asked is not None:
            self._on_reset(PositionReset(state.tp, asked, found.offset, reason))
