"""Serializer and deserializer for Protobuf messages in Confluent's wire format. They use the Python package protobuf."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from levada.base.asking import AsksRegistry, ReadsSchemaId
from levada.config.registry import SerializerConfig
from levada.errors import ConfigError, SerializationError
from levada.registry.client import SchemaRegistryClient
from levada.registry.errors import RegistryProtocolError
from levada.registry.protobuf_codec import SERIALIZED, EncodeError, file_of, serialized
from levada.registry.schema import PROTOBUF, Schema, SchemaReference
from levada.registry.wire_format import locate_message, message_path, told_key
from levada.registry.writing import Frame, WriterSchema, check_registry, subject_for, topic_of_subject

try:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError
except ImportError as missing:
    raise ImportError("Protobuf needs protobuf: pip install 'levada[protobuf]'") from missing

if TYPE_CHECKING:
    from typing import Unpack

    from typing_extensions import TypeVar

    from levada.config.typed import SerializerSettings

    M = TypeVar("M", default=Any)
else:
    from typing import TypeVar

    M = TypeVar("M")

BUILT_IN = ("google/protobuf/", "google/type/", "confluent/")
"""The beginnings of file names that every registry has, so that these files need not be registered."""


class ProtobufSerializer(AsksRegistry, Generic[M]):
    """Serializes messages of one type, for `value_serializer` or `key_serializer`::

        KafkaProducer(value_serializer=ProtobufSerializer(registry, Order, topic="orders"), ...)

    message_type: a class that protoc generated. topic, field, settings: as for AvroSerializer. The schema is the .proto file of the
    message, with references to the files that it imports. The subject of an imported file is its file name. With auto.register.schemas,
    imported files are registered first.
    """

    @SerializerConfig.in_help
    def __init__(
        self,
        registry: SchemaRegistryClient,
        message_type: type[M],
        settings: Mapping[str, Any] | None = None,
        /,
        *,
        topic: str | None = None,
        field: str = "value",
        **keywords: Unpack[SerializerSettings],
    ) -> None:
        check_registry(type(self), registry)
        config = SerializerConfig.parse(settings, **keywords)
        descriptor = _descriptor(message_type)
        subject = subject_for(config, topic, field, descriptor.full_name)
        self._registry = registry
        self.subject_topic = topic_of_subject(config, topic)
        self._config = config
        self._type = message_type
        self._frame: WriterSchema[Frame] = WriterSchema(
            registry,
            config,
            self._own_schema,
            schema_type=PROTOBUF,
            subject=subject,
            field=field,
            compile=_frame,
            path=self._path,
        )

    def __call__(self, value: M | None) -> bytes | None:
        """Serialize one message; None is returned as None.

        Raises SerializationError for a message of another type or without a required field, and RegistryError if the schema cannot be
        registered or found.
        """
        return self._serialize(self._frame.get, value)

    def _known(self, data: M | None) -> Callable[[Any], bytes | None] | None:
        """Return the function that serializes `data`; None if the registry has to be asked for the schema first."""
        if data is None:
            return self
        frame = self._frame.known()
        return None if frame is None else partial(self._serialize, lambda: frame)

    def _find(self, data: M | None) -> Callable[[Any], bytes | None]:
        """Return the function that serializes `data`; ask the registry for the schema if necessary. Raises RegistryError."""
        frame = self._frame.get()
        return partial(self._serialize, lambda: frame)

    def _serialize(self, frame: Callable[[], Frame], value: Any) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, self._type):
            raise SerializationError(f"expected {self._type.__name__}, got {type(value).__name__}")
        try:
            data = serialized(value)
        except EncodeError as fault:
            raise SerializationError(f"it cannot be written: {fault}") from fault
        found = frame()
        return found.around(found.before + data)

    def _path(self, schema_id: int, schema: Schema) -> bytes:
        """Return the path of the message type in the file of a schema. That may be another version of the file than the program's."""
        file = file_of(schema.schema_str)
        if file is None:
            # Some registries have no descriptor of a schema that was registered as text. Then it is taken for the program's version.
            with suppress(RegistryProtocolError):
                file = file_of(self._registry.get_schema(schema_id, SERIALIZED).schema_str)
        descriptor = _descriptor(self._type)
        indexes = _indexes(file or FileDescriptorProto.FromString(descriptor.file.serialized_pb), descriptor.full_name)
        if indexes is None:
            raise SerializationError(f"schema id {schema_id} has no message {descriptor.full_name}")
        return message_path(indexes)

    def _own_schema(self) -> Schema:
        return self._schema(_descriptor(self._type).file)

    def _schema(self, file: Any) -> Schema:
        return Schema(_text(file), PROTOBUF, [self._reference(imported) for imported in _imports(file)])

    def _reference(self, file: Any) -> SchemaReference:
        """Return the reference to an imported file. With auto.register.schemas, first register its imports, then the file."""
        schema, normalize = self._schema(file), self._config.normalize_schemas
        if self._config.auto_register_schemas:
            self._registry.register_schema(file.name, schema, normalize)
        return SchemaReference(file.name, file.name, self._registry.lookup_schema(file.name, schema, normalize).version)


