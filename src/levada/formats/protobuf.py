"""Reads Protobuf messages without a header, and in Confluent's wire format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from levada.errors import SerializationError
from levada.formats.protobuf_columns import ProtobufDecoder, has_steps
from levada.formats.protobuf_schema import (
    DECODE_ERRORS,
    DURATION,
    ENUM,
    TIMESTAMP,
    UNKNOWN_LABEL,
    MessageType,
    names_of,
)
from levada.formats.reading import Decoder, Format, MalformedError, Read, RowDecoder
from levada.registry.protobuf_codec import MESSAGES, entry_of, is_map, is_repeated, lacking
from levada.registry.wire_format import HEADER_SIZE, locate_message, message_path

Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class ProtobufFormat(Format):
    """Protobuf messages. has_header: whether each value begins with a schema's id and the message's path in its file."""

    message: MessageType
    has_header: bool
    is_text: ClassVar[bool] = False

    @property
    def has_ids(self) -> bool:
        """See Format."""
        return self.has_header

    @property
    def kind(self) -> pa.DataType:
        """The Arrow type of the message."""
        return self.message.kind()

    def decoder(self, kind: pa.DataType | None = None) -> Decoder:
        """Return a decoder."""
        read, built = message_reader(self.message), self.kind
        wanted = built if kind is None else kind
        one_by_one = RowDecoder(_behind_header(read, self.message) if self.has_header else read, wanted, built)
        if not has_steps(built):
            return one_by_one
        prefix = message_path(self.message.path()) if self.has_header else None
        return ProtobufDecoder(one_by_one, self.message.descriptor, built, wanted, prefix)


def _behind_header(read: Read, message: MessageType) -> Read:
    expected = message.path()

    def read_value(data: bytes) -> Any:
        try:
            _, path, begin = locate_message(data, None)
        except SerializationError:
            raise MalformedError(f"not of Confluent's wire format: {len(data)} bytes that begin with {data[:HEADER_SIZE]!r}") from None
        if path != expected:
            raise MalformedError(f"message {list(path)} of its file, and {message.name} is message {list(expected)}")
        return read(data[begin:])

    return read_value


def message_reader(message: MessageType) -> Read:
    """Return a function that converts a serialized message to a row. The function raises MalformedError."""
    message_class, to_row = message.message_class(), _row(message.descriptor)

    def read(data: bytes) -> Any:
        found = message_class()
        try:
            found.ParseFromString(data)
            if not found.IsInitialized():
                raise MalformedError(f"no {message.name}: it lacks {', '.join(lacking(found))}")
            return to_row(found)
        except DECODE_ERRORS as fault:
            raise MalformedError(f"no {message.name}: {fault}") from None

    return read


def _row(descriptor: Any) -> Convert:
    """Return a function that converts a message to a row.

    Like in Spark's from_protobuf, a missing field is null, except that a missing list or map is empty, and a missing field of proto2 has
    its default, if it has one. In proto3 a number 0 or an empty text counts as missing unless its field is optional.
    """
    converts = {one.number: (one.name, _field(one)) for one in descriptor.fields}
    lacking = {
        one.name: [] if is_repeated(one) else one.default_value for one in descriptor.fields if is_repeated(one) or one.has_default_value
    }
    enums = {
        one.name: _enum(one.enum_type) for one in descriptor.fields if one.name in lacking and one.type == ENUM and not is_repeated(one)
    }
    absent = {name: enums[name](value) if name in enums else value for name, value in lacking.items()}

    def row(message: Any) -> dict[str, Any]:
        found = dict(absent)
        for one, value in message.ListFields():
            # An extension's number is not among the fields of the type.
            if one.number in converts:
                name, convert = converts[one.number]
                found[name] = value if convert is None else convert(value)
        return found

    return row


def _field(one: Any) -> Convert | None:
    if is_map(one):
        of_value = _single(entry_of(one)[1]) or _as_it_is
        return lambda entries: [(key, of_value(value)) for key, value in entries.items()]
    of_element = _single(one)
    if is_repeated(one):
        return list if of_element is None else lambda values: [of_element(value) for value in values]
    return of_element


def _single(one: Any) -> Convert | None:
    if one.type == ENUM:
        return _enum(one.enum_type)
    if one.type in MESSAGES:
        return _BUILT_IN.get(one.message_type.full_name) or _row(one.message_type)
    return None


def _enum(kind: Any) -> Convert:
    names = names_of(kind)
    return lambda number: names.get(number) or f"{UNKNOWN_LABEL}{kind.name}_{number}"


def _microseconds(value: Any) -> int:
    """Return a Timestamp or Duration in microseconds. Nanoseconds are rounded down."""
    return int(value.seconds) * 1_000_000 + int(value.nanos) // 1000


def _as_it_is(value: Any) -> Any:
    return value


_BUILT_IN: Mapping[str, Convert] = {TIMESTAMP: _microseconds, DURATION: _microseconds}
