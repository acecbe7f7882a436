"""What could be sent to whom, kept up to date as partitions change, so that looking costs what changed and not what exists.

What is due: a partition whose first batch is full, or has waited linger.ms or its back-off; and every partition
while memory is short, while somebody flushes and after close. If one partition of a broker is due, its others ride along.

A partition with batches is in one place: `ready` or `lingering` of its leader's Backlog, or parked while something of its own keeps it:
an answer to come, numbering, sealing, back-off. Whoever changes one of these calls place().
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
    """What could be sent now. nodes: the leaders that are due."""

    nodes: list[int]
    leaderless: set[str]
    next_check_ms: int


class Backlogs:
    """See the module's text."""

    def __init__(self, linger_ms: int) -> None:
        self.now_ms = 0
        self.placed = 0
        """How many partitions have a place, which is those with batches to be sent."""
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
        """A partition has another leader, or its leader another epoch."""
        self.remove(queue)
        queue.backlog = self.of(queue.leader)
        self.place(queue)

    # Places

    def place(self, queue: PartitionQueue) -> None:
        """Put a partition where it belongs now."""
        self._put(queue, self._place_of(queue))

    def park(self, queue: PartitionQueue) -> None:
        """Keep a partition from being sent until it is placed again."""
        self._put(queue, self._parked)

    def remove(self, queue: PartitionQueue) -> None:
        """Take a partition out."""
        self._put(queue, None)

    def place_parked(self) -> None:
        """What kept partitions may have gone for all of them."""
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
        # A leader elected since the last attempt has not refused the batch, so there is no reason to back off (KIP-951).
        return 0 if queue.leader_epoch > head.leader_epoch >= 0 else head.retry_at_ms

    # Looking

    def ready(self, now_ms: int, *, all_due: bool) -> Ready:
        """Return the leaders that are due and when to look again."""
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
        """Return the partitions of a leader that is due, those first that have waited longest for a place in a request."""
        backlog = self._by_node[node]
        return [*backlog.ready, *backlog.lingering]

    def _linger_ends_ms(self, backlog: Backlog) -> int:
        if backlog.oldest_ms + self._linger_ms <= self.now_ms:
            # The oldest may have been sent since.
            backlog.oldest_ms = min((queue.batches[0].created_ms for queue in backlog.lingering), default=NEVER_MS)
        return backlog.oldest_ms + self._linger_ms

    def __iter__(self) -> Iterator[Backlog]:
        yield self._leaderless
        yield from self._by_node.values()

    def going_to_sleep(self) -> None:
        """Note when the engine looks at each leader by itself, for the appender, which wakes it for what is due before that.

        What could be sent and was not waits for an event, so nobody needs to tell of more of it.
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
