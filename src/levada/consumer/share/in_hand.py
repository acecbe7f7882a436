"""What a program has in its hands, partition by partition, and how it acknowledges that. Pure.

An offset comes in with a call for records, UNDECIDED. It goes out once it is decided: taken to be sent, or put back to be handed out again.
Only an offset whose lock is to be renewed stays: RENEWING until the broker has answered, RENEWED until the program decides, or is handed
it once more.

What can never happen: that an offset is acknowledged twice, or one that the program does not have; that one which the program has is
neither decided nor told of. Where the broker refuses an acknowledgement, the program is told, and the record is out of its hands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias
from uuid import UUID

from levada.base.clock import NEVER_MS
from levada.consumer.share.acquired import Chunk
from levada.consumer.share.marks import Mark, OffsetMarks, Run
from levada.errors import IllegalStateError
from levada.types import AcknowledgeType, TopicPartition

DECIDED = frozenset({Mark.GAP, Mark.ACCEPT, Mark.RELEASE, Mark.REJECT, Mark.RENEW})
MAY_DECIDE = (DECIDED | {Mark.UNDECIDED, Mark.RENEWED}) - {Mark.GAP}
RENEWALS = frozenset({Mark.RENEWING, Mark.RENEWED})


Offsets: TypeAlias = tuple[TopicPartition, Sequence[tuple[int, int]]]
"""Offsets of a partition, each run from first to last, both included."""


class Decided(NamedTuple):
    """Acknowledgements to be sent to the leader that records came from. until_ms: when the locks end, as far as this side knows."""

    tp: TopicPartition
    topic_id: UUID
    node_id: int
    runs: tuple[Run, ...]
    until_ms: int = NEVER_MS


class _Partition:
    """What the program has of one partition. chunks: where that came from, to hand it out again."""

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
        """These are on their way: what is to be renewed stays."""
        for run in runs:
            self.marks.put(run.first, run.last, Mark.RENEWING if run.mark is Mark.RENEW else None)

    def take(self, runs: Iterable[Run]) -> None:
        """Have these offsets in hand no more."""
        for run in runs:
            self.marks.put(run.first, run.last, None)
        self.drop_chunks()

    def drop_chunks(self) -> None:
        """Let go of what nothing is in hand of any more."""
        self.chunks = [
            chunk for chunk in self.chunks if any(True for part in chunk.acquired for _ in self.marks.runs(part.first, part.last))
        ]


class InHand:
    """See the module's theory."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._last: list[tuple[TopicPartition, list[Run]]] = []
        """What the last call for records handed out."""

    # In

    def begin_call(self) -> None:
        """A call for records begins: what it puts in can be taken back."""
        self._last = []

    def put(self, chunk: Chunk, runs: Sequence[Run]) -> None:
        """The program gets these offsets of a chunk, UNDECIDED or with a decision that it may change."""
        if not runs:
            return
        self._partitions.setdefault(chunk.tp, _Partition()).put(chunk, runs)
        self._last.append((chunk.tp, list(runs)))

    # What the program says

    def acknowledge(self, found: Sequence[Offsets], kind: AcknowledgeType) -> None:
        """Decide on offsets, each run from first to last. Raises IllegalStateError, and changes nothing, where one is not in hand."""
        for tp, runs in found:
            partition = self._partitions.get(tp)
            for first, last in runs:
                if partition is None or not partition.marks.covers(first, last, MAY_DECIDE):
                    raise IllegalStateError(_not_in_hand(tp, first, last, partition))
        for tp, runs in found:
            for first, last in runs:
                self._partitions[tp].marks.put(first, last, Mark(kind))

    def acknowledge_rest(self, kind: AcknowledgeType) -> None:
        """Decide on everything that is not decided yet."""
        for partition in self._partitions.values():
            for run in partition.of(frozenset({Mark.UNDECIDED})):
                partition.marks.put(run.first, run.last, Mark(kind))

    def __len__(self) -> int:
        """Return how many offsets of records there are."""
        marks = (partition.marks for partition in self._partitions.values())
        return sum(run.last - run.first + 1 for found in marks for run in found.runs() if run.mark is not Mark.GAP)

    def undecided(self) -> Iterator[tuple[TopicPartition, Run]]:
        """Yield what the program has not decided on."""
        for tp, partition in self._partitions.items():
            for run in partition.of(frozenset({Mark.UNDECIDED})):
                yield tp, run

    # Out

    def take_decided(self) -> list[Decided]:
        """Return what is decided, to be sent. It is out of the program's hands, but for what is to be renewed."""
        found = []
        for tp, partition in list(self._partitions.items()):
            # What was acquired once more belongs to its newest chunk.
            for chunk in reversed(partition.chunks):
                if runs := partition.decided_of(chunk):
                    found.append(Decided(tp, chunk.topic_id, chunk.node_id, runs, chunk.until_ms))
                    partition.send(runs)
            partition.drop_chunks()
            self._drop_if_empty(tp)
        return found

    def put_back(self, wanted: Mapping[TopicPartition, Sequence[Run]]) -> list[Chunk]:
        """Take offsets out of the program's hands that it has not decided on; return chunks to hand them out again, in order."""
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
        """Undo what the last call handed out; return chunks to hand it out again, in order."""
        last, self._last = self._last, []
        return [chunk for tp, runs in last for chunk in self.put_back({tp: runs})]

    # Renewals

    def release_renewals(self) -> None:
        """Locks are not renewed any more: what was to be is released."""
        for partition in self._partitions.values():
            for run in partition.of(frozenset({Mark.RENEW})):
                partition.marks.put(run.first, run.last, Mark.RELEASE)

    @property
    def has_renewals(self) -> bool:
        """Whether the next call hands out what was renewed, once that is known, instead of fetching."""
        return any(partition.of(RENEWALS) for partition in self._partitions.values())

    @property
    def is_renewing(self) -> bool:
        """Whether an answer to a renewal is still awaited."""
        return any(partition.of(frozenset({Mark.RENEWING})) for partition in self._partitions.values())

    def renewed(self, tp: TopicPartition, runs: Iterable[Run], until_ms: int | None) -> None:
        """A renewal was answered. until_ms: when the locks end now, None where they were not renewed."""
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
        """Return chunks of what was renewed, to be handed out again; it is out of the program's hands until then."""
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
        f"{tp}: {named} cannot be acknowledged: this consumer was not handed all of it, or has acknowledged it, and a commit, a call for "
        "records or close() has sent that"
    )
