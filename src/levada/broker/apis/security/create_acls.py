"""CreateAcls: create ACLs (KIP-140)."""

from __future__ import annotations

from levada.acls import AclBinding
from levada.broker.access.acl_wire import authorizer_of, binding_of, check_binding, is_definite
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(call: Call) -> CreateAclsResponse:
    """Create each ACL separately. Creating an ACL that exists already is no error."""
    request: CreateAclsRequest = call.request
    try:
        authorizer = authorizer_of(call)
    except BrokerError as error:
        return CreateAclsResponse(results=[AclCreationResult(error_code=error.code, error_message=error.reason) for _ in request.creations])
    bindings = [binding_of(asked) for asked in request.creations]
    if not all(map(is_definite, bindings)):
        # As in Kafka, the request fails before any ACL is checked.
        return refuse(request, call.version, ErrorCode.UNKNOWN_SERVER_ERROR)
    results = [_result(binding) for binding in bindings]
    authorizer.add(binding for binding, result in zip(bindings, results, strict=True) if not result.error_code)
    return CreateAclsResponse(results=results)


def _result(binding: AclBinding) -> AclCreationResult:
    try:
        check_binding(binding)
    except BrokerError as error:
        return AclCreationResult(error_code=error.code, error_message=error.reason)
    return AclCreationResult()


def refuse(request: CreateAclsRequest, version: int, code: ErrorCode) -> CreateAclsResponse:
    """Answer with an error for every ACL."""
    return CreateAclsResponse(results=[AclCreationResult(error_code=code) for _ in request.creations])


API = Api(CreateAclsRequest, 1, 3, handle, refuse, 1)
