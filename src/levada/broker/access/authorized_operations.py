"""What a client may do with a topic, a group or the cluster, where it asks: a set, with one bit for each operation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from levada.acls import CLUSTER_NAME, OPERATIONS, AclOperation, ResourceType
from levada.broker.access.permissions import allows, may
from levada.broker.node.state import Call

NOT_ASKED: Final = -(1 << 31)


def authorized_operations(call: Call, resource_type: ResourceType, name: str, *, is_asked: bool) -> int:
    """Return the operations that the request's client may carry out, NOT_ASKED where it has not asked."""
    if not is_asked:
        return NOT_ASKED
    return _bits(operation for operation in OPERATIONS[resource_type] if allows(call, operation, resource_type, name))


def operations_on_cluster(call: Call, *, is_asked: bool) -> int:
    """Return the same of the cluster; nothing is told to those who may not describe it."""
    if is_asked and not may(call, ResourceType.CLUSTER):
        return 0
    return authorized_operations(call, ResourceType.CLUSTER, CLUSTER_NAME, is_asked=is_asked)


def _bits(operations: Iterable[AclOperation]) -> int:
    return sum(1 << operation.number for operation in operations)
