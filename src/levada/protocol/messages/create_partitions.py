"""CreatePartitions (key 37): increase the number of partitions of topics.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, boolean, int16, int32, string


class CreatePartitionsAssignment(Struct):
    """The brokers for the replicas of one new partition, the preferred leader first."""

    broker_ids: list[int] = array(int32)


class CreatePartitionsTopic(Struct):
    """The new total of one topic. With null assignments the cluster chooses the brokers."""

    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, nullable="0+")


class CreatePartitionsRequest(Request["CreatePartitionsResponse"], key=37, versions="0-3", flexible="2+"):
    """validate_only: only check whether the partitions could be created."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopicResult(Struct):
    """The result for one topic."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class CreatePartitionsResponse(Response, request=CreatePartitionsRequest):
    """One result for each topic."""

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
