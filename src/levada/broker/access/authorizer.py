"""The ACLs of a cluster, and what they allow, decided as Kafka's StandardAuthorizer does.

Super users may do everything. For all others, the rules about the resource, the user, the host and the operation decide: a rule that
denies wins over all that allow, and without a matching rule the answer is no. Where no rule at all is about the resource,
allow.everyone.if.no.acl.found decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from levada.acls import (
    EVERYBODY,
    WILDCARD,
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)

_Op = AclOperation

IMPLIED_BY: Final[Mapping[AclOperation, frozenset[AclOperation]]] = {
    _Op.DESCRIBE: frozenset({_Op.READ, _Op.WRITE, _Op.DELETE, _Op.ALTER}),
    _Op.DESCRIBE_CONFIGS: frozenset({_Op.ALTER_CONFIGS}),
}
"""Operations, each with those that imply it: a rule that allows one of these allows it, too. Rules that deny are not extended."""


class Requester(NamedTuple):
    """The client that sends a request. principal: its type and name, such as "User:alice". host: its IP address."""

    principal: str
    host: str


_ByPrincipal: TypeAlias = dict[str, list[AccessControlEntry]]


class _ByResource:
    """An index of all ACLs by resource pattern and principal. It is needed for speed: a cluster may have 100,000 ACLs, and a request may
    name many topics.
    """

    def __init__(self, bindings: Iterable[AclBinding]) -> None:
        self._rules: dict[ResourcePattern, _ByPrincipal] = {}
        self._prefix_lengths: dict[ResourceType, set[int]] = {}
        self.add(bindings)

    def add(self, bindings: Iterable[AclBinding]) -> None:
        for pattern, entry in bindings:
            self._rules.setdefault(pattern, {}).setdefault(entry.principal, []).append(entry)
            if pattern.pattern_type is PatternType.PREFIXED:
                self._prefix_lengths.setdefault(pattern.resource_type, set()).add(len(pattern.name))

    def about(self, resource_type: ResourceType, name: str) -> list[_ByPrincipal]:
        """Return the ACLs whose pattern matches a resource: its own name, the wildcard, or a prefix of the name."""
        literal = [ResourcePattern(resource_type, one) for one in {name, WILDCARD}]
        lengths = (length for length in self._prefix_lengths.get(resource_type, ()) if length <= len(name))
        prefixed = (ResourcePattern(resource_type, name[:length], PatternType.PREFIXED) for length in lengths)
        return [rules for pattern in (*literal, *prefixed) if (rules := self._rules.get(pattern))]


class Authorizer:
    """The ACLs of one cluster, and the decision whether they allow a request.

    super_users: principals that may do everything, such as "User:admin". allows_if_none: whether a resource without any ACL is open to
    everybody (allow.everyone.if.no.acl.found). keep: a function that stores all ACLs; it is called before a change takes effect.
    """

    def __init__(
        self,
        bindings: Iterable[AclBinding] = (),
        *,
        super_users: Collection[str] = (),
        allows_if_none: bool = False,
        keep: Callable[[Collection[AclBinding]], None] = lambda bindings: None,
    ) -> None:
        self._bindings = dict.fromkeys(bindings)
        self._by_resource = _ByResource(self._bindings)
        self._super_users = frozenset(super_users)
        self._allows_if_none = allows_if_none
        self._keep = keep

    def add(self, bindings: Iterable[AclBinding]) -> None:
        """Add ACLs. An ACL that exists already is not added again."""
        new = {binding: None for binding in bindings if binding not in self._bindings}
        self._change({**self._bindings, **new})
        self._by_resource.add(new)

    def remove(self, bindings: Iterable[AclBinding]) -> None:
        """Remove ACLs. Those that do not exist are ignored."""
        gone = frozenset(bindings)
        self._change({known: None for known in self._bindings if known not in gone})
        self._by_resource = _ByResource(self._bindings)

    def _change(self, bindings: dict[AclBinding, None]) -> None:
        # Store first: if the disk fails, the rule must not be in force until the restart.
        self._keep(bindings)
        self._bindings = bindings

    def matching(self, wanted: AclBindingFilter) -> list[AclBinding]:
        """Return the ACLs that match a filter."""
        return [binding for binding in self._bindings if wanted.matches(binding)]

    def allows(self, who: Requester, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Return whether a requester may carry out an operation on a resource."""
        if who.principal in self._super_users:
            return True
        about = self._by_resource.about(resource_type, name)
        if not about:
            return self._allows_if_none
        ours = (entry for by_principal in about for principal in (who.principal, EVERYBODY) for entry in by_principal.get(principal, ()))
        permissions = {entry.permission_type for entry in ours if _is_for(entry, who) and _decides(entry, operation)}
        return permissions == {AclPermissionType.ALLOW}

    def allows_with_any(self, who: Requester, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether a requester may carry out an operation on at least one resource of a type, even if no such resource exists
        (KIP-679).

        An ACL that allows the operation is sufficient, unless another ACL denies the operation for all resources that the first ACL is
        about.
        """
        # A name that no rule is about: true for super users, and with allow.everyone.if.no.acl.found.
        if self.allows(who, operation, resource_type, _NO_NAME):
            return True
        rules = list(self._rules(who, operation, resource_type))
        denied = [binding.pattern for binding in rules if binding.entry.permission_type is AclPermissionType.DENY]
        denied_names = {pattern.name for pattern in denied if pattern.pattern_type is PatternType.LITERAL}
        denied_prefixes = tuple(pattern.name for pattern in denied if pattern.pattern_type is PatternType.PREFIXED)
        if WILDCARD in denied_names:
            return False
        for pattern, entry in rules:
            if entry.permission_type is not AclPermissionType.ALLOW:
                continue
            is_literal = pattern.pattern_type is PatternType.LITERAL
            if is_literal and pattern.name == WILDCARD:
                return True
            if not (is_literal and pattern.name in denied_names) and not pattern.name.startswith(denied_prefixes):
                return True
        return False

    def _rules(self, who: Requester, operation: AclOperation, resource_type: ResourceType) -> Iterator[AclBinding]:
        for binding in self._bindings:
            is_of_type = binding.pattern.resource_type is resource_type
            if is_of_type and _is_for(binding.entry, who) and binding.entry.operation in (_Op.ALL, operation):
                yield binding


_NO_NAME: Final = "hardcode"
"""The name that Kafka uses here, too. Any name would do that no rule is about."""


def _is_for(entry: AccessControlEntry, who: Requester) -> bool:
    return entry.principal in (who.principal, EVERYBODY) and entry.host in (who.host, WILDCARD)


def _decides(entry: AccessControlEntry, operation: AclOperation) -> bool:
    if entry.operation in (_Op.ALL, operation):
        return True
    return entry.permission_type is AclPermissionType.ALLOW and entry.operation in IMPLIED_BY.get(operation, ())
