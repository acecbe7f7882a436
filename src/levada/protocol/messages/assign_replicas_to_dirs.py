"""AssignReplicasToDirs (key 73): a broker tells the controller which log directories hold its replicas (KIP-858).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, int64, uuid


class PartitionData(Struct):
    """One partition."""

    partition_index: int = int32()


class TopicData(Struct):
    """The partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class DirectoryData(Struct):
    """The replicas in one directory."""

    id: UUID = uuid()
    topics: list[TopicData] = array(TopicData)


class AssignReplicasToDirsRequest(Request["AssignReplicasToDirsResponse"], key=73, versions="0", flexible="0+"):
    """The broker, and its directories with their replicas."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    directories: list[DirectoryData] = array(DirectoryData)


class PartitionResponse(Struct):
    """The result for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


class TopicResponse(Struct):
    """The partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[PartitionResponse] = array(PartitionResponse)


class DirectoryResponse(Struct):
    """The results for one directory."""

    id: UUID = uuid()
    topics: list[TopicResponse] = array(TopicResponse)


class AssignReplicasToDirsResponse(Response, request=AssignReplicasToDirsRequest):
    """One result for each partition."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    directories: list[DirectoryResponse] = array(DirectoryResponse)
