"""ReadShareGroupState (key 84): a partition's leader reads the state of share partitions (KIP-932).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int8, int16, int32, int64, string, uuid


class PartitionData(Struct):
    """One partition. leader_epoch fences old leaders."""

    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateData(Struct):
    """The partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class ReadShareGroupStateRequest(Request["ReadShareGroupStateResponse"], key=84, versions="0", flexible="0+"):
    """The partitions to read."""

    group_id: str = string()
    topics: list[ReadStateData] = array(ReadStateData)


class StateBatch(Struct):
    """Offsets that share a state: 0 available, 2 acknowledged, 4 archived."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class PartitionResult(Struct):
    """The state of one partition."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


class ReadStateResult(Struct):
    """The partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class ReadShareGroupStateResponse(Response, request=ReadShareGroupStateRequest):
    """One result for each partition."""

    results: list[ReadStateResult] = array(ReadStateResult)
