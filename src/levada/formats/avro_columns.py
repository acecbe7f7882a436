"""Decodes Avro into columns without an object for each value.

`AvroReader` does the work, by steps that are made here from a writer's and a reader's schema. What is rare has no steps: unions of several
types, schemas that contain themselves, types that are resolved to each other in unusual ways. `RowDecoder` decodes that value by value, and
it says why a value is malformed. Both decode good values in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from levada.formats.avro_conversion import fields_of, named, resolves
from levada.formats.avro_reader import AvroReader, AvroSteps
from levada.formats.avro_schema import ParsedSchema, alternatives, default_of, logical_of, unit_of
from levada.formats.avro_steps import (
    ARRAY,
    BOOLEAN,
    BYTES,
    BYTES_N,
    DECIMAL,
    DECIMAL_N,
    DEFAULT,
    DOUBLE,
    ENUM,
    FIXED,
    FLAG,
    FLOAT,
    INT,
    LIST,
    LONG,
    MAP,
    NOTHING,
    NULL,
    PAIRS,
    REAL_4,
    REAL_8,
    RECORD,
    REFUSED,
    STRUCT,
    SYMBOL,
    TEXT,
    UNION,
    WHOLE,
    ColumnPlan,
    Step,
)
from levada.formats.reading import Decoded, DecodedRows, Decoder, MalformedError, RowFault, SchemaLookupError
from levada.registry.avro_codec import RECORDS, contains_itself, kind_of, write_value

_MOST_OFFSET = 2**31 - 1
_KINDS: tuple[tuple[Callable[[pa.DataType], bool], int], ...] = (
    (pa.types.is_null, NOTHING),
    (pa.types.is_boolean, BOOLEAN),
    (pa.types.is_int32, INT),
    (pa.types.is_date32, INT),
    (pa.types.is_time32, INT),
    (pa.types.is_int64, LONG),
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
_PROMOTED: Mapping[str, tuple[str, ...]] = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "double": ("double",),
    "boolean": ("boolean",),
    "string": ("string",),
    "bytes": ("bytes",),
}
"""By the writer's type: the reader's types to which it is resolved here."""
_PLAIN: Mapping[str, int] = {
    "int": WHOLE,
    "long": WHOLE,
    "float": REAL_4,
    "double": REAL_8,
    "boolean": FLAG,
    "string": BYTES,
    "bytes": BYTES,
}


class _Column:
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


def _table(kind: pa.DataType) -> list[_Column]:
    """Return the columns for a type, in the order of the reader's table."""
    kinds: list[pa.DataType] = [kind]
    columns: list[_Column] = []
    while len(columns) < len(kinds):
        one = kinds[len(columns)]
        code = next(code for is_of, code in _KINDS if is_of(one))
        inner = (
            list(one) if code == STRUCT else [one.value_field] if code == LIST else [one.key_field, one.item_field] if code == MAP else []
        )
        width = one.byte_width if code == FIXED else _WIDTHS.get(code, 0)
        columns.append(_Column(one, ColumnPlan(code, width, len(kinds), len(inner))))
        kinds += [field.type for field in inner]
    return columns


StepsOf = Callable[[int], AvroSteps | None]
"""Returns the steps for a schema id; None if it has none. Raises MalformedError, SchemaLookupError."""


class ColumnDecoder:
    """Decodes Avro by steps.

    one_by_one: decodes what has no steps, in the same way. built: the type of the reader's schema. kind: the type of the column. steps_of:
    finds the steps for an id. only: the steps of all values, which have no header; then steps_of is not used.
    """

    def __init__(
        self, one_by_one: Decoder, built: pa.DataType, kind: pa.DataType, steps_of: StepsOf | None = None, only: AvroSteps | None = None
    ) -> None:
        self._one_by_one = one_by_one
        self._kind = kind
        self._steps_of = steps_of
        self._columns = _table(built)
        self._reader = AvroReader([column.plan for column in self._columns], steps_of is not None)
        if only is not None:
            self._reader.select(0, only)

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
            if len(values) == 1:
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
        """Return why a value is malformed."""
        fault = self._one_by_one.decode(value).fault
        # fastavro takes a branch or a symbol with a number below zero for one of the last ones.
        return "not of its Avro schema" if fault is None else fault.reason

    def _pass(self, values: pa.Array, malformed: bytearray, *, fills: bool) -> bool:
        """Read all values; return False if some have no steps."""
        reader = self._reader
        validity, offsets, data = (memoryview(buffer or b"").cast("B") for buffer in values.buffers())
        nulls = validity if values.null_count else None
        reader.begin(data, offsets.cast("i"), nulls, values.offset, len(values), malformed, fills)
        while (schema_id := reader.go_on()) >= 0:
            assert self._steps_of is not None
            try:
                steps = self._steps_of(schema_id)
            except MalformedError:
                reader.pass_over()
                continue
            except SchemaLookupError as failed:
                failed.row = reader.row
                raise
            if steps is None:
                return False
            reader.select(schema_id, steps)
        return True

    def _array(self, index: int) -> pa.Array:
        plan = self._columns[index].plan
        children = [self._array(child) for child in range(plan.first, plan.first + plan.children)]
        rows, nulls, _ = self._reader.sizes(index)
        found = self._columns[index].array(rows, nulls, children)
        if plan.kind == MAP and self._reader.may_have_key_twice and _has_key_twice(found):
            # fastavro returns the last value of a key.
            raise pa.ArrowInvalid("a map has a key twice, which some programs do not read")
        return found


