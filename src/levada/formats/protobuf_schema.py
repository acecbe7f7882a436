"""The Arrow type of a Protobuf message, from its descriptor. Uses the package protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from levada.errors import ConfigError
from levada.registry.protobuf_codec import MESSAGES, EncodeError, FieldDescriptor, entry_of, is_map, is_repeated

try:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError
    from google.protobuf.message_factory import GetMessageClass
except ImportError as missing:
    raise ImportError("Protobuf needs protobuf: pip install 'levada[protobuf]'") from missing

DECODE_ERRORS = (DecodeError, RecursionError, UnicodeDecodeError)
"""The exceptions that the package raises for invalid messages. For text that is not UTF-8 in proto2's maps, it raises only at access."""
ENCODE_ERRORS = (EncodeError, TypeError, ValueError, KeyError, OverflowError)
"""The exceptions that the package raises for values that a message cannot hold."""

ENUM = FieldDescriptor.TYPE_ENUM
UNSIGNED_64 = (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64)
TIMESTAMP = "google.protobuf.Timestamp"
DURATION = "google.protobuf.Duration"
UNKNOWN_LABEL = "UNKNOWN_ENUM_VALUE_"
"""Prefix of the text for an enum's number without a name. The enum's name and the number follow."""
_SCALARS: Mapping[int, pa.DataType] = {
    FieldDescriptor.TYPE_BOOL: pa.bool_(),
    FieldDescriptor.TYPE_INT32: pa.int32(),
    FieldDescriptor.TYPE_SINT32: pa.int32(),
    FieldDescriptor.TYPE_SFIXED32: pa.int32(),
    FieldDescriptor.TYPE_UINT32: pa.uint32(),
    FieldDescriptor.TYPE_FIXED32: pa.uint32(),
    FieldDescriptor.TYPE_INT64: pa.int64(),
    FieldDescriptor.TYPE_SINT64: pa.int64(),
    FieldDescriptor.TYPE_SFIXED64: pa.int64(),
    FieldDescriptor.TYPE_UINT64: pa.uint64(),
    FieldDescriptor.TYPE_FIXED64: pa.uint64(),
    FieldDescriptor.TYPE_FLOAT: pa.float32(),
    FieldDescriptor.TYPE_DOUBLE: pa.float64(),
    FieldDescriptor.TYPE_STRING: pa.string(),
    FieldDescriptor.TYPE_BYTES: pa.binary(),
    FieldDescriptor.TYPE_ENUM: pa.string(),
}
_BUILT_IN: Mapping[str, pa.DataType] = {TIMESTAMP: pa.timestamp("us", "UTC"), DURATION: pa.duration("us")}
_NOTHING = pa.struct([])


@dataclass(frozen=True)
class MessageType:
    """A message by its full name. files: a serialized FileDescriptorSet. options: the options that give files and name, for errors."""

    files: bytes = field(repr=False)
    name: str
    options: tuple[str, str] = field(compare=False)

    @classmethod
    def of(cls, descriptor: Any, option: str) -> MessageType:
        """Return the type of a message from its descriptor, such as a generated class has. option: the option that gives it, for errors."""
        files: dict[str, bytes] = {}
        _collect(descriptor.file, files)
        found = FileDescriptorSet()
        for data in files.values():
            found.file.add().ParseFromString(data)
        return cls(found.SerializeToString(), descriptor.full_name, (option, option))

    def message_class(self) -> Any:
        """Return the class of the message. Raises ConfigError that names the option."""
        return _message_class(self.files, self.name, self.options)

    @property
    def descriptor(self) -> Any:
        """The message's descriptor. Raises ConfigError."""
        return self.message_class().DESCRIPTOR

    def kind(self) -> pa.DataType:
        """Return the type of the column, a struct. Raises ConfigError."""
        where = f"option '{self.options[1]}'"
        kind = message_kind(self.descriptor, where, ())
        if not pa.types.is_struct(kind):
            raise ConfigError(f"{where}: {self.name} alone is not a column; name a message that has it as a field")
        return kind

    def path(self) -> tuple[int, ...]:
        """Return the message's path in its file: the index of each containing message, outermost first, then its own index."""
        indexes: list[int] = []
        message = self.descriptor
        while message is not None:
            around = message.containing_type
            siblings = message.file.message_types_by_name.values() if around is None else around.nested_types
            indexes.insert(0, [sibling.full_name for sibling in siblings].index(message.full_name))
            message = around
        return tuple(indexes)


