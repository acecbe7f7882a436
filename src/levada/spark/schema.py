"""The columns of a record in Spark, exactly those of Spark's own Kafka connector, and how they are made of levada's.

Only whole columns are moved. Spark 4.3 compares the first Arrow schema with the one it expects to the letter, inner field names and
nullability included, so every Arrow batch is built with Spark's own idea of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from levada.errors import ConfigError

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_TYPES: Mapping[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}
_LEVADA_NAMES: Mapping[str, str] = {"timestampType": "timestamp_type"}

TARGET_ROWS = 32_768
TARGET_BYTES = 4 << 20
"""Larger Arrow batches are slower in the JVM, smaller ones cost a round of overhead each."""


def record_schema(include_headers: bool) -> StructType:
    """Return the schema of a source."""
    names = [name for name in _TYPES if include_headers or name != "headers"]
    return StructType([StructField(name, _TYPES[name]) for name in names])


def check_schema(wanted: StructType) -> None:
    """Refuse a user's schema unless it is a choice of our columns; each column left out is work saved. Raises ConfigError."""
    for field in wanted.fields:
        have = _TYPES.get(field.name)
        if have is None:
            raise ConfigError(f"the schema asks for a column '{field.name}'; a levada source has {', '.join(_TYPES)}")
        if not _same(have, field.dataType):
            raise ConfigError(f"the schema asks for '{field.name}' as {field.dataType.simpleString()}, but it is {have.simpleString()}")


def _same(have: DataType, wanted: DataType) -> bool:
    return have.simpleString() == wanted.simpleString()


def levada_columns(schema: StructType) -> tuple[str, ...]:
    """Return the names under which levada's columnar reader knows the columns of a schema."""
    return tuple(_LEVADA_NAMES.get(name, name) for name in schema.fieldNames())


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects from a Python source."""
    return to_arrow_schema(schema, timezone="UTC")


def to_spark(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Give levada's columns Spark's names and types. Keys, values and topics are not copied."""
    arrays = [_column(batch.column(_LEVADA_NAMES.get(field.name, field.name)), field) for field in target]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _column(array: pa.Array, field: pa.Field) -> pa.Array:
    if field.name == "headers":
        # Spark's own connector says null, not an empty list, for a record without headers.
        array = pc.if_else(pc.greater(pc.list_value_length(array), 0), array, pa.scalar(None, array.type))
    return array if array.type.equals(field.type, check_metadata=False) else array.cast(field.type)


def slices(batches: Iterator[pa.RecordBatch], most_rows: int = TARGET_ROWS, most_bytes: int = TARGET_BYTES) -> Iterator[pa.RecordBatch]:
    """Cut large Arrow batches into pieces that suit Spark, without copying; empty ones are dropped."""
    for batch in batches:
        rows = _rows_per_slice(batch, most_rows, most_bytes)
        for begin in range(0, batch.num_rows, rows):
            yield batch.slice(begin, rows)


def _rows_per_slice(batch: pa.RecordBatch, most_rows: int, most_bytes: int) -> int:
    row_bytes: int = max(1, batch.nbytes // max(1, batch.num_rows))
    return max(1, min(most_rows, most_bytes // row_bytes))
