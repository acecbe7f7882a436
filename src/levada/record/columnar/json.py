"""Reads JSON values into typed Arrow columns, by a schema. A malformed value becomes a row, too; it is never an error.

docs/JSON.md says which values a type accepts, and where this differs from Spark's from_json. `JsonDecoder` makes one row of every value. A
caller that fails on malformed values, drops or keeps them, finds them in `malformed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from levada.record.columnar.buffers import Memory
from levada.record.json.plan import TEXTS, WIDTHS, Kind, Plan
from levada.record.json.reader import JsonReader

_KINDS: Mapping[Any, Kind] = {
    pa.string(): Kind.STRING,
    pa.binary(): Kind.BINARY,
    pa.bool_(): Kind.BOOLEAN,
    pa.int8(): Kind.BYTE,
    pa.int16(): Kind.SHORT,
    pa.int32(): Kind.INT,
    pa.int64(): Kind.LONG,
    pa.float32(): Kind.FLOAT,
    pa.float64(): Kind.DOUBLE,
    pa.date32(): Kind.DATE,
    pa.timestamp("us", tz="UTC"): Kind.TIMESTAMP,
    pa.timestamp("us"): Kind.TIMESTAMP_NTZ,
}
# Text and arrays are expected to be larger than the last time by this factor: memory that is a little too small is copied once more.
_MARGIN = 1.125
_GROWTH = 8
# Array elements expected per byte of JSON before the first batch.
_ELEMENTS_PER_BYTE = 1 / 64


class JsonFault(NamedTuple):
    """Why a value is malformed.

    position: the faulty byte in the value. field: the field whose value is not of the type `kind`; both are None if the value is not a JSON
    object.
    """

    row: int
    position: int
    field: str | None
    kind: Any

    @property
    def reason(self) -> str:
        """The fault as text: the value is no JSON object, or a field has another type than the schema; and the byte position."""
        what = "not a JSON object" if self.field is None else f"not of the type {self.kind} of field {self.field!r}"
        return f"{what} (byte {self.position})"

    def __str__(self) -> str:
        return f"row {self.row}: {self.reason}"


class JsonColumns(NamedTuple):
    """Decoded JSON values.

    rows: a struct per value; null if the value is null or only white space. malformed: True for each value that could not be read
    completely. In such a row a field whose value has another type is null; all fields are null if the value is not a JSON object. fault:
    the first fault.
    """

    rows: pa.StructArray
    malformed: pa.BooleanArray
    fault: JsonFault | None


class JsonDecoder:
    """Reads JSON objects whose fields are those of an Arrow schema, in any order.

    schema: fields of the types bool, int8 to int64, float32, float64, string, binary (base64 in JSON), date32, timestamp in microseconds
    with zone UTC or without zone, decimal128, and lists and structs of these. Raises ValueError for another type and for a duplicate name.
    Only one thread at a time may use a decoder. It releases the interpreter lock while it reads.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._types = [pa.struct(list(schema))]
        self._paths = [""]
        plan = self._plan()
        self._reader = JsonReader(plan)
        texts = sum(entry.kind in TEXTS for entry in plan) or 1
        arrays = sum(entry.kind == Kind.ARRAY for entry in plan) or 1
        self._columns = [_Column(*of, 1 / texts, _ELEMENTS_PER_BYTE / arrays) for of in zip(plan, self._types, strict=True)]

    def _plan(self) -> list[Plan]:
        """Return the table of columns.

        The fields of a column, or the column of its elements, come later in the table, next to each other.
        """
        plan: list[Plan] = []
        names = [""]
        while len(plan) < len(self._types):
            index = len(plan)
            kind, path = self._types[index], self._paths[index]
            fields = _fields(kind, path)
            plan.append(_entry(kind, names[index], path, len(self._types), len(fields)))
            for field in fields:
                names.append(field.name)
                self._types.append(field.type)
                self._paths.append(f"{path}.{field.name}" if path else field.name)
        return plan

    def decode(self, values: pa.Array) -> JsonColumns:
        """Return one row for each of `values`, an array of binary or string. Raises TypeError for another type."""
        if values.type not in (pa.binary(), pa.string()):
            raise TypeError(f"JSON values are binary or string, not {values.type}")
        values = values.cast(pa.binary())
        # The reader trusts the offsets.
        values.validate(full=True)
        try:
            return self._decode(values, len(values))
        finally:
            self._release()

    def _decode(self, values: pa.Array, rows: int) -> JsonColumns:
        malformed = Memory(fill=0)
        self._begin(values, rows, malformed)
        self._reserve(0, rows)
        while (starved := self._reader.go_on()) >= 0:
            self._feed(starved)
        bits = pa.Array.from_buffers(pa.bool_(), rows, [None, malformed.buffer((rows + 7) // 8)])
        return JsonColumns(self._array(0), bits, self._fault())

    def _release(self) -> None:
        """Release the values and the columns, which belong to the caller."""
        self._reader.release()
        for column in self._columns:
            column.begin(0)

    def _begin(self, values: pa.Array, rows: int, malformed: Memory) -> None:
        validity, offsets, data = (memoryview(buffer or b"").cast("B") for buffer in values.buffers())
        size = values.total_values_length
        for column in self._columns:
            column.begin(size)
        nulls = validity if values.null_count else None
        self._reader.begin(data, offsets.cast("i"), nulls, values.offset, rows, malformed.reserve((rows + 7) // 8))

    def _reserve(self, index: int, rows: int) -> int:
        """Make room for `rows` rows of a column and of its fields; return for how many rows there is room."""
        column = self._columns[index]
        capacity = column.reserve(rows)
        entry = column.entry
        for child in range(entry.first, entry.first + entry.children):
            if entry.kind == Kind.ARRAY:
                self._reserve(child, self._columns[child].expected_rows)
            else:
                capacity = min(capacity, self._reserve(child, rows))
        self._reader.attach(index, capacity, *column.views)
        return capacity

    def _feed(self, index: int) -> None:
        """Give the column that ran out of memory what it needs, and more, because the record is read again each time."""
        column = self._columns[index]
        wanted = max(self._reader.wanted, min(_GROWTH * self._reader.wanted, column.most))
        if self._reader.starved_for_text:
            column.reserve_text(wanted)
            self._reader.attach(index, column.capacity, *column.views)
        else:
            self._reserve(index, wanted)

    def _array(self, index: int) -> pa.Array:
        column = self._columns[index]
        entry = column.entry
        return column.array(self._reader.sizes(index), [self._array(child) for child in range(entry.first, entry.first + entry.children)])

    def _fault(self) -> JsonFault | None:
        reader = self._reader
        if reader.fault_row < 0:
            return None
        if reader.fault_column < 0:
            return JsonFault(reader.fault_row, reader.fault_at, None, None)
        return JsonFault(reader.fault_row, reader.fault_at, self._paths[reader.fault_column], self._types[reader.fault_column])


def _fields(kind: pa.DataType, path: str) -> list[pa.Field]:
    """Return the fields of a struct, or the field of a list's elements; [] for other types."""
    if pa.types.is_list(kind):
        return [kind.value_field]
    if not pa.types.is_struct(kind):
        return []
    fields = list(kind)
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        raise ValueError(f"a name comes twice in {f'field {path!r}' if path else 'the schema'}: {', '.join(names)}")
    return fields


def _entry(kind: pa.DataType, name: str, path: str, first: int, count: int) -> Plan:
    """Return the description of one column of the reader's table. Raises ValueError if JSON cannot be read as this type.

    path: the full name of the field, for the error. first, count: the index and number of the columns for its fields or elements.
    """
    if pa.types.is_struct(kind):
        return Plan(Kind.STRUCT, name.encode(), first, count)
    if pa.types.is_list(kind):
        return Plan(Kind.ARRAY, name.encode(), first, count)
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision:
        return Plan(Kind.DECIMAL, name.encode(), precision=kind.precision, scale=kind.scale)
    if kind not in _KINDS:
        raise ValueError(f"field {path!r}: JSON is not read as {kind}; types are {', '.join(map(str, _KINDS))}, decimal128, list, struct")
    return Plan(_KINDS[kind], name.encode())


class _Column:
    """The memory of one column of the reader.

    Text and array elements begin with as much memory per byte of JSON as in the last batch, and a little more.
    """

    def __init__(self, entry: Plan, kind: pa.DataType, text_share: float, row_share: float) -> None:
        """text_share: bytes of text expected per byte of JSON. row_share: the same for rows, if the column is an array's."""
        self.entry = entry
        self._kind = kind
        self._text_share = text_share
        self._row_share = row_share
        self._has_offsets = entry.kind in (*TEXTS, Kind.ARRAY)
        self._width = WIDTHS.get(entry.kind, 0)

    def begin(self, size: int) -> None:
        """Become empty. size: bytes of the JSON to be read."""
        self._size = size
        # JSON of so many bytes cannot have more elements or bytes of text than that.
        self.most = size
        self.expected_rows = int(size * self._row_share * _MARGIN) + 1
        self.capacity = 0
        self._validity = Memory(fill=0xFF)
        self._offsets = Memory()
        self._data = Memory(fill=0 if self.entry.kind == Kind.BOOLEAN else None)
        self.views: list[Any] = [None, None, None]

    def reserve(self, rows: int) -> int:
        """Make room for `rows` rows; return for how many rows there is room."""
        validity = self._validity.reserve(_rounded((rows + 7) // 8))
        self.views[2] = validity
        self.capacity = len(validity) * 8
        if self._has_offsets:
            offsets = self._offsets.reserve(_rounded((rows + 1) * 4))
            self.views[1] = offsets
            self.capacity = min(self.capacity, len(offsets) // 4 - 1)
        if self.entry.kind == Kind.BOOLEAN:
            self.views[0] = self._data.reserve(_rounded((rows + 7) // 8))
            self.capacity = min(self.capacity, len(self.views[0]) * 8)
        elif self._width:
            self.views[0] = self._data.reserve(_rounded(rows * self._width))
            self.capacity = min(self.capacity, len(self.views[0]) // self._width)
        elif self.entry.kind in TEXTS and self.views[0] is None:
            self.reserve_text(min(int(self._size * self._text_share * _MARGIN), self._size))
        return self.capacity

    def reserve_text(self, size: int) -> None:
        """Make room for `size` bytes of text."""
        self.views[0] = self._data.reserve(_rounded(size))

    def array(self, sizes: tuple[int, int, int], children: list[pa.Array]) -> pa.Array:
        """Return the column. sizes: its rows, nulls and bytes of text."""
        rows, nulls, used = sizes
        if self._size:
            self._text_share, self._row_share = used / self._size, rows / self._size
        validity = self._validity.buffer((rows + 7) // 8) if nulls else None
        buffers = [validity]
        if self._has_offsets:
            buffers.append(self._offsets.buffer((rows + 1) * 4))
        if self.entry.kind in TEXTS:
            buffers.append(self._data.buffer(used))
        elif self.entry.kind == Kind.BOOLEAN:
            buffers.append(self._data.buffer((rows + 7) // 8))
        elif self._width:
            buffers.append(self._data.buffer(rows * self._width))
        return pa.Array.from_buffers(self._kind, rows, buffers, nulls, children=children or None)


def _rounded(size: int) -> int:
    """Round a size in bytes up to a multiple of 64, so that it is a whole number of values of any width."""
    return (size + 63) & -64
