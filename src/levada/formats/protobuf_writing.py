"""Writes struct columns as Protobuf messages, without a header or in Confluent's wire format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from levada.errors import ConfigError
from levada.formats.protobuf_schema import (
    ENCODE_ERRORS,
    ENUM,
    TIMESTAMP,
    UNKNOWN_LABEL,
    UNSIGNED_64,
    MessageType,
    class_of,
    field_kind,
    is_time,
    single_kind,
)
from levada.formats.reading import Registry, client_of
from levada.formats.writing import FIRST_MICROS, LAST_MICROS, Encode, Named, WriteFormat, row_by_row
from levada.registry import ProtobufSerializer
from levada.registry.protobuf_codec import MESSAGES, entry_of, is_map, is_repeated, serialized

Convert = Callable[[Any], Any]
_NARROWER: Mapping[pa.DataType, tuple[pa.DataType, ...]] = {
    pa.int32(): (pa.int8(), pa.int16()),
    pa.int64(): (pa.int8(), pa.int16(), pa.int32()),
    pa.uint32(): (pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    pa.uint64(): (pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    pa.float64(): (pa.float32(),),
}
"""By type of a field, the other column types that it accepts. Unsigned fields accept signed numbers; a negative one is an error."""
_MOST_DURATION_S = 315_576_000_000
"""10,000 years: the limit in duration.proto."""


@dataclass(frozen=True)
class Registered:
    """The schema registry and the subject. registers: whether to register the schema, or only to look it up."""

    registry: Registry = field(repr=False)
    subject: str
    registers: bool


@dataclass(frozen=True)
class ProtobufWriter(WriteFormat):
    """Writes Protobuf messages. registered: the registry for Confluent's wire format; None for messages without a header."""

    message: MessageType
    registered: Registered | None = None

    def check(self, column: str, kind: pa.DataType, named: Named = str) -> None:
        """Raise ConfigError if a column of this type cannot be written."""
        if not pa.types.is_struct(kind):
            raise ConfigError(f"column '{column}' must be a struct to be written as {self.message.name}, but is {named(kind)}")
        _Fit(named).check_fields(column, kind, self.message.descriptor)

    def encoder(self, column: str) -> Encode:
        """Return a function that encodes a column. column: its name, for errors."""
        make, serialize = _arguments(self.message.descriptor), self._serializer()
        message_class = self.message.message_class()

        def write(value: Any) -> bytes | None:
            return serialize(message_class(**make(value)))

        return row_by_row(write, column, f"the message {self.message.name}", errors=ENCODE_ERRORS)

    def _serializer(self) -> Callable[[Any], bytes | None]:
        if self.registered is None:
            return serialized
        subject, registers = self.registered.subject, self.registered.registers
        return ProtobufSerializer(
            client_of(self.registered.registry),
            self.message.message_class(),
            subject_name_strategy=lambda *_: subject,
            auto_register_schemas=registers,
        )


class _Fit:
    """Checks whether a column can be written as a message. named: returns the name of a type for errors."""

    def __init__(self, named: Named) -> None:
        self._named = named

    def check_fields(self, path: str, kind: pa.DataType, message: Any) -> None:
        """Raise ConfigError with the path of the first field that cannot be written."""
        described = message.fields_by_name
        for one in kind:
            if one.name not in described:
                raise ConfigError(
                    f"column '{path}' has a field '{one.name}', and the message {message.full_name} has only {', '.join(described)}"
                )
            self._check(f"{path}.{one.name}", one.type, described[one.name])

    def _check(self, path: str, kind: pa.DataType, one: Any) -> None:
        if is_map(one) and pa.types.is_map(kind):
            key, value = entry_of(one)
            self._check_single(path, kind.key_type, key)
            self._check_single(path, kind.item_type, value)
        elif is_repeated(one) and not is_map(one) and pa.types.is_list(kind):
            self._check_single(f"{path}.element", kind.value_type, one)
        elif is_repeated(one):
            raise self._misfit(path, kind, field_kind(one))
        else:
            self._check_single(path, kind, one)

    def _check_single(self, path: str, kind: pa.DataType, one: Any) -> None:
        if one.type in MESSAGES and not is_time(one.message_type):
            if not pa.types.is_struct(kind):
                raise self._misfit(path, kind, single_kind(one))
            self.check_fields(path, kind, one.message_type)
        elif not _is_accepted(kind, single_kind(one)):
            raise self._misfit(path, kind, single_kind(one))

    def _misfit(self, path: str, kind: pa.DataType, wanted: pa.DataType) -> ConfigError:
        return ConfigError(f"column '{path}' is {self._named(kind)}, but the message has {self._named(wanted)} there; cast it")


