"""AlterPartitionReassignments (key 45): move replicas of partitions to other brokers, or cancel such a move (KIP-455).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, boolean, int16, int32, string


class ReassignablePartition(Struct):
    """The new brokers of one partition; null cancels a reassignment."""

    partition_index: int = int32()
    replicas: list[int] | None = array(int32, nullable="0+")


class ReassignableTopic(Struct):
    """The partitions of one topic."""

    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


class AlterPartitionReassignmentsRequest(Request["AlterPartitionReassignmentsResponse"], key=45, versions="0-1", flexible="0+"):
    """The partitions to reassign."""

    timeout_ms: int = int32(default=60_000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


class ReassignablePartitionResponse(Struct):
    """The result for one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class ReassignableTopicResponse(Struct):
    """The partitions of one topic."""

    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


class AlterPartitionReassignmentsResponse(Response, request=AlterPartitionReassignmentsRequest):
    """One result for each partition."""

    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean("1+", default=True, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)
