"""JoinGroup (key 11): join a classic group, and wait until all members have joined.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, boolean, bytestring, int16, int32, string


class JoinGroupRequestProtocol(Struct):
    """An assignor that the member offers; metadata is a ConsumerProtocolSubscription for consumers."""

    name: str = string()
    metadata: bytes = bytestring()


class JoinGroupRequest(Request["JoinGroupResponse"], key=11, versions="0-9", flexible="6+"):
    """The first join has an empty member id. Protocols are in order of preference. group_instance_id makes the member static."""

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+")
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+", ignorable=True)


class JoinGroupResponseMember(Struct):
    """A member and the metadata that it joined with."""

    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", ignorable=True)
    metadata: bytes = bytestring()


class JoinGroupResponse(Response, request=JoinGroupRequest):
    """Only the leader receives members. It computes the assignment unless skip_assignment is true."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
