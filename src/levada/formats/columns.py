"""Typed keys and values: Arrow columns of records, whose bytes are decoded by a format.

The column has the type of its format, such as a struct with a schema's fields. What cannot be decoded is returned as nulls, left out, or an
error: the mode decides it, for all formats in the same way.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import reduce
from typing import Self

import pyarrow as pa

from levada.errors import RecordDeserializationError, SerializationError
from levada.formats.reading import Format, SchemaLookupError, with_ids
from levada.types import ConsumerRecord

SIDES = ("key", "value")
PLACE = ("topic", "partition", "offset")
HEADERS = "headers"
_OF_RECORD = (*PLACE, "timestamp", "key", "value")
"""The columns from which the record of an error is made."""


class Mode(Enum):
    """How to handle a key or value that its format cannot read: return the fields that can be read, drop the row, or raise an error."""

    PERMISSIVE = "permissive"
    DROPMALFORMED = "dropmalformed"
    FAILFAST = "failfast"


@dataclass(frozen=True)
class Typed:
    """The typed sides (key, value) and their formats.

    corrupt: the column for a key or value that could not be decoded, as text; None for no such column. If both could not be decoded, it has
    the one that comes last in `formats`. raw: by side, the column for the side's undecoded bytes.
    """

    formats: Mapping[str, Format] = field(default_factory=dict)
    mode: Mode = Mode.PERMISSIVE
    corrupt: str | None = None
    raw: Mapping[str, str] = field(default_factory=dict)

    def pinned(self) -> Self:
        """Return a copy whose schemas are looked up in the registry, so that the columns do not change while records are read.

        Raises ConfigError, RegistryError.
        """
        return replace(self, formats={side: chosen.pinned() for side, chosen in self.formats.items()})

    @property
    def added(self) -> tuple[str, ...]:
        """The names of the columns that are added to those of a record."""
        return (*self.raw.values(), *(() if self.corrupt is None else (self.corrupt,)))

    @property
    def columns(self) -> dict[str, pa.DataType]:
        """The types of the columns that are changed or added: decoded keys and values, raw bytes, and corrupt text."""
        types = {side: chosen.kind for side, chosen in self.formats.items()}
        return {**types, **{name: pa.string() if name == self.corrupt else pa.binary() for name in self.added}}

    def needs(self, column: str) -> list[str]:
        """Return the columns of records from which a column is computed."""
        if column == self.corrupt:
            return list(self.formats)
        return [side for side, name in self.raw.items() if name == column] or [column]

    def needed(self, columns: Sequence[str]) -> list[str]:
        """Return the columns of records that have to be read to compute these columns, and to handle malformed keys and values."""
        names = [needed for name in columns for needed in self.needs(name)]
        if self.mode is not Mode.PERMISSIVE:
            # A malformed key or value drops the row or is an error, even if its column is not wanted.
            names += self.formats
        if any(side in names and chosen.has_ids for side, chosen in self.formats.items()):
            names.append(HEADERS)
        return list(dict.fromkeys([*names, *(PLACE if self.mode is Mode.FAILFAST else ())]))


class ValueDecoder:
    """Decodes keys and values. target: the wanted columns, with the types that keys and values get."""

    def __init__(self, typed: Typed, target: pa.Schema) -> None:
        self._typed = typed
        is_needed = typed.corrupt in target.names or typed.mode is not Mode.PERMISSIVE
        self._sides = [side for side in typed.formats if is_needed or side in target.names]
        kinds = {field.name: field.type for field in target}
        self._decoders = {side: typed.formats[side].decoder(kinds.get(side)) for side in self._sides}
        self._raw = {side: name for side, name in typed.raw.items() if name in target.names}

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with decoded keys and values in place of their bytes, and with the added columns.

        In mode DROPMALFORMED, rows with a malformed key or value are left out. Raises SerializationError for these in mode FAILFAST, and in
        every mode if the schema of a key or value cannot be looked up.
        """
        if not self._sides and not self._raw:
            return batch
        import pyarrow.compute as pc

        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns.update({name: batch.column(side) for side, name in self._raw.items()})
        malformed: list[pa.BooleanArray] = []
        corrupt = pa.nulls(batch.num_rows, pa.string())
        for side in self._sides:
            try:
                found = self._decoders[side].decode(self._values(side, batch))
            except SchemaLookupError as failed:
                cause = failed.__cause__
                raise _error(
                    batch, side, failed.row, f"its {side} has schema {failed.schema}, which could not be looked up: {cause}"
                ) from cause
            if found.fault is not None and self._typed.mode is Mode.FAILFAST:
                reason = f"the {side} is {found.fault.reason}; mode=PERMISSIVE returns the fields that can be read"
                raise _error(batch, side, found.fault.row, reason)
            columns[side] = found.rows
            malformed.append(found.malformed)
            if found.fault is not None and self._typed.corrupt is not None:
                corrupt = pc.if_else(found.malformed, self._shown(side, batch.column(side), found.malformed), corrupt)
        if self._typed.corrupt is not None:
            columns[self._typed.corrupt] = corrupt
        decoded = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return decoded.filter(pc.invert(reduce(pc.or_, malformed))) if self._typed.mode is Mode.DROPMALFORMED else decoded

    def _values(self, side: str, batch: pa.RecordBatch) -> pa.Array:
        values = batch.column(side)
        return with_ids(values, batch.column(HEADERS), f"__{side}_schema_id") if self._typed.formats[side].has_ids else values

    def _shown(self, side: str, values: pa.Array, malformed: pa.BooleanArray) -> pa.Array:
        """Return the malformed values as text: the text itself for a text format, base64 for a binary one; other rows are null."""
        import pyarrow.compute as pc

        only_malformed = pc.if_else(malformed, values, pa.scalar(None, values.type))
        return _text(only_malformed) if self._typed.formats[side].is_text else _base64(only_malformed)


