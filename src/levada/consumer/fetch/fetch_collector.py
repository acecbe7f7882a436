"""How poll() reads fetched data, in the caller's context (FetchCollector in Java).

The engine's lock is taken only to take an entry from the buffer and to move positions. Checksums, decompression, decoding and deserializers
run without it, in pieces that a driver may run in another thread (levada.base.flow.Compute).

A call that is interrupted at any point, by Ctrl-C or a cancelled task, neither skips nor repeats records, whatever is called next. While a
call runs, cursors run ahead of positions, and used entries are kept. At its very end, commit() moves all positions in one step under the
lock, where no signal handler runs. A call that does not reach this step is rolled back, by itself or by the next call: its data is read
again from the positions. If it reaches the step, but its result does not reach the program, it is taken back: positions move back, and used
entries are fetched again.

An error never loses records. It is raised only by a call that has no records to return, and its cause stays in place. Errors in the data
are raised again until the program seeks past them; errors from a broker, and those of dead letters, are raised once. An offset out of range
is an error only if auto.offset.reset is "none", and in a bounded read; otherwise the position is reset, after the records before it were
returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from levada.base.asking import MustAskError
from levada.base.flow import CallerFlow, Compute
from levada.consumer.fetch.columns_ahead import BatchSink, ColumnsAhead
from levada.consumer.fetch.decode import RecordConverter
from levada.consumer.fetch.fetch_buffer import CompletedFetch, FetchBuffer
from levada.consumer.fetch.fetch_cursor import ColumnSink, FetchCursor, Mark, ReadOptions
from levada.consumer.positions.auto_offset_reset import ResetTo
from levada.consumer.positions.subscription_state import OUT_OF_RANGE, PartitionState
from levada.errors import CorruptRecordError, KafkaError, OffsetOutOfRangeError
from levada.record.memory_records import read_batches
from levada.types import AnyRecord

T = TypeVar("T")

Cursor: TypeAlias = FetchCursor | ColumnsAhead

AHEAD_ROWS = 1 << 14
"""How many rows a call with a smaller limit decodes of its last entry, so that the next calls get slices of them."""


class _Moved(NamedTuple):
    """The position of a partition before a call moved it."""

    state: PartitionState
    generation: int
    position: int
    leader_epoch: int


class FetchCollector:
    """Reads the fetch buffer for one caller. lock: the engine's lock, or a null context in a single thread."""

    def __init__(
        self,
        buffer: FetchBuffer,
        *,
        lock: AbstractContextManager[object],
        options: ReadOptions,
        converter: RecordConverter,
        reset_to: ResetTo | None = None,
    ) -> None:
        self._buffer = buffer
        self._lock = lock
        self._options = options
        self._converter = converter
        self._room = bytearray()
        """Memory for decompressed records, which every cursor uses."""
        self._counters = buffer.counters
        self._reset_to = reset_to
        self._cursors: list[Cursor] = []
        """The cursors of entries that are being read and are not used up, in order."""
        self._touched: list[Cursor] = []
        """The cursors that may be ahead of their positions, in order, including used ones."""
        self._ahead: ColumnsAhead | None = None
        """The rows that the running call has decoded ahead. They replace their cursor when positions move."""
        self._moved: list[_Moved] = []
        """The positions before the last call that returned a result."""
        self.calls = 0
        """The number of calls, so that only the last one can be taken back."""
        self._newest = 0
        """The number of the last entry in the buffer when the running call began to collect."""
        self._now_ms = 0
        self.has_moved = False
        """Whether the last call moved a position, even if only past hidden records."""

    def begin(self) -> None:
        """Begin a call, which may collect several times. The previous call can no longer be undone. Under the lock."""
        self._roll_back()
        self._moved = []
        self.calls += 1

    def collect_records(self, limit: int, now_ms: int = 0) -> CallerFlow[list[AnyRecord] | None]:
        """Return up to `limit` buffered records of all partitions; None if there are none.

        If an error comes before the first record, it is raised. If an error comes later, the records before it are returned, and the next
        call raises the error.
        """
        taken: list[AnyRecord] = []

        def take(cursor: FetchCursor) -> bool:
            while len(taken) < limit and not cursor.exhausted:
                taken.extend(cursor.take_records(limit - len(taken)))
            return len(taken) < limit

        return self._collect(take, lambda: len(taken), lambda: taken, limit, now_ms)

    def collect_columns(
        self, sink: ColumnSink, limit: int | None, max_bytes: int, finish: Callable[[], T], now_ms: int = 0
    ) -> CallerFlow[T | None]:
        """Add buffered records to the columns until `limit` rows or `max_bytes` bytes are reached. limit: None for no limit.

        Return the result of finish(). If no records were added, return None without calling finish(). Raises as collect_records() does.
        """
        rows = 0

        def take(cursor: FetchCursor) -> bool:
            nonlocal rows
            rows += cursor.take_columns(sink, None if limit is None else limit - rows, max_bytes)
            return cursor.exhausted and sink.nbytes < max_bytes and (limit is None or rows < limit)

        return self._collect(take, lambda: rows, finish, limit, now_ms)

    def collect_part(self, sink: BatchSink, limit: int, max_bytes: int, now_ms: int = 0) -> CallerFlow[Any]:
        """Return an Arrow batch of up to `limit` buffered records; None if there are none. Raises as collect_records() does.

        More rows than `limit` may be decoded from the last fetch; take_ahead() returns them later. sink: collects the columns. max_bytes:
        add no more record batches once the columns have this size.
        """
        marks: list[Mark] = []
        last: FetchCursor | None = None

        def take(cursor: FetchCursor) -> bool:
            nonlocal last
            last = cursor
            marks.clear()
            cursor.take_columns(sink, max(limit - sink.rows, AHEAD_ROWS), max_bytes, marks)
            return cursor.exhausted and sink.nbytes < max_bytes and sink.rows < limit

        def finish() -> Any:
            batch, offsets = sink.finish_with_offsets()
            if last is None or batch.num_rows <= limit:
                return batch
            self._ahead = ColumnsAhead(last, sink, max_bytes, batch, offsets, marks, limit)
            return batch.slice(0, limit)

        return self._collect(take, lambda: sink.rows, finish, max(limit, AHEAD_ROWS), now_ms)

    def take_ahead(self, sink: BatchSink, limit: int, max_bytes: int, now_ms: int = 0) -> Any:
        """Return up to `limit` rows that an earlier collect_part() has decoded ahead for this sink and max_bytes; None if other records
        come next.

        If it returns rows, it counts as a call, which take_back() can undo. Under the lock. The last of the rows are returned alone, even
        if the limit is larger, so that no rows are copied.
        """
        ahead = next((cursor for cursor in self._cursors if cursor.is_readable), None)
        if self._touched or not isinstance(ahead, ColumnsAhead) or not ahead.is_for(sink, max_bytes):
            return None
        self.calls += 1
        self._now_ms = now_ms
        self._touched.append(ahead)
        part = ahead.take(limit)
        self._commit(None)
        return part

    def next_timestamp(self, state: PartitionState) -> int | None:
        """Return the maximum timestamp, in ms, of the record batch that has the next record of a partition; None if that is not buffered,
        or if an error comes first. Under the lock.
        """
        reading = next((cursor.fetch for cursor in self._cursors if cursor.fetch.state is state and not cursor.fetch.is_stale), None)
        fetch = reading or self._buffer.oldest(state)
        if fetch is None or fetch.is_stale or fetch.error is not None:
            return None
        try:
            batches = read_batches(fetch.records, fetch.used_bytes)
            return next((batch.max_timestamp for batch in batches if batch.last_offset >= state.position), None)
        except CorruptRecordError:
            # The call that reads it raises the error.
            return None

    @property
    def has_ahead(self) -> bool:
        """Whether rows are left that were decoded ahead. Until take_ahead() has returned them, the engine has nothing to do."""
        return any(isinstance(cursor, ColumnsAhead) for cursor in self._cursors)

    def take_back(self, call: int) -> None:
        """Undo a call, because its result did not reach the caller; no effect if it is not the last call.

        call: its number. Under the lock.
        """
        if call != self.calls:
            return
        self._roll_back()
        moved, self._moved = self._moved, []
        for state, generation, position, leader_epoch in moved:
            if state.generation == generation:
                state.move_back(position, leader_epoch)
        self._buffer.drop_stale()

    def _collect(
        self, take: Callable[[FetchCursor], bool], count: Callable[[], int], finish: Callable[[], T], limit: int | None, now_ms: int
    ) -> CallerFlow[T | None]:
        """Pass one cursor after another to `take` until it returns False, no buffered fetch is left, or an error comes next.

        count: returns the number of collected records. Return the result of finish(), or None without records. limit: the maximum number of
        records; None for no limit. finish: makes the result of the call.
        """
        with self._lock:
            self._roll_back()
            self._drop_ahead()
            self._newest = self._buffer.added
            self._now_ms = now_ms
            if not self._cursors and self._buffer.first() is None:
                self._commit(None)
                return None
        try:
            fault = yield from self._drain(take, limit)
            found = finish() if count() else None
            with self._lock:
                self._commit(None if found is not None else fault)
            if fault is not None and found is None:
                raise fault
            return found
        except KafkaError:
            # Nothing was committed, or the error is the result of the call.
            with self._lock:
                self._roll_back()
                self._moved = []
                self.has_moved = False
            raise
        except BaseException:
            with self._lock:
                self.take_back(self.calls)
            raise

    def _drain(self, take: Callable[[FetchCursor], bool], limit: int | None) -> CallerFlow[KafkaError | None]:
        wants_more, must_ask = True, False
        while wants_more and (cursor := self._next_cursor()) is not None:
            run = partial(self._asking, take, cursor) if must_ask else partial(take, cursor)
            try:
                wants_more = yield Compute(run, cursor.work_bytes(limit), may_block=must_ask)
                must_ask = False
            except MustAskError:
                must_ask = True
            except KafkaError as fault:
                return fault
        return None

    def _asking(self, take: Callable[[FetchCursor], bool], cursor: FetchCursor) -> bool:
        """Call `take` while deserializers may ask a schema registry."""
        self._converter.may_ask = True
        try:
            return take(cursor)
        finally:
            self._converter.may_ask = False

    def _next_cursor(self) -> FetchCursor | None:
        """Return the next cursor that may be read; None if there is none. Cursors of earlier calls come first, then the next buffered
        fetch.
        """
        with self._lock:
            if self._touched and self._touched[-1].exhausted:
                self._used_up(self._touched[-1])
            cursor = next((cursor for cursor in self._cursors if isinstance(cursor, FetchCursor) and cursor.is_readable), None)
            if cursor is None and (fetch := self._take()) is not None:
                cursor = FetchCursor(fetch, self._options, self._converter, self._room)
                self._cursors.append(cursor)
            if cursor is not None and cursor not in self._touched:
                self._touched.append(cursor)
            return cursor

    def _used_up(self, cursor: Cursor) -> None:
        """Remove a cursor whose records were all returned. Its partition may be fetched again although the call continues.

        Its entry in the fetch buffer is released later, when the positions move: until then the call can be undone.
        """
        if cursor in self._cursors:
            self._cursors.remove(cursor)
            self._buffer.passed(cursor.fetch)

    def _take(self) -> CompletedFetch | None:
        """Take the next entry of the fetch buffer; None if there is none for this call.

        Unless auto.offset.reset is "none" or the read is bounded, an offset out of range becomes a reset. If the call has begun to read, an
        error is left for the next call.

        Entries that arrive during a call are left for the next call, too: otherwise a fast broker could prolong the call until its limit is
        reached.
        """
        while (fetch := self._buffer.first()) is not None:
            if self._touched and (fetch.error is not None or fetch.number > self._newest):
                return None
            self._buffer.take(fetch)
            if self._reset_to is None or not fetch.state.may_be_reset or not _is_lost(fetch):
                return fetch
            fetch.state.await_reset(self._reset_to, gave_up=fetch.fetch_offset, reason=OUT_OF_RANGE)
            self._buffer.done(fetch)
        return None

    # The end of a call, under the lock

    def _commit(self, fault: KafkaError | None) -> None:
        """Move each position to its cursor, and release the fetches that are used up. fault: the error that the call raises; None if it
        returns.
        """
        if self._ahead is not None:
            self._replace(self._ahead.cursor, self._ahead)
            self._touched[-1] = self._ahead
            self._ahead = None
        touched, self._touched = self._touched, []
        self._moved = []
        self.has_moved = False
        if not touched:
            return
        self._count(touched)
        for cursor in touched:
            fetch, state = cursor.fetch, cursor.fetch.state
            if not fetch.is_stale and cursor.position != state.position:
                self._moved.append(_Moved(state, state.generation, state.position, state.leader_epoch))
            state.advance(fetch.generation, cursor.position, cursor.leader_epoch)
            cursor.committed = cursor.position, cursor.leader_epoch
            # An error from a broker is raised once; the next fetch shows whether it still applies.
            if cursor.exhausted or fetch.is_stale or (fault is not None and fault is fetch.error):
                self._drop(cursor)
                continue
            self._buffer.used(fetch, cursor.used_bytes)
            if isinstance(cursor, ColumnsAhead) and cursor.is_used_up:
                self._replace(cursor, cursor.onward())
        self.has_moved = bool(self._moved)
        self._buffer.compact(self._reopen)

    def _count(self, cursors: Iterable[Cursor]) -> None:
        counts: dict[str, int] = {}
        for cursor in cursors:
            if cursor.handed_out:
                topic = cursor.fetch.state.tp.topic
                counts[topic] = counts.get(topic, 0) + cursor.handed_out
                cursor.handed_out = 0
        self._counters.hands_out(counts, self._now_ms)

    def _roll_back(self) -> None:
        """Reset all cursors that are ahead of their positions, and drop the cursors of stale fetches."""
        self._ahead = None
        if not self._touched and not self._cursors:
            return
        touched, self._touched = self._touched, []
        for cursor in touched:
            if cursor in self._cursors:
                self._cursors.remove(cursor)
            else:
                self._buffer.not_passed(cursor.fetch)
        found = [cursor.fresh() for cursor in touched] + self._cursors
        self._cursors = [cursor for cursor in found if not cursor.fetch.is_stale]
        for cursor in found:
            if cursor.fetch.is_stale:
                self._forget(cursor)

    def _drop_ahead(self) -> None:
        """Drop rows that were decoded ahead, and read them again: the call wants other columns, or records, or another entry comes
        first.
        """
        self._cursors = [cursor.fresh() if isinstance(cursor, ColumnsAhead) else cursor for cursor in self._cursors]

    def _replace(self, cursor: Cursor, by: Cursor) -> None:
        self._cursors = [by if known is cursor else known for known in self._cursors]

    def _reopen(self, fetch: CompletedFetch) -> None:
        self._cursors = [cursor.fresh() if cursor.fetch is fetch else cursor for cursor in self._cursors]

    def _drop(self, cursor: Cursor) -> None:
        if cursor in self._cursors:
            self._cursors.remove(cursor)
        else:
            self._buffer.not_passed(cursor.fetch)
        self._forget(cursor)

    def _forget(self, cursor: Cursor) -> None:
        self._buffer.done(cursor.fetch)
        state = cursor.fetch.state
        # While its data was buffered, the partition did not wait for a broker.
        state.heard_ms = max(state.heard_ms, self._now_ms)


def _is_lost(fetch: CompletedFetch) -> bool:
    """Whether the entry is an OFFSET_OUT_OF_RANGE of the fetched position. A failed look-up of positions may have the same error code, but
    no offset.
    """
    return isinstance(fetch.error, OffsetOutOfRangeError) and fetch.error.offset is not None
