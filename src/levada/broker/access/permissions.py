"""Whether the client of a request has the permissions that the request needs (the table is in levada.base.permissions).

A request about one group, one transactional id or the cluster is refused as a whole, before its handler is called. If a request names
several resources, its handler asks about each with check(), may() or find_topic(), and answers for each separately. Without an authorizer
everything is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from levada.acls import CLUSTER_NAME, OPERATIONS, AclOperation, ResourceType
from levada.base.permissions import CODES, NEEDS
from levada.broker.access.authorizer import Requester
from levada.broker.cluster.topic import Topic
from levada.broker.network.connection import ANONYMOUS, PLAINTEXT, Session
from levada.broker.node.state import Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, broker_error

NOT_ASKED: Final = -(1 << 31)

_NAMED_BY: Final = {ResourceType.GROUP: "group_id", ResourceType.TRANSACTIONAL_ID: "transactional_id"}
"""The request's field with the name of the resource, by resource type."""


def refusal(call: Call) -> ErrorCode:
    """Return the error code with which the whole request is refused, NONE if the request is permitted."""
    if call.state.cluster.authorizer is None:
        return ErrorCode.NONE
    for resource_type, need in NEEDS[call.api.request.NAME].items():
        if need.is_whole:
            name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else getattr(call.request, _NAMED_BY[resource_type]) or ""
            if not may(call, resource_type, name):
                return CODES[resource_type]
    return ErrorCode.NONE


def allows(call: Call, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
    """Return whether the client may carry out an operation on a resource. name: by default the cluster itself."""
    authorizer = call.state.cluster.authorizer
    return authorizer is None or authorizer.allows(_requester(call), operation, resource_type, name)


def allows_with_any(call: Call, operation: AclOperation, resource_type: ResourceType) -> bool:
    """Return whether the client may carry out an operation on at least one resource of a type, even if no such resource exists
    (KIP-679).
    """
    authorizer = call.state.cluster.authorizer
    return authorizer is None or authorizer.allows_with_any(_requester(call), operation, resource_type)


def may(call: Call, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
    """Return whether the client has, on a resource, the permission that this kind of request needs."""
    if call.state.cluster.authorizer is None:
        return True
    need = NEEDS[call.api.request.NAME][resource_type]
    if need.or_on_cluster is not None and allows(call, need.or_on_cluster, ResourceType.CLUSTER):
        return True
    return any(allows(call, operation, resource_type, name) for operation in need.operations)


def check(call: Call, resource_type: ResourceType, name: str = CLUSTER_NAME) -> None:
    """Raise AuthorizationError unless the client has, on a resource, the permission that this kind of request needs."""
    if not may(call, resource_type, name):
        raise denied(resource_type)


def check_each(call: Call, resource_type: ResourceType, names: Iterable[str]) -> None:
    """Raise AuthorizationError unless check() succeeds for each of these resources."""
    for name in names:
        check(call, resource_type, name)


def denied(resource_type: ResourceType) -> BrokerError:
    """Return the AuthorizationError for a client that lacks permissions on a resource of this type, with Kafka's message."""
    code = CODES[resource_type]
    return broker_error(code, _WORDS.get(code, ""))


_WORDS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
}


def find_topic(call: Call, name: str, topic_id: UUID, *, by_id: bool) -> Topic:
    """Return the topic that a request names, if the client may use it. by_id: find the topic by `topic_id` instead of by `name`.

    Raises TopicAuthorizationError, or the errors of BrokerState.find_topic(). A client without permission gets the same error whether or
    not the name exists. Topic ids cannot be guessed and need no such protection.
    """
    if not by_id:
        check(call, ResourceType.TOPIC, name)
    topic = call.state.find_topic(name, topic_id, by_id=by_id)
    if by_id:
        check(call, ResourceType.TOPIC, topic.name)
    return topic


def authorized_operations(call: Call, resource_type: ResourceType, name: str, *, is_asked: bool) -> int:
    """Return the operations that the client may carry out on a resource, as a bit field. is_asked: whether the request asks for the
    operations; if not, NOT_ASKED is returned.
    """
    if not is_asked:
        return NOT_ASKED
    return _bits(operation for operation in OPERATIONS[resource_type] if allows(call, operation, resource_type, name))


def operations_on_cluster(call: Call, *, is_asked: bool) -> int:
    """Return the operations that the client may carry out on the cluster, like authorized_operations(). The result is 0 for a client that
    may not describe the cluster.
    """
    if is_asked and not may(call, ResourceType.CLUSTER):
        return 0
    return authorized_operations(call, ResourceType.CLUSTER, CLUSTER_NAME, is_asked=is_asked)


def _bits(operations: Iterable[AclOperation]) -> int:
    return sum(1 << operation.number for operation in operations)


def check_may_use_tokens(session: Session) -> None:
    """Raise BrokerError (DELEGATION_TOKEN_REQUEST_NOT_ALLOWED) if the client is not authenticated, or has logged in with a delegation token
    (KIP-48).
    """
    if session.listener.protocol == PLAINTEXT or session.principal == ANONYMOUS or session.is_by_token:
        raise BrokerError(
            "delegation tokens are for clients that have logged in, and not with a token",
            code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        )


def _requester(call: Call) -> Requester:
    return Requester(call.session.principal, call.session.host)
