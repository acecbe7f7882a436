"""BeginQuorumEpoch (key 53): a controller tells the others that it leads from now on (KIP-595).

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
    """The partitions of one topic; there is only the metadata log."""

    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


class LeaderEndpoint(Struct):
    """Where a listener of the leader can be reached."""

    name: str = string("1+")
    host: str = string("1+")
    port: int = uint16("1+")


class BeginQuorumEpochRequest(Request["BeginQuorumEpochResponse"], key=53, versions="0-1", flexible="1+"):
    """Where the leader can be reached, since version 1."""

    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[TopicData] = array(TopicData)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+", ignorable=True)


class PartitionResponse(Struct):
    """The leader and epoch that the other knows."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


class TopicResponse(Struct):
    """The partitions of one topic."""

    topic_name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


class NodeEndpoint(Struct):
    """Where a leader named in the response can be reached."""

    node_id: int = int32("1+")
    host: str = string("1+")
    port: int = uint16("1+")


class BeginQuorumEpochResponse(Response, request=BeginQuorumEpochRequest):
    """One answer per partition."""

    error_code: int = int16()
    topics: list[TopicResponse] = array(TopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tagged="1+", tag=0)
