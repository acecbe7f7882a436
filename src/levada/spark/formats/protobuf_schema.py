"""The Spark type of a Protobuf message, from its descriptor. Uses the package protobuf.

The types are those of Spark's from_protobuf, except for unsigned numbers, which Spark reads as negative if they are large: uint32 is a long
here and uint64 a decimal(20,0), as with Spark's option upcast.unsigned.ints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from levada.errors import ConfigError

try:
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError, EncodeError
    from google.protobuf.message_factory import GetMessageClass
except ImportError as missing:
    raise ImportError("Protobuf needs protobuf: pip install 'levada[protobuf]'") from missing

DECODE_ERRORS = (DecodeError, RecursionError, UnicodeDecodeError)
"""The exceptions that the package raises for invalid messages. For text that is not UTF-8 in proto2's maps, it raises only at access."""
ENCODE_ERRORS = (EncodeError, TypeError, ValueError, KeyError, OverflowError)
"""The exceptions that the package raises for values that a message cannot hold."""

ENUM = FieldDescriptor.TYPE_ENUM
MESSAGES = (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP)
UNSIGNED_64 = (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64)
TIMESTAMP = "google.protobuf.Timestamp"
DURATION = "google.protobuf.Duration"
UNKNOWN_LABEL = "UNKNOWN_ENUM_VALUE_"
"""Prefix of the text for an enum's number without a name. The enum's name and the number follow."""
_UINT64 = DecimalType(20, 0)
_SCALARS: Mapping[int, DataType] = {
    FieldDescriptor.TYPE_BOOL: BooleanType(),
    FieldDescriptor.TYPE_INT32: IntegerType(),
    FieldDescriptor.TYPE_SINT32: IntegerType(),
    FieldDescriptor.TYPE_SFIXED32: IntegerType(),
    FieldDescriptor.TYPE_UINT32: LongType(),
    FieldDescriptor.TYPE_FIXED32: LongType(),
    FieldDescriptor.TYPE_INT64: LongType(),
    FieldDescriptor.TYPE_SINT64: LongType(),
    FieldDescriptor.TYPE_SFIXED64: LongType(),
    FieldDescriptor.TYPE_UINT64: _UINT64,
    FieldDescriptor.TYPE_FIXED64: _UINT64,
    FieldDescriptor.TYPE_FLOAT: FloatType(),
    FieldDescriptor.TYPE_DOUBLE: DoubleType(),
    FieldDescriptor.TYPE_STRING: StringType(),
    FieldDescriptor.TYPE_BYTES: BinaryType(),
    FieldDescriptor.TYPE_ENUM: StringType(),
}
_BUILT_IN: Mapping[str, DataType] = {TIMESTAMP: TimestampType(), DURATION: DayTimeIntervalType()}


@dataclass(frozen=True)
class MessageType:
    """A message by its full name. files: a serialized FileDescriptorSet. side: key or value, for the names of options in errors."""

    files: bytes = field(repr=False)
    name: str
    side: str = field(compare=False)

    def message_class(self) -> Any:
        """Return the class of the message. Raises ConfigError that names the option."""
        return _message_class(self.files, self.name, self.side)

    @property
    def descriptor(self) -> Any:
        """The message's descriptor. Raises ConfigError."""
        return self.message_class().DESCRIPTOR

    def spark_type(self) -> StructType:
        """Return the type of the column. Raises ConfigError."""
        kind = spark_type(self.descriptor, f"option '{self.side}.protobuf.message'", ())
        if not isinstance(kind, StructType):
            raise ConfigError(
                f"option '{self.side}.protobuf.message': {self.name} alone is not a column; name a message that has it as a field"
            )
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


def holds_files(data: bytes) -> bool:
    """Whether bytes are a FileDescriptorSet with at least one file."""
    try:
        return bool(FileDescriptorSet.FromString(data).file)
    except DecodeError:
        return False


@lru_cache(maxsize=32)
def _message_class(files: bytes, name: str, side: str) -> Any:
    try:
        found = {file.name: file for file in FileDescriptorSet.FromString(files).file}
    except DecodeError as fault:
        raise ConfigError(f"option '{side}.protobuf.descriptor' holds no FileDescriptorSet: {fault}") from None
    if not found:
        raise ConfigError(f"option '{side}.protobuf.descriptor' holds no FileDescriptorSet: there is no file in it")
    pool = DescriptorPool()
    added: set[str] = set()
    try:
        for file_name in found:
            _add(pool, found, file_name, added)
    except (KeyError, TypeError) as fault:
        raise ConfigError(
            f"option '{side}.protobuf.descriptor' does not hold all files that are imported: {fault}; make it with protoc --include_imports"
        ) from None
    try:
        return class_of(pool.FindMessageTypeByName(name))
    except KeyError:
        names = sorted(_names(found.values()))
        raise ConfigError(
            f"option '{side}.protobuf.message': there is no message '{name}'; there are {', '.join(names) or 'none'}"
        ) from None


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


def spark_type(message: Any, where: str, within: tuple[str, ...]) -> DataType:
    """Return the Spark type of a message. within: the messages that contain it. Raises ConfigError for a message that contains itself."""
    if message.full_name in _BUILT_IN:
        return _BUILT_IN[message.full_name]
    if message.full_name in within:
        raise ConfigError(f"{where}: message '{message.full_name}' contains itself, which a Spark type cannot")
    around = (*within, message.full_name)
    kinds = {one.name: field_type(one, where, around) for one in message.fields}
    return StructType([StructField(name, kind) for name, kind in kinds.items() if kind != StructType()])


def field_type(one: Any, where: str = "", within: tuple[str, ...] = ()) -> DataType:
    """Return the Spark type of a field. where: names the option, for errors. within: see spark_type()."""
    if is_map(one):
        key, value = entry_of(one)
        kind = single_type(value, where, within)
        return kind if kind == StructType() else MapType(single_type(key, where, within), kind)
    kind = single_type(one, where, within)
    return ArrayType(kind) if is_repeated(one) and kind != StructType() else kind


def single_type(one: Any, where: str = "", within: tuple[str, ...] = ()) -> DataType:
    """Return the Spark type of one value of a field. A repeated field has several such values. within: see spark_type()."""
    return spark_type(one.message_type, where, within) if one.type in MESSAGES else _SCALARS[one.type]


def is_repeated(one: Any) -> bool:
    """Whether a field is a list or a map. protobuf before 6 has no attribute is_repeated; later versions have no label."""
    return bool(one.is_repeated) if hasattr(one, "is_repeated") else one.label == one.LABEL_REPEATED


def class_of(message: Any) -> Any:
    """Return the class of a message."""
    return GetMessageClass(message)


def is_time(message: Any) -> bool:
    """Whether a message is a Timestamp or a Duration. These are not structs in Spark."""
    return message.full_name in _BUILT_IN


def is_map(one: Any) -> bool:
    """Whether a field is a map."""
    return bool(one.type == FieldDescriptor.TYPE_MESSAGE and one.message_type.GetOptions().map_entry)


def entry_of(one: Any) -> tuple[Any, Any]:
    """Return the two fields of a map's entries: the key and the value."""
    entry = one.message_type.fields_by_name
    return entry["key"], entry["value"]
