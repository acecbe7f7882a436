"""ListPartitionReassignments (key 46): list ongoing reassignments of partitions.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, string


class ListPartitionReassignmentsTopics(Struct):
    """Partitions of one topic."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


class ListPartitionReassignmentsRequest(Request["ListPartitionReassignmentsResponse"], key=46, versions="0", flexible="0+"):
    """Null topics ask for all topics."""

    timeout_ms: int = int32(default=60_000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(ListPartitionReassignmentsTopics, nullable="0+")


class OngoingPartitionReassignment(Struct):
    """The current replicas of one partition, and those that are added and removed."""

    partition_index: int = int32()
    replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)


class OngoingTopicReassignment(Struct):
    """The partitions of one topic."""

    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


class ListPartitionReassignmentsResponse(Response, request=ListPartitionReassignmentsRequest):
    """The reassignments, grouped by topic."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)
