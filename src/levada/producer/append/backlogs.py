"""The partitions with batches to send, grouped by leader. Every change updates the groups, so that a check need not visit all partitions.

A partition is due if its first batch is closed, or has waited for linger.ms or for its retry backoff. All partitions are due while memory
is short, during flush() and after close(). If one partition of a leader is due, the other partitions of this leader are sent with it.

A partition with batches is in exactly one group: `ready` or `lingering` in the Backlog of its leader, or parked. It is parked while it
cannot be sent for a reason of its own: a request in flight if only one is allowed (`muted`), its sequence numbers or its transaction, a
batch that is being sealed, or its retry backoff. Code that changes one of these calls place().
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
    """The result of a check.

    nodes: the ids of leaders with a due partition. leaderless: topics with batches for a partition without a leader. next_check_ms: when
    linger.ms or a backoff of another partition ends; NEVER_MS if none is running.
    """

    nodes: list[int]
    leaderless: set[str]
    next_check_ms: int


class Backlogs:
    """The backlogs of all leaders, and the parked partitions."""

    def __init__(self, linger_ms: int) -> None:
        self.now_ms = 0
        self.placed = 0
        """How many partitions have batches to send, parked ones included."""
        self._linger_ms = linger_ms
        self._leaderless = Backlog(NO_LEADER)
        self._by_node: dict[int, Backlog] = {}
        self._parked: dict[PartitionQueue, None] = {}
        self._retries: list[tuple[int, int, PartitionQueue]] = []
        self._order = count()
        self._has_changed = False

    def of(self, leader: int | None) -> Backlog:
        """Return the backlog of a leader. None: the backlog of the partitions without a leader."""
        if leader is None:
            return self._leaderless
        return self._by_node.setdefault(leader, Backlog(leader))

    def moved(self, queue: PartitionQueue) -> None:
        """Move a partition to the backlog of its new leader. Called when its leader or leader epoch has changed."""
        self.remove(queue)
        queue.backlog = self.of(queue.leader)
        self.place(queue)

    # Places

    def place(self, queue: PartitionQueue) -> None:
        """Move a partition to the group that its state requires."""
        self._put(queue, self._place_of(queue))

    def park(self, queue: PartitionQueue) -> None:
        """Do not send a partition until place() is called for it again."""
        self._put(queue, self._parked)

    def remove(self, queue: PartitionQueue) -> None:
        """Remove a partition from its group."""
        self._put(queue, None)

    def place_parked(self) -> None:
        """Call place() for all parked partitions, after a change that may concern all of them."""
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
        # Do not back off if the leader was elected after the last attempt, because this leader has not refused the batch (KIP-951).
        return 0 if queue.leader_epoch > head.leader_epoch >= 0 else head.retry_at_ms

    # Checking

    def ready(self, now_ms: int, *, all_due: bool) -> Ready:
        """Return the leaders with a due partition, and when to check again. all_due: whether all partitions are due now."""
        self.now_ms = now_ms
        while self._retries and self._retries[0][0] <= now_ms:
            self.place(heappop(self._retries)[2])
        next_check_ms = self._retries[0][0] if self._retries else NEVER_MS
        nodes = []
        for node, backlog in self._by_node.items():
            if backlog.lingering and (all_due or self._linger_ends_ms(backlog) <= now_ms):
                # From now on they take turns with the ready ones, because these may fill every request.
                for queue in [queue for queue in backlog.lingering if all_due or queue.batches[0].created_ms + self._linger_ms <= now_ms]:
                    self._put(queue, backlog.ready)
            if backlog.ready:
                nodes.append(node)
            elif backlog.lingering:
                next_check_ms = min(next_check_ms, self._linger_ends_ms(backlog))
        leaderless = self._leaderless
        return Ready(nodes, {queue.tp.topic for place in (leaderless.ready, leaderless.lingering) for queue in place}, next_check_ms)

    def queues(self, node: int) -> list[PartitionQueue]:
        """Return the partitions of a leader that can be sent: the ready ones, then the lingering ones, each in order of arrival."""
        backlog = self._by_node[node]
        return [*backlog.ready, *backlog.lingering]

    def _linger_ends_ms(self, backlog: Backlog) -> int:
        if backlog.oldest_ms + self._linger_ms <= self.now_ms:
            # The batch created at oldest_ms may have been sent already.
            backlog.oldest_ms = min((queue.batches[0].created_ms for queue in backlog.lingering), default=NEVER_MS)
        return backlog.oldest_ms + self._linger_ms

    def __iter__(self) -> Iterator[Backlog]:
        yield self._leaderless
        yield from self._by_node.values()

    def going_to_sleep(self) -> None:
        """Set wakes_at_ms of each leader: when the engine checks the leader next. The Appender wakes the engine for earlier batches.

        A leader whose batches are due but were not sent waits for an event, such as a connection. The Appender need not wake the engine for
        more batches of this leader.
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
