"""OffsetDelete (key 47): delete committed offsets of a group.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, string


class OffsetDeleteRequestPartition(Struct):
    """One partition."""

    partition_index: int = int32()


class OffsetDeleteRequestTopic(Struct):
    """The partitions of one topic. No member may be subscribed to the topic."""

    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


class OffsetDeleteRequest(Request["OffsetDeleteResponse"], key=47, versions="0"):
    """The partitions whose offsets to delete."""

    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


class OffsetDeleteResponsePartition(Struct):
    """The result for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


class OffsetDeleteResponseTopic(Struct):
    """The partitions of one topic."""

    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


class OffsetDeleteResponse(Response, request=OffsetDeleteRequest):
    """One result for each partition."""

    error_code: int = int16()
    throttle_time_ms: int = int32(ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
