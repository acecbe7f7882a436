"""Acknowledgements on their way to brokers, and their results. Pure.

The acknowledgements of one call form a batch: commit() waits for all of it. Each part is settled once: by the answer of its leader, by an
error of the request or one that prevents sending, by the end of its time, or by close(). A result with an error means that the broker has
not accepted the acknowledgement, or that this is unknown. Records whose acknowledgement was not accepted are delivered again, unless the
group has finished them, for example because they were delivered too often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from levada.base.promise import Promise
from levada.consumer.share.delivered import Decided
from levada.consumer.share.offset_marks import Mark, Run
from levada.errors import AcknowledgeError, KafkaError
from levada.protocol.messages import share_acknowledge, share_fetch
from levada.types import TopicPartition


class Outcome(NamedTuple):
    """The result of acknowledging offsets of one partition. error: None if the broker has accepted the acknowledgements."""

    tp: TopicPartition
    runs: tuple[Run, ...]
    error: KafkaError | None

    @property
    def records(self) -> int:
        """The number of acknowledged records. Gaps are not counted."""
        return sum(run.length for run in self.runs if run.mark is not Mark.GAP)

    @property
    def offsets(self) -> list[int]:
        """The offsets of the acknowledged records, without gaps."""
        return [offset for run in self.runs if run.mark is not Mark.GAP for offset in run.offsets]


class Batch:
    """The acknowledgements that one call sends. deadline_ms: when to stop trying. done: resolved with all results once every part is
    settled.

    is_awaited: whether a commit() waits for the results and raises their errors. settled: called for each result.
    """

    def __init__(
        self, parts: Iterable[Decided], deadline_ms: int, settled: Callable[[Outcome, Batch], None], *, is_awaited: bool = False
    ) -> None:
        self.parts = [Sending(part, self) for decided in parts for part in _without_renewals_among_others(decided)]
        self.deadline_ms = deadline_ms
        self.done: Promise[list[Outcome]] = Promise()
        self.is_awaited = is_awaited
        self._settled = settled
        self._left = len(self.parts)
        self._outcomes: list[Outcome] = []
        if not self.parts:
            self.done.resolve([])

    def settle(self, outcome: Outcome) -> None:
        """Note the result of one part."""
        self._left -= 1
        self._outcomes.append(outcome)
        self._settled(outcome, self)
        if not self._left:
            self.done.resolve(self._outcomes)


def _without_renewals_among_others(decided: Decided) -> Iterable[Decided]:
    """Split acknowledgements into renewals and others, because a broker that does not support renewals still accepts the others."""
    for renews in (False, True):
        if runs := tuple(run for run in decided.runs if (run.mark is Mark.RENEW) is renews):
            yield decided._replace(runs=runs)


class Sending(NamedTuple):
    """The acknowledgements of a batch for one partition."""

    decided: Decided
    batch: Batch

    @property
    def is_renewal(self) -> bool:
        """Whether this part renews acquisition locks. Such a part has only renewals, and is sent in a separate request."""
        return any(run.mark is Mark.RENEW for run in self.decided.runs)

    def is_too_late(self, now_ms: int) -> bool:
        """Return whether this part would renew locks that have expired. Brokers would accept it, even for records that the group has
        finished.
        """
        return self.is_renewal and self.decided.until_ms <= now_ms

    @property
    def deadline_ms(self) -> int:
        """The time, in ms, at which this part is given up if it was not sent."""
        return min(self.batch.deadline_ms, self.decided.until_ms) if self.is_renewal else self.batch.deadline_ms

    def settle(self, error: KafkaError | None) -> None:
        """Note the result of this part. error: None if the broker has accepted it."""
        self.batch.settle(Outcome(self.decided.tp, self.decided.runs, error))


def failure(outcomes: Sequence[Outcome]) -> AcknowledgeError | None:
    """Return the error of a commit with these results; None if all records were accepted. Gaps do not count."""
    failed = [outcome for outcome in outcomes if outcome.error is not None and outcome.records]
    if not failed:
        return None
    lines = [f"  {outcome.tp}: {outcome.records} records from offset {outcome.offsets[0]}: {outcome.error}" for outcome in failed]
    text = "\n".join(["not all acknowledgements were accepted; the other records are delivered again, to this or another member", *lines])
    offsets: dict[TopicPartition, list[int]] = {}
    for outcome in failed:
        offsets.setdefault(outcome.tp, []).extend(outcome.offsets)
    # An error of a partition takes precedence over its parts that were accepted.
    by_partition: Mapping[TopicPartition, KafkaError | None] = dict(
        sorted(((outcome.tp, outcome.error) for outcome in outcomes), key=lambda pair: pair[1] is not None)
    )
    error = AcknowledgeError(text)
    error.offsets, error.outcomes = offsets, by_partition
    return error


class AckBatch(NamedTuple):
    """The first and last offset of a batch in a message, with one acknowledgement type for all offsets, or one for each."""

    first: int
    last: int
    types: list[int]

    def in_fetch(self) -> share_fetch.AcknowledgementBatch:
        """Return this batch as a field of ShareFetch."""
        return share_fetch.AcknowledgementBatch(first_offset=self.first, last_offset=self.last, acknowledge_types=self.types)

    def alone(self) -> share_acknowledge.AcknowledgementBatch:
        """Return this batch as a field of ShareAcknowledge."""
        return share_acknowledge.AcknowledgementBatch(first_offset=self.first, last_offset=self.last, acknowledge_types=self.types)


LONG_RUN = 20
"""From this length on, a run of offsets of one type is shorter on the wire as a batch of its own than as a byte per offset."""


def ack_batches(runs: Iterable[Run]) -> list[AckBatch]:
    """Return runs as batches of a message, in order. A long run becomes one batch; adjacent short runs share one with a type for each
    offset.
    """
    batches: list[AckBatch] = []
    open_end = -1
    for run in sorted(runs):
        is_short = run.length < LONG_RUN
        types = [int(run.mark)] * run.length if is_short else [int(run.mark)]
        if is_short and run.first == open_end:
            last = batches.pop()
            batches.append(AckBatch(last.first, run.last, last.types + types))
        else:
            batches.append(AckBatch(run.first, run.last, types))
        open_end = run.last + 1 if is_short else -1
    return [AckBatch(first, last, types[:1] if len(set(types)) == 1 else types) for first, last, types in batches]
