"""ACLs: what AdminClient takes and returns, and their form in levada."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import total_ordering
from typing import Any, Final, TypeVar

import levada
from levada.compat.confluent_kafka.admin.types import ResourceType

E = TypeVar("E", bound=Enum)


class _Ordered(Enum):
    def __lt__(self, other: Any) -> bool:
        return bool(self.value < other.value)


class ResourcePatternType(_Ordered):
    """How the name of a resource is matched."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Ordered):
    """What a user may or may not do."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class AclPermissionType(_Ordered):
    """Whether a rule allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


@total_ordering
class AclBinding:
    """A rule. Enumerations may be given by name or number."""

    _FORBIDDEN: tuple[str, ...] = ("ANY", "MATCH")
    """Names of members of the enumerations that the class does not accept."""
    _NEEDS_TEXT = True

    def __init__(
        self,
        restype: ResourceType | str | int,
        name: Any,
        resource_pattern_type: ResourcePatternType | str | int,
        principal: Any,
        host: Any,
        operation: AclOperation | str | int,
        permission_type: AclPermissionType | str | int,
    ) -> None:
        self.restype = self._member(ResourceType, restype)
        self.name = self._text("name", name)
        self.resource_pattern_type = self._member(ResourcePatternType, resource_pattern_type)
        self.principal = self._text("principal", principal)
        self.host = self._text("host", host)
        self.operation = self._member(AclOperation, operation)
        self.permission_type = self._member(AclPermissionType, permission_type)

    def _member(self, kind: type[E], given: Any) -> E:
        member = kind[given.upper()] if isinstance(given, str) else kind(given)
        if member.name in self._FORBIDDEN:
            raise ValueError(f"Cannot use enum {kind.__name__}, value {member.name} in this class")
        return member

    def _text(self, what: str, given: Any) -> Any:
        if not isinstance(given, str) and (self._NEEDS_TEXT or given is not None):
            raise TypeError(f"Expected {what} to be a string")
        return given

    def _to_tuple(self) -> tuple[Any, ...]:
        return tuple(vars(self).values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({','.join(map(str, self._to_tuple()))})"

    def __hash__(self) -> int:
        return hash(self._to_tuple())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AclBinding) and self._to_tuple() == other._to_tuple()

    def __lt__(self, other: AclBinding) -> bool:
        return self._to_tuple() < other._to_tuple()


class AclBindingFilter(AclBinding):
    """Matches rules. None for name, principal or host matches all of them."""

    _FORBIDDEN = ("UNKNOWN",)
    _NEEDS_TEXT = False


_CLUSTER: Final = "Cluster"
"""librdkafka has no such type: rules of the cluster are those of a BROKER with the name kafka-cluster."""


def to_rule(rule: AclBinding) -> levada.AclBinding:
    """Return a rule in levada's form."""
    return levada.AclBinding(
        levada.ResourcePattern(_word(levada.ResourceType, rule.restype), rule.name, _word(levada.PatternType, rule.resource_pattern_type)),
        levada.AccessControlEntry(
            rule.principal,
            _word(levada.AclOperation, rule.operation),
            _word(levada.AclPermissionType, rule.permission_type),
            rule.host,
        ),
    )


def to_filter(rule: AclBinding) -> levada.AclBindingFilter:
    """Return a filter in levada's form."""
    return levada.AclBindingFilter(
        levada.ResourcePatternFilter(
            _word(levada.ResourceType, rule.restype), rule.name, _word(levada.PatternType, rule.resource_pattern_type)
        ),
        levada.AccessControlEntryFilter(
            rule.principal,
            _word(levada.AclOperation, rule.operation),
            _word(levada.AclPermissionType, rule.permission_type),
            rule.host,
        ),
    )


def from_rules(rules: Iterable[levada.AclBinding]) -> list[AclBinding]:
    """Return rules in confluent-kafka's form."""
    return [
        AclBinding(
            ResourceType.BROKER if pattern.resource_type == _CLUSTER else _named(ResourceType, pattern.resource_type),
            pattern.name,
            _named(ResourcePatternType, pattern.pattern_type),
            entry.principal,
            entry.host,
            _named(AclOperation, entry.operation),
            _named(AclPermissionType, entry.permission_type),
        )
        for pattern, entry in rules
    ]


def _word(kind: Any, member: Enum) -> Any:
    """Return levada's member for one of confluent-kafka's."""
    return kind(_CLUSTER) if member is ResourceType.BROKER else kind[member.name]


def _named(kind: type[E], word: Enum) -> E:
    return kind.__members__.get(word.name) or kind["UNKNOWN"]
