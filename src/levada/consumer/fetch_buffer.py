"""Fetched and not yet read: one entry per partition and response (behaviour 16.2).

The fetcher adds, under the engine's lock; the collector takes, one entry at a time, and gives it back when it is used up. What is taken
still counts as buffered, so memory stays bounded: a partition holds at most READ_AHEAD entries, each of about max.partition.fetch.bytes.
Kafka's own consumer allows one (F8); a second one lets the next answer travel while this one is decoded.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from levada.consumer.subscription_state import PartitionState
from levada.errors import KafkaError
from levada.promise import Promise
from levada.types import UNKNOWN_OFFSET

READ_AHEAD = 2


@dataclass(frozen=True, slots=True, eq=False)
class CompletedFetch:
    """One partition's part of one fetch response, or an error that the caller must see in its place.

    aborted: (producer id, first offset) of the aborted transactions within the data (F25). next_offset: the offset after the last complete
    batch; unknown for an error and for data that its reader must look at first.
    """

    state: PartitionState
    generation: int
    fetch_offset: int
    records: memoryview | bytes = b""
    next_offset: int = UNKNOWN_OFFSET
    aborted: tuple[tuple[int, int], ...] = ()
    error: KafkaError | None = None

    @property
    def is_stale(self) -> bool:
        """Whether the position was moved by force since this was asked for."""
        return self.generation != self.state.generation


class FetchBuffer:
    """A queue of completed fetches. Used only under the engine's lock."""

    def __init__(self) -> None:
        self._queue: deque[CompletedFetch] = deque()
        self._changed: Promise[None] = Promise()
        self.size_bytes = 0

    def add(self, fetch: CompletedFetch) -> None:
        """Append an entry and wake who waits for a change."""
        self._queue.append(fetch)
        self.size_bytes += len(fetch.records)
        fetch.state.buffered += 1
        if fetch.next_offset == UNKNOWN_OFFSET:
            fetch.state.faulted = True
        else:
            fetch.state.fetch_offset = fetch.next_offset
        if not fetch.state.paused:
            self.announce()

    def first(self) -> CompletedFetch | None:
        """Return the oldest entry that may be handed out; stale ones are dropped, paused ones stay (F8, F10)."""
        self.drop_stale()
        return next((fetch for fetch in self._queue if not fetch.state.paused), None)

    def take(self, fetch: CompletedFetch) -> None:
        """Remove an entry from the queue; it counts as buffered until done()."""
        self._queue.remove(fetch)

    def passed(self, fetch: CompletedFetch) -> None:
        """Let more of a partition be fetched: an entry that was taken is used up, though its reader may come back to it."""
        fetch.state.passed += 1

    def not_passed(self, fetch: CompletedFetch) -> None:
        """Take back passed()."""
        fetch.state.passed -= 1

    def done(self, fetch: CompletedFetch) -> None:
        """Give back an entry that was taken and is used up, so that its partition may be fetched again."""
        self._forget(fetch)

    def drop_stale(self) -> None:
        """Drop what nobody may see any more."""
        stale = [fetch for fetch in self._queue if fetch.is_stale]
        for fetch in stale:
            self._queue.remove(fetch)
            self._forget(fetch)

    def changed(self) -> Promise[None]:
        """Return a promise that is resolved once there is something to take; at once if there is."""
        if any(not (fetch.state.paused or fetch.is_stale) for fetch in self._queue):
            return Promise.resolved(None)
        return self._changed

    def announce(self) -> None:
        """Wake who waits for a change."""
        changed, self._changed = self._changed, Promise()
        changed.resolve(None)

    def _forget(self, fetch: CompletedFetch) -> None:
        self.size_bytes -= len(fetch.records)
        fetch.state.buffered -= 1
        if fetch.next_offset == UNKNOWN_OFFSET and not fetch.is_stale:
            fetch.state.faulted = False
            fetch.state.fetch_offset = fetch.state.position
