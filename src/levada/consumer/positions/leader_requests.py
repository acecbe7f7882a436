"""Background requests about assigned partitions: for offsets to start at, and whether a position is still valid.

A question is sent to the partition's leader, and repeated until it is answered or does not apply any more, because the position was moved
or the partition revoked; then an answer is ignored. The work grows with the number of questions, not of partitions.

An error of one partition is an answer to its question. An error of a whole request, such as an unsupported version, is raised to the caller
once, even if it is about several partitions; the others are asked again after a pause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from levada.base.clock import ExponentialBackoff
from levada.base.flow import Flow
from levada.base.promise import Promise
from levada.client.driver_interface import ENDED
from levada.client.metadata.metadata import Metadata
from levada.client.requests.fan_out import Answer, FanOut, Spawn, Whom
from levada.client.requests.partition_answer import PartitionAnswer
from levada.client.requests.retry import Retries
from levada.consumer.fetch.fetch_buffer import CompletedFetch, FetchBuffer
from levada.consumer.positions.subscription_state import PartitionState
from levada.errors import KafkaError
from levada.types import TopicPartition


class Question(Protocol):
    """A question to the leader of one partition. Equal questions have the same answer."""

    @property
    def state(self) -> PartitionState:
        """The state of the partition."""
        ...

    @property
    def still_holds(self) -> bool:
        """Whether the answer is still needed: the partition's position was not moved since."""
        ...


Q = TypeVar("Q", bound=Question)
T = TypeVar("T")

Ask: TypeAlias = Callable[[Whom, Mapping[TopicPartition, Q]], Flow[PartitionAnswer[T]]]


class LeaderQuestions(Generic[Q, T]):
    """Asks leaders in the background. Used under the engine's lock. ask: sends one request. take: uses the answer to one question."""

    def __init__(
        self,
        *,
        buffer: FetchBuffer,
        metadata: Metadata,
        backoff: ExponentialBackoff,
        spawn: Spawn,
        ask: Ask[Q, T],
        take: Callable[[Q, T], None],
    ) -> None:
        self._buffer = buffer
        self._metadata = metadata
        self._backoff = backoff
        self._spawn = spawn
        self._ask = ask
        self._take = take
        self._open: dict[PartitionState, Q] = {}

    def put(self, questions: Sequence[Q]) -> None:
        """Ask new questions. They replace earlier questions about the same partitions."""
        asked = {question.state.tp: question for question in questions if self._open.get(question.state) != question}
        if asked:
            self._open.update((question.state, question) for question in asked.values())
            self._spawn.start(self._pursue(asked)).on_done(_raise_bug)

    def refuse(self, state: PartitionState, error: KafkaError) -> None:
        """Make poll() raise an error instead of returning the next records of a partition."""
        self._buffer.add(CompletedFetch(state, state.generation, state.fetch_offset, error=error))

    def _pursue(self, questions: Mapping[TopicPartition, Q]) -> Flow[None]:
        retries, attempts = Retries(self._metadata, self._backoff), 0
        try:
            while left := [tp for tp, question in questions.items() if self._holds(question)]:
                try:
                    yield from self._asking(questions, retries).run(left)
                except ENDED:
                    raise
                except KafkaError as error:
                    # Metadata is unavailable. `Stalls` reports that; poll() may have records of other partitions to return first.
                    for tp in left:
                        questions[tp].state.last_error = str(error)
                    yield from retries.pause(attempts, refresh=False)
                    attempts += 1
        finally:
            for question in questions.values():
                self._close(question)

    def _asking(self, questions: Mapping[TopicPartition, Q], retries: Retries) -> FanOut[TopicPartition, T]:
        return FanOut(
            retries,
            self._spawn,
            route=self._leader,
            ask=lambda node, tps: self._ask_one(node, {tp: questions[tp] for tp in tps}),
            still_wanted=lambda tp: self._holds(questions[tp]),
        )

    def _leader(self, tp: TopicPartition) -> int | str:
        leader = self._metadata.snapshot.leader(tp)
        return "no leader is known" if leader is None else leader.id

    def _ask_one(self, node: Whom, questions: Mapping[TopicPartition, Q]) -> Flow[PartitionAnswer[Any]]:
        """Ask one leader and use its answer. Unanswered questions are asked again."""
        try:
            answer = yield from self._ask(node, questions)
        except ENDED:
            raise  # The answer is no longer wanted.
        except KafkaError as error:
            answer = _failed(questions, error)
        current = {tp: question for tp, question in questions.items() if self._holds(question)}
        for tp, question in current.items():
            if tp in answer.again:
                question.state.last_error = answer.again[tp]
            else:
                self._close(question)
                self._settle(question, tp, answer)
        return Answer(again={tp: reason for tp, reason in answer.again.items() if tp in current}, refresh=answer.refresh)

    def _settle(self, question: Q, tp: TopicPartition, answer: PartitionAnswer[T]) -> None:
        if tp in answer.errors:
            self.refuse(question.state, answer.errors[tp])
        else:
            self._take(question, answer.found[tp])

    def _holds(self, question: Q) -> bool:
        return self._open.get(question.state) is question and question.still_holds

    def _close(self, question: Q) -> None:
        """Close a question, and mark its partition, so that all listeners check it again."""
        if self._open.get(question.state) is question:
            del self._open[question.state]
            question.state.mark()


def _failed(questions: Mapping[TopicPartition, object], error: KafkaError) -> PartitionAnswer[Any]:
    """Return the answer for a request that failed as a whole: the error for each partition."""
    first, *others = questions
    return Answer(errors={first: error}, again=dict.fromkeys(others, str(error)), refresh=False)


def _raise_bug(done: Promise[None]) -> None:
    """Report an error of a background flow: no caller waits for its result."""
    if done.error is not None and not isinstance(done.error, ENDED):
        raise done.error
