"""JSON values as typed Arrow columns, by a schema; a bad record is a row of its own, never an error.

What a value has to look like, and where this differs from Spark's from_json, is in docs/JSON.md. `JsonDecoder` makes of every value one
row. Who wants to fail, to drop or to keep bad records finds them in `malformed`.
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
# So much more than the last time is expected of text and arrays: who guesses a little too low copies everything once more.
_MARGIN = 1.125
_GROWTH = 8
# And before the first time: an element of an array for so many bytes.
_ELEMENTS_PER_BYTE = 1 / 64


class JsonFault(NamedTuple):
    """Why a value is malformed. position: the byte in the value; field: whose type it is not, None where the value is not a JSON object."""

    row: int
    position: int
    field: str | None
    kind: Any

    @property
    def reason(self) -> str:
        """What the value is not, and where."""
        what = "not a JSON object" if self.field is None else f"not of the type {self.kind} of field {self.field!r}"
        return f"{what} (byte {self.position})"

    def __str__(self) -> str:
        return f"row {self.row}: {self.reason}"


class JsonColumns(NamedTuple):
    """What values say.

    rows: a struct per value, null where the value is null or nothing but white space. malformed: which values could not be read whole; a
    field of such a row is null if its value was not of the field's type, and all are if the value is not a JSON object. fault: the first.
    """

    rows: pa.StructArray
    malformed: pa.BooleanArray
    fault: JsonFault | None


class JsonDecoder:
    """Reads JSON objects whose fields are those of an Arrow schema, in any order.

    schema: fields of the types bool, int8 to int64, float32, float64, string, binary (base64 in JSON), date32, timestamp in microseconds
    with zone UTC or without zone, decimal128, and lists and structs of these. Raises ValueError for any other, and for a name that comes
    twice. One decoder is for one thread at a time; the interpreter's lock is free while it works.
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
        """Return the table of columns: behind a column, next to each other, its fields or the column of its elements."""
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
        """Return a row for every one of `values`, which are binary or string. Raises TypeError for values of another type."""
        if values.type not in (pa.binary(), pa.string()):
            raise TypeError(f"JSON values are binary or string, not {values.type}")
        values = values.cast(pa.binary())
        # Reading believes the offsets.
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
        """Let go of values and columns, which belong to the caller."""
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
        """Make room for so many rows of a column and of its fields; return for how many there is."""
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
        """Give the column that ran out of memory what it asks for, and more: the record is read anew each time."""
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
    """Return the fields of a struct, or the one of a list's elements."""
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
    """Return what the reader has to know of a column."""
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
    """The memory of one column of the reader. What one batch took is what the next one gets to begin with."""

    def __init__(self, entry: Plan, kind: pa.DataType, text_share: float, row_share: float) -> None:
        """text_share, row_share: bytes of text and, in an array, rows expected for each byte of JSON."""
        self.entry = entry
        self._kind = kind
        self._text_share = text_share
        self._row_share = row_share
        self._has_offsets = entry.kind in (*TEXTS, Kind.ARRAY)
        self._width = WIDTHS.get(entry.kind, 0)

    def begin(self, size: int) -> None:
        """Be empty, for JSON of so many bytes."""
        self._size = size
        # There are no more elements or bytes of text than bytes of JSON.
        self.most = size
        self.expected_rows = int(size * self._row_share * _MARGIN) + 1
        self.capacity = 0
        self._validity = Memory(fill=0xFF)
        self._offsets = Memory()
        self._data = Memory(fill=0 if self.entry.kind == Kind.BOOLEAN else None)
        self.views: list[Any] = [None, None, None]

    def reserve(self, rows: int) -> int:
        """Make room for so many rows; return for how many there is."""
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
        """Make room for so many bytes of text."""
        self.views[0] = self._data.reserve(_rounded(size))

    def array(self, sizes: tuple[int, int, int], children: list[pa.Array]) -> pa.Array:
        """Return the column of so many rows, nulls and bytes of text."""
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
    """Return a size that holds whole numbers of any kind."""
    return (size + 63) & -64
