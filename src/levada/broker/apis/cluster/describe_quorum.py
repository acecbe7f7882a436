"""DescribeQuorum: the voters of the metadata quorum (KIP-595). The controller is the only voter, and the other nodes are observers."""

from __future__ import annotations

from levada import types
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionResponse,
    ReplicaState,
    TopicResponse,
)

_KNOWN = ("__cluster_metadata", 0)
_LISTENER = "CONTROLLER"
_HAS_NODES = 2


def handle(call: Call) -> DescribeQuorumResponse:
    """Return the quorum of the metadata partition. Every other partition gets UNKNOWN_TOPIC_OR_PARTITION, because it has no quorum."""
    request: DescribeQuorumRequest = call.request
    cluster = call.state.cluster
    is_known = all((topic.topic_name, wanted.partition_index) == _KNOWN for topic in request.topics for wanted in topic.partitions)
    controller = cluster.nodes[cluster.controller_id]
    return DescribeQuorumResponse(
        topics=[
            TopicResponse(
                topic_name=topic.topic_name,
                partitions=[_describe(call, topic.topic_name, wanted.partition_index) for wanted in topic.partitions],
            )
            for topic in request.topics
        ],
        nodes=[_endpoints(controller)] if call.version >= _HAS_NODES and is_known else [],
    )


def refuse(request: DescribeQuorumRequest, version: int, code: ErrorCode) -> DescribeQuorumResponse:
    """Answer with an error."""
    return DescribeQuorumResponse(error_code=code)


def _endpoints(controller: types.Node) -> Node:
    return Node(node_id=controller.id, listeners=[Listener(name=_LISTENER, host=controller.host, port=controller.port)])


def _describe(call: Call, topic: str, index: int) -> PartitionResponse:
    if (topic, index) != _KNOWN:
        return PartitionResponse(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    cluster = call.state.cluster
    leader = cluster.controller_id
    return PartitionResponse(
        partition_index=index,
        leader_id=leader,
        leader_epoch=cluster.controller_epoch,
        high_watermark=cluster.metadata_offset,
        current_voters=[_replica(call, leader)],
        observers=[_replica(call, node_id) for node_id in cluster.alive if node_id != leader],
    )


def _replica(call: Call, node_id: int) -> ReplicaState:
    now_ms = call.wall_ms
    return ReplicaState(
        replica_id=node_id,
        log_end_offset=call.state.cluster.metadata_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )


API = Api(DescribeQuorumRequest, 0, 2, handle, refuse, 0)
