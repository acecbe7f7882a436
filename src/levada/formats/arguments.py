"""The arguments about formats that scan(), poll_arrow() and send_arrow() take. Imports nothing, unlike the formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from levada.registry import SchemaRegistryClient

FormatName: TypeAlias = Literal["json", "json-schema", "csv", "string", "avro", "confluent-avro", "protobuf", "confluent-protobuf"]


class CommonArguments(TypedDict, total=False):
    """The keyword arguments about formats that read and that write."""

    key_format: FormatName | None
    """The format of keys. Default: bytes."""
    value_format: FormatName | None
    """The format of values. Default: bytes."""
    key_schema: Any
    """As value_schema."""
    value_schema: Any
    """The schema of the column: a pyarrow.Schema, an Avro schema, a Protobuf class, or "latest" for the newest one in the registry."""
    key_subject: str
    """As value_subject."""
    value_subject: str
    """The subject in the registry. Default: <topic>-value."""
    key_csv_sep: str
    """As value_csv_sep."""
    value_csv_sep: str
    """What separates the tokens of CSV. Default: a comma."""
    schema_registry_url: str | Sequence[str]
    """The address of the schema registry."""
    registry: SchemaRegistryClient
    """A client of the schema registry, instead of its address."""


class FormatArguments(CommonArguments, total=False):
    """The keyword arguments about formats of scan() and poll_arrow()."""

    key_raw: str
    """As value_raw."""
    value_raw: str
    """Add a column with this name that has the undecoded bytes."""
    mode: Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"]
    """What to do with a value that its format cannot decode. Default: "FAILFAST"."""
    column_name_of_corrupt_record: str
    """Add a column with this name that has the values that could not be decoded, as text."""


class WriteArguments(CommonArguments, total=False):
    """The keyword arguments about formats of send_arrow()."""

    auto_register_schemas: bool
    """Whether a schema that the registry does not have is registered. Default: True."""


ARGUMENTS = tuple(FormatArguments.__annotations__)
WRITE_ARGUMENTS = tuple(WriteArguments.__annotations__)
