"""Divides the offset ranges of a micro-batch or batch query among tasks.

This is a pure function of start, end and options: Spark plans again when it replays a batch, and the tasks must be the same.

A Python task costs Spark at least 65 to 80 ms. So small partitions share a task, up to `recordsPerTask`, in the order of topics and
partitions. The records of one partition stay in order.
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
        """The number of offsets, with or without a record."""
        return self.end - self.start


@dataclass(frozen=True)
class TaskSpans(InputPartition):
    """The spans that one task reads. Spark sends this object to the task. Without spans the task reads nothing."""

    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Splitting:
    """How the work is divided: the options minPartitions, maxRecordsPerPartition and recordsPerTask."""

    min_partitions: int | None = None
    max_records: int | None = None
    records_per_task: int = 100_000


def plan(start: Offsets, end: Offsets, splitting: Splitting) -> list[TaskSpans]:
    """Divide the offsets between start and end among tasks. A partition is skipped if its end is not after its start.

    With minPartitions no task gets more than one span, and recordsPerTask has no effect.
    """
    spans = [Span(tp, start[tp], end[tp]) for tp in sorted(end) if end[tp] > start[tp]]
    if splitting.max_records is not None:
        spans = [piece for span in spans for piece in cut(span, -(-span.size // splitting.max_records))]
    if splitting.min_partitions is not None:
        spans = _at_least(spans, splitting.min_partitions)
        return [TaskSpans((span,)) for span in spans]
    most = splitting.records_per_task if splitting.max_records is None else min(splitting.records_per_task, splitting.max_records)
    return [TaskSpans(tuple(spans)) for spans in _packed(spans, most)]


def cut(span: Span, parts: int) -> Iterator[Span]:
    """Cut a span into this number of parts. Their sizes differ by at most one offset."""
    for number in range(parts):
        yield Span(span.tp, span.start + span.size * number // parts, span.start + span.size * (number + 1) // parts)


def _at_least(spans: list[Span], wanted: int) -> list[Span]:
    """Cut the largest spans until there are about `wanted` spans, by the rule of Spark's own connector."""
    if len(spans) >= wanted:
        return spans
    total = sum(span.size for span in spans)
    # Spans that stay whole are removed first, so that the other spans get all remaining pieces.
    whole = {span for span in spans if _parts(span, total, wanted) == 1}
    left = total - sum(span.size for span in whole)
    pieces = max(wanted - len(whole), 1)
    return [piece for span in spans for piece in ((span,) if span in whole else cut(span, min(span.size, _parts(span, left, pieces))))]


def _parts(span: Span, total: int, wanted: int) -> int:
    """Return how many of the `wanted` pieces a span gets: its share of the total offsets, rounded half up, at least one."""
    return max((2 * span.size * wanted + total) // (2 * total), 1)


def _packed(spans: Iterable[Span], most: int) -> Iterator[list[Span]]:
    """Group spans into tasks of at most `most` offsets, in order. Adjacent spans of one partition are merged."""
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
