"""DescribeProducers: the producer state of partitions (KIP-664)."""

from __future__ import annotations

from levada.broker.cluster.topic import Topic
from levada.broker.node.answers import answer_each
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

_NO_OFFSET = -1


def handle(call: Call) -> DescribeProducersResponse:
    """Handle each partition separately, and only once: a small request may name one with many producers a thousand times."""
    wanted: dict[str, dict[int, None]] = {}
    for topic in call.request.topics:
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name=name, partitions=answer_each(call, name, list(indexes), _answer, _failure))
            for name, indexes in wanted.items()
        ]
    )


def refuse(request: DescribeProducersRequest, version: int, code: ErrorCode) -> DescribeProducersResponse:
    """Answer with an error in every partition."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name=topic.name, partitions=[_failure(index, code) for index in topic.partition_indexes])
            for topic in request.topics
        ]
    )


def _answer(call: Call, topic: Topic, index: int) -> PartitionResponse:
    partition = call.state.lead_partition(topic, index)
    call.state.raise_planned_fault(DescribeProducersRequest.NAME, partition.name)
    first_offset_of = partition.transactions.first_offset_of
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=_NO_OFFSET if (first := first_offset_of(producer_id)) is None else first,
            )
            for producer_id, entry in partition.producers
        ],
    )


def _failure(index: int, code: ErrorCode) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code)


API = Api(DescribeProducersRequest, 0, 0, handle, refuse, 0)
