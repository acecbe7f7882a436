"""Notices when the log under a position is not the one that was read (behaviour O10, KIP-320, KIP-516).

Two things can happen to a log. A leader that lacked records may have been elected: a newer leader epoch is the sign of it, and the end of
the epoch read last, as the new leader has it, tells whether the position still stands on what was read. Or the topic was deleted and
created again: it has another id, and offsets of the old one mean nothing in the new one.

A position that cannot be kept moves by auto.offset.reset, and somebody is told; without a policy, and in a bounded read, the caller gets
an error until it seeks. What was fetched before still goes out first: the caller could as well have polled a moment earlier. So a question
is only asked, and an answer only believed, while nothing of the partition is buffered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from levada.client.backoff import ExponentialBackoff
from levada.client.metadata import Metadata
from levada.client.snapshot import ClusterSnapshot
from levada.clock import NEVER_MS
from levada.consumer.epoch_ends import EpochAsked, EpochEnd, EpochsAnswer, ask_epoch_ends
from levada.consumer.fetch_buffer import CompletedFetch, FetchBuffer
from levada.consumer.offsets import Spawn
from levada.consumer.position_resetter import PositionReset
from levada.consumer.subscription_state import RECREATED, TRUNCATED, OffsetSpec, PartitionState, PartitionStatus, SubscriptionState
from levada.errors import KafkaError, LogTruncationError, TopicRecreatedError, UnsupportedVersionError
from levada.promise import Promise
from levada.types import NO_LEADER_EPOCH, TopicPartition


class _Question(NamedTuple):
    """A position whose epoch was asked about. leader_epoch: the leader's own."""

    state: PartitionState
    round: int
    position: int
    epoch: int
    leader_epoch: int

    @property
    def still_holds(self) -> bool:
        """Whether the answer is about the position as it is now."""
        state = self.state
        is_same = (self.round, self.position, self.epoch) == (state.round, state.position, state.leader_epoch)
        return is_same and state.status is PartitionStatus.VALIDATING and not state.buffered


