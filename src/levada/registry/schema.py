"""The schemas of a registry, and their rules. Classes and attributes have the names that they have in Confluent's Python client.

The rules of a schema (its ruleSet) are run by Confluent's serializers. levada runs none, and refuses schemas for which that matters. A rule
on writing, such as ENCRYPT or a condition in CEL, may change a value or forbid it: without it, text would be written that was to be
encrypted. A rule on reading matters if it changes values, and not if it is only a condition. Migration rules convert between versions of a
schema for readers that ask for the latest version, which levada's do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from levada.errors import SerializationError

AVRO = "AVRO"
JSON = "JSON"
PROTOBUF = "PROTOBUF"

_ON_WRITING = ("WRITE", "WRITEREAD")
_ON_READING = ("READ", "WRITEREAD")
RULE_LISTS = ("domainRules", "encodingRules")
"""The lists of a ruleSet whose rules are for values."""
_IN_CLIENTS = (None, "ALL", "CLIENT")


class SchemaReference(NamedTuple):
    """A reference to another schema. name: its name in the referencing schema. subject, version: where it is registered."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's text, its type ("AVRO", "JSON", "PROTOBUF") and its references to other schemas.

    metadata, rule_set: JSON objects that a registry keeps with the schema. They are sent when the schema is registered. A schema with rules
    that would have to run is neither written nor read.
    """

    schema_str: str
    schema_type: str = AVRO
    references: Sequence[SchemaReference] = ()
    # Mappings cannot be hashed, but are compared.
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    rule_set: Mapping[str, Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        # A tuple makes the schema hashable, so that it can be the key of a cache.
        object.__setattr__(self, "references", tuple(SchemaReference(*reference) for reference in self.references))


class RegisteredSchema(NamedTuple):
    """A schema that is registered under a subject.

    schema_id: its id in the registry. version: its version number in the subject. guid: its id in all registries; None if this registry has
    no GUIDs, as before Confluent Platform 8.
    """

    schema_id: int
    schema: Schema
    subject: str
    version: int
    guid: str | None = None


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Whether a schema is compatible with the schemas of a subject. Can be used as a bool.

    messages: the registry's explanations if the schema is not compatible.
    """

    is_compatible: bool
    messages: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.is_compatible


def refuse_rules_on_writing(rule_set: Mapping[str, Any] | None, schema: str) -> None:
    """Raise SerializationError if a rule has to run before a value of the schema is written. schema: its name for the error."""
    _refuse_rules(rule_set, schema, "written", [rule for rule in _active_rules(rule_set) if rule.get("mode") in _ON_WRITING])


def refuse_rules_on_reading(rule_set: Mapping[str, Any] | None, schema: str) -> None:
    """Raise SerializationError if a rule changes values of the schema when they are read. schema: its name for the error."""
    rules = [rule for rule in _active_rules(rule_set) if rule.get("mode") in _ON_READING and rule.get("kind") != "CONDITION"]
    _refuse_rules(rule_set, schema, "read", rules)


def _active_rules(rule_set: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    if rule_set is None or rule_set.get("enableAt") not in _IN_CLIENTS:
        return
    for name in RULE_LISTS:
        yield from (rule for rule in rule_set.get(name) or () if not rule.get("disabled"))


def _refuse_rules(rule_set: Mapping[str, Any] | None, schema: str, done: str, rules: list[Mapping[str, Any]]) -> None:
    if rules:
        named = ", ".join(f"'{rule.get('name')}' ({rule.get('type')})" for rule in rules)
        raise SerializationError(
            f"the schema of {schema} has rules that have to run when a value is {done}, and levada runs none: {named}; use a client of "
            "Confluent for these values, or disable the rules"
        )
