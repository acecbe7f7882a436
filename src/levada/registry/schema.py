"""Schemas as a registry knows them. Names of classes and attributes are those of Confluent's Python client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

AVRO = "AVRO"
JSON = "JSON"
PROTOBUF = "PROTOBUF"


class SchemaReference(NamedTuple):
    """A schema that another one uses: the name it uses, and where that schema is registered."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's text, its type ("AVRO", "JSON", "PROTOBUF") and the schemas that it uses."""

    schema_str: str
    schema_type: str = AVRO
    references: Sequence[SchemaReference] = ()

    def __post_init__(self) -> None:
        # As a tuple, so that a schema is hashable and can be a key of a cache.
        object.__setattr__(self, "references", tuple(SchemaReference(*reference) for reference in self.references))


class RegisteredSchema(NamedTuple):
    """A schema under a subject: which id and version it has there."""

    schema_id: int
    schema: Schema
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Whether a schema may follow those of a subject; true or false in an `if`.

    messages: what stands against it, in the registry's words.
    """

    is_compatible: bool
    messages: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.is_compatible
