"""AlterShareGroupOffsets (key 91): set the start offsets of a share group without members.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, int64, string, uuid


class AlterShareGroupOffsetsRequestPartition(Struct):
    """The new start offset of one partition."""

    partition_index: int = int32()
    start_offset: int = int64()


class AlterShareGroupOffsetsRequestTopic(Struct):
    """The partitions of one topic."""

    topic_name: str = string()
    partitions: list[AlterShareGroupOffsetsRequestPartition] = array(AlterShareGroupOffsetsRequestPartition)


class AlterShareGroupOffsetsRequest(Request["AlterShareGroupOffsetsResponse"], key=91, versions="0", flexible="0+"):
    """The group and its new start offsets."""

    group_id: str = string()
    topics: list[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic)


class AlterShareGroupOffsetsResponsePartition(Struct):
    """The result for one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class AlterShareGroupOffsetsResponseTopic(Struct):
    """The partitions of one topic."""

    topic_name: str = string()
    topic_id: UUID = uuid()
    partitions: list[AlterShareGroupOffsetsResponsePartition] = array(AlterShareGroupOffsetsResponsePartition)


class AlterShareGroupOffsetsResponse(Response, request=AlterShareGroupOffsetsRequest):
    """One result for each partition."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    responses: list[AlterShareGroupOffsetsResponseTopic] = array(AlterShareGroupOffsetsResponseTopic)
