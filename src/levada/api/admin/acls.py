"""Access control lists: who may do what (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable

from levada.acls import AclBinding, AclBindingFilter
from levada.admin import acls
from levada.api.admin import acl_arguments
from levada.api.admin.core import AdminCore
from levada.api.client import Operation

EVERYTHING = AclBindingFilter()


def describe_acls(
    admin: AdminCore, acl_filter: AclBindingFilter = EVERYTHING, *, timeout: float | None = None
) -> Operation[list[AclBinding]]:
    """Return the rules that match a filter; by default all.

    This user needs DESCRIBE on the cluster. Raises BrokerError (SECURITY_DISABLED) if brokers have no authorizer, and
    UnsupportedVersionError for patterns other than literal ones on brokers before 2.0.
    """
    return admin.operation(acls.describe_acls(acl_arguments.acl_filter(acl_filter), admin.attempts()), "describe ACLs", timeout)


def create_acls(admin: AdminCore, bindings: Iterable[AclBinding], *, timeout: float | None = None) -> Operation[dict[AclBinding, None]]:
    """Create rules; a rule that exists already stays as it is. This user needs ALTER on the cluster. Raises as describe_acls() does.

    The other brokers learn of a new rule a moment after this returns.
    """
    return admin.operation(acls.create_acls(acl_arguments.bindings(bindings), admin.attempts()), "create ACLs", timeout)


def delete_acls(
    admin: AdminCore, filters: Iterable[AclBindingFilter], *, timeout: float | None = None
) -> Operation[dict[AclBindingFilter, list[AclBinding]]]:
    """Delete the rules that match filters; return the deleted rules, by filter. This user needs ALTER on the cluster.

    Raises as describe_acls() does. If a response was lost and the call has retried, rules that the first attempt has deleted are not
    listed.
    """
    return admin.operation(acls.delete_acls(acl_arguments.filters(filters), admin.attempts()), "delete ACLs", timeout)
