"""ShareGroupHeartbeat (key 76): join a share group, stay in it, or leave it (KIP-932).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, string, struct, uuid


class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"], key=76, versions="1", unstable="0", flexible="0+"):
    """Null means unchanged. member_epoch: 0 joins, -1 leaves."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable="0+")
    subscribed_topic_names: list[str] | None = array(string, nullable="0+")


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: UUID = uuid()
    partitions: list[int] = array(int32)


class Assignment(Struct):
    """The partitions assigned to the member."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupHeartbeatResponse(Response, request=ShareGroupHeartbeatRequest):
    """assignment: null if unchanged."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    member_id: str | None = string(nullable="0+")
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable="0+")
