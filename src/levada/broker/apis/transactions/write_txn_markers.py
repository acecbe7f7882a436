"""WriteTxnMarkers: end transactions in partitions of this node, for a coordinator, or for an administrator who aborts a hanging one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from levada.base.promise import Promise
from levada.broker.coordinators.internal_topics import GROUP_METADATA_TOPIC
from levada.broker.coordinators.transactions.end_markers import end_offsets
from levada.broker.log.end_transaction_marker import EndTransactionMarker
from levada.broker.node.state import Answer, Api, Call
from levada.broker.replication.waiting import PendingAppend, when_replicated
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from levada.protocol.schema import ZERO_UUID, Response
from levada.types import TopicPartition

_BUMPING_VERSION = 2


_COMMIT_TIMEOUT_MS = 30_000

_Outcome: TypeAlias = ErrorCode | PendingAppend
"""The result for one marker in one partition: an error code, or what has to be committed first."""


def handle(call: Call) -> Answer:
    """Write each marker to its partitions, and answer when the markers are committed, or after 30 s. An error in one partition does not
    affect the others.
    """
    request: WriteTxnMarkersRequest = call.request
    outcomes = [_write(call, marker) for marker in request.markers]
    promise: Promise[Response] = Promise()

    def finish(codes: Sequence[ErrorCode]) -> None:
        told = iter(codes)
        results = [_result(marker, _codes(parts, told)) for marker, parts in zip(request.markers, outcomes, strict=True)]
        promise.resolve(WriteTxnMarkersResponse(markers=results))

    written = [outcome for parts in outcomes for part in parts for outcome in part if isinstance(outcome, PendingAppend)]
    when_replicated(call.state, written, call.connection_id, call.now_ms, _COMMIT_TIMEOUT_MS, finish)
    return promise


def _codes(outcomes: list[list[_Outcome]], told: Iterator[ErrorCode]) -> Iterable[list[ErrorCode]]:
    return ([next(told) if isinstance(found, PendingAppend) else found for found in part] for part in outcomes)


def refuse(request: WriteTxnMarkersRequest, version: int, code: ErrorCode) -> WriteTxnMarkersResponse:
    """Answer with an error in every partition."""
    return WriteTxnMarkersResponse(
        markers=[_result(marker, ([code] * len(topic.partition_indexes) for topic in marker.topics)) for marker in request.markers]
    )


def _write(call: Call, asked: WritableTxnMarker) -> list[list[_Outcome]]:
    marker = EndTransactionMarker(
        asked.producer_id,
        asked.producer_epoch,
        asked.transaction_result,
        asked.coordinator_epoch,
        strict=asked.transaction_version >= _BUMPING_VERSION,
    )
    return [[_write_one(call, topic.name, index, marker) for index in topic.partition_indexes] for topic in asked.topics]


def _write_one(call: Call, topic: str, index: int, marker: EndTransactionMarker) -> _Outcome:
    cluster = call.state.cluster
    name = TopicPartition(topic, index)
    if topic == GROUP_METADATA_TOPIC:
        end_offsets(cluster, name, marker)
        return ErrorCode.NONE
    try:
        partition = call.state.lead_partition(call.state.find_topic(topic, ZERO_UUID, by_id=False), index)
        call.state.raise_planned_fault(WriteTxnMarkersRequest.NAME, name)
        written = PendingAppend.of(partition, partition.append_marker(marker, call.wall_ms))
    except BrokerError as error:
        return error.code
    cluster.replicate(partition)
    cluster.notify_watchers(partition)
    return written


def _result(marker: WritableTxnMarker, codes: Iterable[list[ErrorCode]]) -> WritableTxnMarkerResult:
    topics = [
        WritableTxnMarkerTopicResult(
            name=topic.name,
            partitions=[
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                for index, code in zip(topic.partition_indexes, told, strict=True)
            ],
        )
        for topic, told in zip(marker.topics, codes, strict=True)
    ]
    return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)


API = Api(WriteTxnMarkersRequest, 1, 2, handle, refuse, 1)
