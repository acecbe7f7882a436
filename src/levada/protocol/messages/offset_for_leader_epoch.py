"""OffsetForLeaderEpoch (key 23): find the end offset of a leader epoch, to detect that a log was truncated (KIP-320).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, int64, string


class OffsetForLeaderPartition(Struct):
    """current_leader_epoch: fences stale clients. leader_epoch: the epoch to look up."""

    partition: int = int32()
    current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    leader_epoch: int = int32()


class OffsetForLeaderTopic(Struct):
    """The partitions of one topic."""

    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


class OffsetForLeaderEpochRequest(Request["OffsetForLeaderEpochResponse"], key=23, versions="0-4", flexible="4+"):
    """replica_id: -1 for a consumer, -2 for a tool."""

    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


class EpochEndOffset(Struct):
    """The largest epoch that is not after the requested one, and its end offset; -1 if there is none."""

    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32("1+", default=-1, ignorable=True)
    end_offset: int = int64(default=-1)


class OffsetForLeaderTopicResult(Struct):
    """The partitions of one topic."""

    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


class OffsetForLeaderEpochResponse(Response, request=OffsetForLeaderEpochRequest):
    """One answer for each partition."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
