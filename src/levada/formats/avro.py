"""Reads plain Avro without a header, and Avro in Confluent's wire format, with the id of a registry's schema."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self
from uuid import UUID

import pyarrow as pa

from levada.base.asking import is_about_data
from levada.errors import ConfigError, KafkaError, SerializationError
from levada.formats.avro_columns import AvroDecoder, steps_of
from levada.formats.avro_conversion import conversion
from levada.formats.avro_reader import AvroSteps
from levada.formats.avro_schema import AvroSchema
from levada.formats.reading import (
    Decoded,
    Decoder,
    Format,
    MalformedError,
    Read,
    Registry,
    RowDecoder,
    SchemaLookupError,
    client_of,
    latest_version,
    with_short_ids,
)
from levada.registry import RegistryNotFoundError, Schema
from levada.registry.avro_codec import LeftOverError, ValueReader, is_plain_bytes, kind_of, told, with_length
from levada.registry.schema import refuse_rules_on_reading
from levada.registry.wire_format import HEADER_SIZE, SchemaKey, schema_id_of, told_key

AVRO = "AVRO"
_FIRST_NUMBER = 2**31


@dataclass(frozen=True)
class AvroFormat(Format):
    """Plain Avro. schema: the schema of the writer, which also is the schema of the column."""

    schema: AvroSchema
    is_text: ClassVar[bool] = False

    @property
    def kind(self) -> pa.DataType:
        """The Arrow type of the schema."""
        return self.schema.shape().kind

    def decoder(self, kind: pa.DataType | None = None) -> Decoder:
        """Return a decoder."""
        built, parsed = self.kind, self.schema.parsed_with_names()
        one_by_one = RowDecoder(_reader_of(self.schema, None, 0, "its Avro schema"), built if kind is None else kind, built)
        steps = None if is_plain_bytes(parsed.schema) else steps_of(parsed, parsed, built)
        return one_by_one if steps is None else AvroDecoder(one_by_one, built, built if kind is None else kind, only=steps)


@dataclass(frozen=True)
class ConfluentAvroFormat(Format):
    """Avro in Confluent's wire format. Each value is read by its writer's schema and resolved to one reader's schema.

    schema: the reader's schema; None until pinned() fetches the latest schema of the subject. option: the option that gives schema or
    subject, for errors.
    """

    registry: Registry = field(repr=False)
    subject: str | None
    option: str
    schema: AvroSchema | None = None
    is_text: ClassVar[bool] = False

    def pinned(self) -> Self:
        """Return the format with its schema: the latest one of the subject if it has none yet. Raises ConfigError, RegistryError."""
        if self.subject is None or self.schema is not None:
            return self
        return replace(self, schema=latest_schema(self.registry, self.subject, self.option)[1])

    @property
    def has_ids(self) -> bool:
        """See Format."""
        return True

    @property
    def kind(self) -> pa.DataType:
        """The Arrow type of the reader's schema."""
        return self._reader.shape().kind

    def decoder(self, kind: pa.DataType | None = None) -> Decoder:
        """Return a decoder. Decoders of equal formats share the writers' schemas in a process, except with a program's own client."""
        built, writers = self.kind, WriterSchemas(self.registry, self._reader)
        one_by_one = RowDecoder(writers.read, built if kind is None else kind, built)
        return _BehindIds(AvroDecoder(one_by_one, built, built if kind is None else kind, writers.steps), writers)

    @property
    def _reader(self) -> AvroSchema:
        assert self.schema is not None, "not pinned"
        return self.schema


def latest_schema(registry: Registry, subject: str, option: str, *, writes: bool = False) -> tuple[int, AvroSchema]:
    """Return the latest schema of a subject, and its id. Raises ConfigError that names the option, RegistryError.

    writes: whether values are written with it.
    """
    latest = latest_version(registry, subject, option, AVRO, writes=writes)
    return latest.schema_id, AvroSchema(_texts(registry, latest.schema), f"subject '{subject}' version {latest.version}")


class _BehindIds:
    """Passes values on, with a number in place of a GUID, because columns are decoded by numbers."""

    def __init__(self, inner: Decoder, writers: WriterSchemas) -> None:
        self._inner = inner
        self._writers = writers

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a binary column."""
        return self._inner.decode(with_short_ids(values, self._writers.number_of))


class _Writer(NamedTuple):
    """How values of a writer's schema are read. read: reads one value. steps: read a column; None if the schemas have none."""

    read: Read
    steps: AvroSteps | None


