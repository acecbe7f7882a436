"""DescribeTopicPartitions (key 75): describe topics and partitions, page by page (KIP-966).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, boolean, int16, int32, string, struct, uuid

OPERATIONS_NOT_ASKED = -(1 << 31)


class TopicRequest(Struct):
    """A topic."""

    name: str = string()


class Cursor(Struct):
    """The topic and partition that a page starts with."""

    topic_name: str = string()
    partition_index: int = int32()


class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"], key=75, versions="0", flexible="0+"):
    """An empty topics list asks for all topics. cursor: start of the page, null for the first."""

    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2_000)
    cursor: Cursor | None = struct(Cursor, nullable="0+")


class DescribeTopicPartitionsResponsePartition(Struct):
    """One partition. eligible_leader_replicas, last_known_elr: replicas that may lead if none is in sync."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1, ignorable=True)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    eligible_leader_replicas: list[int] | None = array(int32, nullable="0+")
    last_known_elr: list[int] | None = array(int32, nullable="0+")
    offline_replicas: list[int] = array(int32, ignorable=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    """The partitions of one topic that fit in the page."""

    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: UUID = uuid(ignorable=True)
    is_internal: bool = boolean(ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(DescribeTopicPartitionsResponsePartition)
    topic_authorized_operations: int = int32(default=OPERATIONS_NOT_ASKED)


class DescribeTopicPartitionsResponse(Response, request=DescribeTopicPartitionsRequest):
    """next_cursor: null on the last page."""

    throttle_time_ms: int = int32(ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = struct(Cursor, nullable="0+")
