"""WriteShareGroupState (key 85): a partition's leader writes the state of share partitions (KIP-932).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int8, int16, int32, int64, string, uuid


class StateBatch(Struct):
    """Offsets that share a state: 0 available, 2 acknowledged, 4 archived."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class PartitionData(Struct):
    """The new state of one partition. Its epochs fence old writers."""

    partition: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)
    state_batches: list[StateBatch] = array(StateBatch)


class WriteStateData(Struct):
    """The partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class WriteShareGroupStateRequest(Request["WriteShareGroupStateResponse"], key=85, versions="0-1", flexible="0+"):
    """The partitions and their new state."""

    group_id: str = string()
    topics: list[WriteStateData] = array(WriteStateData)


class PartitionResult(Struct):
    """The result for one partition."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class WriteStateResult(Struct):
    """The partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class WriteShareGroupStateResponse(Response, request=WriteShareGroupStateRequest):
    """One result for each partition."""

    results: list[WriteStateResult] = array(WriteStateResult)
