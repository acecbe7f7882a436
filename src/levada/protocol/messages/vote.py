"""Vote (key 52): a controller asks another for its vote (KIP-595).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, boolean, int16, int32, int64, string, uint16, uuid


class PartitionData(Struct):
    """The candidate, its epoch, and the end of its log. pre_vote: only ask whether the vote would be given (KIP-996)."""

    partition_index: int = int32()
    replica_epoch: int = int32()
    replica_id: int = int32()
    replica_directory_id: UUID = uuid("1+", ignorable=True)
    voter_directory_id: UUID = uuid("1+", ignorable=True)
    last_offset_epoch: int = int32()
    last_offset: int = int64()
    pre_vote: bool = boolean("2+")


class TopicData(Struct):
    """The partitions of one topic. The only topic is the metadata log."""

    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


class VoteRequest(Request["VoteResponse"], key=52, versions="0-2", flexible="0+"):
    """The candidate's request, and the voter that it asks."""

    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[TopicData] = array(TopicData)


class PartitionResponse(Struct):
    """Whether the vote was given, and the known leader if any."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    vote_granted: bool = boolean()


class TopicResponse(Struct):
    """The partitions of one topic."""

    topic_name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


class NodeEndpoint(Struct):
    """The address of a leader that the response names."""

    node_id: int = int32("1+")
    host: str = string("1+")
    port: int = uint16("1+")


class VoteResponse(Response, request=VoteRequest):
    """One answer for each partition."""

    error_code: int = int16()
    topics: list[TopicResponse] = array(TopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tagged="1+", tag=0)
