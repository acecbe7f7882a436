"""Turns chunks into records with their delivery counts, or into columns. Pure; it runs in the caller's context, without the lock.

A step has the result for the offsets of one chunk: which are returned, which are gaps, which cannot be read, and which remain for a later
call. An error of a record is raised by the poll() that would return it first; the records before it are returned first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from levada.consumer.fetch.decode import RecordConverter
from levada.consumer.share.acquired import Chunk, Piece, pieces
from levada.consumer.share.offset_marks import Mark, Run, runs_of
from levada.errors import CorruptRecordError, DecompressionError, KafkaError, RecordDeserializationError
from levada.record.batch import RecordBatch
from levada.types import AnyRecord, ShareRecord


@dataclass
class Step:
    """The result of decoding a chunk. given: the offsets of returned records. decided: offsets that are acknowledged without the program,
    because they are gaps, unreadable, or skipped by on.decode.error.

    doubtful: the offset of a record that failed; it is released unless the program acknowledges it. rest: the part that was not decoded.
    error: the error that poll() raises; None without one.
    """

    chunk: Chunk
    given: list[Run] = field(default_factory=list)
    decided: list[Run] = field(default_factory=list)
    doubtful: list[Run] = field(default_factory=list)
    rest: Chunk | None = None
    error: KafkaError | None = None


class Columns(Protocol):
    """Decodes record batches into columns. levada.record.columnar.AcquiredColumns implements it."""

    def add(
        self, batch: RecordBatch, topic: str, partition: int, first: int, last: int, delivery_count: int, limit: int | None
    ) -> tuple[int, int]:
        """Add the records with offsets from `first` to `last`, at most `limit` (None: no limit).

        Return the number of added records, and the offset after the last one that was added or found missing. Raises
        RecordDeserializationError if the first record has invalid UTF-8.
        """
        ...

    @property
    def rows(self) -> int:
        """The number of rows collected so far."""
        ...

    @property
    def nbytes(self) -> int:
        """The size of the columns so far, in bytes."""
        ...


class RecordSteps:
    """Decodes chunks into records."""

    def __init__(self, make_converter: Callable[[Callable[[AnyRecord], None]], RecordConverter], max_decompressed_bytes: int) -> None:
        """make_converter: makes a converter. The converter calls the given function for each record that on.decode.error skips."""
        self._passed: list[int] = []
        self._converter = make_converter(lambda record: self._passed.append(record.offset))
        self._most = max_decompressed_bytes

    def take(self, chunks: Iterable[Chunk], limit: int) -> tuple[list[ShareRecord[Any, Any]], list[Step]]:
        """Return up to `limit` records, and one step for each chunk from which records were read."""
        records: list[ShareRecord[Any, Any]] = []
        steps: list[Step] = []
        for chunk in chunks:
            if len(records) >= limit or any(step.error for step in steps):
                break
            steps.append(self._step(chunk, limit, records))
        return records, steps

    def _step(self, chunk: Chunk, limit: int, records: list[ShareRecord[Any, Any]]) -> Step:
        step = Step(chunk)
        for piece in pieces(chunk):
            if piece.batch is None and piece.fault is None:
                step.decided.append(Run(piece.first, piece.last, Mark.GAP))
                continue
            if len(records) >= limit:
                step.rest = chunk.behind(piece.first)
                return step
            try:
                reached = self._read(piece, chunk, limit - len(records), records, step)
            except (RecordDeserializationError, CorruptRecordError) as error:
                stop_at(step, piece, error, is_first=not records)
                return step
            if reached <= piece.last:
                step.rest = chunk.behind(reached)
                return step
        return step

    def _read(self, piece: Piece, chunk: Chunk, limit: int, records: list[ShareRecord[Any, Any]], step: Step) -> int:
        """Add the records of a piece; return the offset after those that were handled.

        If the first record has an error, it is raised.
        """
        batch = _readable(piece, chunk)
        found = batch.consumer_records(chunk.tp, self._most, start=piece.first, end=piece.last + 1, limit=limit)
        del self._passed[:]
        done, settled = self._converter.convert(found)
        records += [ShareRecord.delivered(record, piece.delivery_count) for record in done]
        if settled < len(found):
            reached = found[settled].offset
        else:
            reached = found[-1].offset + 1 if len(found) == limit else piece.last + 1
        note_given(step, piece.first, reached, (record.offset for record in done), self._passed)
        return reached


def note_given(step: Step, first: int, reached: int, given: Iterable[int], passed: Sequence[int] = ()) -> None:
    """Note in a step the offsets from `first` to before `reached`. given: returned records. passed: skipped records, which are rejected.

    All other offsets are gaps.
    """
    runs = runs_of(given, Mark.UNDECIDED)
    step.given += runs
    refused = runs_of(passed, Mark.REJECT)
    step.decided += refused
    step.decided += _between(first, reached, sorted([*runs, *refused]))


def _between(first: int, end: int, runs: Sequence[Run]) -> Iterator[Run]:
    """Yield the offsets from `first` to before `end` that are in none of the runs, as gaps."""
    at = first
    for run in runs:
        if run.first > at:
            yield Run(at, run.first - 1, Mark.GAP)
        at = run.last + 1
    if at < end:
        yield Run(at, end - 1, Mark.GAP)


def stop_at(step: Step, piece: Piece, error: RecordDeserializationError | CorruptRecordError, *, is_first: bool) -> None:
    """End a step at a piece with an error. If no record comes before it, note the error to raise now; else leave the piece to the next
    call.

    Another member may be able to deserialize the record, or to unpack a batch that is too large or too new for this client; these are
    released. No member can read a batch with a wrong CRC, so the whole batch is rejected. is_first: whether no record comes before the
    piece.
    """
    chunk = step.chunk
    if not is_first:
        step.rest = chunk.behind(piece.first)
    elif isinstance(error, RecordDeserializationError):
        offset = error.record.offset
        note_given(step, piece.first, offset, ())
        step.error = error
        step.doubtful.append(Run(offset, offset, Mark.RELEASE))
        step.rest = chunk.behind(offset + 1)
    else:
        is_local = isinstance(error, DecompressionError)
        what = "released, as another member may be able to" if is_local else "rejected, as no member can"
        text = f"{chunk.tp} at offset {piece.first}: {error}; offsets {piece.first} to {piece.last} are {what} read them"
        step.error = type(error)(text)
        step.error.__cause__ = error
        step.decided.append(Run(piece.first, piece.last, Mark.RELEASE if is_local else Mark.REJECT))
        step.rest = chunk.behind(piece.last + 1)


def _readable(piece: Piece, chunk: Chunk) -> RecordBatch:
    if piece.fault is not None:
        raise piece.fault
    assert piece.batch is not None
    chunk.batches.verify(piece.batch)
    return piece.batch


class ColumnSteps:
    """Decodes chunks into columns. passes_over: returns whether to skip and reject a record with invalid UTF-8."""

    def __init__(self, sink: Columns, passes_over: Callable[[RecordDeserializationError], bool]) -> None:
        self._sink = sink
        self._passes_over = passes_over
        self._added: list[tuple[Step, int, int, int, int, list[int]]] = []

    def take(self, chunks: Iterable[Chunk], limit: int | None, max_bytes: int) -> list[Step]:
        """Add records until `limit` rows (None: no limit) or `max_bytes` bytes are reached; return one step for each chunk that was
        read.
        """
        steps: list[Step] = []
        for chunk in chunks:
            if self._is_full(limit, max_bytes) or any(step.error for step in steps):
                break
            steps.append(self._step(chunk, limit, max_bytes))
        return steps

    def settle(self, offsets: Sequence[int]) -> None:
        """Note in the steps which offsets became rows. offsets: the offset of each row."""
        for step, first, reached, row, end, passed in self._added:
            note_given(step, first, reached, offsets[row:end], passed)

    def _is_full(self, limit: int | None, max_bytes: int) -> bool:
        return (limit is not None and self._sink.rows >= limit) or self._sink.nbytes >= max_bytes

    def _step(self, chunk: Chunk, limit: int | None, max_bytes: int) -> Step:
        step = Step(chunk)
        for piece in pieces(chunk):
            if piece.batch is None and piece.fault is None:
                step.decided.append(Run(piece.first, piece.last, Mark.GAP))
                continue
            if self._is_full(limit, max_bytes):
                step.rest = chunk.behind(piece.first)
                return step
            is_first = not self._sink.rows
            try:
                reached = self._add(piece, chunk, limit, max_bytes, step)
            except (RecordDeserializationError, CorruptRecordError) as error:
                stop_at(step, piece, error, is_first=is_first)
                return step
            if reached <= piece.last:
                step.rest = chunk.behind(reached)
                return step
        return step

    def _add(self, piece: Piece, chunk: Chunk, limit: int | None, max_bytes: int, step: Step) -> int:
        """Add the records of a piece; return the offset after those that were handled.

        If the first record has an error, it is raised.
        """
        batch, sink, tp = _readable(piece, chunk), self._sink, chunk.tp
        row, reached, passed = sink.rows, piece.first, list[int]()
        while reached <= piece.last and not self._is_full(limit, max_bytes):
            left = None if limit is None else limit - sink.rows
            before = reached
            try:
                added, reached = sink.add(batch, tp.topic, tp.partition, reached, piece.last, piece.delivery_count, left)
            except RecordDeserializationError as error:
                if not self._passes_over(error):
                    if sink.rows == row and not passed:
                        raise
                    break
                passed.append(error.record.offset)
                reached = error.record.offset + 1
                continue
            if not added and reached <= before:
                break
        self._added.append((step, piece.first, reached, row, sink.rows, passed))
        return reached
