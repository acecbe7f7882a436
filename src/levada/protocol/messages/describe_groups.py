"""DescribeGroups (key 15): describe the state and members of classic groups.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, boolean, bytestring, int16, int32, string

OPERATIONS_NOT_ASKED = -(1 << 31)


class DescribeGroupsRequest(Request["DescribeGroupsResponse"], key=15, versions="0-6", flexible="5+"):
    """The groups to describe."""

    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean("3+")


class DescribedGroupMember(Struct):
    """A member. The group's protocol defines the format of metadata and assignment."""

    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = bytestring()
    member_assignment: bytes = bytestring()


class DescribedGroup(Struct):
    """One group. group_state is a name such as Stable or Empty."""

    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+")
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=OPERATIONS_NOT_ASKED)


class DescribeGroupsResponse(Response, request=DescribeGroupsRequest):
    """One description for each group."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup)
