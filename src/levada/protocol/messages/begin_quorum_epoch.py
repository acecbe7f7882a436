"""BeginQuorumEpoch (key 53): a new leader of the controllers announces itself to the others (KIP-595).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, string, uint16, uuid


class PartitionData(Struct):
    """The leader and its epoch."""

    partition_index: int = int32()
    voter_directory_id: UUID = uuid("1+", ignorable=True)
    leader_id: int = int32()
    leader_epoch: int = int32()


class TopicData(Struct):
    """The partitions of one topic. The only topic is the metadata log."""

    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


class LeaderEndpoint(Struct):
    """The address of a listener of the leader."""

    name: str = string("1+")
    host: str = string("1+")
    port: int = uint16("1+")


class BeginQuorumEpochRequest(Request["BeginQuorumEpochResponse"], key=53, versions="0-1", flexible="1+"):
    """Since version 1: the addresses of the leader."""

    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32("1+", default=-1, ignorable=True)
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


class BeginQuorumEpochResponse(Response, request=BeginQuorumEpochRequest):
    """One answer for each partition."""

    error_code: int = int16()
    topics: list[TopicResponse] = array(TopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tagged="1+", tag=0)
