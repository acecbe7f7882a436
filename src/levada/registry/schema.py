"""The schemas of a registry. Names of classes and attributes are those of Confluent's Python client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

AVRO = "AVRO"
JSON = "JSON"
PROTOBUF = "PROTOBUF"


class SchemaReference(NamedTuple):
    """A reference to a schema. name: the name that the referencing schema uses. subject, version: where the schema is registered."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's text, its type ("AVRO", "JSON", "PROTOBUF") and its references to other schemas."""

    schema_str: str
    schema_type: str = AVRO
    references: Sequence[SchemaReference] = ()

    def __post_init__(self) -> None:
        # A tuple makes the schema hashable, so that it can be the key of a cache.
        object.__setattr__(self, "references", tuple(SchemaReference(*reference) for reference in self.references))


class RegisteredSchema(NamedTuple):
    """A schema that is registered under a subject, with its id and its version there."""

    schema_id: int
    schema: Schema
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Whether a schema is compatible with the schemas of a subject. Can be used as a bool.

    messages: the registry's reasons if it is not compatible.
    """

    is_compatible: bool
    messages: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.is_compatible
