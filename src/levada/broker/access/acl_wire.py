"""ACL bindings and filters as requests have them, and the checks that refuse invalid ones."""

from __future__ import annotations

from typing import Any, Final

from levada.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from levada.broker.access.authorizer import Authorizer
from levada.broker.node.state import Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.create_acls import AclCreation

_FOR_FILTERS: Final = frozenset({"Unknown", "Any", "Match"})


def authorizer_of(call: Call) -> Authorizer:
    """Return the cluster's authorizer. Raises SECURITY_DISABLED (BrokerError) where there is none."""
    authorizer = call.state.cluster.authorizer
    if authorizer is None:
        raise BrokerError("No Authorizer is configured.", code=ErrorCode.SECURITY_DISABLED)
    return authorizer


def binding_of(asked: AclCreation) -> AclBinding:
    """Return the ACL binding that a CreateAcls request asks for."""
    pattern = ResourcePattern(ResourceType.of(asked.resource_type), asked.resource_name, PatternType.of(asked.resource_pattern_type))
    entry = AccessControlEntry(asked.principal, AclOperation.of(asked.operation), AclPermissionType.of(asked.permission_type), asked.host)
    return AclBinding(pattern, entry)


def is_definite(binding: AclBinding) -> bool:
    """Return whether a binding can be stored as an ACL: none of its types and operations is UNKNOWN, or a value such as ANY that only
    filters have.
    """
    pattern, entry = binding
    return not _FOR_FILTERS.intersection((pattern.resource_type, pattern.pattern_type, entry.operation, entry.permission_type))


def check_binding(binding: AclBinding) -> None:
    """Raise INVALID_REQUEST (BrokerError) for a binding without a resource name, with a wrong name for the cluster, or with a principal
    that is not in the form Type:name. is_definite() checks the rest.
    """
    pattern, principal = binding.pattern, binding.entry.principal
    if not pattern.name:
        raise _invalid("Resource name should not be empty")
    if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if ":" not in principal:
        raise _invalid(f"Could not parse principal from `{principal}` (no colon is present separating the principal type from the name)")


def filter_of(asked: Any) -> AclBindingFilter:
    """Return the ACL filter of a DescribeAcls request, or of one entry of a DeleteAcls request. Raises INVALID_REQUEST (BrokerError) if the
    filter is invalid.
    """
    wanted = AclBindingFilter(
        ResourcePatternFilter(
            ResourceType.of(asked.resource_type_filter), asked.resource_name_filter, PatternType.of(asked.pattern_type_filter)
        ),
        AccessControlEntryFilter(
            asked.principal_filter, AclOperation.of(asked.operation), AclPermissionType.of(asked.permission_type), asked.host_filter
        ),
    )
    words = (
        wanted.pattern_filter.resource_type,
        wanted.pattern_filter.pattern_type,
        wanted.entry_filter.operation,
        wanted.entry_filter.permission_type,
    )
    if any(word.number == 0 for word in words):
        raise _invalid("the filter has a resource type, pattern type, operation or permission type that this broker does not know")
    return wanted


def _invalid(fault: str) -> BrokerError:
    return BrokerError(fault, code=ErrorCode.INVALID_REQUEST)
