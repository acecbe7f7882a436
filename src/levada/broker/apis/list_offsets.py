"""ListOffsets: the ends of a log, and the first record at or after a time (KIP-79)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from levada.broker.cluster import Topic
from levada.broker.each_partition import answer_each
from levada.broker.partition import Partition
from levada.broker.state import Api, BrokerState, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, CorruptRecordError
from levada.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_HAS_LEADER_EPOCH = 4
_SINCE_VERSION = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


class Found(NamedTuple):
    """An offset and the timestamp of the record there; -1 for none."""

    offset: int = -1
    timestamp: int = -1


NOTHING = Found()


def handle(call: Call) -> ListOffsetsResponse:
    """Answer for every partition on its own."""
    request: ListOffsetsRequest = call.request
    return ListOffsetsResponse(
        topics=[_topic(topic, answer_each(call, topic.name, topic.partitions, _answer, _failure)) for topic in request.topics]
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


def find(partition: Partition, timestamp: int, version: int, isolation_level: int) -> Found:
    """Return what a (special) timestamp stands for. UNSUPPORTED_VERSION for a special one that this version does not know.

    A record that a reader at this isolation level cannot see yet is not found.
    """
    if timestamp < 0 and version < _SINCE_VERSION.get(timestamp, version + 1):
        raise BrokerError(f"timestamp {timestamp} in ListOffsets v{version}", code=ErrorCode.UNSUPPORTED_VERSION)
    end = partition.readable_end(isolation_level)
    if timestamp == LATEST:
        return Found(end)
    if timestamp in _AT_THE_START:
        return Found(partition.log.start_offset)
    found = _SPECIAL[timestamp](partition) if timestamp < 0 else _first_at_or_after(partition, timestamp)
    return found if found.offset < end else NOTHING


def _first_at_or_after(partition: Partition, timestamp: int) -> Found:
    try:
        for batch in partition.log.batches_reaching(timestamp):
            # Markers have timestamps as well, and are found as records are.
            for record in batch.walker().records() if batch.is_control else batch:
                if record.timestamp >= timestamp and record.offset >= partition.log.start_offset:
                    return Found(record.offset, record.timestamp)
    except CorruptRecordError as fault:
        raise BrokerError(f"{partition.name}: {fault}", code=ErrorCode.CORRUPT_MESSAGE) from fault
    return NOTHING


def _of_largest_timestamp(partition: Partition) -> Found:
    newest = partition.log.newest_timestamp
    return _first_at_or_after(partition, newest) if newest >= 0 else NOTHING


# There is no tiered storage: everything is local, nothing is uploaded.
_AT_THE_START = (EARLIEST, EARLIEST_LOCAL)
_SPECIAL: Mapping[int, Callable[[Partition], Found]] = {
    MAX_TIMESTAMP: _of_largest_timestamp,
    LATEST_TIERED: lambda partition: NOTHING,
    EARLIEST_PENDING_UPLOAD: lambda partition: NOTHING,
}


API = Api(ListOffsetsRequest, 1, 11, handle, refuse, 1)
