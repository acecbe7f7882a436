"""DeleteShareGroupState (key 86): a group's coordinator deletes the state of share partitions (KIP-932).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, string, uuid


class PartitionData(Struct):
    """One partition."""

    partition: int = int32()


class DeleteStateData(Struct):
    """The partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class DeleteShareGroupStateRequest(Request["DeleteShareGroupStateResponse"], key=86, versions="0", flexible="0+"):
    """The partitions whose state to delete."""

    group_id: str = string()
    topics: list[DeleteStateData] = array(DeleteStateData)


class PartitionResult(Struct):
    """The result for one partition."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class DeleteStateResult(Struct):
    """The partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class DeleteShareGroupStateResponse(Response, request=DeleteShareGroupStateRequest):
    """One result for each partition."""

    results: list[DeleteStateResult] = array(DeleteStateResult)
