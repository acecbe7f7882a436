"""DescribeQuorum (key 55): describe the leader and the followers of the metadata log.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, int64, string, uint16, uuid


class PartitionData(Struct):
    """A partition, always 0."""

    partition_index: int = int32()


class TopicData(Struct):
    """A topic, always __cluster_metadata."""

    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


class DescribeQuorumRequest(Request["DescribeQuorumResponse"], key=55, versions="0-2", flexible="0+"):
    """The partition of the metadata log."""

    topics: list[TopicData] = array(TopicData)


class ReplicaState(Struct):
    """The log end of a voter or observer. Times are -1 if unknown."""

    replica_id: int = int32()
    replica_directory_id: UUID = uuid("2+")
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = int64("1+", default=-1, ignorable=True)


class PartitionResponse(Struct):
    """The leader, and the state of all replicas."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", ignorable=True)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


class TopicResponse(Struct):
    """The partitions of one topic."""

    topic_name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


class Listener(Struct):
    """The address of a listener."""

    name: str = string("2+")
    host: str = string("2+")
    port: int = uint16("2+")


class Node(Struct):
    """The address of a controller."""

    node_id: int = int32("2+")
    listeners: list[Listener] = array(Listener, "2+")


class DescribeQuorumResponse(Response, request=DescribeQuorumRequest):
    """The state of the quorum."""

    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", ignorable=True)
    topics: list[TopicResponse] = array(TopicResponse)
    nodes: list[Node] = array(Node, "2+")
