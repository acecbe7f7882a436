"""From offsets to tasks: what each task of a micro-batch or batch query reads.

A pure function of start, end and options, because Spark plans again when it replays a batch, and the tasks must be the same ones.

A Python task costs Spark 65 to 80 ms whatever it does. So small partitions share a task, up to `recordsPerTask`, in the order of topics and
partitions; what is read of one partition stays in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from levada.spark.source.offsets import Offsets
from levada.types import TopicPartition


class Span(NamedTuple):
    """Offsets of one partition: from `start` up to, but not including, `end`."""

    tp: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets, with or without a record."""
        return self.end - self.start


@dataclass(frozen=True)
class TaskSpans(InputPartition):
    """What one task reads; Spark sends it there. None for a query that reads nothing, which Spark has run a task all the same."""

    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Splitting:
    """How the work is divided: the options minPartitions, maxRecordsPerPartition and recordsPerTask."""

    min_partitions: int | None = None
    max_records: int | None = None
    records_per_task: int = 100_000


def plan(start: Offsets, end: Offsets, splitting: Splitting) -> list[TaskSpans]:
    """Divide what lies between two offsets into tasks. A partition whose end is not behind its start has nothing to read."""
    spans = [Span(tp, start[tp], end[tp]) for tp in sorted(end) if end[tp] > start[tp]]
    if splitting.max_records is not None:
        spans = [piece for span in spans for piece in cut(span, -(-span.size // splitting.max_records))]
    if splitting.min_partitions is not None:
        spans = _at_least(spans, splitting.min_partitions)
        return [TaskSpans((span,)) for span in spans]
    most = splitting.records_per_task if splitting.max_records is None else min(splitting.records_per_task, splitting.max_records)
    return [TaskSpans(tuple(spans)) for spans in _packed(spans, most)]


def cut(span: Span, parts: int) -> Iterator[Span]:
    """Cut a span into so many pieces of nearly equal size; what is left over goes to the last ones."""
    for number in range(parts):
        yield Span(span.tp, span.start + span.size * number // parts, span.start + span.size * (number + 1) // parts)


def _at_least(spans: list[Span], wanted: int) -> list[Span]:
    """Cut the largest spans so that there are about `wanted`, by the rule of Spark's own connector."""
    if len(spans) >= wanted:
        return spans
    total = sum(span.size for span in spans)
    # Those that stay whole are taken out first, so that they do not take pieces away from the others.
    whole = {span for span in spans if _parts(span, total, wanted) == 1}
    left = total - sum(span.size for span in whole)
    pieces = max(wanted - len(whole), 1)
    return [piece for span in spans for piece in ((span,) if span in whole else cut(span, min(span.size, _parts(span, left, pieces))))]


def _parts(span: Span, total: int, wanted: int) -> int:
    """Return the share of `wanted` pieces of a total that a span gets, at least one; half a piece is rounded up."""
    return max((2 * span.size * wanted + total) // (2 * total), 1)


def _packed(spans: Iterable[Span], most: int) -> Iterator[list[Span]]:
    """Put spans together in order while they have no more than `most` offsets; neighbours of one partition become one span."""
    task: list[Span] = []
    size = 0
    for span in spans:
        if task and size + span.size > most:
            yield task
            task, size = [], 0
        size += span.size
        if task and (task[-1].tp, task[-1].end) == (span.tp, span.start):
            span = Span(span.tp, task.pop().start, span.end)
        task.append(span)
    if task:
        yield task
