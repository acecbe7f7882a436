"""ListGroups (key 16): list the groups that a broker coordinates. A full list needs all brokers.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, string


class ListGroupsRequest(Request["ListGroupsResponse"], key=16, versions="0-5", flexible="3+"):
    """Empty filters match every state (4+) and type (5+)."""

    states_filter: list[str] = array(string, "4+")
    types_filter: list[str] = array(string, "5+")


class ListedGroup(Struct):
    """One group, and its type."""

    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+", ignorable=True)
    group_type: str = string("5+", ignorable=True)


class ListGroupsResponse(Response, request=ListGroupsRequest):
    """The groups of this broker."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
