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

from levada.formats.avro_conversion import fields_of, named, resolves
from levada.formats.avro_reader import STEP_KINDS, AvroReader, AvroSteps, Step
from levada.formats.avro_schema import ParsedSchema, unit_of
from levada.formats.column_decoder import ColumnDecoder, table_of
from levada.formats.column_reader import ColumnPlan
from levada.formats.reading import Decoder, MalformedError, SchemaLookupError
from levada.registry.avro_codec import RECORDS, contains_itself, kind_of, write_value
from levada.registry.avro_defaults import alternatives, default_of, logical_of

NULL, FLAG, WHOLE, REAL_4, REAL_8, BYTES, BYTES_N, DECIMAL, DECIMAL_N, ENUM, UNION, RECORD, ARRAY, PAIRS, REFUSED, DEFAULT, SYMBOL = (
    STEP_KINDS
)

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


StepsOf = Callable[[int], AvroSteps | None]
"""Returns the steps for a schema id; None if it has none. Raises MalformedError, SchemaLookupError."""


class AvroDecoder(ColumnDecoder):
    """Decodes Avro by steps.

    built: the type of the reader's schema. steps_of: finds the steps for an id. only: the steps of all values, which have no header; then
    steps_of is not used.
    """

    def __init__(
        self, one_by_one: Decoder, built: pa.DataType, kind: pa.DataType, steps_of: StepsOf | None = None, only: AvroSteps | None = None
    ) -> None:
        columns = table_of(built)
        self._avro = AvroReader([column.plan for column in columns], steps_of is not None)
        super().__init__(one_by_one, columns, self._avro, kind)
        self._steps_of = steps_of
        if only is not None:
            self._avro.select(0, only)

    def _run(self) -> bool:
        reader = self._avro
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

    def _reason(self, value: pa.Array) -> str:
        # fastavro counts a number of a branch or symbol below zero from the end, and so finds no fault in it.
        return super()._reason(value) or "not of its Avro schema"


def steps_of(writer: ParsedSchema, reader: ParsedSchema, built: pa.DataType) -> AvroSteps | None:
    """Return the steps to read a writer's values into the columns of a reader's schema; None if these schemas have none.

    built: the Arrow type of the reader's schema.
    """
    if contains_itself(writer.schema, writer.names):
        return None
    with suppress(_NoStepsError):
        return _Planner(writer.names, reader.names, [column.plan for column in table_of(built)]).plan(writer.schema, reader.schema)
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
        """Return 0 if a value of the writer's type may take no bytes, else 1."""
        schema = named(schema, self._names)
        kind = "union" if isinstance(schema, list) else kind_of(schema)
        if kind in RECORDS:
            return max((self._least(inner["type"]) for inner in schema["fields"]), default=0)
        return min(schema["size"], 1) if kind == "fixed" else int(kind != "null")


def _decimal(schema: Any) -> tuple[int, int] | None:
    return (schema["precision"], schema.get("scale", 0)) if logical_of(schema) == "decimal" else None
