"""Options about the formats in which a sink writes its columns: key.format, value.format, and the options of each format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from levada.config.registry import SerializerConfig
from levada.formats.writing import WriteFormat
from levada.spark.options.format_options import (
    PROTOBUF_SUFFIXES,
    Settings,
    SideOptions,
    avro_schema,
    chosen_formats,
    message_type,
    names_of_options,
    registry_settings,
    subject,
)
from levada.spark.options.option_text import REGISTRY, boolean

_REGISTERS = f"{REGISTRY}auto.register.schemas"


class Writing(NamedTuple):
    """A format of the sink.

    make: builds the format from the options of one side (key or value). suffixes: the names of the format's options, without "key." or
    "value.".
    """

    make: Callable[[SideOptions], WriteFormat]
    suffixes: tuple[str, ...]


def _json(given: SideOptions) -> WriteFormat:
    from levada.formats.json import JsonWriter

    return JsonWriter()


def _json_schema(given: SideOptions) -> WriteFormat:
    from levada.formats.json_schema_writing import JsonSchemaWriter

    text = given.get("json.schema")
    option = given.name("subject" if text is None else "json.schema")
    return JsonSchemaWriter(_client_settings(given), subject(given), option, text, _registers(given))


def _avro(given: SideOptions) -> WriteFormat:
    from levada.formats.avro_writing import AvroWriter

    return AvroWriter(avro_schema(given, given.required("avro.schema", "the JSON text of an Avro schema")))


def _registers(given: SideOptions) -> bool:
    return boolean(given.own, _REGISTERS, SerializerConfig.OPTIONS["auto.register.schemas"].default)


def _client_settings(given: SideOptions) -> Settings:
    return registry_settings(given._replace(own={name: value for name, value in given.own.items() if name != _REGISTERS}))


def _protobuf(given: SideOptions) -> WriteFormat:
    from levada.formats.protobuf_writing import ProtobufWriter

    return ProtobufWriter(message_type(given))


def _confluent_protobuf(given: SideOptions) -> WriteFormat:
    from levada.formats.protobuf_writing import ProtobufWriter, Registered

    return ProtobufWriter(message_type(given), Registered(_client_settings(given), subject(given), _registers(given)))


def _confluent_avro(given: SideOptions) -> WriteFormat:
    from levada.formats.avro_writing import ConfluentAvroWriter

    text = given.get("avro.schema")
    return ConfluentAvroWriter(
        _client_settings(given),
        subject(given),
        given.name("subject" if text is None else "avro.schema"),
        None if text is None else avro_schema(given, text),
        _registers(given),
    )


WRITE: Mapping[str, Writing] = {
    "json": Writing(_json, ()),
    "json-schema": Writing(_json_schema, ("json.schema", "subject")),
    "avro": Writing(_avro, ("avro.schema",)),
    "confluent-avro": Writing(_confluent_avro, ("avro.schema", "subject")),
    "protobuf": Writing(_protobuf, PROTOBUF_SUFFIXES),
    "confluent-protobuf": Writing(_confluent_protobuf, (*PROTOBUF_SUFFIXES, "subject")),
}
_SUFFIXES = {name: entry.suffixes for name, entry in WRITE.items()}
SINK_FORMAT_OPTIONS = names_of_options(_SUFFIXES)


def sink_formats(own: Mapping[str, str], topic: str | None) -> dict[str, WriteFormat]:
    """Return the formats by side ("key", "value"). A side that is written unchanged is left out. Raises ConfigError.

    topic: the option topic; None if each row names its topic.
    """
    chosen = chosen_formats(
        own, () if topic is None else (topic,), _SUFFIXES, asking=("json-schema", "confluent-avro", "confluent-protobuf")
    )
    return {side: WRITE[given.format].make(given) for side, given in chosen.items()}
