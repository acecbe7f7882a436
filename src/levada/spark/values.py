"""Keys and values that come out typed: the options key.format and value.format, decoded in the task.

The column becomes a struct of the fields of its schema. Decoding happens where the bytes are, so neither the JVM nor the way there sees the
text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import DataType, StringType, StructType

from levada.errors import SerializationError

if TYPE_CHECKING:
    from levada.record.columnar import JsonDecoder, JsonFault

FORMATS = ("binary", "json")
SIDES = ("key", "value")


class Mode(Enum):
    """What becomes of a key or value that its format cannot read: what can be read of it, no row, or the end of the query."""

    PERMISSIVE = "permissive"
    DROPMALFORMED = "dropmalformed"
    FAILFAST = "failfast"


@dataclass(frozen=True)
class Typed:
    """Which of key and value are typed, and how. corrupt: the column with the text of what could not be read, None without one."""

    schemas: Mapping[str, StructType] = field(default_factory=dict)
    mode: Mode = Mode.PERMISSIVE
    corrupt: str | None = None

    @property
    def columns(self) -> dict[str, DataType]:
        """The columns of a source that are of another type, and those that are added."""
        added: dict[str, DataType] = {} if self.corrupt is None else {self.corrupt: StringType()}
        return {**self.schemas, **added}

    def needs(self, column: str) -> list[str]:
        """Return the columns of records that one of a source is made of."""
        return list(self.schemas) if column == self.corrupt else [column]


class ValueDecoder:
    """Makes typed columns for one task. target: the Arrow schema that Spark expects."""

    def __init__(self, typed: Typed, target: pa.Schema) -> None:
        self._typed = typed
        is_needed = typed.corrupt in target.names or typed.mode is Mode.DROPMALFORMED
        self._sides = [side for side in typed.schemas if is_needed or side in target.names]
        self._decoders = {side: _decoder(typed.schemas[side]) for side in self._sides}

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with its typed columns in place of their bytes. Raises SerializationError in mode FAILFAST."""
        if not self._sides:
            return batch
        import pyarrow.compute as pc

        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        malformed: list[pa.BooleanArray] = []
        corrupt = pa.nulls(batch.num_rows, pa.string())
        for side in self._sides:
            found = self._decoders[side].decode(batch.column(side))
            if found.fault is not None and self._typed.mode is Mode.FAILFAST:
                raise _fault(batch, side, found.fault)
            columns[side] = found.rows
            malformed.append(found.malformed)
            if found.fault is not None and self._typed.corrupt is not None:
                corrupt = pc.if_else(found.malformed, _text(batch.column(side)), corrupt)
        if self._typed.corrupt is not None:
            columns[self._typed.corrupt] = corrupt
        decoded = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return decoded.filter(pc.invert(reduce(pc.or_, malformed))) if self._typed.mode is Mode.DROPMALFORMED else decoded


def _decoder(schema: StructType) -> JsonDecoder:
    from pyspark.sql.pandas.types import to_arrow_schema

    from levada.record.columnar import JsonDecoder

    return JsonDecoder(to_arrow_schema(schema, timezone="UTC"))


def _text(values: pa.Array) -> pa.Array:
    """Return bytes as text, with U+FFFD for what is not UTF-8, as Spark shows it."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()], pa.string())


def _fault(batch: pa.RecordBatch, side: str, fault: JsonFault) -> SerializationError:
    topic, partition, offset = (batch.column(name)[fault.row].as_py() for name in ("topic", "partition", "offset"))
    return SerializationError(
        f"{topic}-{partition} at offset {offset}: the {side} is {fault.reason}; mode=PERMISSIVE reads what can be read of it"
    )
