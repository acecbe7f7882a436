"""ReadShareGroupStateSummary (key 87): a group's coordinator reads the start offsets of share partitions (KIP-932).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, int64, string, uuid


class PartitionData(Struct):
    """One partition. leader_epoch fences old leaders."""

    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateSummaryData(Struct):
    """The partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class ReadShareGroupStateSummaryRequest(Request["ReadShareGroupStateSummaryResponse"], key=87, versions="0-1", flexible="0+"):
    """The partitions to read."""

    group_id: str = string()
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData)


class PartitionResult(Struct):
    """The start offset of one partition."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    """The partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class ReadShareGroupStateSummaryResponse(Response, request=ReadShareGroupStateSummaryRequest):
    """One result for each partition."""

    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult)
