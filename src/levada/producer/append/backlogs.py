"""The partitions with batches to send, by leader, kept up to date so that the cost of a check depends only on the changes.

A partition is due if its first batch is full, or has waited linger.ms or its backoff. Every partition is due while memory is short, during
a flush and after close(). If one partition of a broker is due, its others are sent with it.

A partition with batches is in one place: in `ready` or `lingering` of its leader's Backlog, or parked while something of its own prevents
sending: a request in flight, its sequence numbers, sealing, or its backoff. Code that changes one of these calls place().
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from levada.base.clock import NEVER_MS
from levada.producer.append.partition_queue import NO_LEADER, Backlog, PartitionQueue
from levada.producer.append.producer_batch import ProducerBatch


class Ready(NamedTuple):
    """The result of a check. nodes: the leaders with a due partition."""

    nodes: list[int]
    leaderless: set[str]
    next_check_ms: int


class Backlogs:
    """The backlogs of all leaders."""

    def __init__(self, linger_ms: int) -> None:
        self.now_ms = 0
        self.placed = 0
        """How many partitions have batches to send."""
        self._linger_ms = linger_ms
        self._leaderless = Backlog(NO_LEADER)
        self._by_node: dict[int, Backlog] = {}
        self._parked: dict[PartitionQueue, None] = {}
        self._retries: list[tuple[int, int, PartitionQueue]] = []
        self._order = count()
        self._has_changed = False

    def of(self, leader: int | None) -> Backlog:
        """Return the backlog of a leader."""
        if leader is None:
            return self._leaderless
        return self._by_node.setdefault(leader, Backlog(leader))

    def moved(self, queue: PartitionQueue) -> None:
        """Note that a partition has a new leader or leader epoch."""
        self.remove(queue)
        queue.backlog = self.of(queue.leader)
        self.place(queue)

    # Places

    def place(self, queue: PartitionQueue) -> None:
        """Move a partition to the place where it belongs."""
        self._put(queue, self._place_of(queue))

    def park(self, queue: PartitionQueue) -> None:
        """Do not send a partition until it is placed again."""
        self._put(queue, self._parked)

    def remove(self, queue: PartitionQueue) -> None:
        """Remove a partition."""
        self._put(queue, None)

    def place_parked(self) -> None:
        """Place all parked partitions again: the reason may have ended for all of them."""
        for queue in list(self._parked):
            self.place(queue)

    def _put(self, queue: PartitionQueue, place: dict[PartitionQueue, None] | None) -> None:
        if queue.place is place:
            return
        if queue.place is not None:
            del queue.place[queue]
            self.placed -= 1
        queue.place = place
        if place is not None:
            place[queue] = None
            self.placed += 1
        self._has_changed = True

    def _place_of(self, queue: PartitionQueue) -> dict[PartitionQueue, None] | None:
        if not queue.batches:
            return None
        head = queue.batches[0]
        if queue.muted or head.sealing:
            return self._parked
        if head.attempts:
            at_ms = self._retry_at_ms(queue, head)
            if at_ms > self.now_ms:
                heappush(self._retries, (at_ms, next(self._order), queue))
                return self._parked
        elif head is queue.tail and len(queue.batches) == 1:
            queue.backlog.oldest_ms = min(queue.backlog.oldest_ms, head.created_ms)
            return queue.backlog.lingering
        return queue.backlog.ready

    @staticmethod
    def _retry_at_ms(queue: PartitionQueue, head: ProducerBatch) -> int:
        # A leader that was elected after the last attempt has not refused the batch, so there is no reason to back off (KIP-951).
        return 0 if queue.leader_epoch > head.leader_epoch >= 0 else head.retry_at_ms

    # Checking

    def ready(self, now_ms: int, *, all_due: bool) -> Ready:
        """Return the leaders that are due, and when to check again."""
        self.now_ms = now_ms
        while self._retries and self._retries[0][0] <= now_ms:
            self.place(heappop(self._retries)[2])
        next_check_ms = self._retries[0][0] if self._retries else NEVER_MS
        nodes = []
        for node, backlog in self._by_node.items():
            if backlog.ready or (backlog.lingering and (all_due or self._linger_ends_ms(backlog) <= now_ms)):
                nodes.append(node)
            elif backlog.lingering:
                next_check_ms = min(next_check_ms, self._linger_ends_ms(backlog))
        leaderless = self._leaderless
        return Ready(nodes, {queue.tp.topic for place in (leaderless.ready, leaderless.lingering) for queue in place}, next_check_ms)

    def queues(self, node: int) -> list[PartitionQueue]:
        """Return the partitions of a due leader; those that have waited longest for a place in a request come first."""
        backlog = self._by_node[node]
        return [*backlog.ready, *backlog.lingering]

    def _linger_ends_ms(self, backlog: Backlog) -> int:
        if backlog.oldest_ms + self._linger_ms <= self.now_ms:
            # The oldest batch may have been sent since.
            backlog.oldest_ms = min((queue.batches[0].created_ms for queue in backlog.lingering), default=NEVER_MS)
        return backlog.oldest_ms + self._linger_ms

    def __iter__(self) -> Iterator[Backlog]:
        yield self._leaderless
        yield from self._by_node.values()

    def going_to_sleep(self) -> None:
        """Note when the engine will check each leader, for the appender, which wakes it if something is due earlier.

        Batches that could have been sent but were not wait for an event, so the appender need not wake the engine for more of them.
        """
        if not self.placed and not self._has_changed:
            return
        self._has_changed = False
        for backlog in self:
            if backlog.ready:
                backlog.wakes_at_ms = 0
            elif backlog.lingering:
                ends_ms = self._linger_ends_ms(backlog)
                backlog.wakes_at_ms = ends_ms if ends_ms > self.now_ms else 0
            else:
                backlog.wakes_at_ms = NEVER_MS
