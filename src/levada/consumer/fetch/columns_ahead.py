"""Columns of one completed fetch that were decoded before they were requested.

Decoding a fetch in pieces, for calls of a few hundred records each, costs several times as much as decoding it at once. So a call with a
limit decodes its last fetch further than it needs, into one Arrow batch, and returns the beginning of that batch. Later calls return slices
of it, which share its memory.

The cursor of the fetch is at the end of the decoded rows; this object knows which rows the program has. It takes the place of the cursor in
the collector, and moves the position as the cursor would. Dropping it loses nothing: fresh() reads the same records again.
"""

from __future__ import annotations

from typing import Any, Protocol

from levada.consumer.fetch.fetch_buffer import CompletedFetch
from levada.consumer.fetch.fetch_cursor import ColumnSink, FetchCursor, Mark


class BatchSink(ColumnSink, Protocol):
    """A ColumnSink that returns its rows as Arrow batches. levada.record.columnar.ColumnDecoder implements it."""

    def finish(self) -> Any:
        """Return the collected rows as one Arrow batch, and start a new one."""
        ...

    def finish_with_offsets(self) -> tuple[Any, memoryview]:
        """Like finish(), and also return the offset of each row."""
        ...

    def discard(self) -> None:
        """Drop the collected rows."""
        ...


class ColumnsAhead:
    """The rows of a decoded Arrow batch that were not returned yet. Attributes that FetchCursor also has mean the same."""

    def __init__(
        self, cursor: FetchCursor, sink: BatchSink, max_bytes: int, batch: Any, offsets: memoryview, marks: list[Mark], row: int
    ) -> None:
        """cursor: has read the rows of the batch that come from the last fetch. max_bytes: the limit of the call. offsets: of all rows.

        marks: the places of the cursor after each step. row: the index of the first row that was not returned.
        """
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
        """Whether a later call can use these rows: it has the column decoder and the limit of bytes of the call that decoded them."""
        return sink is self._sink and max_bytes == self._max_bytes

    @property
    def is_readable(self) -> bool:
        """Whether the rows may be returned now: the partition is not paused, and its position was not moved since the fetch was sent."""
        return not (self.fetch.state.paused or self.fetch.is_stale)

    @property
    def is_used_up(self) -> bool:
        """Whether every row was returned."""
        return bool(self._row == self._batch.num_rows)

    @property
    def exhausted(self) -> bool:
        """Whether all rows were returned, and the fetch has no more records after them."""
        return self.is_used_up and self.cursor.exhausted

    def take(self, limit: int) -> Any:
        """Return the next rows, at most `limit`, as an Arrow batch."""
        part = self._batch.slice(self._row, limit)
        self._row += part.num_rows
        self.handed_out += part.num_rows
        self._follow()
        return part

    def fresh(self) -> FetchCursor:
        """Return a cursor that reads the fetch again from the committed place, which is before the rows left."""
        self.cursor.committed = self.committed
        return self.cursor.fresh()

    def onward(self) -> FetchCursor:
        """Return the cursor of the fetch, which continues after the last decoded row. All rows were returned."""
        self.cursor.committed = self.committed
        return self.cursor

    def _follow(self) -> None:
        """Move the position to the first row that was not returned. At the end of a record batch, move it to the end of that batch."""
        if self.is_used_up:
            self.position, self.leader_epoch, self.used_bytes = self.cursor.position, self.cursor.leader_epoch, self.cursor.used_bytes
            return
        while self._marks[self._mark].rows < self._row:
            self._mark += 1
        rows, position, self.leader_epoch, self.used_bytes = self._marks[self._mark]
        self.position = position if rows == self._row else self._offsets[self._row]
