"""EndQuorumEpoch (key 54): the leader of the controllers announces that it resigns (KIP-595).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, string, uint16, uuid


class ReplicaInfo(Struct):
    """A candidate, by broker and directory."""

    candidate_id: int = int32("1+")
    candidate_directory_id: UUID = uuid("1+")


class PartitionData(Struct):
    """The epoch that ends, and the preferred next leaders, best first."""

    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32()
    preferred_successors: list[int] = array(int32, "0", ignorable=True)
    preferred_candidates: list[ReplicaInfo] = array(ReplicaInfo, "1+", ignorable=True)


class TopicData(Struct):
    """The partitions of one topic. The only topic is the metadata log."""

    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


class LeaderEndpoint(Struct):
    """The address of a listener of the leader."""

    name: str = string("1+")
    host: str = string("1+")
    port: int = uint16("1+")


class EndQuorumEpochRequest(Request["EndQuorumEpochResponse"], key=54, versions="0-1", flexible="1+"):
    """Since version 1: the addresses of the old leader."""

    cluster_id: str | None = string(nullable="0+")
    topics: list[TopicData] = array(TopicData)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+", ignorable=True)


class PartitionResponse(Struct):
    """The leader and epoch that the receiver knows."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


class TopicResponse(Struct):
    """The partitions of one topic."""

    topic_name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


class NodeEndpoint(Struct):
    """The address of a leader that the response names."""

    node_id: int = int32("1+")
    host: str = string("1+")
    port: int = uint16("1+")


class EndQuorumEpochResponse(Response, request=EndQuorumEpochRequest):
    """One answer for each partition."""

    error_code: int = int16()
    topics: list[TopicResponse] = array(TopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tagged="1+", tag=0)
