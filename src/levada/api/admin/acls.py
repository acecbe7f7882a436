"""Access control lists: who may do what (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

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
from levada.admin import acls
from levada.api.admin.core import AdminCore
from levada.api.client import Operation
from levada.base.text import did_you_mean

E = TypeVar("E", ResourceType, PatternType, AclOperation, AclPermissionType)

_FOR_FILTERS: Final = ("Unknown", "Any", "Match")
EVERYTHING = AclBindingFilter()


def describe_acls(
    admin: AdminCore, acl_filter: AclBindingFilter = EVERYTHING, *, timeout: float | None = None
) -> Operation[list[AclBinding]]:
    """Return the rules that match a filter; by default all. This user needs DESCRIBE on the cluster.

    Raises BrokerError (SECURITY_DISABLED) if brokers have no authorizer, ClusterAuthorizationError without the permission, and
    UnsupportedVersionError for PREFIXED and MATCH patterns on brokers before 2.0.
    """
    return admin.operation(acls.describe_acls(_filter(acl_filter), admin.attempts()), "describe ACLs", timeout)


def create_acls(admin: AdminCore, bindings: Iterable[AclBinding], *, timeout: float | None = None) -> Operation[dict[AclBinding, None]]:
    """Create rules; a rule that exists already stays as it is. Return a dict that maps each rule to None.

    This user needs ALTER on the cluster. Raises as describe_acls() does. The other brokers learn of a new rule a moment after this returns.
    """
    return admin.operation(acls.create_acls(_bindings(bindings), admin.attempts()), "create ACLs", timeout)


def delete_acls(
    admin: AdminCore, filters: Iterable[AclBindingFilter], *, timeout: float | None = None
) -> Operation[dict[AclBindingFilter, list[AclBinding]]]:
    """Delete the rules that match filters; return the deleted rules, by filter. This user needs ALTER on the cluster.

    Raises as describe_acls() does. If a response was lost and the call has retried, rules that the first attempt has deleted are not
    listed.
    """
    return admin.operation(acls.delete_acls(_filters(filters), admin.attempts()), "delete ACLs", timeout)


# Arguments


def _bindings(given: Any) -> list[AclBinding]:
    """Return the rules to create, each once. Raises TypeError for other objects, ValueError for rules that Kafka cannot have."""
    return [_binding(one) for one in dict.fromkeys(_several(given, AclBinding, "rules"))]


def _filters(given: Any) -> list[AclBindingFilter]:
    """Return filters, each once."""
    return [_filter(one) for one in dict.fromkeys(_several(given, AclBindingFilter, "filters"))]


def _filter(given: Any) -> AclBindingFilter:
    """Check a filter. The program may give the names of enumeration members; the returned filter has the members."""
    if not isinstance(given, AclBindingFilter):
        raise TypeError(f"expected an AclBindingFilter, got {given!r}")
    pattern, entry = given
    return AclBindingFilter(
        ResourcePatternFilter(_word(ResourceType, pattern.resource_type), pattern.name, _word(PatternType, pattern.pattern_type)),
        AccessControlEntryFilter(
            entry.principal, _word(AclOperation, entry.operation), _word(AclPermissionType, entry.permission_type), entry.host
        ),
    )


def _binding(given: AclBinding) -> AclBinding:
    pattern, entry = given
    made = AclBinding(
        ResourcePattern(_word(ResourceType, pattern.resource_type), pattern.name, _word(PatternType, pattern.pattern_type)),
        AccessControlEntry(
            entry.principal, _word(AclOperation, entry.operation), _word(AclPermissionType, entry.permission_type), entry.host
        ),
    )
    words = (made.pattern.resource_type, made.pattern.pattern_type, made.entry.operation, made.entry.permission_type)
    for word in words:
        if word in _FOR_FILTERS:
            raise ValueError(f"{type(word).__name__}.{word.name} is for filters; a rule needs a definite one: {given!r}")
    if made.pattern.resource_type is ResourceType.CLUSTER and made.pattern.name != CLUSTER_NAME:
        raise ValueError(f"the name of the only resource of type CLUSTER is '{CLUSTER_NAME}', not {made.pattern.name!r}")
    if ":" not in made.entry.principal:
        raise ValueError(f"a principal has a type and a name, such as 'User:{made.entry.principal}', not {made.entry.principal!r}")
    return made


def _word(kind: type[E], given: Any) -> E:
    for member in kind:
        if given is member or (isinstance(given, str) and given.replace("_", "").lower() == member.lower()):
            return member
    names = [member.name for member in kind]
    raise ValueError(f"no {kind.__name__} is {given!r}{did_you_mean(str(given).upper(), names)}; there are {', '.join(names)}")


def _several(given: Any, kind: type, what: str) -> list[Any]:
    if isinstance(given, kind) or not isinstance(given, Iterable):
        raise TypeError(f"expected a list of {what}, got {given!r}")
    found = list(given)
    for one in found:
        if not isinstance(one, kind):
            raise TypeError(f"expected an {kind.__name__}, got {one!r}")
    return found