class WriterSchemas:
    """Reads values, each with the writer schema that its schema id names.

    A decoder asks the registry only once for an id that is unknown or cannot be used. Later decoders ask again: it may be known by then.
    """

    def __init__(self, registry: Registry, reader: AvroSchema) -> None:
        self._registry = registry
        # A program's client is not kept alive by a cache.
        self._known = _known_writers(os.getpid(), registry, reader) if isinstance(registry, tuple) else {}
        self._reader = reader
        self._unknown: dict[SchemaKey, str] = {}
        self._numbers: dict[bytes, int] = {}
        self._guids: dict[int, bytes] = {}

    def number_of(self, guid: bytes) -> int:
        """Return the number that stands for a GUID in this decoder. It is larger than any schema id."""
        number = self._numbers.setdefault(guid, _FIRST_NUMBER + len(self._numbers))
        self._guids[number] = guid
        return number

    def read(self, data: bytes) -> Any:
        """Decode a value into the reader's schema. Raises MalformedError; SchemaLookupError if its schema cannot be looked up."""
        try:
            schema_id = schema_id_of(data)
        except SerializationError:
            raise MalformedError(f"not of Confluent's wire format: {len(data)} bytes that begin with {data[:HEADER_SIZE]!r}") from None
        return self._writer(schema_id).read(data)

    def steps(self, schema_id: int) -> AvroSteps | None:
        """Return the steps for a writer's schema; None if it has none. Raises like read()."""
        return self._writer(schema_id).steps

    def _writer(self, schema_id: int) -> _Writer:
        key = self._guids.get(schema_id, schema_id)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._find(key)
        return found

    def _find(self, key: SchemaKey) -> _Writer:
        if key in self._unknown:
            raise MalformedError(self._unknown[key])
        told, client = told_key(key), client_of(self._registry)
        try:
            schema = client.get_schema(key) if isinstance(key, int) else client.get_schema_by_guid(str(UUID(bytes=key)))
            if schema.schema_type == AVRO:
                refuse_rules_on_reading(schema.rule_set, told)
                return _reading(told, AvroSchema(_texts(self._registry, schema), f"schema {told}"), self._reader)
            why = f"which is of type {schema.schema_type}, not {AVRO}"
        except RegistryNotFoundError as missing:
            if not is_about_data(missing):
                raise SchemaLookupError(told) from missing
            why = f"which the registry does not know ({missing.url})"
        except (ConfigError, SerializationError, RecursionError) as fault:
            why = f"which is not read: {fault}"
        except KafkaError as failed:
            # The registry does not answer, or its settings are wrong. The value may be good, so it is not malformed.
            raise SchemaLookupError(told) from failed
        self._unknown[key] = f"written with schema {told}, {why}"
        raise MalformedError(self._unknown[key])


@lru_cache(maxsize=32)
def _known_writers(process: int, registry: Registry, reader: AvroSchema) -> dict[SchemaKey, _Writer]:
    """Return what the process knows of writers' schemas, by schema id or GUID. All decoders of equal formats share this dictionary."""
    return {}


def _reading(told: str, writer: AvroSchema, reader: AvroSchema) -> _Writer:
    """Return how values of a writer's schema are read. told: its id as text. Raises ConfigError if they cannot be resolved to the reader's
    schema.
    """
    what = f"the Avro schema of {told}"
    if not is_plain_bytes(writer.parsed()):
        steps = steps_of(writer.parsed_with_names(), reader.parsed_with_names(), reader.shape().kind)
        return _Writer(_reader_of(reader, writer, HEADER_SIZE, what), steps)
    if is_plain_bytes(reader.parsed()):
        return _Writer(lambda data: data[HEADER_SIZE:], None)
    read = _reader_of(reader, writer, 0, what)
    return _Writer(lambda data: read(with_length(data[HEADER_SIZE:])), None)


def _reader_of(reader_schema: AvroSchema, writer_schema: AvroSchema | None, begin: int, what: str) -> Read:
    """Return a function that reads values of a writer. writer_schema: None for the reader's own schema.

    begin: the index of the first byte of Avro data. what: the schema, for errors.
    """
    names_branches = reader_schema.shape().names_branches
    reader = reader_schema.parsed_with_names()
    writer = reader if writer_schema is None else writer_schema.parsed_with_names()
    # For equal schemas fastavro would return the same values without resolving, but slower.
    is_same = writer.schema == reader.schema
    convert = conversion(reader, None if is_same else writer, names_branches)
    resolved = None if is_same else reader.schema
    read_value = ValueReader(writer.schema, writer.names, resolved, names_branches=names_branches)

    def read(data: bytes) -> Any:
        try:
            value = read_value(data, begin)
        except LeftOverError as fault:
            raise MalformedError(f"not of {what}: {fault}") from None
        except Exception as fault:
            # For bytes that are not Avro, fastavro raises exceptions of any type.
            raise MalformedError(f"not of {what}: {_without_schemas(told(fault), writer.schema, reader.schema)}") from fault
        return value if convert is None else convert(value)

    return read


def _without_schemas(text: str, *schemas: Any) -> str:
    """Return fastavro's error text with the names of records in place of whole schemas."""
    for schema in schemas:
        if isinstance(schema, dict) and "name" in schema:
            text = text.replace(str(schema), f"{kind_of(schema)} {schema['name']}")
    return text


def _texts(registry: Registry, schema: Schema) -> tuple[str, ...]:
    return tuple(one.schema_str for one in (*client_of(registry).get_referenced_schemas(schema).values(), schema))
