"""Decodes Protobuf into columns without an object for each message.

`ProtobufReader` does the work, by steps that are made here from a message's descriptor. It leaves out messages that are malformed or rare;
`RowDecoder` decodes these value by value, and it says why a message is malformed. Both decode other messages in the same way, except that a
map's entries have the order in which they were written.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from levada.formats.column_decoder import ColumnDecoder, table_of
from levada.formats.protobuf_reader import ABSENCES, STEP_KINDS, WIRE_TYPES, ProtobufReader, Step
from levada.formats.protobuf_schema import ENUM, is_time, names_of
from levada.formats.reading import Decoder
from levada.registry.protobuf_codec import MESSAGES, FieldDescriptor, entry_of, is_map, is_repeated, is_required

NUMBER, ZIGZAG, FLAG, OF_ENUM, BYTES, MESSAGE, ENTRY, TIME, REFUSED, SYMBOL = STEP_KINDS
NULLED, FILLED, REQUIRED = ABSENCES
VARINT, FIXED_8, DELIMITED, GROUP, FIXED_4 = WIRE_TYPES

_KINDS = {
    FieldDescriptor.TYPE_BOOL: (FLAG, VARINT),
    FieldDescriptor.TYPE_INT32: (NUMBER, VARINT),
    FieldDescriptor.TYPE_INT64: (NUMBER, VARINT),
    FieldDescriptor.TYPE_UINT32: (NUMBER, VARINT),
    FieldDescriptor.TYPE_UINT64: (NUMBER, VARINT),
    FieldDescriptor.TYPE_SINT32: (ZIGZAG, VARINT),
    FieldDescriptor.TYPE_SINT64: (ZIGZAG, VARINT),
    FieldDescriptor.TYPE_FIXED32: (NUMBER, FIXED_4),
    FieldDescriptor.TYPE_SFIXED32: (NUMBER, FIXED_4),
    FieldDescriptor.TYPE_FLOAT: (NUMBER, FIXED_4),
    FieldDescriptor.TYPE_FIXED64: (NUMBER, FIXED_8),
    FieldDescriptor.TYPE_SFIXED64: (NUMBER, FIXED_8),
    FieldDescriptor.TYPE_DOUBLE: (NUMBER, FIXED_8),
    FieldDescriptor.TYPE_STRING: (BYTES, DELIMITED),
    FieldDescriptor.TYPE_BYTES: (BYTES, DELIMITED),
    FieldDescriptor.TYPE_ENUM: (OF_ENUM, VARINT),
}
"""The kind of a field's step, and the wire type of its values."""
_MOST_DEPTH = 90
"""Messages within more others than this are read by the package protobuf, which refuses them beyond a hundred."""


class ProtobufDecoder(ColumnDecoder):
    """Decodes Protobuf by steps.

    descriptor: the type of the messages. built: its Arrow type. prefix: what follows the schema's id in a header; None for no header.
    """

    # A column takes as long as this many messages, and any number of messages may have text that is not UTF-8.
    _fewest = 64

    def __init__(self, one_by_one: Decoder, descriptor: Any, built: pa.DataType, kind: pa.DataType, prefix: bytes | None) -> None:
        columns = table_of(built)
        planner = _Planner(columns)
        planner.plan(descriptor)
        plans = [column.plan for column in columns]
        self._protobuf = ProtobufReader(plans, planner.steps, bytes(planner.constants), prefix)
        super().__init__(one_by_one, columns, self._protobuf, kind)

    def _run(self) -> bool:
        self._protobuf.go_on()
        return True

    def _decoded(self, values: pa.Array) -> tuple[pa.Array, pa.BooleanArray] | None:
        found = super()._decoded(values)
        if found is None or not found[1].true_count:
            return found
        rows, left_out = found
        slow = self._one_by_one.decode(values.filter(left_out))
        # The n-th row that was left out is row n of these.
        after = pc.add(pc.cumulative_sum(left_out.cast(pa.int64())), len(rows) - 1)
        chosen = pc.if_else(left_out, after, pa.array(range(len(rows)), pa.int64()))
        malformed = pc.replace_with_mask(left_out, left_out, slow.malformed)
        return pa.concat_arrays([rows, slow.rows]).take(chosen), malformed


def has_steps(kind: pa.DataType, depth: int = 0) -> bool:
    """Whether messages of an Arrow type are decoded by steps: not those that contain others too deeply."""
    return depth <= _MOST_DEPTH and all(has_steps(kind.field(place).type, depth + 1) for place in range(kind.num_fields))


