"""Makes a new snapshot from an old one and a Metadata response; pure.

A broker with old metadata may describe a former leader. So a partition is not replaced by one with an older leader epoch, unless the
topic id has changed: then the topic was deleted and created again. Leader epochs in responses before Metadata v9 may be stale, so they are
ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from levada.client.metadata.snapshot import ClusterSnapshot, TopicMetadata
from levada.error_codes import ErrorCode
from levada.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from levada.types import NO_LEADER_EPOCH, Node, PartitionInfo, TopicPartition

EPOCHS_TRUSTED_SINCE = 9
_NO_ID = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Update:
    """A new snapshot, and the leader epochs to remember. incomplete: whether part of it has a retriable error, so that a new request is
    useful soon.
    """

    snapshot: ClusterSnapshot
    epochs: Mapping[TopicPartition, int]
    incomplete: bool


def apply_response(
    old: ClusterSnapshot,
    epochs: Mapping[TopicPartition, int],
    response: MetadataResponse,
    version: int,
    *,
    keep: Collection[str] = (),
    described_by: str = "",
) -> Update:
    """Return the snapshot after a response.

    epochs: the newest known leader epoch of each partition. version: of the response. keep: topics that stay if the response does not name
    them (a partial update); a full response replaces all topics. described_by: the address of the broker that has answered.
    """
    topics = {name: old.topics[name] for name in keep if name in old.topics}
    for described in response.topics:
        if described.name is not None:
            topics[described.name] = _topic(described, old, epochs, trusted=version >= EPOCHS_TRUSTED_SINCE)
    snapshot = ClusterSnapshot(
        cluster_id=response.cluster_id if response.cluster_id is not None else old.cluster_id,
        controller_id=response.controller_id,
        nodes={broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers},
        topics=topics,
        described_by=described_by,
    )
    return Update(snapshot, _epochs_after(snapshot, old, epochs), any(_incomplete(topic) for topic in topics.values()))


def _topic(described: MetadataResponseTopic, old: ClusterSnapshot, epochs: Mapping[TopicPartition, int], *, trusted: bool) -> TopicMetadata:
    name = described.name or ""
    topic_id = described.topic_id if described.topic_id != _NO_ID else None
    recreated = _recreated(old.topics.get(name), topic_id)
    partitions = []
    for answer in sorted(described.partitions, key=lambda partition: partition.partition_index):
        info = _partition(name, answer, trusted=trusted)
        tp = TopicPartition(name, info.partition)
        known = None if recreated else old.partition(tp)
        outdated = not recreated and NO_LEADER_EPOCH < info.leader_epoch < epochs.get(tp, NO_LEADER_EPOCH)
        if not outdated:
            partitions.append(info)
        elif known is not None:
            partitions.append(known)
    return TopicMetadata(name, topic_id, ErrorCode.of(described.error_code), described.is_internal, tuple(partitions))


def _recreated(known: TopicMetadata | None, topic_id: UUID | None) -> bool:
    return known is not None and None not in (known.topic_id, topic_id) and known.topic_id != topic_id


def _partition(topic: str, answer: MetadataResponsePartition, *, trusted: bool) -> PartitionInfo:
    return PartitionInfo(
        topic,
        answer.partition_index,
        answer.leader_id,
        answer.leader_epoch if trusted else NO_LEADER_EPOCH,
        tuple(answer.replica_nodes),
        tuple(answer.isr_nodes),
        tuple(answer.offline_replicas),
        answer.error_code,
    )


def described_partitions(topic: MetadataResponseTopic) -> tuple[PartitionInfo, ...]:
    """Return the partitions of a topic in a response, in order of their numbers."""
    partitions = (_partition(topic.name or "", answer, trusted=True) for answer in topic.partitions)
    return tuple(sorted(partitions, key=lambda info: info.partition))


def _epochs_after(new: ClusterSnapshot, old: ClusterSnapshot, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
    after = {}
    for topic in new.topics.values():
        recreated = _recreated(old.topics.get(topic.name), topic.topic_id)
        for info in topic.partitions:
            tp = TopicPartition(topic.name, info.partition)
            after[tp] = info.leader_epoch if recreated else max(info.leader_epoch, epochs.get(tp, NO_LEADER_EPOCH))
    return after


def _incomplete(topic: TopicMetadata) -> bool:
    if topic.error is not ErrorCode.NONE:
        return topic.error.retriable
    return any(ErrorCode.of(info.error_code).retriable for info in topic.partitions)


def with_leader(snapshot: ClusterSnapshot, tp: TopicPartition, node: Node, leader_epoch: int) -> ClusterSnapshot:
    """Return the snapshot with another leader of one partition (KIP-951). The leader's node is added if it is new."""
    topic = snapshot.topics[tp.topic]
    partitions = tuple(
        info._replace(leader=node.id, leader_epoch=leader_epoch) if info.partition == tp.partition else info for info in topic.partitions
    )
    return replace(
        snapshot,
        nodes={**snapshot.nodes, node.id: node},
        topics={**snapshot.topics, tp.topic: topic._replace(partitions=partitions)},
    )
