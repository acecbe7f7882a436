"""Options about the formats of keys and values: key.format, value.format, and the options of each format."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from levada.config.registry import RegistryConfig
from levada.errors import ConfigError
from levada.formats.columns import SIDES, Mode, Typed
from levada.formats.reading import Format
from levada.formats.string import StringFormat
from levada.spark.ddl import parse_schema
from levada.spark.options.option_text import REGISTRY, choice, shown
from levada.spark.pyspark_versions import arrow_schema
from levada.spark.types import name_of

if TYPE_CHECKING:
    import pyarrow as pa

    from levada.formats.avro_schema import AvroSchema
    from levada.formats.protobuf_schema import MessageType

Settings = tuple[tuple[str, str], ...]
BINARY = "binary"
_OF_ALL = ("mode", "columnNameOfCorruptRecord")
_REGISTRY_URL = f"{REGISTRY}url"
_SCHEMA_EXAMPLE = "'id long, tags array<string>'"
PROTOBUF_SUFFIXES = ("protobuf.descriptor", "protobuf.message")


class SideOptions(NamedTuple):
    """The options of one side, the key or the value: `get("schema")` reads the option value.schema.

    own: levada's own options, of both sides, from option_text.split(). side: "key" or "value". format: the name of the side's format.
    topics: the topics that the options name; () if a pattern or the rows choose them.
    """

    own: Mapping[str, str]
    side: str
    format: str
    topics: tuple[str, ...]

    def name(self, suffix: str) -> str:
        """Return an option's full name."""
        return f"{self.side}.{suffix}"

    def get(self, suffix: str) -> str | None:
        """Return the option's value. None if the option is not given."""
        return self.own.get(self.name(suffix))

    def required(self, suffix: str, example: str) -> str:
        """Return the option's value. Raises ConfigError if the option is not given. example: a value for the error text."""
        given = self.get(suffix)
        if given is None:
            raise ConfigError(f"option '{self.name('format')}'={self.format} needs the option '{self.name(suffix)}', such as {example}")
        return given


