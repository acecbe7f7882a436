"""Decodes values into columns without an object for each value. Avro and Protobuf share this code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from levada.formats.column_reader import COLUMN_KINDS, ColumnPlan, ColumnReader
from levada.formats.reading import Decoded, DecodedRows, Decoder, RowFault

NOTHING, BOOLEAN, INT, LONG, FLOAT, DOUBLE, TEXT, FIXED, STRUCT, LIST, MAP = COLUMN_KINDS

_MOST_OFFSET = 2**31 - 1
_KINDS: tuple[tuple[Callable[[pa.DataType], bool], int], ...] = (
    (pa.types.is_null, NOTHING),
    (pa.types.is_boolean, BOOLEAN),
    (pa.types.is_int32, INT),
    (pa.types.is_date32, INT),
    (pa.types.is_time32, INT),
    (pa.types.is_uint32, INT),
    (pa.types.is_int64, LONG),
    (pa.types.is_uint64, LONG),
    (pa.types.is_duration, LONG),
    (pa.types.is_timestamp, LONG),
    (pa.types.is_time64, LONG),
    (pa.types.is_float32, FLOAT),
    (pa.types.is_float64, DOUBLE),
    (pa.types.is_string, TEXT),
    (pa.types.is_binary, TEXT),
    (pa.types.is_fixed_size_binary, FIXED),
    (pa.types.is_decimal, FIXED),
    (pa.types.is_struct, STRUCT),
    (pa.types.is_list, LIST),
    (pa.types.is_map, MAP),
)
_WIDTHS: Mapping[int, int] = {INT: 4, LONG: 8, FLOAT: 4, DOUBLE: 8}


class Column:
    """A column of the table: its type, and the memory of the rows that are read."""

    def __init__(self, kind: pa.DataType, plan: ColumnPlan) -> None:
        self.kind = kind
        self.plan = plan
        self.buffers: list[pa.Buffer | None] = []

    def allocate(self, rows: int, size: int) -> tuple[memoryview | None, ...]:
        """Allocate memory for this number of rows, and of bytes of text; return views of data, offsets and validity."""
        code, width = self.plan.kind, self.plan.width
        validity = _filled((rows + 7) // 8, 0xFF)
        offsets = _filled((rows + 1) * 4, 0) if code in (TEXT, LIST, MAP) else None
        data = (
            _filled((rows + 7) // 8, 0) if code == BOOLEAN else pa.allocate_buffer(rows * width or size) if code not in _PARENTS else None
        )
        self.buffers = [validity, *(one for one in (offsets, data) if one is not None)]
        return _view(data), _view(offsets), _view(validity)

    def array(self, rows: int, nulls: int, children: Sequence[pa.Array]) -> pa.Array:
        """Return the rows as an array, and give up the memory."""
        buffers, self.buffers = [self.buffers[0] if nulls else None, *self.buffers[1:]], []
        if self.plan.kind == NOTHING:
            return pa.nulls(rows)
        if self.plan.kind == MAP:
            entries = pa.struct([self.kind.key_field, self.kind.item_field])
            children = [pa.Array.from_buffers(entries, len(children[0]), [None], 0, children=list(children))]
        return pa.Array.from_buffers(self.kind, rows, buffers, nulls, children=list(children) or None)


_PARENTS = (NOTHING, STRUCT, LIST, MAP)


def _view(buffer: pa.Buffer | None) -> memoryview | None:
    return None if buffer is None else memoryview(buffer).cast("B")


def _filled(size: int, byte: int) -> pa.Buffer:
    buffer = pa.allocate_buffer(size)
    memoryview(buffer).cast("B")[:] = bytes((byte,)) * size
    return buffer


def table_of(kind: pa.DataType) -> list[Column]:
    """Return the columns for a type, in the order of the reader's table."""
    kinds: list[pa.DataType] = [kind]
    columns: list[Column] = []
    while len(columns) < len(kinds):
        one = kinds[len(columns)]
        code = next(code for is_of, code in _KINDS if is_of(one))
        inner = (
            list(one) if code == STRUCT else [one.value_field] if code == LIST else [one.key_field, one.item_field] if code == MAP else []
        )
        width = one.byte_width if code == FIXED else _WIDTHS.get(code, 0)
        columns.append(Column(one, ColumnPlan(code, width, len(kinds), len(inner))))
        kinds += [field.type for field in inner]
    return columns


