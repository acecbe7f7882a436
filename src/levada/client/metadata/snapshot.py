"""What the last metadata response said of the cluster. A snapshot is immutable, so any thread may read it without a lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

from levada.error_codes import ErrorCode
from levada.types import Node, PartitionInfo, TopicPartition

NO_CONTROLLER = -1


class TopicMetadata(NamedTuple):
    """The metadata of a topic from one response. With an error, partitions may be empty. topic_id is None before version 10 of Metadata."""

    name: str
    topic_id: UUID | None = None
    error: ErrorCode = ErrorCode.NONE
    is_internal: bool = False
    partitions: tuple[PartitionInfo, ...] = ()

    def partition(self, index: int) -> PartitionInfo | None:
        """Return the partition with this number; None if there is none."""
        if 0 <= index < len(self.partitions) and self.partitions[index].partition == index:
            return self.partitions[index]
        return next((info for info in self.partitions if info.partition == index), None)


@dataclass(frozen=True)
class ClusterSnapshot:
    """The nodes, topics and leaders at one time.

    Before the first response, and after the client went back to them, the nodes are the bootstrap addresses, with the ids -1, -2, ...
    described_by: the address of the broker that has sent the response; "" for the bootstrap addresses.
    """

    cluster_id: str | None = None
    controller_id: int = NO_CONTROLLER
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    described_by: str = field(default="", compare=False)

    @classmethod
    def bootstrap(cls, addresses: Sequence[tuple[str, int]], topics: Mapping[str, TopicMetadata] | None = None) -> ClusterSnapshot:
        """Return the snapshot of a client that only knows bootstrap addresses. topics: topics known from before, which are kept without
        leaders.
        """
        nodes = {-index: Node(-index, host, port) for index, (host, port) in enumerate(addresses, start=1)}
        return cls(nodes=nodes, topics=topics or {})

    @cached_property
    def is_bootstrap(self) -> bool:
        """Whether the nodes are the bootstrap addresses, because the brokers of the cluster are not known."""
        return all(node_id < 0 for node_id in self.nodes)

    @cached_property
    def names_by_id(self) -> Mapping[UUID, str]:
        """Topic names by topic id."""
        return {topic.topic_id: topic.name for topic in self.topics.values() if topic.topic_id is not None}

    @property
    def controller(self) -> Node | None:
        """The controller; None if it is not known."""
        return self._node(self.controller_id)

    def partition(self, tp: TopicPartition) -> PartitionInfo | None:
        """Return the metadata of a partition; None if it is not known."""
        topic = self.topics.get(tp.topic)
        return None if topic is None else topic.partition(tp.partition)

    def leader(self, tp: TopicPartition) -> Node | None:
        """Return the leader of a partition; None if it has none, or if the leader is not among the nodes."""
        info = self.partition(tp)
        return None if info is None else self._node(info.leader)

    def _node(self, node_id: int) -> Node | None:
        # "No leader" is -1 on the wire, and so is the first bootstrap address in `nodes`.
        return self.nodes.get(node_id) if node_id >= 0 else None

    def leader_epoch(self, tp: TopicPartition) -> int:
        """Return the leader epoch of a partition; -1 if it is not known."""
        info = self.partition(tp)
        return -1 if info is None else info.leader_epoch

    def partition_count(self, topic: str) -> int | None:
        """Return the number of partitions of a topic; None if the topic is not known, or was described without partitions."""
        known = self.topics.get(topic)
        return len(known.partitions) or None if known is not None else None

    def topic_id(self, topic: str) -> UUID | None:
        """Return the id of a topic; None if it is not known, or if the broker has no topic ids."""
        known = self.topics.get(topic)
        return None if known is None else known.topic_id

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name of the topic with an id; None if it is not known."""
        return self.names_by_id.get(topic_id)
