"""DeleteAcls: delete the ACLs that match filters (KIP-140)."""

from __future__ import annotations

from levada.acls import AclBinding, AclBindingFilter
from levada.broker.access.acl_wire import authorizer_of, filter_of
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsRequest, DeleteAclsResponse


def handle(call: Call) -> DeleteAclsResponse:
    """Delete the ACLs that match any filter, and return the matches of each filter."""
    request: DeleteAclsRequest = call.request
    results: list[DeleteAclsFilterResult] = []
    # Each filter only once: a small request may repeat one a thousand times.
    known: dict[AclBindingFilter, DeleteAclsFilterResult] = {}
    gone: set[AclBinding] = set()
    for asked in request.filters:
        try:
            authorizer, wanted = authorizer_of(call), filter_of(asked)
            if wanted not in known:
                found = authorizer.matching(wanted)
                gone.update(found)
                known[wanted] = DeleteAclsFilterResult(matching_acls=[_removed(binding) for binding in found])
            results.append(known[wanted])
        except BrokerError as error:
            results.append(DeleteAclsFilterResult(error_code=error.code, error_message=error.reason))
    if gone:
        authorizer_of(call).remove(gone)
    return DeleteAclsResponse(filter_results=results)


def refuse(request: DeleteAclsRequest, version: int, code: ErrorCode) -> DeleteAclsResponse:
    """Answer with an error for every filter."""
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(error_code=code) for _ in request.filters])


def _removed(binding: AclBinding) -> DeleteAclsMatchingAcl:
    pattern, entry = binding
    return DeleteAclsMatchingAcl(
        resource_type=pattern.resource_type.number,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type.number,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation.number,
        permission_type=entry.permission_type.number,
    )


API = Api(DeleteAclsRequest, 1, 3, handle, refuse, 1)