class ColumnDecoder(ABC):
    """Decodes values by a reader that fills columns.

    one_by_one: decodes the values that the reader cannot decode, and says why a value is malformed. columns, reader: the columns of the
    format's type, and what fills them. kind: the type of the column.
    """

    _fewest = 1
    """Up to this number, values are decoded one by one if Arrow refuses any of them. More values are halved to find the refused ones."""

    def __init__(self, one_by_one: Decoder, columns: Sequence[Column], reader: ColumnReader, kind: pa.DataType) -> None:
        self._one_by_one = one_by_one
        self._columns = columns
        self._reader = reader
        self._kind = kind

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a binary column."""
        try:
            found = self._decoded_or_split(values) if len(values) else None
            row = -1 if found is None else found[1].index(True).as_py()
            fault = None if row < 0 else RowFault(row, self._reason(values.slice(row, 1)))
        finally:
            self._reader.release()
        return self._one_by_one.decode(values) if found is None else DecodedRows(*found, fault)

    def _decoded_or_split(self, values: pa.Array) -> tuple[pa.Array, pa.BooleanArray] | None:
        """Return the rows, and which are malformed; None if they have to be decoded value by value.

        Arrow refuses a whole column if some text is not UTF-8, some decimal has too many digits, or some value does not fit `kind`. A
        binary search finds these values, so that a row does not depend on the other values.
        """
        try:
            return self._decoded(values)
        except pa.ArrowInvalid:
            if len(values) <= self._fewest:
                found = self._one_by_one.decode(values)
                return found.rows, found.malformed
        middle = len(values) // 2
        first, second = (self._decoded_or_split(half) for half in (values.slice(0, middle), values.slice(middle)))
        if first is None or second is None:
            return None
        return pa.concat_arrays([first[0], second[0]]), pa.concat_arrays([first[1], second[1]])

    def _decoded(self, values: pa.Array) -> tuple[pa.Array, pa.BooleanArray] | None:
        """Like _decoded_or_split(), but raise ArrowInvalid for a column that Arrow refuses."""
        malformed = bytearray(len(values))
        if not self._pass(values, malformed, fills=False):
            return None
        sizes = [self._reader.sizes(index) for index in range(len(self._columns))]
        if any(max(rows, size) > _MOST_OFFSET for rows, _, size in sizes):
            return None
        for index, (rows, _, size) in enumerate(sizes):
            self._reader.attach(index, *self._columns[index].allocate(rows, size))
        self._pass(values, malformed, fills=True)
        rows = self._array(0)
        rows.validate(full=True)
        flags = pa.Array.from_buffers(pa.uint8(), len(values), [None, pa.py_buffer(malformed)]).cast(pa.bool_())
        return rows if rows.type.equals(self._kind) else rows.cast(self._kind), flags

    def _reason(self, value: pa.Array) -> str:
        """Return why a value is malformed; "" if it is not when it is decoded alone."""
        fault = self._one_by_one.decode(value).fault
        return "" if fault is None else fault.reason

    def _pass(self, values: pa.Array, malformed: bytearray, *, fills: bool) -> bool:
        """Read all values; return False if they have to be decoded value by value."""
        validity, offsets, data = (memoryview(buffer or b"").cast("B") for buffer in values.buffers())
        nulls = validity if values.null_count else None
        self._reader.begin(data, offsets.cast("i"), nulls, values.offset, len(values), malformed, fills)
        return self._run()

    @abstractmethod
    def _run(self) -> bool:
        """Read the values of a pass; return False if they have to be decoded value by value."""

    def _array(self, index: int) -> pa.Array:
        plan = self._columns[index].plan
        children = [self._array(child) for child in range(plan.first, plan.first + plan.children)]
        rows, nulls, _ = self._reader.sizes(index)
        found = self._columns[index].array(rows, nulls, children)
        if plan.kind == MAP and self._reader.may_have_key_twice and _has_key_twice(found):
            # The packages return the last value of a key.
            raise pa.ArrowInvalid("a map has a key twice, which some programs do not read")
        return found


def _has_key_twice(maps: pa.MapArray) -> bool:
    rows = pc.list_parent_indices(pa.ListArray.from_arrays(maps.offsets, maps.keys))
    keys = maps.keys.dictionary_encode()
    pairs = pc.add(pc.multiply(rows, len(keys.dictionary)), keys.indices.cast(pa.int64()))
    return bool(pc.count_distinct(pairs).as_py() < len(pairs))
