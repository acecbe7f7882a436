"""ShareGroupDescribe (key 77): describe the state and members of share groups (KIP-932).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, Struct, array, boolean, int16, int32, string, struct, uuid

OPERATIONS_NOT_ASKED = -(1 << 31)


class ShareGroupDescribeRequest(Request["ShareGroupDescribeResponse"], key=77, versions="1", unstable="0", flexible="0+"):
    """The groups to describe."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: UUID = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class Assignment(Struct):
    """The partitions a member has."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class Member(Struct):
    """A member."""

    member_id: str = string()
    rack_id: str | None = string(nullable="0+")
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    assignment: Assignment = struct(Assignment)


class DescribedGroup(Struct):
    """One group."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=OPERATIONS_NOT_ASKED)


class ShareGroupDescribeResponse(Response, request=ShareGroupDescribeRequest):
    """One description for each group."""

    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
