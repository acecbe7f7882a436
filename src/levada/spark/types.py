"""Spark's types for the Arrow types of formats, and the Arrow types in which Spark expects and returns columns."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from levada.errors import ConfigError
from levada.spark.pyspark_versions import arrow_schema

_UNSIGNED_64 = DecimalType(20, 0)
_WRITTEN = (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DayTimeIntervalType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)
"""The types that some format writes. Spark passes others, such as VARIANT, as structs that have no meaning elsewhere."""


def arrow_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type in which Spark expects a column."""
    return arrow_schema(StructType([StructField("value", kind)])).field(0).type


def spark_type(kind: pa.DataType) -> DataType:
    """Return the type of a column in Spark. All its parts may be null.

    The types are those of Spark's from_avro and from_protobuf, but unsigned numbers do not become negative. What Spark has no type for,
    such as times of a day, is a number.
    """
    is_ = pa.types
    if is_.is_struct(kind):
        return StructType([StructField(field.name, spark_type(field.type)) for field in kind])
    if is_.is_map(kind):
        return MapType(spark_type(kind.key_type), spark_type(kind.item_type))
    if is_.is_list(kind):
        return ArrayType(spark_type(kind.value_type))
    if is_.is_timestamp(kind):
        if kind.unit == "ns":
            return LongType()
        return TimestampNTZType() if kind.tz is None else TimestampType()
    if is_.is_uint64(kind):
        return _UNSIGNED_64
    if is_.is_uint32(kind) or is_.is_time64(kind):
        return LongType()
    if is_.is_time32(kind):
        return IntegerType()
    return BinaryType() if is_.is_fixed_size_binary(kind) else from_arrow_type(kind)


def name_of(kind: pa.DataType) -> str:
    """Return the name of a type in Spark, for errors."""
    return spark_type(kind).simpleString()


def written_type(column: str, kind: DataType) -> pa.DataType:
    """Return the Arrow type of a column that a format writes. Raises ConfigError for a type that no format writes."""
    _check_written(column, kind)
    return arrow_type(kind)


def _check_written(path: str, kind: DataType) -> None:
    if not isinstance(kind, _WRITTEN):
        raise ConfigError(f"column '{path}' is {kind.simpleString()}, which no format writes; cast it")
    if isinstance(kind, StructType):
        for field in kind.fields:
            _check_written(f"{path}.{field.name}", field.dataType)
    elif isinstance(kind, ArrayType):
        _check_written(path, kind.elementType)
    elif isinstance(kind, MapType):
        _check_written(path, kind.keyType)
        _check_written(path, kind.valueType)


def plain(kind: DataType) -> DataType:
    """Return text with a collation as text; other types unchanged."""
    return StringType() if isinstance(kind, StringType) else kind
