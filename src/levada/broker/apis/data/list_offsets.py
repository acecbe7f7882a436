"""ListOffsets: the ends of a log, and the first record at or after a timestamp (KIP-79)."""

from __future__ import annotations

from collections import Counter

from levada.broker.cluster.topic import Topic
from levada.broker.log.offset_lookup import LATEST, NOTHING, Found, find
from levada.broker.node.answers import answer_each
from levada.broker.node.state import Api, BrokerState, Call
from levada.broker.replication.partition import Partition
from levada.error_codes import ErrorCode
from levada.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

_HAS_LEADER_EPOCH = 4


def handle(call: Call) -> ListOffsetsResponse:
    """Look up the offset for each partition separately. As in Kafka, a partition that the request names twice is refused."""
    request: ListOffsetsRequest = call.request
    counts = Counter((topic.name, wanted.partition_index) for topic in request.topics for wanted in topic.partitions)
    topics: dict[str, dict[int, ListOffsetsPartition]] = {}
    for topic in request.topics:
        topics.setdefault(topic.name, {}).update((wanted.partition_index, wanted) for wanted in topic.partitions)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=name,
                partitions=[
                    *answer_each(call, name, [one for index, one in wanted.items() if counts[name, index] == 1], _answer, _failure),
                    *(_failure(one, ErrorCode.INVALID_REQUEST) for index, one in wanted.items() if counts[name, index] > 1),
                ],
            )
            for name, wanted in topics.items()
        ]
    )


def refuse(request: ListOffsetsRequest, version: int, code: ErrorCode) -> ListOffsetsResponse:
    """Answer with an error in every partition."""
    return ListOffsetsResponse(topics=[_topic(topic, [_failure(wanted, code) for wanted in topic.partitions]) for topic in request.topics])


def _topic(topic: ListOffsetsTopic, partitions: list[ListOffsetsPartitionResponse]) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(name=topic.name, partitions=partitions)


def _failure(wanted: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=code)


def _answer(call: Call, topic: Topic, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    partition = _readable(call.state, topic, wanted)
    found = find(partition, wanted.timestamp, call.version, call.request.isolation_level)
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        offset=found.offset,
        timestamp=found.timestamp,
        leader_epoch=_epoch_of(partition, wanted.timestamp, found) if call.version >= _HAS_LEADER_EPOCH else -1,
    )


def _epoch_of(partition: Partition, timestamp: int, found: Found) -> int:
    if found == NOTHING:
        return -1
    return partition.leader_epoch if timestamp == LATEST else partition.epochs.at(found.offset)


def _readable(state: BrokerState, topic: Topic, wanted: ListOffsetsPartition) -> Partition:
    partition = state.lead_partition(topic, wanted.partition_index)
    state.raise_planned_fault("ListOffsets", partition.name)
    partition.check_leader_epoch(wanted.current_leader_epoch)
    return partition


API = Api(ListOffsetsRequest, 1, 11, handle, refuse, 1)
