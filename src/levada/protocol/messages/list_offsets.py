"""ListOffsets (key 2): find offsets by time, or the ends of a log.

Special timestamps: -1 latest, -2 earliest, -3 the record with the largest timestamp (7+), -4 earliest local (8+), -5 latest tiered (9+),
and -6 earliest pending upload (11+).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, int8, int16, int32, int64, string


class ListOffsetsPartition(Struct):
    """The timestamp to look for in one partition, in milliseconds."""

    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64()
    max_num_offsets: int = int32("0", default=1)


class ListOffsetsTopic(Struct):
    """The partitions of one topic."""

    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(Request["ListOffsetsResponse"], key=2, versions="0-11", flexible="6+"):
    """replica_id: -1 for a consumer. isolation_level 1 makes "latest" the last stable offset. timeout_ms: for remote look-ups."""

    replica_id: int = int32()
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    """The first record at or after the timestamp; -1 if there is none. Version 0 returns segment offsets, newest first."""

    partition_index: int = int32()
    error_code: int = int16()
    old_style_offsets: list[int] = array(int64, "0")
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    """The partitions of one topic."""

    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Response, request=ListOffsetsRequest):
    """An offset for every partition of the request."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