class PositionValidator:
    """The poller that looks after positions. Used under the engine's lock. reset_to: auto.offset.reset, None for none."""

    def __init__(
        self,
        *,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        metadata: Metadata,
        backoff: ExponentialBackoff,
        spawn: Spawn,
        reset_to: OffsetSpec | None,
        on_reset: Callable[[PositionReset], None],
    ) -> None:
        self._subscription = subscription
        self._buffer = buffer
        self._metadata = metadata
        self._backoff = backoff
        self._spawn = spawn
        self._reset_to = reset_to
        self._on_reset = on_reset
        self._marks = subscription.listen()
        self._snapshot: ClusterSnapshot | None = None
        self._validating: dict[PartitionState, None] = {}
        self._asked: set[PartitionState] = set()
        self._now_ms = 0

    def poll(self, now_ms: int) -> int:
        """Follow what metadata says of topics and leaders; return when a question may be asked again."""
        self._now_ms = now_ms
        if self._metadata.snapshot is not self._snapshot:
            self._snapshot = self._metadata.snapshot
            self._marks.update(dict.fromkeys(self._subscription))
        while self._marks:
            marked = list(self._marks)
            self._marks.clear()
            for state in marked:
                self._look_at(state)
        if not self._validating:
            return NEVER_MS
        groups, deadline_ms = self._plan(now_ms)
        for node_id, questions in groups.items():
            self._ask(node_id, questions)
        return deadline_ms

    def _look_at(self, state: PartitionState) -> None:
        if not state.retired:
            self._follow_topic(state)
            self._follow_leader(state)
        if state.status is PartitionStatus.VALIDATING and not state.retired:
            self._validating[state] = None
        else:
            self._validating.pop(state, None)

    # Topics

    def _follow_topic(self, state: PartitionState) -> None:
        topic_id = self._metadata.snapshot.topic_id(state.tp.topic)
        if topic_id is None or topic_id == state.topic_id:
            return
        if state.topic_id is None or state.status is PartitionStatus.INITIALIZING:
            state.topic_id = topic_id
        elif state.status is PartitionStatus.AWAIT_RESET and state.reset_to is not None:
            state.belongs_to(topic_id)
            state.await_reset(state.reset_to, gave_up=state.asked_offset, reason=state.reset_reason)
        elif (policy := self._policy_for(state)) is not None:
            state.belongs_to(topic_id)
            self._give_up(state, policy, RECREATED)
        else:
            state.await_validation()
            self._refuse(state, _recreated(state.tp, state.position))

    def _policy_for(self, state: PartitionState) -> OffsetSpec | None:
        return None if state.stop_offset is not None else self._reset_to

    def _give_up(self, state: PartitionState, policy: OffsetSpec, reason: str) -> None:
        state.await_reset(policy, gave_up=state.position, reason=reason)
        self._buffer.drop_stale()

    def _refuse(self, state: PartitionState, error: KafkaError) -> None:
        """Let the caller see an error, after what is buffered, and again after it was raised, until it seeks."""
        if not state.buffered:
            self._buffer.add(CompletedFetch(state, state.generation, state.fetch_offset, error=error))

    # Leaders

    def _follow_leader(self, state: PartitionState) -> None:
        leader_epoch = self._metadata.snapshot.leader_epoch(state.tp)
        if state.status is not PartitionStatus.FETCHING or leader_epoch <= state.validated_epoch:
            return
        if NO_LEADER_EPOCH in (state.validated_epoch, state.leader_epoch):
            # A position that was just looked up or chosen, or records of a format without epochs: there is nothing to compare.
            state.validated_epoch = leader_epoch
        else:
            state.await_validation()

    def _plan(self, now_ms: int) -> tuple[dict[int, list[_Question]], int]:
        groups: dict[int, list[_Question]] = {}
        deadline_ms = NEVER_MS
        snapshot = self._metadata.snapshot
        for state in self._validating:
            if state.buffered or state in self._asked:
                continue
            leader = snapshot.leader(state.tp)
            if leader is None:
                self._metadata.request_update()
            elif state.retry_at_ms > now_ms:
                deadline_ms = min(deadline_ms, state.retry_at_ms)
            else:
                question = _Question(state, state.round, state.position, state.leader_epoch, snapshot.leader_epoch(state.tp))
                groups.setdefault(leader.id, []).append(question)
        return groups, deadline_ms

    def _ask(self, node_id: int, questions: list[_Question]) -> None:
        self._asked.update(question.state for question in questions)
        wanted = {question.state.tp: EpochAsked(question.epoch, question.leader_epoch) for question in questions}
        self._spawn(ask_epoch_ends(node_id, wanted)).on_done(lambda promise: self._answered(questions, promise))

    def _answered(self, questions: list[_Question], promise: Promise[EpochsAnswer]) -> None:
        self._asked.difference_update(question.state for question in questions)
        current = [question for question in questions if question.still_holds]
        error = promise.error
        if error is None:
            for question in current:
                self._take_in(question, promise.result())
        elif isinstance(error, UnsupportedVersionError):
            # Brokers before 2.3 do not tell; then there is nothing to go by.
            for question in current:
                question.state.validated(question.leader_epoch)
        elif isinstance(error, KafkaError):
            for question in current[:1]:
                self._refuse(question.state, error)
        else:
            raise error

    def _take_in(self, question: _Question, answer: EpochsAnswer) -> None:
        state = question.state
        if state.tp in answer.errors:
            self._refuse(state, answer.errors[state.tp])
        elif state.tp in answer.again:
            state.failed(answer.again[state.tp], self._now_ms + self._backoff.delay_ms(state.failed_attempts))
            self._metadata.request_update()
        else:
            state.heard(self._now_ms)
            self._judge(question, answer.found[state.tp])

    def _judge(self, question: _Question, end: EpochEnd) -> None:
        state = question.state
        if end.is_known and end.offset >= state.position:
            state.validated(question.leader_epoch)
            return
        policy = self._policy_for(state)
        if policy is None:
            self._refuse(state, _truncation(state.tp, state.position, end))
        elif end.is_known:
            self._move_back(question, end)
        else:
            self._give_up(state, policy, TRUNCATED)

    def _move_back(self, question: _Question, end: EpochEnd) -> None:
        """Read what stands after the last record that is the same."""
        state, position = question.state, question.position
        state.move_to(end.offset, end.epoch)
        state.validated_epoch = question.leader_epoch
        self._on_reset(PositionReset(state.tp, position, end.offset, TRUNCATED))


def _recreated(tp: TopicPartition, position: int) -> TopicRecreatedError:
    text = f"{tp} at offset {position}: {RECREATED}, and this is no position in the new one; seek() to go on"
    return TopicRecreatedError(text, partition=tp, offset=position)


def _truncation(tp: TopicPartition, position: int, end: EpochEnd) -> LogTruncationError:
    divergent = end.offset if end.is_known else None
    where = f"records from offset {divergent} on are gone or replaced" if divergent is not None else "it cannot be told where"
    text = f"{tp} at offset {position}: {TRUNCATED} by a leader that lacked records; {where}; seek() to go on"
    return LogTruncationError(text, partition=tp, offset=position, divergent_offset=divergent)