def names_of_options(suffixes: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the full names of all options of formats. suffixes: for each format, the option names without "key." or "value."."""
    every = sorted({"format", *(suffix for of_format in suffixes.values() for suffix in of_format)})
    return tuple(f"{side}.{suffix}" for side in SIDES for suffix in every)


def chosen_formats(
    own: Mapping[str, str], topics: tuple[str, ...], suffixes: Mapping[str, tuple[str, ...]], *, asking: tuple[str, ...]
) -> dict[str, SideOptions]:
    """Return the options of each side whose format is not binary, by side. Raises ConfigError for an unknown format, and for options that
    have no effect.

    topics: the topics that the options name. suffixes: for each format, the option names without "key." or "value.". asking: the formats
    that use a schema registry.
    """
    chosen: dict[str, SideOptions] = {}
    for side in SIDES:
        name = choice(own, f"{side}.format", (BINARY, *suffixes), BINARY)
        given = SideOptions(own, side, name, topics)
        _refuse_unused(given, suffixes)
        if name != BINARY:
            chosen[side] = given
    asks = any(given.format in asking for given in chosen.values())
    if not asks and (unused := [name for name in own if name.startswith(REGISTRY)]):
        raise ConfigError(f"option '{unused[0]}' has no effect here: a registry is asked only for {' and '.join(asking)}; leave it out")
    return chosen


def _refuse_unused(given: SideOptions, suffixes: Mapping[str, tuple[str, ...]]) -> None:
    """Raise ConfigError for an option that only other formats have. The chosen format would ignore the option silently.

    given: the options of one side. suffixes: for each format, the option names without "key." or "value.".
    """
    for suffix in sorted({suffix for of_format in suffixes.values() for suffix in of_format}):
        users = [name for name, of_format in suffixes.items() if suffix in of_format]
        if given.get(suffix) is not None and given.format not in users:
            raise ConfigError(
                f"option '{given.name(suffix)}' is for the option '{given.name('format')}'={' or '.join(users)}, "
                f"but the format is {given.format}"
            )


class Reading(NamedTuple):
    """A format of the source.

    make: builds the format from the options of one side (key or value). suffixes: the names of the format's options, without "key." or
    "value.".
    """

    make: Callable[[SideOptions], Format]
    suffixes: tuple[str, ...]


def _json(given: SideOptions) -> Format:
    from levada.formats.json import JsonFormat

    return JsonFormat(_fields(given, _SCHEMA_EXAMPLE))


def _fields(given: SideOptions, example: str) -> pa.Schema:
    return arrow_schema(parse_schema(given.required("schema", example), given.name("schema")))


def _json_schema(given: SideOptions) -> Format:
    from levada.formats.json_schema import JsonSchemaFormat

    if given.get("schema") is None:
        return JsonSchemaFormat(registry_settings(given), subject(given), given.name("subject"))
    if given.get("subject") is not None:
        raise ConfigError(
            f"options '{given.name('schema')}' and '{given.name('subject')}' exclude each other: both name the reader's schema"
        )
    if any(name.startswith(REGISTRY) for name in given.own):
        # No registry is asked, but a misspelt setting is an error here, too.
        registry_settings(given)
    return JsonSchemaFormat(None, None, given.name("schema"), _fields(given, _SCHEMA_EXAMPLE))


def _csv(given: SideOptions) -> Format:
    from levada.formats.csv import DEFAULT_SEPARATOR, csv_format

    schema = _fields(given, "'id long, name string'")
    separator = given.get("csv.sep")
    separator = DEFAULT_SEPARATOR if separator is None else separator
    return csv_format(schema, separator, schema_option=given.name("schema"), separator_option=given.name("csv.sep"), named=name_of)


def _string(given: SideOptions) -> Format:
    return StringFormat()


def _avro(given: SideOptions) -> Format:
    from levada.formats.avro import AvroFormat

    return AvroFormat(avro_schema(given, given.required("avro.schema", "the JSON text of an Avro schema")))


def avro_schema(given: SideOptions, text: str) -> AvroSchema:
    """Return the Avro schema in the option's text. Raises ConfigError if the text is no Avro schema, or no column can have it."""
    from levada.formats.avro_schema import AvroSchema

    schema = AvroSchema((text,), f"option '{given.name('avro.schema')}'")
    schema.shape()
    return schema


def _confluent_avro(given: SideOptions) -> Format:
    from levada.formats.avro import ConfluentAvroFormat

    settings, text = registry_settings(given), given.get("avro.schema")
    if text is None:
        return ConfluentAvroFormat(settings, subject(given), given.name("subject"))
    if given.get("subject") is not None:
        raise ConfigError(
            f"options '{given.name('avro.schema')}' and '{given.name('subject')}' exclude each other: both name the reader's schema"
        )
    return ConfluentAvroFormat(settings, None, given.name("avro.schema"), avro_schema(given, text))


def subject(given: SideOptions) -> str:
    """Return the registry's subject of a side's schemas.

    Without the option subject this is `<topic>-<side>`; then raises ConfigError unless the options name exactly one topic.
    """
    if (subject := given.get("subject")) is not None:
        return subject
    if len(given.topics) == 1:
        return f"{given.topics[0]}-{given.side}"
    many = f"the topics are {', '.join(given.topics)}" if given.topics else "no option names the topic"
    raise ConfigError(f"option '{given.name('subject')}' is needed, because {many}; name the subject whose schema the column has")


def registry_settings(given: SideOptions) -> Settings:
    """Return the settings of the registry client: the options that begin with schema.registry., without this prefix.

    Only schema.registry.url keeps the prefix. Raises ConfigError if the URL is missing or a setting is wrong.
    """
    settings = {
        name if name == _REGISTRY_URL else name.removeprefix(REGISTRY): value
        for name, value in given.own.items()
        if name.startswith(REGISTRY)
    }
    if _REGISTRY_URL not in settings:
        raise ConfigError(f"option '{given.name('format')}'={given.format} needs the option '{_REGISTRY_URL}', such as http://host:8081")
    try:
        RegistryConfig.parse(settings)
    except ConfigError as fault:
        raise ConfigError(f"among the {REGISTRY}* options: {fault}") from fault
    return tuple(sorted(settings.items()))


def _protobuf(given: SideOptions) -> Format:
    from levada.formats.protobuf import ProtobufFormat

    return ProtobufFormat(message_type(given), has_header=given.format == "confluent-protobuf")


def message_type(given: SideOptions) -> MessageType:
    """Return the message that the options name. Raises ConfigError if an option is missing, the descriptors cannot be read, the message
    does not exist, or no column can have its type.
    """
    from levada.formats.protobuf_schema import MessageType

    option = given.name("protobuf.descriptor")
    files = _file_or_base64(given.required("protobuf.descriptor", "a file that protoc --include_imports -o wrote"), option)
    message = MessageType(files, given.required("protobuf.message", "shop.Order"), (option, given.name("protobuf.message")))
    message.kind()
    return message


def _file_or_base64(text: str, option: str) -> bytes:
    """Return the bytes of a FileDescriptorSet. Raises ConfigError.

    text: the path of a file on the driver's machine, or, if no such file can be read, the bytes in base64.
    """
    from levada.formats.protobuf_schema import holds_files

    if not text.strip():
        raise ConfigError(f"option '{option}' is empty; give a file that protoc --include_imports -o wrote")
    try:
        return Path(text).read_bytes()
    except (OSError, ValueError) as no_file:
        # A path such as /tmp is valid base64 as well, so the bytes have to be descriptors.
        if holds_files(decoded := _base64(text)):
            return decoded
        why = getattr(no_file, "strerror", None) or no_file
        raise ConfigError(
            f"option '{option}': {shown(text)} is neither a file that can be read ({why}) nor a FileDescriptorSet in base64"
        ) from None


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


READ: Mapping[str, Reading] = {
    "json": Reading(_json, ("schema",)),
    "json-schema": Reading(_json_schema, ("schema", "subject")),
    "string": Reading(_string, ()),
    "csv": Reading(_csv, ("schema", "csv.sep")),
    "avro": Reading(_avro, ("avro.schema",)),
    "confluent-avro": Reading(_confluent_avro, ("avro.schema", "subject")),
    "protobuf": Reading(_protobuf, PROTOBUF_SUFFIXES),
    "confluent-protobuf": Reading(_protobuf, PROTOBUF_SUFFIXES),
}
_RAW = "raw"
_SUFFIXES = {name: (*entry.suffixes, _RAW) for name, entry in READ.items()}
SOURCE_FORMAT_OPTIONS = (*_OF_ALL, *names_of_options(_SUFFIXES))


def typed(own: Mapping[str, str], topics: tuple[str, ...], taken: tuple[str, ...]) -> Typed:
    """Read the options that say how keys and values are decoded. Raises ConfigError.

    topics: the topics of the query; empty if a pattern chooses them. taken: the names that an added column cannot have.
    """
    chosen = chosen_formats(own, topics, _SUFFIXES, asking=("json-schema", "confluent-avro"))
    if not chosen and (unused := [name for name in _OF_ALL if name in own]):
        raise ConfigError(f"option '{unused[0]}' is for the options 'value.format' and 'key.format'")
    raw = {side: column for side, given in chosen.items() if (column := given.get(_RAW)) is not None}
    added = {f"{side}.{_RAW}": name for side, name in raw.items()} | {name: own[name] for name in _OF_ALL[1:] if name in own}
    _check_added(added, taken)
    mode = Mode(choice(own, "mode", [mode.value for mode in Mode], Mode.PERMISSIVE.value))
    formats = {side: READ[given.format].make(given) for side, given in chosen.items()}
    return Typed(formats, mode, own.get("columnNameOfCorruptRecord"), raw)


def _check_added(added: Mapping[str, str], taken: tuple[str, ...]) -> None:
    # Spark's column names are not case-sensitive.
    names = {name.lower() for name in taken}
    for option, name in added.items():
        if not name.strip() or name.lower() in names:
            why = "another column has this name" if name.strip() else "the name is empty"
            raise ConfigError(f"option '{option}': a column cannot be called {name!r}: {why}; give a different name")
        names.add(name.lower())
