"""ListPartitionReassignments: the reassignments in progress (KIP-455)."""

from __future__ import annotations

from levada.broker.node.answers import indexes_by_topic
from levada.broker.node.state import Api, Call
from levada.broker.replication.partition import Partition
from levada.error_codes import ErrorCode
from levada.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from levada.types import TopicPartition


def handle(call: Call) -> ListPartitionReassignmentsResponse:
    """Return the reassignments of the named partitions. If the request's list of topics is null, return all. Unknown partitions are left
    out.
    """
    topics = call.request.topics
    wanted = call.state.cluster.partitions(None if topics is None else ((topic.name, topic.partition_indexes) for topic in topics))
    ongoing = {partition.name: partition for partition in wanted if partition.reassignment is not None}
    return ListPartitionReassignmentsResponse(
        topics=[
            OngoingTopicReassignment(name=name, partitions=[_describe(ongoing[TopicPartition(name, index)]) for index in indexes])
            for name, indexes in indexes_by_topic(ongoing).items()
        ]
    )


def refuse(request: ListPartitionReassignmentsRequest, version: int, code: ErrorCode) -> ListPartitionReassignmentsResponse:
    """Answer with an error."""
    return ListPartitionReassignmentsResponse(error_code=code)


def _describe(partition: Partition) -> OngoingPartitionReassignment:
    assert partition.reassignment is not None
    return OngoingPartitionReassignment(
        partition_index=partition.name.partition,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.reassignment.adding),
        removing_replicas=list(partition.reassignment.removing),
    )


API = Api(ListPartitionReassignmentsRequest, 0, 0, handle, refuse, 0)
