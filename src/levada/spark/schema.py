"""The columns of a record in Spark, and their conversion from levada's columns.

They are the columns of Spark's own Kafka connector; formats change the types of key and value, and may add columns.

The code works on whole columns. Importing pyarrow.compute takes longer than a small task, so only the functions that need it import it.
Spark 4.3 requires that the first Arrow schema equals the expected one exactly, with inner field names and nullability. So every Arrow
batch is built with the schema that Spark expects.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from levada.errors import ConfigError
from levada.formats.columns import PLACE, Typed
from levada.spark.source.loss import OnLoss
from levada.spark.types import spark_type

logger = logging.getLogger(__name__)

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
_NEVER_NULL = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})
_LEVADA_NAMES: Mapping[str, str] = {"timestampType": "timestamp_type"}
TAKEN_NAMES = (*_TYPES, *_LEVADA_NAMES.values())
"""Names that an added column cannot have. It is added to a batch that has levada's names, and would replace a column there."""

UNTYPED = Typed()
_MOST_MS = (2**63 - 1) // 1000
TARGET_ROWS = 32_768
TARGET_BYTES = 4 << 20
"""Larger Arrow batches are slower in the JVM. Each batch has a fixed cost, so smaller ones are slower as well."""


def record_schema(include_headers: bool, columns: Sequence[str] = (), typed: Typed = UNTYPED) -> StructType:
    """Return the schema of a source. Raises ConfigError for an unknown column.

    columns: the columns, in this order; () for all, with headers only if include_headers is true.
    """
    types = _types(typed)
    check_names(columns, typed)
    names = columns or [name for name in types if include_headers or name != "headers"]
    return StructType([StructField(name, types[name]) for name in names])


def _types(typed: Typed) -> dict[str, DataType]:
    return {**_TYPES, **{name: spark_type(kind) for name, kind in typed.columns.items()}}


def check_names(columns: Sequence[str], typed: Typed = UNTYPED) -> None:
    """Raise ConfigError if one of `columns`, the value of the option with this name, is unknown."""
    known = {name.lower(): name for name in (*_TYPES, *typed.columns)}
    for name in columns:
        if name not in known.values():
            close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
            hint = f"did you mean '{known[close[0]]}'?" if close else f"a levada source has {', '.join(known.values())}"
            raise ConfigError(f"option 'columns': there is no column '{name}'; {hint}")


def check_schema(wanted: StructType, typed: Typed = UNTYPED) -> None:
    """Raise ConfigError unless the user's schema is a selection of the source's columns, with their types, and says NOT NULL only for
    columns that are never null. Columns that it leaves out are not read.
    """
    types = _types(typed)
    if not wanted.fields:
        raise ConfigError("the schema has no column; name at least one")
    for number, field in enumerate(wanted.fields):
        if field.name in wanted.names[:number]:
            raise ConfigError(f"the schema asks for '{field.name}' twice")
        have = types.get(field.name)
        if have is None:
            raise ConfigError(f"the schema asks for a column '{field.name}'; a levada source has {', '.join(types)}")
        if not _same(have, field.dataType):
            raise ConfigError(f"the schema asks for '{field.name}' as {field.dataType.simpleString()}, but it is {have.simpleString()}")
        if field.name not in _NEVER_NULL and not (field.nullable and _may_be_null(field.dataType)):
            # Spark would trust NOT NULL, and read a wrong value for null.
            raise ConfigError(f"the schema says that '{field.name}', or a part of it, is never null; leave NOT NULL out")


def _may_be_null(kind: DataType) -> bool:
    """Whether all parts of a type, except keys of maps, may be null."""
    match kind:
        case StructType():
            return all(field.nullable and _may_be_null(field.dataType) for field in kind.fields)
        case ArrayType():
            return kind.containsNull and _may_be_null(kind.elementType)
        case MapType():
            return kind.valueContainsNull and _may_be_null(kind.keyType) and _may_be_null(kind.valueType)
    return True


def _same(have: DataType, wanted: DataType) -> bool:
    return have.simpleString() == wanted.simpleString()


def levada_columns(schema: StructType, typed: Typed = UNTYPED) -> list[str]:
    """Return the columns to read for a schema, under the names of levada's columnar reader."""
    names = [_LEVADA_NAMES.get(name, name) for name in typed.needed(schema.fieldNames())]
    # An error message names the record whose timestamp Spark cannot store.
    return list(dict.fromkeys([*names, *(PLACE if "timestamp" in names else ())]))


def to_spark(batch: pa.RecordBatch, target: pa.Schema, on_loss: OnLoss) -> pa.RecordBatch:
    """Convert levada's columns to Spark's names and types. Keys, values and topics are not copied.

    A record whose timestamp Spark cannot store counts as data loss: the query fails with its offset (DataLossError), or continues without
    it. Raises pa.ArrowInvalid if another column cannot be converted.
    """
    try:
        return _converted(batch, target)
    except pa.ArrowInvalid:
        if "timestamp" not in batch.schema.names:
            raise
        import pyarrow.compute as pc

        held = _can_be_held(batch.column("timestamp"))
        if pc.all(held).as_py():
            raise
        on_loss.report(_not_held(batch.filter(pc.invert(held))), logger)
        return _converted(batch.filter(held), target)


def _converted(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    arrays = [_column(batch.column(_LEVADA_NAMES.get(field.name, field.name)), field) for field in target]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _can_be_held(timestamps: pa.Array) -> pa.BooleanArray:
    """Return for each timestamp whether it fits into 64 bits as microseconds (about 292,000 years around 1970)."""
    import pyarrow.compute as pc

    ms = timestamps.cast(pa.int64())
    return pc.and_(pc.less_equal(ms, _MOST_MS), pc.greater_equal(ms, -_MOST_MS))


def _not_held(batch: pa.RecordBatch) -> list[str]:
    first = {name: batch.column(name)[0].as_py() for name in PLACE}
    ms = batch.column("timestamp").cast(pa.int64())[0].as_py()
    others = f" and {batch.num_rows - 1} more" if batch.num_rows > 1 else ""
    return [
        f"{first['topic']}-{first['partition']} at offset {first['offset']}{others}: a timestamp of {ms} ms is more than Spark can hold"
    ]


def _column(array: pa.Array, field: pa.Field) -> pa.Array:
    if field.name == "headers":
        import pyarrow.compute as pc

        # Spark's own connector returns null, not an empty list, for a record without headers.
        array = pc.if_else(pc.greater(pc.list_value_length(array), 0), array, pa.scalar(None, array.type))
    return array if array.type.equals(field.type, check_metadata=False) else array.cast(field.type)


def slices(batches: Iterator[pa.RecordBatch], most_rows: int = TARGET_ROWS, most_bytes: int = TARGET_BYTES) -> Iterator[pa.RecordBatch]:
    """Cut large Arrow batches into pieces of about equal size that suit Spark, without copying. Empty batches are dropped.

    A large piece followed by a small one would cost more than two pieces of equal size.
    """
    for batch in batches:
        pieces = max(-(-batch.num_rows // most_rows), -(-batch.nbytes // most_bytes), 1)
        rows = max(-(-batch.num_rows // pieces), 1)
        for begin in range(0, batch.num_rows, rows):
            yield batch.slice(begin, rows)
