# cython: annotation_typing=False
"""The queue of batches of a partition, and the partitions of a topic."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Mapping
from uuid import UUID

from levada.base.clock import NEVER_MS
from levada.client.metadata.snapshot import ClusterSnapshot, TopicMetadata
from levada.producer.append.producer_batch import ProducerBatch
from levada.producer.append.sticky import StickyPartition
from levada.producer.send.sequences import Sequences
from levada.types import Node, TopicPartition

RATIO_UP = 0.05
RATIO_DOWN = 0.005


NO_LEADER = -1


class Backlog:
    """The partitions of one leader that have batches to send (see levada.producer.append.backlogs).

    ready: partitions that can be sent at once, in the order of their turns. lingering: partitions whose only batch is open and waits for
    linger.ms. oldest_ms: no lingering batch was created before this time. wakes_at_ms: when the engine will check this leader. Times are
    in ms.
    """

    __slots__ = ("lingering", "node", "oldest_ms", "ready", "wakes_at_ms")

    def __init__(self, node: int) -> None:
        self.node = node
        self.ready: dict[PartitionQueue, None] = {}
        self.lingering: dict[PartitionQueue, None] = {}
        self.oldest_ms = NEVER_MS
        self.wakes_at_ms = NEVER_MS


class PartitionQueue:
    """The batches of one partition.

    batches: the batches to send, the next one at the left, the open one at the right. tail: the open batch; None without one. in_flight:
    the batches that were drained and have no outcome yet, in the order in which they were first drained, so of their sequence numbers; a
    batch that waits for a retry is also in `batches`. muted: whether the partition must wait until its request has ended. place: the group
    of levada.producer.append.backlogs with this partition; None without one.
    """

    __slots__ = (
        "backlog",
        "batches",
        "in_flight",
        "leader",
        "leader_epoch",
        "muted",
        "number",
        "place",
        "sequences",
        "tail",
        "topic",
        "tp",
    )

    def __init__(self, topic: TopicQueues, partition: int, backlog: Backlog) -> None:
        self.topic = topic
        self.tp = TopicPartition(topic.name, partition)
        self.number = partition
        self.batches: deque[ProducerBatch] = deque()
        self.tail: ProducerBatch | None = None
        self.in_flight: list[ProducerBatch] = []
        self.muted = False
        self.backlog = backlog
        self.place: dict[PartitionQueue, None] | None = None
        self.leader: int | None = None
        self.leader_epoch = -1
        self.sequences = Sequences()

    @property
    def on_the_wire(self) -> bool:
        """Whether a request with a batch of this queue is in flight."""
        return any(batch.on_the_wire for batch in self.in_flight)

    @property
    def is_idle(self) -> bool:
        """Whether the queue has no batch, neither to send nor in flight."""
        return not self.batches and not self.in_flight and self.tail is None

    def close_tail(self, full: bool) -> None:
        """Close the open batch, if any. full: whether no more records fit; if this is the sticky partition, another one is chosen then."""
        tail = self.tail
        self.tail = None
        if tail is not None and self.topic.sticky.current == self.number:
            self.topic.sticky.took(tail.builder.size_estimate, full)

    def put_back(self, batch: ProducerBatch) -> None:
        """Queue a batch for a retry: behind the batches that were first drained before it, ahead of all others."""
        place = {id(other): position for position, other in enumerate(self.in_flight)}
        mine = place[id(batch)]
        ahead = sum(1 for other in self.batches if place.get(id(other), mine) < mine)
        self.batches.insert(ahead, batch)

    def replace(self, batch: ProducerBatch, parts: Iterable[ProducerBatch]) -> None:
        """Replace a split batch by its parts, and queue them."""
        parts = list(parts)
        at = self.in_flight.index(batch)
        self.in_flight[at : at + 1] = parts
        for part in parts:
            self.put_back(part)


class TopicQueues:
    """The partitions of one topic, and its sticky partition.

    count: the number of partitions in metadata; 0 if unknown. compression_ratio: the estimated compressed size over the uncompressed size.
    was_recreated: set when the topic id changes; the Sender resets it.
    """

    __slots__ = ("_known", "_leaderless", "compression_ratio", "count", "name", "partitions", "sticky", "topic_id", "was_recreated")

    def __init__(self, name: str, rng: random.Random, sticky_limit: int, leaderless: Backlog | None = None) -> None:
        """sticky_limit: bytes for one partition before the next sticky partition is chosen. leaderless: for partitions without a leader."""
        self._leaderless = leaderless or Backlog(NO_LEADER)
        self.name = name
        self.count = 0
        self.compression_ratio = 1.0
        self._known: tuple[TopicMetadata | None, Mapping[int, Node]] = (None, {})
        self.partitions: list[PartitionQueue] = []
        self.sticky = StickyPartition(rng, sticky_limit)
        self.topic_id: UUID | None = None
        self.was_recreated = False

    @property
    def is_idle(self) -> bool:
        """Whether all partitions are idle."""
        return all(queue.is_idle for queue in self.partitions)

    def resize(self, count: int) -> None:
        """Set the number of partitions. The queues of removed partitions are kept, because they may still have batches."""
        while len(self.partitions) < count:
            self.partitions.append(PartitionQueue(self, len(self.partitions), self._leaderless))
        if self.sticky.current >= count:
            self.sticky.current = -1
        self.count = count

    def refresh(self, snapshot: ClusterSnapshot) -> list[PartitionQueue]:
        """Update partitions and leaders from a metadata snapshot. Return the partitions whose leader or leader epoch has changed."""
        known = (snapshot.topics.get(self.name), snapshot.nodes)
        if known[0] is self._known[0] and known[1] == self._known[1]:
            return []
        self._known = known
        self._learn_id(snapshot.topic_id(self.name))
        self.resize(snapshot.partition_count(self.name) or 0)
        moved = []
        for queue in self.partitions:
            leader = snapshot.leader(queue.tp)
            node, epoch = None if leader is None else leader.id, snapshot.leader_epoch(queue.tp)
            if (node, epoch) != (queue.leader, queue.leader_epoch):
                queue.leader, queue.leader_epoch = node, epoch
                moved.append(queue)
        return moved

    def _learn_id(self, topic_id: UUID | None) -> None:
        """Store the topic id. None keeps the old one, so that a topic that is deleted and created again is noticed."""
        if topic_id is not None:
            self.was_recreated |= self.topic_id not in (None, topic_id)
            self.topic_id = topic_id

    def observe_compression(self, ratio: float) -> None:
        """Adapt the estimated compression ratio to the ratio of a batch: quickly if it is higher, slowly if it is lower."""
        estimate = self.compression_ratio
        self.compression_ratio = max(estimate + RATIO_UP if ratio > estimate else estimate - RATIO_DOWN, ratio)
