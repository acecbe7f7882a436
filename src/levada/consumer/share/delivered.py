"""The records that the program has, by partition, and their acknowledgements. Pure.

An offset is added by poll(): as UNDECIDED if its record is returned, else with its acknowledgement (GAP, REJECT or RELEASE). Once it is
acknowledged it is removed, to be sent; or it is put back, to be returned again. Only an offset whose lock is renewed stays: it is RENEWING
until the broker has answered, and RENEWED until it is acknowledged or returned again.

What can never happen: an offset is acknowledged twice, apart from renewals; the program acknowledges a record that it does not have; an
offset of the program is neither acknowledged nor reported. If the broker refuses an acknowledgement, that is reported, and the program does
not have the record any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias
from uuid import UUID

from levada.base.clock import NEVER_MS
from levada.consumer.share.acquired import Chunk
from levada.consumer.share.offset_marks import Mark, OffsetMarks, Run
from levada.errors import IllegalStateError
from levada.types import AcknowledgeType, TopicPartition

DECIDED = frozenset({Mark.GAP, Mark.ACCEPT, Mark.RELEASE, Mark.REJECT, Mark.RENEW})
MAY_DECIDE = (DECIDED | {Mark.UNDECIDED, Mark.RENEWED}) - {Mark.GAP}
RENEWALS = frozenset({Mark.RENEWING, Mark.RENEWED})


Offsets: TypeAlias = tuple[TopicPartition, Sequence[tuple[int, int]]]
"""Offsets of a partition, each run from first to last, both included."""


class Decided(NamedTuple):
    """Acknowledgements for one leader. node_id: the leader that delivered the records. until_ms: when the locks end, as far as the client
    knows.
    """

    tp: TopicPartition
    topic_id: UUID
    node_id: int
    runs: tuple[Run, ...]
    until_ms: int = NEVER_MS


class _Partition:
    """The records of one partition that the program has. chunks: their data, so that they can be returned again."""

    def __init__(self) -> None:
        self.marks = OffsetMarks()
        self.chunks: list[Chunk] = []

    def put(self, chunk: Chunk, runs: Iterable[Run]) -> None:
        self.chunks.append(chunk)
        for run in runs:
            self.marks.put(*run)

    def of(self, marks: frozenset[Mark]) -> list[Run]:
        return [run for run in self.marks.runs() if run.mark in marks]

    def decided_of(self, chunk: Chunk) -> tuple[Run, ...]:
        return tuple(run for part in chunk.acquired for run in self.marks.runs(part.first, part.last) if run.mark in DECIDED)

    def send(self, runs: Iterable[Run]) -> None:
        """Remove the offsets of runs that are being sent. Offsets to be renewed stay, marked as RENEWING."""
        for run in runs:
            self.marks.put(run.first, run.last, Mark.RENEWING if run.mark is Mark.RENEW else None)

    def take(self, runs: Iterable[Run]) -> None:
        """Remove these offsets, and the chunks that have no offsets left."""
        for run in runs:
            self.marks.put(run.first, run.last, None)
        self.drop_chunks()

    def drop_chunks(self) -> None:
        """Drop the chunks that have no offsets left."""
        self.chunks = [
            chunk for chunk in self.chunks if any(True for part in chunk.acquired for _ in self.marks.runs(part.first, part.last))
        ]


class InHand:
    """The records that the program of one share consumer has received and that are not settled."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._last: list[tuple[TopicPartition, list[Run]]] = []
        """The offsets that the last poll() has returned."""

    # Adding

    def begin_call(self) -> None:
        """Begin a poll(). take_back() can undo the calls of put() after this."""
        self._last = []

    def put(self, chunk: Chunk, runs: Sequence[Run]) -> None:
        """Add offsets of a chunk. Each run is UNDECIDED, a GAP, or has an acknowledgement that the program may still change."""
        if not runs:
            return
        self._partitions.setdefault(chunk.tp, _Partition()).put(chunk, runs)
        self._last.append((chunk.tp, list(runs)))

    # Acknowledging

    def acknowledge(self, found: Sequence[Offsets], kind: AcknowledgeType) -> None:
        """Acknowledge offsets, each run from first to last.

        If the program does not have one of the records, raises IllegalStateError and changes nothing.
        """
        for tp, runs in found:
            partition = self._partitions.get(tp)
            for first, last in runs:
                if partition is None or not partition.marks.covers(first, last, MAY_DECIDE):
                    raise IllegalStateError(_not_in_hand(tp, first, last, partition))
        for tp, runs in found:
            for first, last in runs:
                self._partitions[tp].marks.put(first, last, Mark(kind))

    def acknowledge_rest(self, kind: AcknowledgeType) -> None:
        """Acknowledge all offsets that are not acknowledged yet."""
        for partition in self._partitions.values():
            for run in partition.of(frozenset({Mark.UNDECIDED})):
                partition.marks.put(run.first, run.last, Mark(kind))

    def __len__(self) -> int:
        """Return the number of records that the program has."""
        marks = (partition.marks for partition in self._partitions.values())
        return sum(run.last - run.first + 1 for found in marks for run in found.runs() if run.mark is not Mark.GAP)

    def undecided(self) -> Iterator[tuple[TopicPartition, Run]]:
        """Yield the offsets that are not acknowledged, as pairs of a partition and a run of offsets."""
        for tp, partition in self._partitions.items():
            for run in partition.of(frozenset({Mark.UNDECIDED})):
                yield tp, run

    # Removing

    def take_decided(self) -> list[Decided]:
        """Remove and return the acknowledgements to send. Offsets to be renewed stay until the answer."""
        found = []
        for tp, partition in list(self._partitions.items()):
            # An offset that was acquired again belongs to its newest chunk.
            for chunk in reversed(partition.chunks):
                if runs := partition.decided_of(chunk):
                    found.append(Decided(tp, chunk.topic_id, chunk.node_id, runs, chunk.until_ms))
                    partition.send(runs)
            partition.drop_chunks()
            self._drop_if_empty(tp)
        return found

    def put_back(self, wanted: Mapping[TopicPartition, Sequence[Run]]) -> list[Chunk]:
        """Remove those of the offsets that are not acknowledged; return their chunks, in order, so that they are returned again."""
        chunks = []
        for tp, runs in wanted.items():
            partition = self._partitions.get(tp)
            if partition is None:
                continue
            left = [found for run in runs for found in partition.marks.runs(run.first, run.last) if found.mark is Mark.UNDECIDED]
            chunks += [again for chunk in partition.chunks if (again := chunk.only(left)) is not None]
            partition.take(left)
            self._drop_if_empty(tp)
        return chunks

    def take_back(self) -> list[Chunk]:
        """Remove the unacknowledged offsets of the last poll(); return their chunks, in order, so that they are returned again."""
        last, self._last = self._last, []
        return [chunk for tp, runs in last for chunk in self.put_back({tp: runs})]

    # Renewals

    def release_renewals(self) -> None:
        """Release the records whose lock renewal was not sent yet, because the consumer is being closed."""
        for partition in self._partitions.values():
            for run in partition.of(frozenset({Mark.RENEW})):
                partition.marks.put(run.first, run.last, Mark.RELEASE)

    @property
    def has_renewals(self) -> bool:
        """Whether records are to be renewed. The next poll() returns these records after the broker's answer, instead of fetching."""
        return any(partition.of(RENEWALS) for partition in self._partitions.values())

    @property
    def is_renewing(self) -> bool:
        """Whether a renewal was sent and not answered yet."""
        return any(partition.of(frozenset({Mark.RENEWING})) for partition in self._partitions.values())

    def renewed(self, tp: TopicPartition, runs: Iterable[Run], until_ms: int | None) -> None:
        """Note the answer to a renewal. until_ms: the new end of the locks; None if they were not renewed, which removes the offsets."""
        partition = self._partitions.get(tp)
        if partition is None:
            return
        answered = [found for run in runs for found in partition.marks.runs(run.first, run.last) if found.mark is Mark.RENEWING]
        for found in answered:
            partition.marks.put(found.first, found.last, None if until_ms is None else Mark.RENEWED)
        if until_ms is not None:
            partition.chunks = [part for chunk in partition.chunks for part in chunk.renewed(answered, until_ms)]
        partition.drop_chunks()
        self._drop_if_empty(tp)

    def take_renewed(self) -> list[Chunk]:
        """Remove the renewed offsets; return their chunks, so that they are returned again."""
        chunks = []
        for tp, partition in list(self._partitions.items()):
            renewed = partition.of(frozenset({Mark.RENEWED}))
            chunks += [again for chunk in partition.chunks if (again := chunk.only(renewed)) is not None]
            partition.take(renewed)
            self._drop_if_empty(tp)
        return chunks

    def _drop_if_empty(self, tp: TopicPartition) -> None:
        if not self._partitions[tp].marks:
            del self._partitions[tp]


def _not_in_hand(tp: TopicPartition, first: int, last: int, partition: _Partition | None) -> str:
    named = f"offset {first}" if first == last else f"offsets {first} to {last}"
    if partition is not None and any(run.mark is Mark.RENEWING for run in partition.marks.runs(first, last)):
        return f"{tp}: {named} cannot be acknowledged while a renewal is on its way; commit() waits for it"
    return (
        f"{tp}: {named} cannot be acknowledged: this consumer did not get all of these records, or has already sent an acknowledgement for "
        "them, with a commit, the next call for records or close()"
    )
