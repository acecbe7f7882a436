"""Access control lists: who may do what (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable

from levada.acls import AclBinding, AclBindingFilter
from levada.admin import acls
from levada.api.admin import acl_arguments
from levada.api.admin.administering import Administering
from levada.api.client import Operation

EVERYTHING = AclBindingFilter()


def describe_acls(
    admin: Administering, acl_filter: AclBindingFilter = EVERYTHING, *, timeout: float | None = None
) -> Operation[list[AclBinding]]:
    """Return the rules that a filter means; by default all.

    This user needs DESCRIBE on the cluster. Raises BrokerError (SECURITY_DISABLED) where brokers have no authorizer, and
    UnsupportedVersionError for patterns that are not literal on brokers before 2.0.
    """
    return admin.operation(acls.describe_acls(acl_arguments.acl_filter(acl_filter), admin.attempts()), "describe ACLs", timeout)


def create_acls(admin: Administering, bindings: Iterable[AclBinding], *, timeout: float | None = None) -> Operation[dict[AclBinding, None]]:
    """Create rules; one that is there already stays as it is. This user needs ALTER on the cluster. Raises as describe_acls() does.

    Each broker knows of a new rule a moment later than this returns.
    """
    return admin.operation(acls.create_acls(acl_arguments.bindings(bindings), admin.attempts()), "create ACLs", timeout)


def delete_acls(
    admin: Administering, filters: Iterable[AclBindingFilter], *, timeout: float | None = None
) -> Operation[dict[AclBindingFilter, list[AclBinding]]]:
    """Delete the rules that filters mean; return which these were, by filter. This user needs ALTER on the cluster.

    Raises as describe_acls() does. Where an answer was lost and the call has asked again, rules that were deleted meanwhile are not listed.
    """
    return admin.operation(acls.delete_acls(acl_arguments.filters(filters), admin.attempts()), "delete ACLs", timeout)
