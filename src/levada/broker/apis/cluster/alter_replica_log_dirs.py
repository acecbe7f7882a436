"""AlterReplicaLogDirs: move replicas to other log directories of their node (KIP-113). A node has only one, so nothing moves."""

from __future__ import annotations

from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(call: Call) -> AlterReplicaLogDirsResponse:
    """Check each replica separately. No replica moves, because a node has only one log directory."""
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[_result(index, _check(call, wanted.path, topic.name, index)) for index in topic.partitions],
            )
            for wanted in call.request.dirs
            for topic in wanted.topics
        ]
    )


def refuse(request: AlterReplicaLogDirsRequest, version: int, code: ErrorCode) -> AlterReplicaLogDirsResponse:
    """Answer with an error for every replica."""
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=[_result(index, code) for index in topic.partitions])
            for wanted in request.dirs
            for topic in wanted.topics
        ]
    )


def _check(call: Call, path: str, name: str, index: int) -> ErrorCode:
    cluster, node_id = call.state.cluster, call.state.node_id
    if path != cluster.log_dir(node_id).path:
        return ErrorCode.LOG_DIR_NOT_FOUND
    try:
        partition = cluster.partition(cluster.topic(name), index)
    except BrokerError as error:
        return error.code
    return ErrorCode.NONE if node_id in partition.replicas else ErrorCode.REPLICA_NOT_AVAILABLE


def _result(index: int, code: ErrorCode) -> AlterReplicaLogDirPartitionResult:
    return AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)


API = Api(AlterReplicaLogDirsRequest, 1, 2, handle, refuse, 1)
