"""ConsumerGroupHeartbeat (key 68): join a consumer group of the new protocol, stay in it, or leave it (KIP-848).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, string, struct, uuid


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupHeartbeatRequest(Request["ConsumerGroupHeartbeatResponse"], key=68, versions="0-1", flexible="0+"):
    """Null and -1 mean unchanged. member_epoch: 0 joins, -1 leaves, -2 leaves temporarily (static members)."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string, nullable="0+")
    subscribed_topic_regex: str | None = string("1+", nullable="1+")
    server_assignor: str | None = string(nullable="0+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+")


class Assignment(Struct):
    """The partitions assigned to the member."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupHeartbeatResponse(Response, request=ConsumerGroupHeartbeatRequest):
    """assignment: null if unchanged."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    member_id: str | None = string(nullable="0+")
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable="0+")
