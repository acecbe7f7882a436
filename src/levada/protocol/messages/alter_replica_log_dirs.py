"""AlterReplicaLogDirs (key 34): move a broker's replicas between its log directories.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, string


class AlterReplicaLogDirTopic(Struct):
    """Partitions of one topic."""

    name: str = string()
    partitions: list[int] = array(int32)


class AlterReplicaLogDir(Struct):
    """The replicas to move to one directory."""

    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


class AlterReplicaLogDirsRequest(Request["AlterReplicaLogDirsResponse"], key=34, versions="0-2", flexible="2+"):
    """The directories, each with the replicas to move there."""

    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


class AlterReplicaLogDirPartitionResult(Struct):
    """The result for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


class AlterReplicaLogDirTopicResult(Struct):
    """The partitions of one topic."""

    topic_name: str = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


class AlterReplicaLogDirsResponse(Response, request=AlterReplicaLogDirsRequest):
    """One result for each partition."""

    throttle_time_ms: int = int32()
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)
