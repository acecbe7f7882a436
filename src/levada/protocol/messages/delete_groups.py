"""DeleteGroups (key 42): delete groups that have no members, with their offsets.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, string


class DeleteGroupsRequest(Request["DeleteGroupsResponse"], key=42, versions="0-3", flexible="2+"):
    """The groups to delete."""

    groups_names: list[str] = array(string)


class DeletableGroupResult(Struct):
    """The result for one group."""

    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string("3+", nullable="3+", ignorable=True)


class DeleteGroupsResponse(Response, request=DeleteGroupsRequest):
    """One result for each group."""

    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
