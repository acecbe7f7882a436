# cython: annotation_typing=False
"""Batches that wait for one partition, and the partitions of one topic."""

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
    """The partitions of one leader that could be sent to it: see levada.producer.append.backlogs.

    oldest_ms: no batch of those that linger was created before. wakes_at_ms: when the engine is going to look at this leader by itself.
    """

    __slots__ = ("lingering", "node", "oldest_ms", "ready", "wakes_at_ms")

    def __init__(self, node: int) -> None:
        self.node = node
        self.ready: dict[PartitionQueue, None] = {}
        self.lingering: dict[PartitionQueue, None] = {}
        self.oldest_ms = NEVER_MS
        self.wakes_at_ms = NEVER_MS


class PartitionQueue:
    """One partition: batches to be drained from the left, the open one at the right, and those drained and not final yet.

    `tail` is the batch that takes records, None when there is none open. `in_flight` is in order of sequence, which is the order
    of the first drain; a batch that waits to be sent again is in both lists.
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
        """Whether a request with one of its batches waits for an answer."""
        return any(batch.on_the_wire for batch in self.in_flight)

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to send and no answer to wait for."""
        return not self.batches and not self.in_flight and self.tail is None

    def close_tail(self, full: bool) -> None:
        """Take no more records into the open batch; a full one used up the partition's turn for keyless records."""
        tail = self.tail
        self.tail = None
        if tail is not None and self.topic.sticky.current == self.number:
            self.topic.sticky.took(tail.builder.size_estimate, full)

    def put_back(self, batch: ProducerBatch) -> None:
        """Queue a batch again, behind those that were numbered before it and before all others."""
        place = {id(other): position for position, other in enumerate(self.in_flight)}
        mine = place[id(batch)]
        ahead = sum(1 for other in self.batches if place.get(id(other), mine) < mine)
        self.batches.insert(ahead, batch)

    def replace(self, batch: ProducerBatch, parts: Iterable[ProducerBatch]) -> None:
        """Put the parts of a split where the batch was, and queue them."""
        parts = list(parts)
        at = self.in_flight.index(batch)
        self.in_flight[at : at + 1] = parts
        for part in parts:
            self.put_back(part)


class TopicQueues:
    """The partitions of one topic and the one its keyless records stick to. `count` is what metadata says now, 0 for not known.

    was_recreated: the topic has another id than before; who has dealt with that takes the mark away.
    """

    __slots__ = ("_known", "_leaderless", "compression_ratio", "count", "name", "partitions", "sticky", "topic_id", "was_recreated")

    def __init__(self, name: str, rng: random.Random, sticky_limit: int, leaderless: Backlog | None = None) -> None:
        """leaderless: where partitions are as long as they have no leader."""
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
        """Whether no partition has anything to do."""
        return all(queue.is_idle for queue in self.partitions)

    def resize(self, count: int) -> None:
        """Offer `count` partitions. Queues of partitions that are gone stay, for the batches in them."""
        while len(self.partitions) < count:
            self.partitions.append(PartitionQueue(self, len(self.partitions), self._leaderless))
        if self.sticky.current >= count:
            self.sticky.current = -1
        self.count = count

    def refresh(self, snapshot: ClusterSnapshot) -> list[PartitionQueue]:
        """Learn the number of partitions and their leaders; return those whose leader or its epoch is another."""
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
        """Keep the id over the time in which there is no such topic."""
        if topic_id is not None:
            self.was_recreated |= self.topic_id not in (None, topic_id)
            self.topic_id = topic_id

    def observe_compression(self, ratio: float) -> None:
        """Adapt the estimate of how well records compress: quickly to the worse, slowly to the better."""
        estimate = self.compression_ratio
        self.compression_ratio = max(estimate + RATIO_UP if ratio > estimate else estimate - RATIO_DOWN, ratio)
