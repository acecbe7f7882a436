"""Access control lists: which user may, or may not, do which operation with which resource (KIP-290).

A rule is a binding of an entry (who, from which host, which operation, allowed or denied) to a pattern (which resources).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, Self

WILDCARD: Final = "*"
"""As the name in a literal pattern: every resource of the type. As a host: every host. In "User:*": every user."""
EVERYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class _Numbered(StrEnum):
    """Base of enumerations of Kafka. The number of a member in the protocol is its position in the class."""

    @property
    def number(self) -> int:
        """The number of the member in the protocol."""
        return tuple(type(self)).index(self)

    @classmethod
    def of(cls, number: int) -> Self:
        """Return the member with a number of the protocol; UNKNOWN for a number of a newer Kafka."""
        known = tuple(cls)
        return known[number] if 0 <= number < len(known) else known[0]


class ResourceType(_Numbered):
    """The type of a protected resource. ANY is for filters."""

    UNKNOWN = "Unknown"
    ANY = "Any"
    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"
    TRANSACTIONAL_ID = "TransactionalId"
    DELEGATION_TOKEN = "DelegationToken"
    USER = "User"


class PatternType(_Numbered):
    """How a pattern's name selects resources. ANY and MATCH are for filters: any pattern with that name, and any pattern that covers it."""

    UNKNOWN = "Unknown"
    ANY = "Any"
    MATCH = "Match"
    LITERAL = "Literal"
    PREFIXED = "Prefixed"


class AclOperation(_Numbered):
    """An operation on a resource. ALL: every operation. ANY is for filters. UNKNOWN: an operation of a newer Kafka."""

    UNKNOWN = "Unknown"
    ANY = "Any"
    ALL = "All"
    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    CLUSTER_ACTION = "ClusterAction"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"
    CREATE_TOKENS = "CreateTokens"
    DESCRIBE_TOKENS = "DescribeTokens"
    TWO_PHASE_COMMIT = "TwoPhaseCommit"


class AclPermissionType(_Numbered):
    """Whether a rule allows or denies. ANY is for filters."""

    UNKNOWN = "Unknown"
    ANY = "Any"
    DENY = "Deny"
    ALLOW = "Allow"


class ResourcePattern(NamedTuple):
    """The resources of a rule.

    LITERAL: the resource of this name, or all of the type for "*". PREFIXED: all whose names begin with `name`.
    """

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL


class AccessControlEntry(NamedTuple):
    """Who may or may not do an operation. principal: for example "User:alice" or "User:*". host: the client's address, "*" for any."""

    principal: str
    operation: AclOperation
    permission_type: AclPermissionType = AclPermissionType.ALLOW
    host: str = WILDCARD


class AclBinding(NamedTuple):
    """One rule: an entry for the resources of a pattern."""

    pattern: ResourcePattern
    entry: AccessControlEntry

    def __str__(self) -> str:
        name = f"{self.pattern.name}*" if self.pattern.pattern_type is PatternType.PREFIXED else self.pattern.name
        who = f"{self.entry.principal} from {self.entry.host}"
        return f"{self.entry.permission_type.name} {who} {self.entry.operation.name} on {self.pattern.resource_type.name} {name}"


class ResourcePatternFilter(NamedTuple):
    """Selects patterns; by default all. name: None for any.

    With pattern_type MATCH it selects all patterns that apply to a resource of this name: literal ones of the name and of "*", and
    prefixes.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY

    def matches(self, pattern: ResourcePattern) -> bool:
        """Whether the filter selects a rule's pattern."""
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.name == pattern.name
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name in (self.name, WILDCARD)


class AccessControlEntryFilter(NamedTuple):
    """Selects entries; by default all. None and ANY select every value of their field."""

    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY
    host: str | None = None

    def matches(self, entry: AccessControlEntry) -> bool:
        """Whether the filter selects a rule's entry."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission_type in (AclPermissionType.ANY, entry.permission_type)
        )


class AclBindingFilter(NamedTuple):
    """Selects rules by pattern and entry; by default all."""

    pattern_filter: ResourcePatternFilter = ResourcePatternFilter()
    entry_filter: AccessControlEntryFilter = AccessControlEntryFilter()

    def matches(self, binding: AclBinding) -> bool:
        """Whether the filter selects a rule."""
        return self.pattern_filter.matches(binding.pattern) and self.entry_filter.matches(binding.entry)


_Op = AclOperation

OPERATIONS: Final[Mapping[ResourceType, tuple[AclOperation, ...]]] = {
    ResourceType.TOPIC: (_Op.READ, _Op.WRITE, _Op.CREATE, _Op.DELETE, _Op.ALTER, _Op.DESCRIBE, _Op.DESCRIBE_CONFIGS, _Op.ALTER_CONFIGS),
    ResourceType.GROUP: (_Op.READ, _Op.DELETE, _Op.DESCRIBE, _Op.DESCRIBE_CONFIGS, _Op.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        _Op.CREATE,
        _Op.ALTER,
        _Op.DESCRIBE,
        _Op.CLUSTER_ACTION,
        _Op.DESCRIBE_CONFIGS,
        _Op.ALTER_CONFIGS,
        _Op.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (_Op.WRITE, _Op.DESCRIBE, _Op.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (_Op.DESCRIBE,),
    ResourceType.USER: (_Op.CREATE_TOKENS, _Op.DESCRIBE_TOKENS),
}
"""The operations that exist for each type of resource."""
