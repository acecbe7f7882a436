"""InitializeShareGroupState (key 83): a group's coordinator initializes the state of share partitions (KIP-932).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, int64, string, uuid


class PartitionData(Struct):
    """The start offset of one partition; -1 if not known yet."""

    partition: int = int32()
    state_epoch: int = int32()
    start_offset: int = int64()


class InitializeStateData(Struct):
    """The partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class InitializeShareGroupStateRequest(Request["InitializeShareGroupStateResponse"], key=83, versions="0", flexible="0+"):
    """The partitions to initialize."""

    group_id: str = string()
    topics: list[InitializeStateData] = array(InitializeStateData)


class PartitionResult(Struct):
    """The result for one partition."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class InitializeStateResult(Struct):
    """The partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class InitializeShareGroupStateResponse(Response, request=InitializeShareGroupStateRequest):
    """One result for each partition."""

    results: list[InitializeStateResult] = array(InitializeStateResult)
