"""Converts Protobuf messages to JSON and back, without code that protoc generated: their classes are made from a registry's schemas."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from levada.base.asking import Convert, ReadsSchemaId
from levada.errors import SerializationError
from levada.registry.protobuf_codec import SERIALIZED, EncodeError, file_of, serialized
from levada.registry.schema import PROTOBUF, refuse_rules_on_reading, refuse_rules_on_writing
from levada.registry.wire_format import FIRST_MESSAGE, SchemaKey, header, locate_message, message_path, told_key

try:
    from google.protobuf import json_format
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError
    from google.protobuf.message_factory import GetMessageClass
except ImportError as missing:
    raise ImportError("Protobuf needs protobuf: pip install 'levada[protobuf]'") from missing

if TYPE_CHECKING:
    from levada.registry import SchemaRegistryClient

_BUILT_IN = ("google/protobuf/", "google/type/")
"""The beginnings of names of files that Python packages have: protobuf, and googleapis-common-protos if it is installed."""


class MessageReader(ReadsSchemaId):
    """A deserializer that converts a message to data of JSON, with the names of its fields as in the schema."""

    def __init__(self, registry: SchemaRegistryClient) -> None:
        self._registry = registry
        self._files: dict[SchemaKey, Any] = {}
        self._classes: dict[tuple[SchemaKey, tuple[int, ...]], Any] = {}

    def __call__(self, data: bytes, header: bytes | None = None) -> Any:
        """Deserialize one message. header: as for ProtobufDeserializer."""
        return self._find(data, header)(data)

    def _known(self, data: bytes, header: bytes | None = None) -> Convert | None:
        """Return the function that deserializes `data`; None if the registry has to be asked for their schema first."""
        key, path, begin = locate_message(data, header)
        message_class = self._classes.get((key, path))
        return None if message_class is None else partial(_read, message_class, key, begin)

    def _find(self, data: bytes, header: bytes | None = None) -> Convert:
        """Return the function that deserializes `data`; ask the registry for their schema if necessary. Raises RegistryError."""
        if (known := self._known(data, header)) is not None:
            return known
        key, path, begin = locate_message(data, header)
        if key not in self._files:
            self._files[key] = _file(self._registry, key)
        message_class = self._classes[key, path] = GetMessageClass(_at(self._files[key], path, key))
        return partial(_read, message_class, key, begin)


def _read(message_class: Any, key: SchemaKey, begin: int, data: bytes) -> Any:
    message = message_class()
    try:
        message.ParseFromString(data[begin:])
    except DecodeError as fault:
        raise SerializationError(f"it is no {message_class.DESCRIPTOR.full_name}, written with schema {told_key(key)}: {fault}") from fault
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def protobuf_serializer(registry: SchemaRegistryClient, subject: str) -> Callable[[Any], bytes | None]:
    """Return a function that serializes data of JSON as the first message type of a subject's newest schema, which is looked up now."""
    schema_id, descriptor = newest_message(registry, subject)
    message_class, before = GetMessageClass(descriptor), header(schema_id) + message_path(FIRST_MESSAGE)

    def write(data: Any) -> bytes | None:
        if data is None:
            return None
        try:
            return before + serialized(json_format.ParseDict(data, message_class()))
        except (json_format.ParseError, EncodeError, TypeError, ValueError) as fault:
            raise SerializationError(f"it is no {descriptor.full_name} of schema id {schema_id}: {fault}") from fault

    return write


def newest_message(registry: SchemaRegistryClient, subject: str) -> tuple[int, Any]:
    """Return the id of a subject's newest schema, and the descriptor of its first message type.

    Raises RegistryError; SerializationError if the schema cannot be used for writing.
    """
    latest = registry.get_latest_version(subject)
    schema_id = latest.schema_id
    refuse_rules_on_writing(latest.schema.rule_set, f"id {schema_id}")
    return schema_id, _at(_file(registry, schema_id), FIRST_MESSAGE, schema_id)


def _at(file: Any, path: tuple[int, ...], key: SchemaKey) -> Any:
    """Return the descriptor of a message type by its path in a file."""
    first, *below = path
    try:
        found = list(file.message_types_by_name.values())[first]
        for index in below:
            found = found.nested_types[index]
    except IndexError:
        raise SerializationError(f"there is no message {list(path)} in schema {told_key(key)}") from None
    return found


def _file(registry: SchemaRegistryClient, key: SchemaKey) -> Any:
    """Return the descriptor of the file of a schema, in a pool with the files that it imports."""
    pool: Any = DescriptorPool()
    return pool.FindFileByName(_add(pool, registry, key, "schema.proto", set()))


def _add(pool: Any, registry: SchemaRegistryClient, key: SchemaKey, name: str, added: set[str]) -> str:
    """Add the file of a schema and the files that it imports to a pool. Return its name."""
    schema, told = registry._schema_of(key), told_key(key)
    if schema.schema_type != PROTOBUF:
        raise SerializationError(f"schema {told} is of type {schema.schema_type}, not PROTOBUF")
    refuse_rules_on_reading(schema.rule_set, told)
    # Some registries return a schema as it was registered. Python's serializers register descriptors, others register text.
    file = file_of(schema.schema_str) or file_of(registry._schema_of(key, SERIALIZED).schema_str)
    if file is None:
        raise SerializationError(f"the registry cannot return schema {told} in the form '{SERIALIZED}'")
    file.name = name
    for reference in schema.references:
        if reference.name not in added:
            added.add(reference.name)
            _add(pool, registry, registry._referenced(reference).schema_id, reference.name, added)
    try:
        _add_built_in(pool, file, added)
        pool.Add(file)
        pool.FindFileByName(name)
    except (ImportError, KeyError, TypeError) as fault:
        raise SerializationError(f"schema {told} imports a file that the registry does not have: {fault}") from fault
    return name


def _add_built_in(pool: Any, file: Any, added: set[str]) -> None:
    """Add the files that a file imports and that no registry has, such as google/protobuf/timestamp.proto. Raises ImportError."""
    for name in file.dependency:
        if name.startswith(_BUILT_IN) and name not in added:
            added.add(name)
            code = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
            imported = FileDescriptorProto.FromString(code.DESCRIPTOR.serialized_pb)
            _add_built_in(pool, imported, added)
            pool.Add(imported)
