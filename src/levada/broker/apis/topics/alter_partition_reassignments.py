"""AlterPartitionReassignments: move partitions to other nodes (KIP-455, KIP-860)."""

from __future__ import annotations

from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(call: Call) -> AlterPartitionReassignmentsResponse:
    """Begin or cancel the reassignment of each partition separately. If all new nodes are up and replicate, it completes at once."""
    request: AlterPartitionReassignmentsRequest = call.request
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            ReassignableTopicResponse(name=topic.name, partitions=[_reassign(call, topic.name, wanted) for wanted in topic.partitions])
            for topic in request.topics
        ],
    )


def refuse(request: AlterPartitionReassignmentsRequest, version: int, code: ErrorCode) -> AlterPartitionReassignmentsResponse:
    """Answer with an error for the request, and for every partition."""
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(partition_index=wanted.partition_index, error_code=code) for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _reassign(call: Call, name: str, wanted: ReassignablePartition) -> ReassignablePartitionResponse:
    cluster = call.state.cluster
    try:
        partition = cluster.partition(cluster.topic(name), wanted.partition_index)
        if wanted.replicas is None:
            cluster.cancel_reassignment(partition)
        else:
            may_change = call.request.allow_replication_factor_change
            cluster.reassign(partition, tuple(wanted.replicas), may_change_factor=may_change)
    except BrokerError as error:
        return ReassignablePartitionResponse(partition_index=wanted.partition_index, error_code=error.code, error_message=error.reason)
    return ReassignablePartitionResponse(partition_index=wanted.partition_index)


API = Api(AlterPartitionReassignmentsRequest, 0, 1, handle, refuse, 0)
