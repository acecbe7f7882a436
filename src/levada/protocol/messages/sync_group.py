"""SyncGroup (key 14): the leader of a classic group sends the assignment, and every member receives its own part.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, bytestring, int16, int32, string


class SyncGroupRequestAssignment(Struct):
    """The assignment of one member; a ConsumerProtocolAssignment for consumers."""

    member_id: str = string()
    assignment: bytes = bytestring()


class SyncGroupRequest(Request["SyncGroupResponse"], key=14, versions="0-5", flexible="4+"):
    """Only the leader sends assignments."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+")
    protocol_type: str | None = string("5+", nullable="5+", ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(Response, request=SyncGroupRequest):
    """The member's own assignment."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", ignorable=True)
    assignment: bytes = bytestring()
