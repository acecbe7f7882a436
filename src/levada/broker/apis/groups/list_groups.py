"""ListGroups: the groups that this node coordinates, and that the client may describe."""

from __future__ import annotations

from collections.abc import Collection

from levada.acls import ResourceType
from levada.broker.access.permissions import may
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(call: Call) -> ListGroupsResponse:
    """List the groups that have one of the requested states and one of the requested types; without states or types in the request, all
    pass. Upper and lower case are not distinguished, and an unknown state or type matches no group.
    """
    request: ListGroupsRequest = call.request
    try:
        call.state.groups.check_all_loaded()
    except BrokerError as error:
        return refuse(request, call.version, error.code)
    return ListGroupsResponse(
        groups=[
            ListedGroup(group_id=group.id, protocol_type=group.protocol_type or "", group_state=group.state, group_type=group.TYPE)
            for group in call.state.groups
            if may(call, ResourceType.GROUP, group.id)
            and _passes(group.state, request.states_filter)
            and _passes(group.TYPE, request.types_filter)
        ]
    )


def refuse(request: ListGroupsRequest, version: int, code: ErrorCode) -> ListGroupsResponse:
    """Answer with an error and no groups."""
    return ListGroupsResponse(error_code=code)


def _passes(name: str, wanted: Collection[str]) -> bool:
    return not wanted or name.lower() in [one.lower() for one in wanted]


API = Api(ListGroupsRequest, 0, 5, handle, refuse, 0)
