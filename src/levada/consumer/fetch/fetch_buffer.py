"""Fetched data that poll() has not read yet: one entry per partition and fetch response (FetchBuffer in Java).

The fetcher adds entries, under the engine's lock. The collector takes one entry at a time, and gives it back when it is used up; a taken
entry still counts as buffered. A partition has at most READ_AHEAD entries, each of about what was requested. Java's consumer allows
one entry; a second one lets the next response travel while the first is decoded.

Entries are views of a whole response, which stays in memory as long as one of them does. So whole responses are counted, not entries. If
memory is short and most of a response is used up, compact() copies the rest out of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from levada.base.promise import Promise
from levada.consumer.counters import ConsumerCounters
from levada.consumer.positions.subscription_state import Marks, PartitionState, SubscriptionState
from levada.errors import KafkaError
from levada.types import UNKNOWN_OFFSET

READ_AHEAD = 2


@dataclass(slots=True, eq=False)
class CompletedFetch:
    """The data of one partition from one fetch response, or an error to raise in its place.

    generation: that of the position when the fetch was sent. aborted: (producer id, first offset) of the aborted transactions within the
    data. next_offset: the offset after the last complete batch; UNKNOWN_OFFSET for an error, and for data with an invalid header or without
    a complete batch.
    """

    state: PartitionState
    generation: int
    fetch_offset: int
    records: memoryview | bytes = b""
    next_offset: int = UNKNOWN_OFFSET
    aborted: tuple[tuple[int, int], ...] = ()
    error: KafkaError | None = None
    used_bytes: int = 0
    """How many bytes from the start of the data are not needed any more."""
    number: int = 0
    """The number of the entry in its buffer."""

    @property
    def left_bytes(self) -> int:
        """How many bytes of the data may still be needed."""
        return len(self.records) - self.used_bytes

    @property
    def is_stale(self) -> bool:
        """Whether the position was moved since the fetch was sent."""
        return self.generation != self.state.generation


class _Response:
    """The memory of a fetch response, of which entries use parts. left_bytes: the size of the parts that may still be needed."""

    __slots__ = ("entries", "left_bytes", "memory", "size_bytes")

    def __init__(self, memory: object, size_bytes: int) -> None:
        # Referenced, so that no other object gets the same id().
        self.memory = memory
        self.size_bytes = size_bytes
        self.left_bytes = 0
        self.entries: dict[CompletedFetch, None] = {}

    @property
    def is_mostly_used_up(self) -> bool:
        return self.left_bytes * 2 <= self.size_bytes


class FetchBuffer:
    """A queue of completed fetches. Used only under the engine's lock. limit_bytes: fetch.buffer.bytes; see is_full."""

    def __init__(self, subscription: SubscriptionState, limit_bytes: int) -> None:
        self.counters = ConsumerCounters()
        """Counters of fetched and returned records."""
        self.limit_bytes = limit_bytes
        self.size_bytes = 0
        self.added = 0
        """The number of entries so far."""
        self.amounts: Marks = {}
        """Partitions whose amount of buffered data has changed, for the fetcher, which empties it."""
        self._subscription = subscription
        self._marks = subscription.listen()
        self._queue: dict[CompletedFetch, None] = {}
        """Entries that may be read, oldest first. It may also have entries of partitions that were paused since."""
        self._entries: dict[PartitionState, list[CompletedFetch]] = {}
        """Entries that were not taken, by partition."""
        self._changed: Promise[None] = Promise()
        self._responses: dict[int, _Response] = {}
        self._used_up: dict[_Response, None] = {}

    @property
    def is_full(self) -> bool:
        """Whether the buffered responses reach fetch.buffer.bytes. Then nothing is fetched while there are entries that may be read."""
        return self.size_bytes >= self.limit_bytes

    @property
    def has_readable(self) -> bool:
        """Whether there are entries that may be read."""
        return any(state.buffered > state.passed and not state.paused for state in self._subscription)

    def add(self, fetch: CompletedFetch) -> None:
        """Append an entry, and wake a waiting poll() unless the partition is paused."""
        self.added += 1
        fetch.number = self.added
        self._queue[fetch] = None
        self._entries.setdefault(fetch.state, []).append(fetch)
        self._hold(fetch)
        fetch.state.buffered += 1
        if fetch.next_offset == UNKNOWN_OFFSET:
            fetch.state.faulted = True
        else:
            fetch.state.fetch_offset = fetch.next_offset
        self.amounts[fetch.state] = None
        if not fetch.state.paused:
            self.announce()

    def first(self) -> CompletedFetch | None:
        """Return the oldest entry that may be read; None if there is none. Stale entries are dropped; entries of paused partitions stay."""
        self.drop_stale()
        while self._queue:
            fetch = next(iter(self._queue))
            if not fetch.state.paused:
                return fetch
            del self._queue[fetch]
        return None

    def oldest(self, state: PartitionState) -> CompletedFetch | None:
        """Return the oldest entry of a partition that take() has not removed; None if there is none."""
        return next(iter(self._entries.get(state, ())), None)

    def take(self, fetch: CompletedFetch) -> None:
        """Remove an entry from the queue; it counts as buffered until done()."""
        self._queue.pop(fetch, None)
        entries = self._entries[fetch.state]
        entries.remove(fetch)
        if not entries:
            del self._entries[fetch.state]

    def passed(self, fetch: CompletedFetch) -> None:
        """Allow the next fetch of a partition, because all records of a taken entry were returned. The call may still be undone."""
        fetch.state.passed += 1
        self._has_less(fetch.state)

    def not_passed(self, fetch: CompletedFetch) -> None:
        """Undo passed() for an entry."""
        state = fetch.state
        state.passed -= 1
        if state.buffered - state.passed == READ_AHEAD:
            self.amounts[state] = None

    def _has_less(self, state: PartitionState) -> None:
        if state.buffered - state.passed == READ_AHEAD - 1:
            self.amounts[state] = None

    def done(self, fetch: CompletedFetch) -> None:
        """Release a taken entry that is not needed any more, so that its partition may be fetched again."""
        self._let_go(fetch)
        state = fetch.state
        state.buffered -= 1
        if fetch.next_offset == UNKNOWN_OFFSET and not fetch.is_stale:
            state.faulted = False
            state.fetch_offset = state.position
            self.amounts[state] = None
        else:
            self._has_less(state)
        if not state.buffered and not state.facts.is_fetched:
            # A component may have waited until this entry was read.
            state.mark()

    def drop_stale(self) -> None:
        """Drop stale entries, and put the entries of resumed partitions into the queue again."""
        if not self._marks:
            return
        marked = list(self._marks)
        for state in marked:
            for fetch in list(self._entries.get(state, ())):
                if fetch.is_stale:
                    self.take(fetch)
                    self.done(fetch)
                elif not state.paused:
                    # All entries of the partition, in order: later ones may be in the queue already when the first is put back.
                    self._queue.pop(fetch, None)
                    self._queue[fetch] = None
        self._marks.clear()

    def changed(self) -> Promise[None]:
        """Return a promise that is resolved by the next announce(), or at once if there is an entry to read."""
        return self._changed if self.first() is None else Promise.resolved(None)

    def announced(self) -> Promise[None]:
        """Return a promise that only announce() resolves, even if there are entries to read."""
        return self._changed

    def announce(self) -> None:
        """Wake a waiting poll()."""
        changed, self._changed = self._changed, Promise()
        changed.resolve(None)

    # Memory

    def _hold(self, fetch: CompletedFetch) -> None:
        if not len(fetch.records):
            return
        memory = _memory(fetch)
        response = self._responses.get(id(memory))
        if response is None:
            response = self._responses[id(memory)] = _Response(memory, memoryview(memory).nbytes)
            self.size_bytes += response.size_bytes
        response.entries[fetch] = None
        response.left_bytes += fetch.left_bytes

    def used(self, fetch: CompletedFetch, used_bytes: int) -> None:
        """Note that the first `used_bytes` bytes of a taken entry are not needed any more."""
        response = self._responses.get(id(_memory(fetch)))
        if response is not None:
            response.left_bytes -= used_bytes - fetch.used_bytes
            fetch.used_bytes = used_bytes
            if response.is_mostly_used_up:
                self._used_up[response] = None

    def _let_go(self, fetch: CompletedFetch) -> None:
        response = self._responses.get(id(_memory(fetch)))
        if response is None or fetch not in response.entries:
            return
        del response.entries[fetch]
        response.left_bytes -= fetch.left_bytes
        if not response.entries:
            del self._responses[id(response.memory)]
            self._used_up.pop(response, None)
            self.size_bytes -= response.size_bytes
        elif response.is_mostly_used_up:
            self._used_up[response] = None

    def compact(self, reopen: Callable[[CompletedFetch], None]) -> None:
        """If more than half of fetch.buffer.bytes is used, copy the needed rest of mostly used responses, so that their memory is freed.

        reopen: called for each entry whose data was copied, before the old data is released.
        """
        if self.size_bytes * 2 <= self.limit_bytes:
            return
        for response in list(self._used_up):
            for fetch in list(response.entries):
                copy = bytes(fetch.records[fetch.used_bytes :])
                self._let_go(fetch)
                fetch.records, fetch.used_bytes = copy, 0
                self._hold(fetch)
                reopen(fetch)
        self._used_up.clear()


def _memory(fetch: CompletedFetch) -> Any:
    """Return the object that owns the memory of an entry's data."""
    return fetch.records.obj if isinstance(fetch.records, memoryview) else fetch.records
