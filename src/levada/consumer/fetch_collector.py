"""What poll() does with fetched data, in the caller's thread (behaviour F6, F10, F11).

The engine's lock is taken for moments only: to take an entry from the buffer and to move a position. Checksums, decompression, decoding and
deserializers run without it.

An error never costs records: it is raised only by a call that has nothing else to return, and what caused it stays where it is. Errors in
the data come again until the caller seeks past them; errors from a broker are raised once. An offset out of range is no error where
auto.offset.reset says what to do instead, but only once the records before it were handed out.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from levada.consumer.decode import RecordConverter
from levada.consumer.fetch_buffer import CompletedFetch, FetchBuffer
from levada.consumer.fetch_cursor import ColumnSink, FetchCursor, ReadOptions
from levada.consumer.subscription_state import OUT_OF_RANGE, OffsetSpec, SubscriptionState
from levada.errors import KafkaError, OffsetOutOfRangeError
from levada.types import AnyRecord


class FetchCollector:
    """Reads the fetch buffer for one caller. lock: whatever guards the engine, a null context where one thread does everything."""

    def __init__(
        self,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        *,
        lock: AbstractContextManager[object],
        options: ReadOptions,
        converter: RecordConverter,
        reset_to: OffsetSpec | None = None,
    ) -> None:
        self._subscription = subscription
        self._buffer = buffer
        self._lock = lock
        self._options = options
        self._converter = converter
        self._reset_to = reset_to
        self._cursors: list[FetchCursor] = []
        self._now_ms = 0
        self.has_moved = False
        """Whether the last call moved a position, be it past records nobody may see (F5)."""

    def collect_records(self, limit: int, now_ms: int = 0) -> list[AnyRecord]:
        """Return up to `limit` records that are buffered, over all partitions (F6); raise what stands before the first one."""
        self._now_ms = now_ms
        taken: list[AnyRecord] = []

        def take(cursor: FetchCursor) -> bool:
            while len(taken) < limit and not cursor.exhausted:
                taken.extend(cursor.take_records(limit - len(taken)))
            return len(taken) < limit

        try:
            self._drain(take, lambda: bool(taken))
        except KafkaError:
            raise
        except BaseException:
            self._take_back(taken)
            raise
        return taken

    def collect_columns(self, sink: ColumnSink, limit: int | None, is_full: Callable[[], bool], now_ms: int = 0) -> int:
        """Add buffered records to the columns until there are `limit` or is_full() says so; return how many were added."""
        self._now_ms = now_ms
        rows = 0

        def take(cursor: FetchCursor) -> bool:
            nonlocal rows
            added = cursor.take_columns(sink, None if limit is None else limit - rows)
            rows += added
            has_room = added > 0 or cursor.exhausted
            return has_room and not is_full() and (limit is None or rows < limit)

        self._drain(take, lambda: rows > 0)
        return rows

    def _drain(self, take: Callable[[FetchCursor], bool], has_some: Callable[[], bool]) -> None:
        """Let `take` have one batch after another until it has enough, nothing is left, or an error is in the way."""
        wants_more = True
        self.has_moved = False
        while wants_more and (cursor := self._next_cursor()) is not None:
            try:
                wants_more = take(cursor)
            except KafkaError:
                self._settle(cursor)
                if has_some():
                    return
                self._raised(cursor)
                raise
            self._settle(cursor)

    def _take_back(self, records: list[AnyRecord]) -> None:
        """Ctrl-C in the middle of it: nobody gets these records, so stand where the call began, and fetch anew."""
        with self._lock:
            self._subscription.rewind(records, self._subscription.generations)
            for cursor in self._cursors:
                if not cursor.fetch.is_stale:
                    cursor.fetch.state.move_to(cursor.fetch.state.position, cursor.fetch.state.leader_epoch)
            self._drop_stale()
            self._buffer.drop_stale()

    def _next_cursor(self) -> FetchCursor | None:
        """Return the walk to go on with: one begun earlier, or the next buffered fetch that still fits its position."""
        with self._lock:
            self._drop_stale()
            for cursor in self._cursors:
                if not cursor.fetch.state.paused:
                    return cursor
            fetch = self._take()
            if fetch is None:
                return None
            cursor = FetchCursor(fetch, self._options, self._converter)
            self._cursors.append(cursor)
            return cursor

    def _take(self) -> CompletedFetch | None:
        """Take the next entry, turning an offset out of range into a reset where the policy says so."""
        while (fetch := self._buffer.take()) is not None:
            if self._reset_to is None or not isinstance(fetch.error, OffsetOutOfRangeError):
                return fetch
            fetch.state.await_reset(self._reset_to, gave_up=fetch.fetch_offset, reason=OUT_OF_RANGE)
            self._buffer.done(fetch)
        return None

    def _settle(self, cursor: FetchCursor) -> None:
        """Move the position to where the walk has come; give the fetch back when it is used up."""
        fetch = cursor.fetch
        with self._lock:
            self.has_moved |= not fetch.is_stale and cursor.position != fetch.state.position
            fetch.state.advance(fetch.generation, cursor.position, cursor.leader_epoch)
            if cursor.exhausted or fetch.is_stale:
                self._drop(cursor)

    def _raised(self, cursor: FetchCursor) -> None:
        """Forget a broker's error once it was raised; the next fetch says whether it still holds."""
        if cursor.fetch.error is not None:
            with self._lock:
                self._drop(cursor)

    def _drop_stale(self) -> None:
        for cursor in [cursor for cursor in self._cursors if cursor.fetch.is_stale]:
            self._drop(cursor)

    def _drop(self, cursor: FetchCursor) -> None:
        self._cursors.remove(cursor)
        self._buffer.done(cursor.fetch)
        state = cursor.fetch.state
        # While its data lay here nobody waited for a broker.
        state.heard_ms = max(state.heard_ms, self._now_ms)
        self._subscription.move_to_end(state.tp)