def _has_key_twice(maps: pa.MapArray) -> bool:
    rows = pc.list_parent_indices(pa.ListArray.from_arrays(maps.offsets, maps.keys))
    keys = maps.keys.dictionary_encode()
    pairs = pc.add(pc.multiply(rows, len(keys.dictionary)), keys.indices.cast(pa.int64()))
    return bool(pc.count_distinct(pairs).as_py() < len(pairs))


def steps_of(writer: ParsedSchema, reader: ParsedSchema, built: pa.DataType) -> AvroSteps | None:
    """Return the steps to read a writer's values into the columns of a reader's schema; None if these schemas have none.

    built: the Arrow type of the reader's schema.
    """
    if contains_itself(writer.schema, writer.names):
        return None
    with suppress(_NoStepsError):
        return _Planner(writer.names, reader.names, [column.plan for column in _table(built)]).plan(writer.schema, reader.schema)
    return None


class _NoStepsError(Exception):
    """These schemas have no steps."""


class _Planner:
    """Makes the steps for two schemas. names, reader_names: their named types."""

    def __init__(self, names: Mapping[str, Any], reader_names: Mapping[str, Any], columns: Sequence[ColumnPlan]) -> None:
        self._names = names
        self._reader_names = reader_names
        self._columns = columns
        self._steps: list[Step] = []
        self._constants = bytearray()

    def plan(self, writer: Any, reader: Any) -> AvroSteps:
        """Return the steps."""
        (root,) = self._reserve(1)
        self._steps[root] = self._step(writer, reader, 0)
        return AvroSteps(self._steps, bytes(self._constants))

    def _reserve(self, count: int) -> range:
        begin = len(self._steps)
        self._steps += [Step(REFUSED)] * count
        return range(begin, begin + count)

    def _step(self, writer: Any, reader: Any, column: int) -> Step:
        """Return a step, after adding its parts. reader: None for a value that is skipped; then column is -1."""
        writer = named(writer, self._names)
        if isinstance(writer, list):
            return self._parts(UNION, [(branch, reader, column) for branch in writer])
        kind = kind_of(writer)
        if reader is None:
            return self._skipped(writer, kind)
        branches = reader if isinstance(reader, list) else [reader]
        if kind == "null":
            return Step(NULL, column) if "null" in branches else Step(REFUSED)
        others = alternatives(branches)
        if len(others) > 1:
            raise _NoStepsError
        reader = named(others[0], self._reader_names)
        wanted = kind_of(reader)
        if kind in _PLAIN:
            if wanted not in _PROMOTED[kind]:
                raise _NoStepsError
            return self._plain(writer, kind, reader, column)
        if kind != wanted or not resolves(writer, reader):
            raise _NoStepsError
        if kind == "fixed":
            if _decimal(writer) != _decimal(reader) or not writer["size"]:
                raise _NoStepsError
            return Step(BYTES_N if _decimal(writer) is None else DECIMAL_N, column, size=writer["size"])
        if kind == "enum":
            return self._symbols(writer, reader, column)
        if kind in RECORDS:
            return self._record(writer, reader, column)
        return self._blocks(writer, reader, column)

    def _plain(self, writer: Any, kind: str, reader: Any, column: int) -> Step:
        if _decimal(writer) != _decimal(reader):
            raise _NoStepsError
        if _decimal(writer) is not None:
            return Step(DECIMAL, column)
        of_writer, of_reader = unit_of(writer), unit_of(reader)
        if of_writer is None or of_reader is None or of_writer == of_reader:
            return Step(_PLAIN[kind], column)
        return Step(WHOLE, column, size=max(of_writer // of_reader, 1), divisor=max(of_reader // of_writer, 1))

    def _skipped(self, writer: Any, kind: str) -> Step:
        if kind in _PLAIN:
            return Step(_PLAIN[kind])
        if kind == "null":
            return Step(NULL)
        if kind == "fixed":
            return Step(BYTES_N, size=writer["size"])
        if kind == "enum":
            return self._symbols(writer, writer, -1)
        if kind in RECORDS:
            return self._parts(RECORD, [(inner["type"], None, -1) for inner in writer["fields"]])
        return self._blocks(writer, None, -1)

    def _parts(self, kind: int, parts: Sequence[tuple[Any, Any, int]], column: int = -1) -> Step:
        places = self._reserve(len(parts))
        for place, part in zip(places, parts, strict=True):
            self._steps[place] = self._step(*part)
        return Step(kind, column, places.start, len(parts))

    def _symbols(self, writer: Any, reader: Any, column: int) -> Step:
        places = self._reserve(len(writer["symbols"]))
        for place, symbol in zip(places, writer["symbols"], strict=True):
            known = symbol if symbol in reader["symbols"] else reader.get("default")
            self._steps[place] = Step(SYMBOL, column, *((-1, 0) if known is None else self._constant(known.encode())))
        return Step(ENUM, column, places.start, len(places))

    def _constant(self, data: bytes) -> tuple[int, int]:
        begin = len(self._constants)
        self._constants += data
        return begin, len(data)

    def _record(self, writer: Any, reader: Any, column: int) -> Step:
        plan = self._columns[column]
        read = {inner["name"]: (inner, plan.first + place) for place, inner in enumerate(reader["fields"])}
        of_writer = fields_of(writer, reader)
        lacking = [entry for name, entry in read.items() if name not in of_writer.values()]
        if len(set(of_writer.values())) < len(of_writer):
            raise _NoStepsError
        places = self._reserve(len(writer["fields"]) + len(lacking))
        for place, inner in zip(places, writer["fields"], strict=False):
            found = read.get(of_writer.get(inner["name"], ""))
            self._steps[place] = self._step(inner["type"], *((None, -1) if found is None else (found[0]["type"], found[1])))
        for place, (inner, target) in zip(places[len(writer["fields"]) :], lacking, strict=True):
            self._steps[place] = self._default(inner, target)
        return Step(RECORD, column, places.start, len(places))

    def _default(self, inner: Mapping[str, Any], column: int) -> Step:
        if "default" not in inner:
            return Step(REFUSED)
        try:
            data = write_value(b"", inner["type"], default_of(inner["type"], inner["default"], self._reader_names))
        except Exception as fault:
            # fastavro raises exceptions of any type for defaults that do not fit, and for names that it has not seen.
            raise _NoStepsError from fault
        begin, size = self._constant(data)
        (place,) = self._reserve(1)
        # The reader is the writer of its defaults.
        names, self._names = self._names, self._reader_names
        try:
            self._steps[place] = self._step(inner["type"], inner["type"], column)
        finally:
            self._names = names
        return Step(DEFAULT, column, place, begin, begin + size)

    def _blocks(self, writer: Any, reader: Any, column: int) -> Step:
        inner = "values" if kind_of(writer) == "map" else "items"
        of_reader = None if reader is None else reader[inner]
        first = -1 if reader is None else self._columns[column].first
        if inner == "values":
            key = ("string", None, -1) if reader is None else ("string", "string", first)
            return self._parts(PAIRS, [key, (writer[inner], of_reader, first if reader is None else first + 1)], column)
        if not self._least(writer[inner]):
            raise _NoStepsError
        return self._parts(ARRAY, [(writer[inner], of_reader, first)], column)

    def _least(self, schema: Any) -> int:
        """Return the fewest bytes that a value of the writer's type takes; at most 1."""
        schema = named(schema, self._names)
        kind = "union" if isinstance(schema, list) else kind_of(schema)
        if kind in RECORDS:
            return max((self._least(inner["type"]) for inner in schema["fields"]), default=0)
        return min(schema["size"], 1) if kind == "fixed" else int(kind != "null")


def _decimal(schema: Any) -> tuple[int, int] | None:
    return (schema["precision"], schema.get("scale", 0)) if logical_of(schema) == "decimal" else None
