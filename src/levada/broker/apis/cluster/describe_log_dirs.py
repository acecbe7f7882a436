"""DescribeLogDirs: the log directory of this node, and the sizes of its replicas (KIP-113, KIP-827)."""

from __future__ import annotations

from levada.broker.node.answers import indexes_by_topic
from levada.broker.node.state import Api, Call
from levada.broker.replication.partition import Partition
from levada.error_codes import ErrorCode
from levada.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from levada.types import TopicPartition

_HAS_ERROR_CODE = 3


def handle(call: Call) -> DescribeLogDirsResponse:
    """Return the node's only log directory with its replicas of the named partitions. If the request's list of topics is null, all replicas
    are returned.
    """
    node_id, cluster = call.state.node_id, call.state.cluster
    topics = call.request.topics
    wanted = cluster.partitions(None if topics is None else ((topic.topic, topic.partitions) for topic in topics))
    here = {partition.name: partition for partition in wanted if node_id in partition.replicas}
    folder = cluster.log_dir(node_id)
    described = [
        DescribeLogDirsTopic(name=name, partitions=[_describe(here[TopicPartition(name, index)], node_id) for index in indexes])
        for name, indexes in indexes_by_topic(here).items()
    ]
    told = DescribeLogDirsResult(log_dir=folder.path, topics=described, total_bytes=folder.total_bytes, usable_bytes=folder.usable_bytes)
    return DescribeLogDirsResponse(results=[told])


def refuse(request: DescribeLogDirsRequest, version: int, code: ErrorCode) -> DescribeLogDirsResponse:
    """Return a response with this error. Versions without a top-level error code report it for a log directory with an empty name."""
    return DescribeLogDirsResponse(error_code=code, results=[] if version >= _HAS_ERROR_CODE else [DescribeLogDirsResult(error_code=code)])


def _describe(partition: Partition, node_id: int) -> DescribeLogDirsPartition:
    log = partition.replicas[node_id].log
    return DescribeLogDirsPartition(
        partition_index=partition.name.partition,
        partition_size=log.size_bytes,
        offset_lag=max(partition.log.high_watermark - log.end_offset, 0),
    )


API = Api(DescribeLogDirsRequest, 1, 5, handle, refuse, 1)
