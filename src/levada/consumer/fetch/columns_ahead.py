"""Columns of one completed fetch that were decoded before they were asked for.

Decoding a piece of a fetch for each call of a few hundred records costs several times what decoding it at once does. So a call with a
limit decodes the entry it ends in further than it has to, into one Arrow batch, and hands out the beginning of that; the calls after it get
slices, which share its memory.

The entry's cursor is at the end of what was decoded; what stands here says how far the caller is. It takes the cursor's place among those
of the collector, and moves the position as the cursor would have. Nothing is lost when it is dropped: fresh() reads the same records again.
"""

from __future__ import annotations

from typing import Any, Protocol

from levada.consumer.fetch.fetch_buffer import CompletedFetch
from levada.consumer.fetch.fetch_cursor import ColumnSink, FetchCursor, Mark


class BatchSink(ColumnSink, Protocol):
    """A ColumnSink that becomes Arrow batches: levada.record.columnar.ColumnDecoder."""

    def finish(self) -> Any:
        """Return what was collected as one Arrow batch, and start anew."""
        ...

    def finish_with_offsets(self) -> tuple[Any, memoryview]:
        """Do what finish() does; return the offset of each row, too."""
        ...

    def discard(self) -> None:
        """Forget what was collected."""
        ...


class ColumnsAhead:
    """The rows of an Arrow batch that were not handed out yet. Fields that it has in common with FetchCursor mean the same."""

    def __init__(
        self, cursor: FetchCursor, sink: BatchSink, max_bytes: int, batch: Any, offsets: memoryview, marks: list[Mark], row: int
    ) -> None:
        """cursor: read the last rows of the batch. marks: where it stood after each step. row: the first row left."""
        self.fetch: CompletedFetch = cursor.fetch
        self.committed = cursor.committed
        self.position, self.leader_epoch = cursor.committed
        self.used_bytes = 0
        self.handed_out, cursor.handed_out = cursor.handed_out - (batch.num_rows - row), 0
        self.cursor = cursor
        self._sink = sink
        self._max_bytes = max_bytes
        self._batch = batch
        self._offsets = offsets
        self._marks = marks
        self._mark = 0
        self._row = row
        self._follow()

    def is_for(self, sink: BatchSink, max_bytes: int) -> bool:
        """Whether a call with this sink and this limit would have decoded the same."""
        return sink is self._sink and max_bytes == self._max_bytes

    @property
    def is_readable(self) -> bool:
        """Whether its partition is still read where the rows are from."""
        return not (self.fetch.state.paused or self.fetch.is_stale)

    @property
    def is_used_up(self) -> bool:
        """Whether every row was handed out."""
        return bool(self._row == self._batch.num_rows)

    @property
    def exhausted(self) -> bool:
        """Whether the entry has no more behind the last row either."""
        return self.is_used_up and self.cursor.exhausted

    def take(self, limit: int) -> Any:
        """Return the next rows, at most `limit`, as an Arrow batch."""
        part = self._batch.slice(self._row, limit)
        self._row += part.num_rows
        self.handed_out += part.num_rows
        self._follow()
        return part

    def fresh(self) -> FetchCursor:
        """Return a cursor that stands where this was committed, and reads the rows again."""
        self.cursor.committed = self.committed
        return self.cursor.fresh()

    def onward(self) -> FetchCursor:
        """Return the cursor, which goes on behind the last row."""
        self.cursor.committed = self.committed
        return self.cursor

    def _follow(self) -> None:
        """Move the position to the first row left, or behind the batch of the last one handed out where that is used up."""
        if self.is_used_up:
            self.position, self.leader_epoch, self.used_bytes = self.cursor.position, self.cursor.leader_epoch, self.cursor.used_bytes
            return
        while self._marks[self._mark].rows < self._row:
            self._mark += 1
        rows, position, self.leader_epoch, self.used_bytes = self._marks[self._mark]
        self.position = position if rows == self._row else self._offsets[self._row]
