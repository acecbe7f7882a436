"""DescribeShareGroupOffsets (key 90): read the start offsets of share groups.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, int64, string, uuid


class DescribeShareGroupOffsetsRequestTopic(Struct):
    """Partitions of one topic."""

    topic_name: str = string()
    partitions: list[int] = array(int32)


class DescribeShareGroupOffsetsRequestGroup(Struct):
    """A group to describe. Null topics ask for all topics."""

    group_id: str = string()
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = array(DescribeShareGroupOffsetsRequestTopic, nullable="0+")


class DescribeShareGroupOffsetsRequest(Request["DescribeShareGroupOffsetsResponse"], key=90, versions="0-1", flexible="0+"):
    """The groups to describe."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = array(DescribeShareGroupOffsetsRequestGroup)


class DescribeShareGroupOffsetsResponsePartition(Struct):
    """The first offset that is not completely processed; -1 if there is none."""

    partition_index: int = int32()
    start_offset: int = int64()
    leader_epoch: int = int32()
    lag: int = int64("1+", default=-1, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class DescribeShareGroupOffsetsResponseTopic(Struct):
    """The partitions of one topic."""

    topic_name: str = string()
    topic_id: UUID = uuid()
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = array(DescribeShareGroupOffsetsResponsePartition)


class DescribeShareGroupOffsetsResponseGroup(Struct):
    """The start offsets of one group."""

    group_id: str = string()
    topics: list[DescribeShareGroupOffsetsResponseTopic] = array(DescribeShareGroupOffsetsResponseTopic)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class DescribeShareGroupOffsetsResponse(Response, request=DescribeShareGroupOffsetsRequest):
    """One result for each group."""

    throttle_time_ms: int = int32()
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array(DescribeShareGroupOffsetsResponseGroup)