def _text(values: pa.Array) -> pa.Array:
    """Return bytes as text, with U+FFFD for bytes that are not UTF-8, like Spark's cast."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()], pa.string())


def _base64(values: pa.Array) -> pa.Array:
    return pa.array([None if value is None else base64.b64encode(value).decode() for value in values.to_pylist()], pa.string())


def _error(batch: pa.RecordBatch, side: str, row: int, reason: str) -> SerializationError:
    """Return the error of a row. It names topic, partition and offset, and has the record, as far as the batch has their columns."""
    names = batch.schema.names
    if not set(PLACE) <= set(names):
        return SerializationError(reason)
    topic, partition, offset = (batch.column(name)[row].as_py() for name in PLACE)
    text = f"{topic}-{partition} at offset {offset}: {reason}"
    if not set(_OF_RECORD) <= set(names):
        return SerializationError(text)
    timestamp, key, value = batch.column("timestamp").cast(pa.int64())[row].as_py(), *(batch.column(name)[row].as_py() for name in SIDES)
    return RecordDeserializationError(text, ConsumerRecord(topic, partition, offset, timestamp, 0, key, value, []), side)


class RecordColumns:
    """The columns of records that a program reads, with keys or values that a format decodes. Picklable.

    typed: the formats. names: the wanted columns, in this order. The registry is asked when the columns are first used; then they stay the
    same.
    """

    def __init__(self, typed: Typed, names: Sequence[str]) -> None:
        self._typed = typed
        self._names = tuple(names)
        self._pinned: Typed | None = None

    def pinned(self) -> Typed:
        """Return the formats with their schemas. The first call may ask the registry, so it may block."""
        if self._pinned is None:
            self._pinned = self._typed.pinned()
        return self._pinned

    @property
    def needed(self) -> list[str]:
        """The columns of records to read. An error needs the whole record."""
        return list(dict.fromkeys([*self._typed.needed(self._names), *_OF_RECORD]))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the wanted columns. May block, like pinned()."""
        from levada.record.columnar import schema

        typed = self.pinned().columns
        plain = schema([name for name in self._names if name not in typed])
        return pa.schema([(name, typed[name] if name in typed else plain.field(name).type) for name in self._names])

    def decoder(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """Return a function that makes the wanted columns from the needed ones. May block, like pinned().

        The function may ask the registry, and raises like ValueDecoder.decode(). One thread may use it at a time.
        """
        schema = self.schema
        values = ValueDecoder(self.pinned(), schema)

        def decode(batch: pa.RecordBatch) -> pa.RecordBatch:
            found = values.decode(batch)
            return pa.RecordBatch.from_arrays([found.column(name) for name in schema.names], schema=schema)

        return decode
