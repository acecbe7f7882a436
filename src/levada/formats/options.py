"""Makes formats from the arguments that scan(), poll_arrow() and send_arrow() take (levada.formats.arguments)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from levada.base.text import did_you_mean
from levada.errors import ConfigError
from levada.formats.columns import SIDES, Mode, Typed
from levada.formats.reading import Format, Registry
from levada.formats.string import StringFormat, StringWriter
from levada.formats.writing import WriteFormat
from levada.registry import SchemaRegistryClient

if TYPE_CHECKING:
    from levada.formats.avro_schema import AvroSchema
    from levada.formats.protobuf_schema import MessageType

F = TypeVar("F")

_OF_REGISTRY = ("schema_registry_url", "registry")
LATEST = "latest"


class _Side(NamedTuple):
    """The arguments of one side: `get("schema")` is the argument value_schema. topics: those that are read or written."""

    given: Mapping[str, Any]
    side: str
    format: str
    topics: tuple[str, ...]

    def name(self, suffix: str) -> str:
        return f"{self.side}_{suffix}"

    def get(self, suffix: str) -> Any:
        return self.given.get(self.name(suffix))

    def required(self, suffix: str, example: str) -> Any:
        if (found := self.get(suffix)) is None:
            raise ConfigError(f"{self.name('format')}='{self.format}' needs {self.name(suffix)}, such as {example}")
        return found

    def subject(self) -> str:
        if (found := self.get("subject")) is not None:
            return str(found)
        if len(self.topics) == 1:
            return f"{self.topics[0]}-{self.side}"
        many = f"the topics are {', '.join(self.topics)}" if self.topics else "the topic is not known"
        raise ConfigError(f"{self.name('subject')} is needed, because {many}; name the subject whose schema the column has")

    def registers(self) -> bool:
        return bool(self.given.get("auto_register_schemas", True))

    def registry(self) -> Registry:
        url, client = self.given.get("schema_registry_url"), self.given.get("registry")
        if (url is None) == (client is None):
            both = "both were given" if url is not None else "such as schema_registry_url='http://host:8081'"
            raise ConfigError(f"{self.name('format')}='{self.format}' needs either schema_registry_url or registry; {both}")
        if client is None:
            # Its connections are closed when the client or the scan that has it is dropped.
            return SchemaRegistryClient(schema_registry_url=url or ())
        if not isinstance(client, SchemaRegistryClient):
            advice = "pass its `blocking`" if hasattr(client, "blocking") else "an address is called schema_registry_url"
            raise ConfigError(f"registry is a SchemaRegistryClient, got {client!r}; {advice}")
        return client


def _json(given: _Side) -> Format:
    from levada.formats.json import JsonFormat

    return _checked(given, JsonFormat(_fields(given)))


def _fields(given: _Side) -> pa.Schema:
    schema = given.required("schema", "pyarrow.schema({'id': pyarrow.int64()})")
    try:
        return pa.schema(list(schema) if isinstance(schema, pa.StructType) else schema)
    except (TypeError, ValueError) as fault:
        raise ConfigError(f"{given.name('schema')}: {given.format} has a pyarrow.Schema, got {schema!r}") from fault


def _checked(given: _Side, made: Format) -> Format:
    try:
        made.decoder()
    except ValueError as fault:
        raise ConfigError(f"{given.name('schema')}: {fault}") from fault
    return made


def _json_schema(given: _Side) -> Format:
    from levada.formats.json_schema import JsonSchemaFormat

    if _reads_latest(given):
        return JsonSchemaFormat(given.registry(), given.subject(), given.name("subject"))
    return _checked(given, JsonSchemaFormat(None, None, given.name("schema"), _fields(given)))


def _is_latest(given: _Side) -> bool:
    schema = given.get("schema")
    return schema is None or (isinstance(schema, str) and schema == LATEST)


def _reads_latest(given: _Side) -> bool:
    if _is_latest(given):
        return True
    if given.get("subject") is not None:
        raise ConfigError(f"{given.name('schema')} and {given.name('subject')} exclude each other: both name the reader's schema")
    return False


def _csv(given: _Side) -> Format:
    from levada.formats.csv import DEFAULT_SEPARATOR, csv_format

    separator = given.get("csv_sep")
    return _checked(
        given,
        csv_format(
            _fields(given),
            DEFAULT_SEPARATOR if separator is None else separator,
            schema_option=given.name("schema"),
            separator_option=given.name("csv_sep"),
        ),
    )


def _string(given: _Side) -> Format:
    return StringFormat()


def _avro(given: _Side) -> Format:
    from levada.formats.avro import AvroFormat

    return AvroFormat(_avro_schema(given))


def _confluent_avro(given: _Side) -> Format:
    from levada.formats.avro import ConfluentAvroFormat

    registry = given.registry()
    if _reads_latest(given):
        return ConfluentAvroFormat(registry, given.subject(), given.name("subject"))
    return ConfluentAvroFormat(registry, None, given.name("schema"), _avro_schema(given))


def _avro_schema(given: _Side) -> AvroSchema:
    from levada.formats.avro_schema import AvroSchema

    schema = given.required("schema", "the JSON text of an Avro schema")
    if not isinstance(schema, str | Mapping | list):
        raise ConfigError(f"{given.name('schema')}: Avro has a schema as JSON text or as a dict, got {schema!r}")
    made = AvroSchema((schema if isinstance(schema, str) else json.dumps(schema),), given.name("schema"))
    made.shape()
    return made


def _protobuf(given: _Side) -> Format:
    from levada.formats.protobuf import ProtobufFormat

    return ProtobufFormat(_message(given), has_header=given.format == "confluent-protobuf")


def _message(given: _Side) -> MessageType:
    from levada.formats.protobuf_schema import MessageType

    schema = given.required("schema", "a class that protoc generated")
    descriptor = getattr(schema, "DESCRIPTOR", schema)
    if not hasattr(descriptor, "file") or not hasattr(descriptor, "fields_by_name"):
        raise ConfigError(f"{given.name('schema')}: Protobuf has a class that protoc generated, or its descriptor, got {schema!r}")
    message = MessageType.of(descriptor, given.name("schema"))
    message.kind()
    return message


class _Entry(NamedTuple, Generic[F]):
    """A format. make: builds it from the arguments of one side. suffixes: the arguments that it has, without "key_" or "value_"."""

    make: Callable[[_Side], F]
    suffixes: tuple[str, ...]
    asks: bool = False
    """Whether it may ask a schema registry."""


def _write_csv(given: _Side) -> WriteFormat:
    from levada.formats.csv import CsvWriter, checked_separator

    separator = given.get("csv_sep")
    return CsvWriter() if separator is None else CsvWriter(checked_separator(separator, given.name("csv_sep")))


def _write_json(given: _Side) -> WriteFormat:
    from levada.formats.json import JsonWriter

    return JsonWriter()


def _write_json_schema(given: _Side) -> WriteFormat:
    from levada.formats.json_schema_writing import JsonSchemaWriter

    schema = None if _is_latest(given) else given.get("schema")
    if not isinstance(schema, str | Mapping | None):
        raise ConfigError(f"{given.name('schema')}: a JSON Schema is JSON text or a dict, got {schema!r}")
    text = json.dumps(schema) if isinstance(schema, Mapping) else schema
    return JsonSchemaWriter(given.registry(), given.subject(), _option(given), text, given.registers())


def _option(given: _Side) -> str:
    return given.name("subject" if _is_latest(given) else "schema")


def _write_string(given: _Side) -> WriteFormat:
    return StringWriter()


def _write_avro(given: _Side) -> WriteFormat:
    from levada.formats.avro_writing import AvroWriter

    return AvroWriter(_avro_schema(given))


def _write_confluent_avro(given: _Side) -> WriteFormat:
    from levada.formats.avro_writing import ConfluentAvroWriter

    schema = None if _is_latest(given) else _avro_schema(given)
    return ConfluentAvroWriter(given.registry(), given.subject(), _option(given), schema, given.registers())


def _write_protobuf(given: _Side) -> WriteFormat:
    from levada.formats.protobuf_writing import ProtobufWriter, Registered

    registered = Registered(given.registry(), given.subject(), given.registers()) if given.format == "confluent-protobuf" else None
    return ProtobufWriter(_message(given), registered)


READ: Mapping[str, _Entry[Format]] = {
    "json": _Entry(_json, ("schema",)),
    "json-schema": _Entry(_json_schema, ("schema", "subject"), asks=True),
    "csv": _Entry(_csv, ("schema", "csv_sep")),
    "string": _Entry(_string, ()),
    "avro": _Entry(_avro, ("schema",)),
    "confluent-avro": _Entry(_confluent_avro, ("schema", "subject"), asks=True),
    "protobuf": _Entry(_protobuf, ("schema",)),
    "confluent-protobuf": _Entry(_protobuf, ("schema",)),
}

WRITE: Mapping[str, _Entry[WriteFormat]] = {
    "json": _Entry(_write_json, ()),
    "json-schema": _Entry(_write_json_schema, ("schema", "subject"), asks=True),
    "csv": _Entry(_write_csv, ("csv_sep",)),
    "string": _Entry(_write_string, ()),
    "avro": _Entry(_write_avro, ("schema",)),
    "confluent-avro": _Entry(_write_confluent_avro, ("schema", "subject"), asks=True),
    "protobuf": _Entry(_write_protobuf, ("schema",)),
    "confluent-protobuf": _Entry(_write_protobuf, ("schema", "subject"), asks=True),
}


def typed(given: Mapping[str, Any], topics: Iterable[str], taken: Iterable[str]) -> Typed:
    """Return the formats that the arguments choose. Raises ConfigError.

    given: arguments of ARGUMENTS. topics: the topics to read. taken: the names that an added column cannot have.
    """
    sides = _sides(given, tuple(topics), READ, ("raw",))
    raw = {side: str(name) for side in sides if (name := given.get(f"{side}_raw")) is not None}
    corrupt = given.get("column_name_of_corrupt_record")
    _check_added([*raw.values(), *(() if corrupt is None else (corrupt,))], taken)
    return Typed({side: READ[one.format].make(one) for side, one in sides.items()}, _mode(given.get("mode")), corrupt, raw)


def writers(given: Mapping[str, Any], topic: str) -> dict[str, WriteFormat]:
    """Return the formats of send_arrow() by side. Raises ConfigError.

    given: arguments of WRITE_ARGUMENTS. topic: the topic that is written to.
    """
    return {side: WRITE[one.format].make(one) for side, one in _sides(given, (topic,), WRITE, ()).items()}


def _sides(
    given: Mapping[str, Any], topics: tuple[str, ...], formats: Mapping[str, _Entry[Any]], of_all: tuple[str, ...]
) -> dict[str, _Side]:
    """Return the arguments of each side that has a format. of_all: the arguments that every format has, without "key_" or "value_"."""
    sides = {side: one for side in SIDES if (one := _side(given, side, topics, formats, of_all)) is not None}
    if not sides:
        raise ConfigError(f"'{next(iter(given))}' has no effect without value_format or key_format")
    asks = any(formats[one.format].asks for one in sides.values())
    if not asks and (unused := [name for name in _OF_REGISTRY if given.get(name) is not None]):
        users = " and ".join(name for name, one in formats.items() if one.asks)
        raise ConfigError(f"'{unused[0]}' has no effect here: a registry is asked only for {users}; leave it out")
    return sides


def _side(
    given: Mapping[str, Any], side: str, topics: tuple[str, ...], formats: Mapping[str, _Entry[Any]], of_all: tuple[str, ...]
) -> _Side | None:
    """Return the arguments of a side; None if the side has no format. Raises ConfigError for arguments that have no effect."""
    name = given.get(f"{side}_format")
    if name is not None and name not in formats:
        raise ConfigError(f"{side}_format: there is no format {name!r}{did_you_mean(str(name), formats)}; there are {', '.join(formats)}")
    allowed = () if name is None else (*formats[name].suffixes, *of_all)
    for argument in given:
        if argument.startswith(f"{side}_") and argument != f"{side}_format" and argument.removeprefix(f"{side}_") not in allowed:
            suffix = argument.removeprefix(f"{side}_")
            users = [one for one, entry in formats.items() if suffix in entry.suffixes] or ["any format"]
            raise ConfigError(f"'{argument}' is for {side}_format={' or '.join(users)}, but the format is {name or 'not given'}")
    return None if name is None else _Side(given, side, name, topics)


def _mode(name: Any) -> Mode:
    if name is None:
        return Mode.FAILFAST
    known = {mode.value.upper(): mode for mode in Mode}
    if not isinstance(name, str) or name.upper() not in known:
        raise ConfigError(f"mode must be one of {', '.join(known)}, got {name!r}{did_you_mean(str(name), known)}")
    return known[name.upper()]


def _check_added(names: Iterable[Any], taken: Iterable[str]) -> None:
    seen = set(taken)
    for name in names:
        if not isinstance(name, str) or not name or name in seen:
            raise ConfigError(f"an added column cannot be called {name!r}: {'another column has this name' if name else 'it is no name'}")
        seen.add(name)