def _frame(frame: Frame, schema: Schema) -> Frame:
    return frame


class ProtobufDeserializer(ReadsSchemaId, Generic[M]):
    """Deserializes messages of one type, for `value_deserializer` or `key_deserializer`::

        KafkaConsumer("orders", value_deserializer=ProtobufDeserializer(Order), ...)

    message_type: a class that protoc generated, from the same version of the .proto file as the writer's or from another version. Protobuf
    identifies fields by their numbers, so no registry is needed.
    """

    def __init__(self, message_type: type[M]) -> None:
        _descriptor(message_type)
        self._type = message_type

    def __call__(self, data: bytes, header: bytes | None = None) -> M:
        """Deserialize one message. Raises SerializationError if the data are invalid.

        header: the value of the record's header __key_schema_id or __value_schema_id, if it has one. Consumers pass it.
        """
        key, _, position = locate_message(data, header)
        message = self._type()
        try:
            message.ParseFromString(data[position:])  # type: ignore[attr-defined]
        except DecodeError as fault:
            raise SerializationError(f"it is no {self._type.__name__}, written with schema {told_key(key)}: {fault}") from fault
        return message

    def _known(self, data: bytes, header: bytes | None = None) -> Callable[[bytes], M]:
        """Return the function that deserializes `data`. The registry is never asked."""
        return self if header is None else partial(self, header=header)

    def _find(self, data: bytes, header: bytes | None = None) -> Callable[[bytes], M]:
        """Do what _known() does."""
        return self._known(data, header)


def _descriptor(message_type: Any) -> Any:
    descriptor = getattr(message_type, "DESCRIPTOR", None)
    if not isinstance(message_type, type) or not hasattr(descriptor, "file"):
        raise ConfigError(f"expected a class that protoc generated, got {message_type!r}")
    return descriptor


def _indexes(file: Any, full_name: str) -> list[int] | None:
    """Return the path of a message type in a file: the index of each enclosing message type, outermost first, then its own index.

    None if the file does not have it.
    """
    siblings, indexes = file.message_type, []
    for name in full_name.removeprefix(f"{file.package}.").split("."):
        index = next((number for number, message in enumerate(siblings) if message.name == name), None)
        if index is None:
            return None
        indexes.append(index)
        siblings = siblings[index].nested_type
    return indexes


def _imports(file: Any) -> list[Any]:
    return [imported for imported in file.dependencies if not imported.name.startswith(BUILT_IN)]


def _text(file: Any) -> str:
    """Return a .proto file as text for a registry: its file descriptor in base64."""
    return base64.b64encode(file.serialized_pb).decode()
