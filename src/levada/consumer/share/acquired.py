"""The records that a member has acquired in one partition with one fetch. Pure.

A fetch response has whole record batches, and tells which of their offsets the member has acquired (KIP-932). An acquired offset without a
record, because it is a transaction marker or was compacted away, is a gap. Gaps are acknowledged without the program. A chunk is immutable:
the rest of a chunk is another chunk over the same data.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import UUID

from levada.consumer.share.offset_marks import Run
from levada.errors import CorruptRecordError
from levada.protocol.schema import RecordBytes
from levada.record.batch import RecordBatch
from levada.record.memory_records import read_batches
from levada.types import TopicPartition

MAX_OFFSET = 2**63 - 1
MOST_OFFSETS = 1 << 22
"""The most offsets of one partition in one response. Brokers lock 10,000 and the rest of a record batch; each may become a record."""


class Acquired(NamedTuple):
    """Acquired offsets from first to last, both included. delivery_count: how often they were delivered, including this time."""

    first: int
    last: int
    delivery_count: int


def fault_of(acquired: Sequence[Acquired]) -> str:
    """Check the offsets that a response reports as acquired. Return why they are invalid; "" if they are valid.

    They have to ascend without duplicates, and there may be at most MOST_OFFSETS of them.
    """
    before, count = -1, 0
    for part in acquired:
        if not before < part.first <= part.last < MAX_OFFSET:
            return f"offsets {part.first} to {part.last} after {before}" if before >= 0 else f"offsets {part.first} to {part.last}"
        before, count = part.last, count + part.last - part.first + 1
    return f"{count} offsets at once" if count > MOST_OFFSETS else ""


class Batches:
    """The record batches of a response, found once by their headers. check_crcs: whether to verify the CRC of each batch before its first
    use.
    """

    def __init__(self, data: RecordBytes, *, check_crcs: bool) -> None:
        self.size_bytes = len(data)
        self._source = read_batches(data)
        self._found: list[RecordBatch] = []
        self._lasts: list[int] = []
        """The last offset of each batch."""
        self._unverified: set[int] = set()
        """The first offsets of the batches whose checksum is not verified yet."""
        self._check_crcs = check_crcs
        self._fault: CorruptRecordError | None = None

    def at(self, offset: int) -> RecordBatch | None:
        """Return the batch that contains an offset, or else the first batch after it; None if there is none.

        Raises CorruptRecordError if the data is not a record batch.
        """
        while not self._lasts or self._lasts[-1] < offset:
            batch = self._next()
            if batch is None:
                return None
            self._found.append(batch)
            self._lasts.append(batch.last_offset)
            self._unverified.add(batch.base_offset)
        return self._found[bisect_left(self._lasts, offset)]

    def _next(self) -> RecordBatch | None:
        if self._fault is not None:
            raise self._fault
        try:
            return next(self._source, None)
        except CorruptRecordError as fault:
            # A generator that has raised is finished, which would look like the end of the data.
            self._fault = fault
            raise

    def verify(self, batch: RecordBatch) -> None:
        """Raise CorruptRecordError if the CRC of the batch is wrong. No effect after the first call for a batch, or without check_crcs."""
        if self._check_crcs and batch.base_offset in self._unverified:
            batch.verify_crc()
            self._unverified.discard(batch.base_offset)


@dataclass(frozen=True, eq=False)
class Chunk:
    """Acquired offsets of one partition. node_id: the leader that delivered them. until_ms: when the locks end, as far as the client knows.

    session: the number of the share session with that leader. The locks end with the session.
    """

    tp: TopicPartition
    topic_id: UUID
    node_id: int
    batches: Batches
    acquired: tuple[Acquired, ...]
    until_ms: int
    session: int = 0

    def behind(self, offset: int) -> Chunk | None:
        """Return the part of the chunk that begins at an offset; None if that part has no offsets."""
        return self.of(Acquired(max(part.first, offset), part.last, part.delivery_count) for part in self.acquired if part.last >= offset)

    def only(self, runs: Iterable[Run]) -> Chunk | None:
        """Return the part of the chunk that is within some runs; None if that part has no offsets."""
        return self.of(
            Acquired(max(part.first, run.first), min(part.last, run.last), part.delivery_count)
            for run in runs
            for part in self.acquired
            if part.first <= run.last and run.first <= part.last
        )

    def renewed(self, runs: Sequence[Run], until_ms: int) -> list[Chunk]:
        """Return this chunk after the locks of some runs were renewed, split into the offsets whose locks end as before and those that end
        later.
        """
        again = self.only(runs)
        if again is None:
            return [self]
        rest = self.of(Acquired(first, last, part.delivery_count) for part in self.acquired for first, last in outside(part, runs))
        later = replace(again, until_ms=max(self.until_ms, until_ms))
        return [later] if rest is None else [rest, later]

    def of(self, acquired: Iterable[Acquired]) -> Chunk | None:
        """Return a chunk with other offsets and the same data; None if there are no offsets."""
        parts = tuple(acquired)
        return replace(self, acquired=parts) if parts else None


def outside(acquired: Acquired, runs: Iterable[Run]) -> Iterator[tuple[int, int]]:
    """Yield each part of the acquired offsets that is in none of the runs, as its first and last offset."""
    at = acquired.first
    for run in sorted(runs):
        if run.last < at or run.first > acquired.last:
            continue
        if run.first > at:
            yield at, run.first - 1
        at = run.last + 1
    if at <= acquired.last:
        yield at, acquired.last


class Piece(NamedTuple):
    """Offsets of a chunk that are in the same record batch or gap. fault: why the batch cannot be read; None if it can, and for a gap."""

    first: int
    last: int
    delivery_count: int
    batch: RecordBatch | None
    fault: CorruptRecordError | None = None


def pieces(chunk: Chunk) -> Iterator[Piece]:
    """Yield the offsets of a chunk as pieces, in order. Each piece is in one record batch or in one gap."""
    for part in chunk.acquired:
        offset = part.first
        while offset <= part.last:
            piece = _piece(chunk.batches, offset, part)
            yield piece
            offset = piece.last + 1


def _piece(batches: Batches, offset: int, part: Acquired) -> Piece:
    try:
        batch = batches.at(offset)
    except CorruptRecordError as fault:
        return Piece(offset, part.last, part.delivery_count, None, fault)
    if batch is None:
        return Piece(offset, part.last, part.delivery_count, None)
    if batch.base_offset > offset:
        return Piece(offset, min(part.last, batch.base_offset - 1), part.delivery_count, None)
    last = min(part.last, batch.last_offset)
    if batch.is_control or batch.is_empty:
        return Piece(offset, last, part.delivery_count, None)
    return Piece(offset, last, part.delivery_count, batch)
