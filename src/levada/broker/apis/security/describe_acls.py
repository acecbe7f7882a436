"""DescribeAcls: the ACLs that match a filter (KIP-140)."""

from __future__ import annotations

from levada.broker.access.acl_wire import authorizer_of, filter_of
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResource, DescribeAclsResponse


def handle(call: Call) -> DescribeAclsResponse:
    """Return the ACLs that match the request's filter, grouped by resource."""
    try:
        found = authorizer_of(call).matching(filter_of(call.request))
    except BrokerError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.reason)
    resources: dict[object, DescribeAclsResource] = {}
    for pattern, entry in found:
        resource = resources.setdefault(
            pattern,
            DescribeAclsResource(
                resource_type=pattern.resource_type.number, resource_name=pattern.name, pattern_type=pattern.pattern_type.number, acls=[]
            ),
        )
        resource.acls.append(
            AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation.number,
                permission_type=entry.permission_type.number,
            )
        )
    return DescribeAclsResponse(resources=list(resources.values()))


def refuse(request: DescribeAclsRequest, version: int, code: ErrorCode) -> DescribeAclsResponse:
    """Answer with an error."""
    return DescribeAclsResponse(error_code=code)


API = Api(DescribeAclsRequest, 1, 3, handle, refuse, 1)
