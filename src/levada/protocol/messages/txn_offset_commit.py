"""TxnOffsetCommit (key 28): store the committed offsets of a group as part of a transaction.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, int64, string, uuid


class TxnOffsetCommitRequestPartition(Struct):
    """The next offset to read."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    """The partitions of one topic. The topic is named by id since version 6."""

    name: str = string("0-5", ignorable=True)
    topic_id: UUID = uuid("6+", ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"], key=28, versions="0-6", flexible="3+"):
    """Member and generation fence the group since version 3 (KIP-447). In KIP-848 groups the epoch is sent as the generation."""

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id_or_member_epoch: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponsePartition(Struct):
    """The result of the commit for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


class TxnOffsetCommitResponseTopic(Struct):
    """The partitions of one topic. The topic is named by id since version 6."""

    name: str = string("0-5", ignorable=True)
    topic_id: UUID = uuid("6+", ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


class TxnOffsetCommitResponse(Response, request=TxnOffsetCommitRequest):
    """One result for each partition."""

    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
