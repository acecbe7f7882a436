"""The schemas of a registry. Classes and attributes have the names that they have in Confluent's Python client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

AVRO = "AVRO"
JSON = "JSON"
PROTOBUF = "PROTOBUF"


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
