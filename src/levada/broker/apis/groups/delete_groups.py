"""DeleteGroups: delete groups without members, with their offsets."""

from __future__ import annotations

from levada.acls import ResourceType
from levada.broker.access.permissions import check
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(call: Call) -> DeleteGroupsResponse:
    """Delete each group separately."""
    return DeleteGroupsResponse(results=[_delete(call, group_id) for group_id in dict.fromkeys(call.request.groups_names)])


def refuse(request: DeleteGroupsRequest, version: int, code: ErrorCode) -> DeleteGroupsResponse:
    """Answer with an error for every group."""
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=group_id, error_code=code) for group_id in request.groups_names])


def _delete(call: Call, group_id: str) -> DeletableGroupResult:
    try:
        check(call, ResourceType.GROUP, group_id)
        call.state.groups.check(group_id)
        call.state.groups.delete(group_id)
    except BrokerError as error:
        return DeletableGroupResult(group_id=group_id, error_code=error.code)
    return DeletableGroupResult(group_id=group_id)


API = Api(DeleteGroupsRequest, 0, 3, handle, refuse, 0)
