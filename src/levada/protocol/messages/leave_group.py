"""LeaveGroup (key 13): leave a classic group. Several members at once since version 3.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, string


class MemberIdentity(Struct):
    """A member that leaves."""

    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    reason: str | None = string("5+", nullable="5+", ignorable=True)


class LeaveGroupRequest(Request["LeaveGroupResponse"], key=13, versions="0-5", flexible="4+"):
    """member_id before version 3, members since."""

    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


class MemberResponse(Struct):
    """The result for one member."""

    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code: int = int16("3+")


class LeaveGroupResponse(Response, request=LeaveGroupRequest):
    """One result per member since version 3."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")