def _collect(file: Any, files: dict[str, bytes]) -> None:
    """Add a file's serialized descriptor to `files`, after those of the files that it imports."""
    for imported in file.dependencies:
        _collect(imported, files)
    files.setdefault(file.name, file.serialized_pb)


def holds_files(data: bytes) -> bool:
    """Whether bytes are a FileDescriptorSet with at least one file."""
    try:
        return bool(FileDescriptorSet.FromString(data).file)
    except DecodeError:
        return False


@lru_cache(maxsize=32)
def _message_class(files: bytes, name: str, options: tuple[str, str]) -> Any:
    of_files, of_name = options
    try:
        found = {file.name: file for file in FileDescriptorSet.FromString(files).file}
    except DecodeError as fault:
        raise ConfigError(f"option '{of_files}' holds no FileDescriptorSet: {fault}") from None
    if not found:
        raise ConfigError(f"option '{of_files}' holds no FileDescriptorSet: there is no file in it")
    pool = DescriptorPool()
    added: set[str] = set()
    try:
        for file_name in found:
            _add(pool, found, file_name, added)
    except (KeyError, TypeError) as fault:
        raise ConfigError(
            f"option '{of_files}' does not hold all files that are imported: {fault}; make it with protoc --include_imports"
        ) from None
    try:
        return class_of(pool.FindMessageTypeByName(name))
    except KeyError:
        names = sorted(_names(found.values()))
        raise ConfigError(f"option '{of_name}': there is no message '{name}'; there are {', '.join(names) or 'none'}") from None


def _add(pool: Any, found: Mapping[str, Any], name: str, added: set[str]) -> None:
    """Add a file to the pool, after the files that it imports. found: all files by name. added: the names of the files in the pool."""
    if name in added:
        return
    added.add(name)
    for imported in found[name].dependency:
        _add(pool, found, imported, added)
    pool.Add(found[name])


def _names(files: Any) -> list[str]:
    return [f"{file.package}.{message.name}".lstrip(".") for file in files for message in file.message_type]


def message_kind(message: Any, where: str, within: tuple[str, ...]) -> pa.DataType:
    """Return the Arrow type of a message. Fields whose type is a message without fields are left out.

    within: the messages that contain it. Raises ConfigError for a message that contains itself.
    """
    if message.full_name in _BUILT_IN:
        return _BUILT_IN[message.full_name]
    if message.full_name in within:
        raise ConfigError(f"{where}: message '{message.full_name}' contains itself, which a column cannot")
    around = (*within, message.full_name)
    kinds = {one.name: field_kind(one, where, around) for one in message.fields}
    return pa.struct([(name, kind) for name, kind in kinds.items() if kind != _NOTHING])


def field_kind(one: Any, where: str = "", within: tuple[str, ...] = ()) -> pa.DataType:
    """Return the Arrow type of a field; an empty struct if it has messages without fields, also if it is a list or a map.

    where: names the option, for errors. within: see message_kind().
    """
    if is_map(one):
        key, value = entry_of(one)
        kind = single_kind(value, where, within)
        return kind if kind == _NOTHING else pa.map_(single_kind(key, where, within), kind)
    kind = single_kind(one, where, within)
    return pa.list_(pa.field("element", kind)) if is_repeated(one) and kind != _NOTHING else kind


def single_kind(one: Any, where: str = "", within: tuple[str, ...] = ()) -> pa.DataType:
    """Return the Arrow type of one value of a field. A repeated field has several such values. within: see message_kind()."""
    return message_kind(one.message_type, where, within) if one.type in MESSAGES else _SCALARS[one.type]


def names_of(kind: Any) -> dict[int, str]:
    """Return the names of an enum's numbers. If a number has several names, it is the last one."""
    return {number: value.name for number, value in kind.values_by_number.items()}


def class_of(message: Any) -> Any:
    """Return the class of a message."""
    return GetMessageClass(message)


def is_time(message: Any) -> bool:
    """Whether a message is a Timestamp or a Duration. These are not structs in Arrow."""
    return message.full_name in _BUILT_IN
