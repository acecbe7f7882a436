"""The serializer and the deserializer in Glue's wire format, for Avro, JSON and Protobuf.

Confluent's serializers are not used, because what they share does not apply to Glue: integer ids in headers and settings, subjects that
follow from the topic, references between schemas. Values are encoded in the same way, except for the message types of Protobuf.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Literal, TypeAlias
from uuid import UUID

from levada.base.asking import AsksRegistry, Convert, ReadsSchemaId, asks_registry
from levada.errors import ConfigError, SerializationError
from levada.registry.errors import RegistryNotFoundError
from levada.registry.glue.client import GlueSchemaRegistry
from levada.registry.glue.wire_format import HEADER_SIZE, after_message_number, is_of_glue, packed, unpacked, version_id_of
from levada.registry.json_schema import as_json
from levada.registry.objects import PerSchema, T
from levada.registry.schema import AVRO, JSON, PROTOBUF, Schema
from levada.registry.wire_format import SchemaKey, uvarint
from levada.registry.writing import check_registry

Encode: TypeAlias = Callable[[Any], bytes]
Decode: TypeAlias = Callable[[bytes], Any]


class GlueSerializer(AsksRegistry, Generic[T]):
    """Serializes objects in Glue's wire format, for `value_serializer` or `key_serializer`::

        KafkaProducer(value_serializer=GlueSerializer(registry, schema, schema_name="orders"), ...)

    schema: the JSON text of an Avro schema, or a Schema, which may have the type "JSON" or "PROTOBUF". schema_name: the name of the schema
    in Glue. message_type: for Protobuf, the class that protoc generated from the schema. to_dict: converts an object to a value that can be
    written, such as a mapping. compression: of each value. auto_register_schemas: whether to register the schema when the first value is
    written; if not, it must be registered already.

    None is returned as None, because a record with the value null deletes its key in a compacted topic.
    """

    def __init__(
        self,
        registry: GlueSchemaRegistry,
        schema: str | Schema,
        *,
        schema_name: str,
        message_type: type | None = None,
        to_dict: Callable[[T], Any] | None = None,
        compression: Literal["none", "zlib"] = "none",
        auto_register_schemas: bool = True,
    ) -> None:
        check_registry(type(self), registry, GlueSchemaRegistry)
        if compression not in ("none", "zlib"):
            raise ConfigError(f"compression must be 'none' or 'zlib'; got {compression!r}")
        self._registry = registry
        self._schema = Schema(schema) if isinstance(schema, str) else schema
        self._schema_name = schema_name
        self._encode = _encoder(self._schema, message_type)
        self._to_dict = to_dict
        self._compress = compression == "zlib"
        self._registers = auto_register_schemas
        self._version_id: UUID | None = None

    def __call__(self, value: T | None) -> bytes | None:
        """Serialize one object; None is returned as None.

        Raises SerializationError if the object cannot be written with the schema, and RegistryError if the schema cannot be registered or
        found. A JSON Schema is not checked.
        """
        return None if value is None else self._find(value)(value)

    def _known(self, data: T | None) -> Convert | None:
        """Return the function that serializes `data`; None if the registry has to be asked for the schema first."""
        if data is None:
            return self
        return None if self._version_id is None else partial(self._serialize, self._version_id)

    def _find(self, data: T | None) -> Convert:
        """Return the function that serializes `data`; ask the registry for the schema if necessary. Raises RegistryError."""
        if self._version_id is None:
            self._version_id = self._ask()
        return partial(self._serialize, self._version_id)

    def _ask(self) -> UUID:
        if self._registers:
            return self._registry.register_schema(self._schema_name, self._schema)
        try:
            return self._registry.lookup_schema(self._schema_name, self._schema)
        except RegistryNotFoundError as missing:
            missing.add_note("register it, or set auto_register_schemas=True")
            raise

    def _serialize(self, version_id: UUID, value: Any) -> bytes | None:
        if value is None:
            return None
        data = self._encode(value if self._to_dict is None else self._to_dict(value))
        return packed(version_id, data, compress=self._compress)


class GlueDeserializer(ReadsSchemaId, Generic[T]):
    """Deserializes Avro, JSON and Protobuf in Glue's wire format, for `value_deserializer` or `key_deserializer`::

        KafkaConsumer("orders", value_deserializer=GlueDeserializer(registry), ...)

    Each value contains the id of its writer's schema, which tells the format. schema: the reader's schema, if all values are Avro; every
    value gets the fields and defaults of this schema. message_type: a class that protoc generated, if all values are Protobuf messages of
    this type. from_dict: converts a value, such as a mapping, to an object. secondary_deserializer: deserializes what was not written in
    Glue's wire format, such as the values of a topic from before its producers used Glue.
    """

    def __init__(
        self,
        registry: GlueSchemaRegistry,
        schema: str | Schema | None = None,
        *,
        message_type: type | None = None,
        from_dict: Callable[[Any], T] | None = None,
        secondary_deserializer: Callable[[bytes], T] | None = None,
    ) -> None:
        check_registry(type(self), registry, GlueSchemaRegistry)
        if schema is not None and message_type is not None:
            raise ConfigError("a reader's schema is for Avro, message_type for Protobuf: give one of them")
        self._registry = registry
        self._message_type = message_type
        self._reader = None if schema is None else _parsed_avro(Schema(schema) if isinstance(schema, str) else schema)
        if message_type is not None:
            _descriptor(message_type)
        self._only = PROTOBUF if message_type is not None else AVRO if schema is not None else None
        self._from_dict = from_dict
        self._secondary: Any = secondary_deserializer
        self._read = PerSchema(self._compile)

    def __call__(self, data: bytes, header: bytes | None = None) -> T:
        """Deserialize one value. Raises SerializationError if the data are invalid, and RegistryError if the schema cannot be fetched.

        header: for a secondary deserializer of Confluent's registry, as for AvroDeserializer. Consumers pass it.
        """
        value: T = self._find(data, header)(data)
        return value

    def _known(self, data: bytes, header: bytes | None = None) -> Convert | None:
        """Return the function that deserializes `data`; None if the registry has to be asked for their schema first."""
        if self._is_glues(data, header):
            return self._read.known((version_id_of(data), HEADER_SIZE))
        return self._secondary._known(data, *self._passed(header)) if asks_registry(self._secondary) else self._secondary

    def _find(self, data: bytes, header: bytes | None = None) -> Convert:
        """Return the function that deserializes `data`; ask the registry for their schema if necessary. Raises RegistryError."""
        if self._is_glues(data, header):
            return self._read.get((version_id_of(data), HEADER_SIZE))
        return self._secondary._find(data, *self._passed(header)) if asks_registry(self._secondary) else self._secondary

    def _is_glues(self, data: bytes, header: bytes | None) -> bool:
        """Whether a value is not for the secondary deserializer. With an id in a header, the data may begin with any bytes."""
        return self._secondary is None or (is_of_glue(data) and not self._passed(header))

    def _passed(self, header: bytes | None) -> tuple[bytes, ...]:
        """Return the header as a further argument for the secondary deserializer, if there is one and it takes it."""
        return () if header is None or not isinstance(self._secondary, ReadsSchemaId) else (header,)

    def _compile(self, version: SchemaKey, begin: int) -> Decode:
        assert isinstance(version, bytes)
        version_id = UUID(bytes=version)
        decode, from_dict = self._decoder(version_id, self._registry.get_schema(version_id)), self._from_dict
        if from_dict is None:
            return lambda data: decode(unpacked(data))
        return lambda data: from_dict(decode(unpacked(data)))

    def _decoder(self, version_id: UUID, writer: Schema) -> Decode:
        kind, name = writer.schema_type, f"{writer.schema_type} schema version {version_id}"
        if self._only is not None and kind != self._only:
            raise SerializationError(f"it was written with {name}, not with {self._only} as the deserializer's arguments say")
        if kind == AVRO:
            return _avro_decoder(name, writer, self._reader)
        if kind == JSON:
            return partial(_from_json, name)
        if kind != PROTOBUF:
            raise SerializationError(f"it was written with {name}, whose format is not known here")
        if self._message_type is None:
            raise SerializationError(f"it was written with {name}: give message_type, a class that protoc generated")
        return partial(_from_protobuf, name, self._message_type)


def _encoder(schema: Schema, message_type: type | None) -> Encode:
    """Return the function that writes values with a schema. Raises ConfigError."""
    if (schema.schema_type == PROTOBUF) != (message_type is not None):
        raise ConfigError(f"a schema of type PROTOBUF needs message_type, others have none; this one is of type {schema.schema_type}")
    if message_type is not None:
        return _protobuf_encoder(message_type)
    if schema.schema_type == JSON:
        return as_json
    return _avro_encoder(_parsed_avro(schema))


def _parsed_avro(schema: Schema) -> Any:
    from levada.registry.avro_codec import document, parse, told

    if schema.schema_type != AVRO:
        raise ConfigError(f"the schema is of type {schema.schema_type}, not AVRO")
    try:
        return parse([document(schema.schema_str)])
    except Exception as fault:
        raise ConfigError(f"the Avro schema cannot be read: {told(fault)}") from fault


def _avro_encoder(parsed: Any) -> Encode:
    from levada.registry.avro_codec import WRITE_ERRORS, told, write_value

    def encode(value: Any) -> bytes:
        try:
            return write_value(b"", parsed, value)
        except WRITE_ERRORS as fault:
            raise SerializationError(f"it does not fit the Avro schema: {told(fault)}") from fault

    return encode


def _avro_decoder(name: str, schema: Schema, reader: Any) -> Decode:
    from levada.registry.avro_codec import LeftOverError, ValueReader, document, parse, told
    from levada.registry.avro_defaults import Defaults

    names: dict[str, Any] = {}
    try:
        writer = parse([document(schema.schema_str)], names)
        read = ValueReader(writer, names, reader)
        fill = None if reader in (None, writer) else Defaults(reader, names_branches=False).fill
    except Exception as fault:
        raise SerializationError(f"fastavro cannot read {name}: {told(fault)}") from fault

    def decode(data: bytes) -> Any:
        try:
            value = read(data, 0)
            if fill is not None:
                fill(value)
            return value
        except LeftOverError as fault:
            raise SerializationError(f"{fault.count} bytes are left over after {name}: it was written with another schema") from None
        except Exception as fault:
            raise SerializationError(f"it cannot be read with {name}: {told(fault)}") from fault

    return decode


def _from_json(name: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as fault:
        raise SerializationError(f"the data after {name} are not JSON: {fault}") from fault


def _descriptor(message_type: type) -> Any:
    from levada.registry import protobuf

    return protobuf._descriptor(message_type)


def _message_number(message_type: type) -> bytes:
    """Return the encoded number of a message type. Types that Protobuf adds for maps are counted, as in Java."""
    descriptor = _descriptor(message_type)
    found, names = list(descriptor.file.message_types_by_name.values()), []
    for one in found:
        names.append(one.full_name)
        found.extend(one.nested_types)
    return uvarint(sorted(names).index(descriptor.full_name))


def _protobuf_encoder(message_type: type) -> Encode:
    from levada.registry.protobuf_codec import EncodeError, serialized

    number = _message_number(message_type)

    def encode(message: Any) -> bytes:
        if not isinstance(message, message_type):
            raise SerializationError(f"expected a {message_type.__name__}, got {type(message).__name__}")
        try:
            return number + serialized(message)
        except EncodeError as fault:
            raise SerializationError(f"it cannot be written: {fault}") from fault

    return encode


def _from_protobuf(name: str, message_type: Any, data: bytes) -> Any:
    message, body = message_type(), after_message_number(data)
    try:
        message.ParseFromString(body)
    except Exception as fault:
        raise SerializationError(f"it is no {message_type.__name__}, written with {name}: {fault}") from fault
    return message
