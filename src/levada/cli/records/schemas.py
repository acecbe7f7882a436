"""Keys and values with a schema, for -s of consume, scan and produce: JSON, and Avro, JSON Schema and Protobuf of a schema registry.

Values of a schema registry are in Confluent's wire format. When reading, the id in each value names its schema. When writing, and for the
columns of a scan, the newest schema of the subject `<topic>-value` or `<topic>-key` counts, and nothing is registered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from levada.base.text import did_you_mean
from levada.errors import ConfigError

if TYPE_CHECKING:
    from levada.registry import SchemaRegistryClient

PARTS = ("key", "value")
KINDS: Mapping[str, str] = {
    "json": "JSON",
    "avro": "Avro after the id of its schema in a Schema Registry",
    "json-schema": "JSON after the id of its schema",
    "protobuf": "a Protobuf message after the id of its schema",
}
OF_COLUMNS: Mapping[str, str] = {"avro": "confluent-avro", "json-schema": "json-schema", "protobuf": "confluent-protobuf"}
"""The kinds that give a column of a scan its type, and the name of the format in scan()."""
MODES: Mapping[str, str] = {"raise": "FAILFAST", "skip": "DROPMALFORMED", "null": "PERMISSIVE"}
"""The values of --on-decode-error, and the modes of scan()."""

RegistryOf = Callable[[], "SchemaRegistryClient"]


def kinds_of(given: Sequence[str], known: Mapping[str, str] = KINDS) -> dict[str, str]:
    """Parse the values of -s: `avro` is for keys and values, `value=avro` only for values. Return the kinds by part: "key", "value".

    Raises ConfigError for an unknown word.
    """
    kinds: dict[str, str] = {}
    for one in given:
        part, equals, kind = one.rpartition("=")
        if equals and part not in PARTS:
            raise ConfigError(f"--schema '{one}': expected key= or value= before the kind{did_you_mean(part, PARTS)}")
        if kind not in known:
            raise ConfigError(f"--schema '{one}': expected {', '.join(known)}{did_you_mean(kind, known)}")
        kinds |= dict.fromkeys([part] if equals else PARTS, kind)
    return kinds


def deserializers(given: Sequence[str], registry: RegistryOf) -> dict[str, Callable[[bytes], Any]]:
    """Return a consumer's settings for -s. registry: makes a registry client; called only if a kind needs one."""
    return {f"{part}_deserializer": _deserializer(kind, registry) for part, kind in kinds_of(given).items()}


def _deserializer(kind: str, registry: RegistryOf) -> Callable[[bytes], Any]:
    if kind == "json":
        return json.loads
    if kind == "json-schema":
        from levada.registry import JSONDeserializer

        return JSONDeserializer()
    # Imported only here, because they need packages of their own.
    if kind == "avro":
        from levada.registry import AvroDeserializer

        return AvroDeserializer(registry())
    from levada.registry.protobuf_json import MessageReader

    return MessageReader(registry())


def data_of(text: bytes) -> Any:
    """Return the data of a key or value that is JSON. Raises ValueError if it is not."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"with --schema, keys and values are JSON, and this is not: {fault}") from None


def serializers(given: Sequence[str], topic: str, registry: RegistryOf) -> dict[str, Callable[[Any], bytes | None]]:
    """Return functions by part, which convert data of JSON to bytes. registry: as for deserializers()."""
    return {part: _serializer(kind, topic, part, registry) for part, kind in kinds_of(given).items()}


def _serializer(kind: str, topic: str, part: str, registry: RegistryOf) -> Callable[[Any], bytes | None]:
    if kind == "json":
        return lambda data: json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    newest: dict[str, Any] = {"use_latest_version": True, "auto_register_schemas": False, "topic": topic, "field": part}
    if kind == "json-schema":
        from levada.registry import JSONSerializer

        return JSONSerializer(registry(), **newest)
    if kind == "avro":
        from levada.registry.avro_json import AvroJsonSerializer

        return AvroJsonSerializer(registry(), **newest)
    from levada.registry.protobuf_json import protobuf_serializer

    return protobuf_serializer(registry(), f"{topic}-{part}")


def column_formats(given: Sequence[str], topics: Sequence[str], on_error: str, registry: RegistryOf) -> dict[str, Any]:
    """Return arguments of scan() for -s. on_error: raise, skip or null, for values that cannot be decoded.

    For Protobuf the newest schema is read from the registry. Raises ConfigError for an unknown word, and with -s, for more topics than one.
    """
    if on_error not in MODES:
        raise ConfigError(f"--on-decode-error '{on_error}': expected {', '.join(MODES)}{did_you_mean(on_error, MODES)}")
    kinds = kinds_of(given, OF_COLUMNS)
    if not kinds:
        return {}
    if len(topics) != 1:
        raise ConfigError(f"with --schema, a scan reads one topic, because its columns have one schema; there are {len(topics)}")
    client = registry()
    arguments: dict[str, Any] = {"mode": MODES[on_error]}
    if set(kinds.values()) != {"protobuf"}:
        arguments["registry"] = client
    for part, kind in kinds.items():
        arguments[f"{part}_format"] = OF_COLUMNS[kind]
        if kind == "protobuf":
            from levada.registry.protobuf_json import newest_message

            arguments[f"{part}_schema"] = newest_message(client, f"{topics[0]}-{part}")[1]
    return arguments