class _Planner:
    """Makes the steps for messages. columns: the columns of their type."""

    def __init__(self, columns: Sequence[Any]) -> None:
        self._columns = columns
        self.steps: list[Step] = []
        self.constants = bytearray()
        self._symbols: dict[str, range] = {}

    def plan(self, message: Any) -> None:
        """Make the steps of the root."""
        (root,) = self._reserve(1)
        self.steps[root] = self._message(Step(MESSAGE, target=0), message)

    def _reserve(self, count: int) -> range:
        begin = len(self.steps)
        self.steps += [Step(REFUSED)] * count
        return range(begin, begin + count)

    def _message(self, step: Step, message: Any) -> Step:
        """Return the step of a message, after adding its fields."""
        columns = {} if step.target < 0 else self._columns_of(step.target)
        fields = sorted(message.fields, key=lambda one: one.number)
        places = self._reserve(len(fields))
        of_number = {one.number: place for one, place in zip(fields, places, strict=True)}
        for one, place in zip(fields, places, strict=True):
            around = one.containing_oneof
            oneof = -1 if around is None or len(around.fields) == 1 else of_number[around.fields[0].number]
            self.steps[place] = self._field(one, columns.get(one.name, -1))._replace(oneof=oneof)
        return step._replace(first=places.start, parts=len(places), is_extendable=message.is_extendable)

    def _columns_of(self, index: int) -> dict[str, Any]:
        """Return the columns of a struct's fields."""
        column = self._columns[index]
        return {column.kind.field(place).name: column.plan.first + place for place in range(column.kind.num_fields)}

    def _field(self, one: Any, column: int) -> Step:
        if not is_repeated(one):
            return self._value(one, column, column)._replace(
                is_implicit=not one.has_presence, **self._absence(one, one.has_default_value, is_required(one))
            )
        target = self._columns[column].plan.first if column >= 0 else -1
        if not is_map(one):
            return self._value(one, column, target)._replace(is_repeated=True)
        step = Step(REFUSED if column < 0 else ENTRY, one.number, DELIMITED, column, is_repeated=True)
        if column < 0:
            # Its keys have no column to be checked in.
            return step
        places = self._reserve(2)
        for place, part, of_part in zip(places, entry_of(one), (target, target + 1), strict=True):
            # Programs that write maps always write a value that is a message. So an entry without one is rare, and is left out here.
            absence = self._absence(part, part.type not in MESSAGES, part.type in MESSAGES)
            self.steps[place] = self._value(part, of_part, of_part)._replace(**absence)
        return step._replace(first=places.start, parts=2)

    def _value(self, one: Any, column: int, target: int) -> Step:
        """Return the step for a field's values."""
        if one.type == FieldDescriptor.TYPE_GROUP:
            return Step(REFUSED, one.number, GROUP, column, target)
        if one.type in MESSAGES:
            if is_time(one.message_type):
                return Step(TIME, one.number, DELIMITED, column, target)
            return self._message(Step(MESSAGE, one.number, DELIMITED, column, target), one.message_type)
        kind, wire = _KINDS[one.type]
        step = Step(kind, one.number, wire, column, target)
        if one.type == ENUM:
            places = self._symbols_of(one.enum_type)
            return step._replace(first=places.start, parts=len(places))
        return step

    def _symbols_of(self, kind: Any) -> range:
        if kind.full_name not in self._symbols:
            names = sorted(names_of(kind).items())
            places = self._symbols[kind.full_name] = self._reserve(len(names))
            for place, (number, name) in zip(places, names, strict=True):
                self.steps[place] = Step(SYMBOL, number, **self._constant(name.encode()))
        return self._symbols[kind.full_name]

    def _constant(self, data: bytes) -> dict[str, Any]:
        begin = len(self.constants)
        self.constants += data
        return {"at": begin, "size": len(data)}

    def _absence(self, one: Any, has_default: bool, needed: bool) -> dict[str, Any]:
        """Return the parts of a step that say what a field has if a message lacks it: null or a default; or that it is required."""
        if needed or not has_default:
            return {"absence": REQUIRED if needed else NULLED}
        default = one.default_value
        if one.type == ENUM:
            default = names_of(one.enum_type)[default]
        if isinstance(default, str | bytes):
            return {"absence": FILLED, **self._constant(default.encode() if isinstance(default, str) else default)}
        if isinstance(default, float):
            is_wide = one.type == FieldDescriptor.TYPE_DOUBLE
            return {"absence": FILLED, "value": int.from_bytes(struct.pack("<d" if is_wide else "<f", default), "little")}
        return {"absence": FILLED, "value": int(default) & (2**64 - 1)}
