"""ElectLeaders (key 43): elect new leaders of partitions.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, int8, int16, int32, string


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic: str = string()
    partitions: list[int] = array(int32)


class ElectLeadersRequest(Request["ElectLeadersResponse"], key=43, versions="0-2", flexible="2+"):
    """election_type: 0 the preferred replica, 1 any replica, even if it is out of sync. Null partitions ask for all."""

    election_type: int = int8("1+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    timeout_ms: int = int32(default=60_000)


class PartitionResult(Struct):
    """The result for one partition."""

    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class ReplicaElectionResult(Struct):
    """The partitions of one topic."""

    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


class ElectLeadersResponse(Response, request=ElectLeadersRequest):
    """One result for each partition."""

    throttle_time_ms: int = int32()
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
