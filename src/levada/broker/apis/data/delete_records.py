"""DeleteRecords: raise the log start offset, on all replicas that are up (KIP-107)."""

from __future__ import annotations

from typing import NamedTuple

from levada.base.promise import Promise
from levada.broker.cluster.topic import Topic
from levada.broker.node.answers import answer_each
from levada.broker.node.purgatory import Delayed
from levada.broker.node.state import Answer, Api, Call
from levada.broker.replication.partition import Partition
from levada.error_codes import ErrorCode
from levada.errors import InvalidTopicError
from levada.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from levada.protocol.schema import Response

_UNKNOWN = -1


def handle(call: Call) -> Answer:
    """Delete the records at once in partitions that this node leads. Answer when all live replicas have deleted them, or after the
    request's timeout.
    """
    deletion = _Deletion(call)
    if deletion.is_done():
        return deletion.response
    promise: Promise[Response] = Promise()

    def finish(now_ms: int) -> None:
        deletion.time_out()
        promise.resolve(deletion.response)

    names = [waiting.partition.name for waiting in deletion.waiting]
    call.state.purgatory.add(Delayed(deletion.is_done, finish, names, call.connection_id), call.now_ms + call.request.timeout_ms)
    return promise


def refuse(request: DeleteRecordsRequest, version: int, code: ErrorCode) -> DeleteRecordsResponse:
    """Answer with an error in every partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=topic.name, partitions=[_failure(wanted, code) for wanted in topic.partitions])
            for topic in request.topics
        ]
    )


def _failure(wanted: DeleteRecordsPartition, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=_UNKNOWN, error_code=code)


class _Waiting(NamedTuple):
    """A partition with at least one replica whose log start offset is still below the requested offset."""

    partition: Partition
    offset: int
    result: DeleteRecordsPartitionResult


class _Deletion:
    """A DeleteRecords request, and the partitions whose replicas have not all deleted the records yet. Creating it deletes the records at
    the leader.
    """

    def __init__(self, call: Call) -> None:
        self._cluster = call.state.cluster
        self.waiting: list[_Waiting] = []
        self.response = DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name, partitions=answer_each(call, topic.name, topic.partitions, self._delete, _failure)
                )
                for topic in call.request.topics
            ]
        )

    def is_done(self) -> bool:
        """Update the low watermarks in the response; return whether the replicas of all partitions have deleted the records."""
        for waiting in list(self.waiting):
            waiting.result.low_watermark = waiting.partition.low_watermark(self._cluster.alive)
            if waiting.result.low_watermark >= waiting.offset:
                self.waiting.remove(waiting)
        return not self.waiting

    def time_out(self) -> None:
        """Set REQUEST_TIMED_OUT for the partitions whose replicas have not all deleted the records within the timeout."""
        for waiting in self.waiting:
            waiting.result.low_watermark, waiting.result.error_code = _UNKNOWN, ErrorCode.REQUEST_TIMED_OUT

    def _delete(self, call: Call, topic: Topic, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        partition = call.state.lead_partition(topic, wanted.partition_index)
        if topic.is_internal:
            raise InvalidTopicError(f"records of the internal topic {topic.name} cannot be deleted")
        call.state.raise_planned_fault(DeleteRecordsRequest.NAME, partition.name)
        offset = partition.delete_records(wanted.offset)
        call.state.cluster.replicate(partition)
        call.state.cluster.notify_watchers(partition)
        result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index)
        self.waiting.append(_Waiting(partition, offset, result))
        return result


API = Api(DeleteRecordsRequest, 0, 2, handle, refuse, 0)