def _is_accepted(kind: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return bool(wanted == pa.uint64() and kind.scale == 0)
    if pa.types.is_timestamp(kind):
        return pa.types.is_timestamp(wanted) and kind.tz is not None
    is_bytes = wanted == pa.binary() and pa.types.is_fixed_size_binary(kind)
    return is_bytes or pa.types.is_null(kind) or kind in (wanted, *_NARROWER.get(wanted, ()))


def _arguments(message: Any) -> Convert:
    """Return a function that converts a row to the arguments of its message's class."""
    converts = {one.name: _field(one) for one in message.fields}
    choices = [(group.name, [one.name for one in group.fields]) for group in message.oneofs]

    def arguments(row: dict[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in row.items() if value is not None}
        for group, names in choices:
            if sum(name in given for name in names) > 1:
                raise ValueError(f"of the oneof '{group}' only one of {', '.join(names)} can be set")
        return {name: converts[name](value) for name, value in given.items()}

    return arguments


def _field(one: Any) -> Convert:
    no_null = f"field '{one.name}' has a null in its {'map' if is_map(one) else 'list'}, but a message cannot hold a null there"
    of_one = _single(entry_of(one)[1] if is_map(one) else one, one.name)

    def of_list(values: list[Any]) -> list[Any]:
        if None in values:
            raise ValueError(no_null)
        return [of_one(value) for value in values]

    def of_map(entries: list[tuple[Any, Any]]) -> dict[Any, Any]:
        return dict(zip([key for key, _ in entries], of_list([value for _, value in entries]), strict=True))

    if is_map(one):
        return of_map
    return of_list if is_repeated(one) else of_one


def _single(one: Any, name: str) -> Convert:
    """Return a function that converts a value for the package protobuf. name: the field's name, for errors."""
    if one.type in UNSIGNED_64:
        return int
    if one.type == ENUM:
        return _enum(one.enum_type)
    if one.type not in MESSAGES:
        return lambda value: value
    if is_time(one.message_type):
        return _timestamp(name) if one.message_type.full_name == TIMESTAMP else _duration(name)
    arguments = _arguments(one.message_type)
    message_class = class_of(one.message_type)
    return lambda row: message_class(**arguments(row))


def _enum(kind: Any) -> Convert:
    unknown = f"{UNKNOWN_LABEL}{kind.name}_"

    def number_or_label(label: str) -> int | str:
        """Return the label, which the package looks up; or the number of a label such as UNKNOWN_ENUM_VALUE_Color_7, which a number without
        a name has when it is read.
        """
        number = label.removeprefix(unknown)
        is_unknown = number != label and label not in kind.values_by_name and number.removeprefix("-").isdecimal()
        return int(number) if is_unknown else label

    return number_or_label


def _timestamp(name: str) -> Convert:
    def convert(micros: int) -> dict[str, int]:
        if not FIRST_MICROS <= micros <= LAST_MICROS:
            raise ValueError(f"field '{name}' is {micros} µs from 1970 on, but a Timestamp holds only the years 0001 to 9999")
        seconds, rest = divmod(micros, 1_000_000)
        return {"seconds": seconds, "nanos": rest * 1000}

    return convert


def _duration(name: str) -> Convert:
    def convert(micros: int) -> dict[str, int]:
        if abs(micros) > _MOST_DURATION_S * 1_000_000:
            raise ValueError(f"field '{name}' is {micros} µs, but a Duration holds at most {_MOST_DURATION_S} s")
        # In a Duration seconds and nanos have the same sign; in a Timestamp nanos are never negative.
        seconds, rest = divmod(abs(micros), 1_000_000)
        sign = -1 if micros < 0 else 1
        return {"seconds": sign * seconds, "nanos": sign * rest * 1000}

    return convert
