"""Detects that the log under a position has changed (KIP-320, KIP-516; OffsetsForLeaderEpoch in Java).

Two things can happen to a log. A new leader may lack records: this shows as a newer leader epoch, and the end offset of the last read
epoch, at the new leader, tells whether the position is still valid. Or the topic was deleted and created again: then it has another topic
id, and old offsets mean nothing in it.

Unless auto.offset.reset is "none", an invalid position is moved, and the move is reported: after a truncation to the end of the part that
both logs have in common, if the leader knows it; else as the option says. With "none", and in a bounded read, poll() raises an error until
the program seeks. Records that were fetched before are still returned first, as if the program had polled a moment earlier. So a leader is
asked, and its answer used, only while no records of the partition are buffered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from levada.base.clock import NEVER_MS, ExponentialBackoff, Now
from levada.base.flow import Flow
from levada.client.metadata.metadata import Metadata
from levada.client.metadata.snapshot import ClusterSnapshot
from levada.client.requests.fan_out import Answer, Spawn, Whom
from levada.client.requests.partition_answer import PartitionAnswer
from levada.consumer.fetch.fetch_buffer import FetchBuffer
from levada.consumer.positions.auto_offset_reset import ResetTo
from levada.consumer.positions.epoch_ends import EpochAsked, EpochEnd, ask_epoch_ends
from levada.consumer.positions.leader_requests import LeaderQuestions
from levada.consumer.positions.position_resetter import PositionReset
from levada.consumer.positions.subscription_state import RECREATED, TRUNCATED, PartitionState, PartitionStatus, SubscriptionState
from levada.errors import KafkaError, LogTruncationError, TopicRecreatedError, UnsupportedVersionError
from levada.types import NO_LEADER_EPOCH, TopicPartition


class _Question(NamedTuple):
    """A position, and the leader epoch of the record before it."""

    state: PartitionState
    round: int
    position: int
    epoch: int

    @property
    def still_holds(self) -> bool:
        """Whether the position is still the same."""
        return self == _question(self.state) and _is_in_question(self.state)


def _question(state: PartitionState) -> _Question:
    return _Question(state, state.round, state.position, state.leader_epoch)


def _is_in_question(state: PartitionState) -> bool:
    return state.status is PartitionStatus.VALIDATING and not state.buffered and not state.retired


class PositionValidator:
    """The poller that validates positions. Used under the engine's lock. reset_to: auto.offset.reset; None for "none"."""

    def __init__(
        self,
        *,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        metadata: Metadata,
        backoff: ExponentialBackoff,
        spawn: Spawn,
        now: Now,
        reset_to: ResetTo | None,
        on_reset: Callable[[PositionReset], None],
    ) -> None:
        self._subscription = subscription
        self._buffer = buffer
        self._metadata = metadata
        self._now = now
        self._reset_to = reset_to
        self._on_reset = on_reset
        self._marks = subscription.listen()
        self._snapshot: ClusterSnapshot | None = None
        self._questions: LeaderQuestions[_Question, EpochEnd | None] = LeaderQuestions(
            buffer=buffer, metadata=metadata, backoff=backoff, spawn=spawn, ask=self._ask, take=self._take
        )

    def poll(self, now_ms: int) -> int:
        """Check the positions of partitions whose topic or leader has changed in metadata."""
        if self._metadata.snapshot is not self._snapshot:
            self._snapshot = self._metadata.snapshot
            self._marks.update(dict.fromkeys(self._subscription))
        while self._marks:
            marked = list(self._marks)
            self._marks.clear()
            for state in marked:
                if not state.retired:
                    self._follow_topic(state)
                    self._follow_leader(state)
            self._questions.put([_question(state) for state in marked if _is_in_question(state)])
        return NEVER_MS

    # Topics

    def _follow_topic(self, state: PartitionState) -> None:
        topic_id = self._metadata.snapshot.topic_id(state.tp.topic)
        if topic_id is None or topic_id == state.topic_id:
            return
        if state.topic_id is None or state.status is PartitionStatus.INITIALIZING:
            state.learn_topic(topic_id)
        elif state.topic_is_assumed:
            # The program may have known the new topic before this client's metadata did.
            state.correct_topic(topic_id)
        elif state.status is PartitionStatus.AWAIT_RESET and state.reset_to is not None:
            state.belongs_to(topic_id)
            state.await_reset(state.reset_to, gave_up=state.asked_offset, reason=state.reset_reason)
        elif (policy := self._policy_for(state)) is not None:
            state.belongs_to(topic_id)
            self._give_up(state, policy, RECREATED)
        else:
            state.await_validation()
            self._refuse(state, _recreated(state.tp, state.position))

    def _policy_for(self, state: PartitionState) -> ResetTo | None:
        return self._reset_to if state.may_be_reset else None

    def _give_up(self, state: PartitionState, policy: ResetTo, reason: str) -> None:
        state.await_reset(policy, gave_up=state.position, reason=reason)
        self._buffer.drop_stale()

    def _refuse(self, state: PartitionState, error: KafkaError) -> None:
        """Make each poll() raise an error after the buffered records, until the program seeks."""
        if not state.buffered:
            self._questions.refuse(state, error)

    # Leaders

    def _follow_leader(self, state: PartitionState) -> None:
        leader_epoch = self._metadata.snapshot.leader_epoch(state.tp)
        if state.status is not PartitionStatus.FETCHING or leader_epoch <= state.validated_epoch:
            return
        if NO_LEADER_EPOCH in (state.validated_epoch, state.leader_epoch):
            # Nothing to compare: the position was just looked up or sought, or the records have no leader epochs.
            state.holds_in(leader_epoch)
        else:
            state.await_validation()

    def _ask(self, node: Whom, questions: Mapping[TopicPartition, _Question]) -> Flow[PartitionAnswer[EpochEnd | None]]:
        snapshot = self._metadata.snapshot
        wanted = {tp: EpochAsked(question.epoch, snapshot.leader_epoch(tp)) for tp, question in questions.items()}
        try:
            answer = yield from ask_epoch_ends(node, wanted)
        except UnsupportedVersionError:
            # Brokers before 2.3 do not answer consumers, so the position counts as valid.
            return Answer(found=dict.fromkeys(questions))
        return Answer(dict(answer.found), answer.again, answer.errors)

    def _take(self, question: _Question, end: EpochEnd | None) -> None:
        """Use the leader's answer: keep the position, move it back, reset it, or make poll() raise an error. end: None if the broker is too
        old to answer.
        """
        state = question.state
        state.heard(self._now.ms)
        policy = self._policy_for(state)
        if end is None:
            state.validated(self._metadata.snapshot.leader_epoch(state.tp))
        elif end.is_known and end.offset >= state.position:
            state.validated(end.leader_epoch)
        elif policy is None:
            self._refuse(state, _truncation(state.tp, state.position, end))
        elif end.is_known:
            self._move_back(question, end)
        else:
            self._give_up(state, policy, TRUNCATED)

    def _move_back(self, question: _Question, end: EpochEnd) -> None:
        """Move the position to the end of the part that the old and the new log have in common."""
        state, position = question.state, question.position
        state.move_to(end.offset, end.epoch)
        state.holds_in(end.leader_epoch)
        self._on_reset(PositionReset(state.tp, position, end.offset, TRUNCATED))


def _recreated(tp: TopicPartition, position: int) -> TopicRecreatedError:
    text = f"{tp} at offset {position}: {RECREATED}, and offsets of the old topic mean nothing in it; seek() to continue"
    return TopicRecreatedError(text, partition=tp, offset=position)


def _truncation(tp: TopicPartition, position: int, end: EpochEnd) -> LogTruncationError:
    divergent = end.offset if end.is_known else None
    where = f"records from offset {divergent} on are gone or replaced" if divergent is not None else "it cannot be told where"
    text = f"{tp} at offset {position}: {TRUNCATED} by a leader that lacked records; {where}; seek() to continue"
    return LogTruncationError(text, partition=tp, offset=position, divergent_offset=divergent)
