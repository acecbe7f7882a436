"""DescribeProducers (key 61): list the idempotent and transactional producers that partitions know (KIP-664).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, int64, string


class TopicRequest(Struct):
    """Partitions of one topic."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


class DescribeProducersRequest(Request["DescribeProducersResponse"], key=61, versions="0", flexible="0+"):
    """The partitions. Sent to their leaders."""

    topics: list[TopicRequest] = array(TopicRequest)


class ProducerState(Struct):
    """A producer. current_txn_start_offset: -1 if it has no open transaction in the partition."""

    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


class PartitionResponse(Struct):
    """The producers of one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    active_producers: list[ProducerState] = array(ProducerState)


class TopicResponse(Struct):
    """The partitions of one topic."""

    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


class DescribeProducersResponse(Response, request=DescribeProducersRequest):
    """The producers, grouped by partition."""

    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)
