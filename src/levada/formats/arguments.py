"""The arguments about formats that scan(), poll_arrow() and send_arrow() take. Imports neither the formats nor pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from levada.registry import SchemaRegistryClient

FormatName: TypeAlias = Literal["json", "json-schema", "csv", "string", "avro", "confluent-avro", "protobuf", "confluent-protobuf"]


class CommonArguments(TypedDict, total=False):
    """The keyword arguments about formats that scan(), poll_arrow() and send_arrow() have in common."""

    key_format: FormatName | None
    """The format of keys. Default: bytes."""
    value_format: FormatName | None
    """The format of values. Default: bytes."""
    key_schema: Any
    """As value_schema."""
    value_schema: Any
    """The schema of the column: a pyarrow.Schema (json, json-schema, csv), an Avro schema as JSON text or as a dict, a class that protoc
    generated, or "latest" for the newest schema in the registry, which is the default of json-schema and confluent-avro. send_arrow()
    writes json-schema with a JSON Schema, and json and csv without a schema.
    """
    key_subject: str
    """As value_subject."""
    value_subject: str
    """The subject in the registry. Default: <topic>-value; without a default if several topics are read."""
    key_csv_sep: str
    """As value_csv_sep."""
    value_csv_sep: str
    """The text between the tokens of CSV. Default: a comma."""
    schema_registry_url: str | Sequence[str]
    """The address of the schema registry, or several addresses."""
    registry: SchemaRegistryClient
    """A client of the schema registry, instead of its address."""


class FormatArguments(CommonArguments, total=False):
    """The keyword arguments about formats of scan() and poll_arrow()."""

    key_raw: str
    """As value_raw."""
    value_raw: str
    """Add a column with this name that has the undecoded bytes."""
    mode: Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"]
    """How to handle a key or value that its format cannot decode: raise an error (FAILFAST), return the fields that can be read
    (PERMISSIVE), or leave out the record (DROPMALFORMED). Default: "FAILFAST".
    """
    column_name_of_corrupt_record: str
    """Add a column with this name that has the keys or values that could not be decoded: as text, or in base64 for Avro and Protobuf."""


class WriteArguments(CommonArguments, total=False):
    """The keyword arguments about formats of send_arrow()."""

    auto_register_schemas: bool
    """Whether a schema that the registry does not have is registered. If False, it is an error. Default: True."""


ARGUMENTS = tuple(FormatArguments.__annotations__)
WRITE_ARGUMENTS = tuple(WriteArguments.__annotations__)
