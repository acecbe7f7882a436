"""Levada's columns become exactly the Arrow schema that Spark 4.3 insists on (spark.md 2.5)."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType, StructField, StructType

from levada.errors import ConfigError
from levada.spark.pyspark_versions import arrow_schema
from levada.spark.schema import check_schema, levada_columns, record_schema, slices, to_spark
from levada.spark.source.loss import OnLoss

LEVADA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("timestamp_type", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def schema_of(**types: Any) -> Any:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def records() -> Any:
    headers = [[("a", b"1"), ("b", None)], [], None]
    rows = [[b"k", None, b""], [b"v", b"", None], ["t"] * 3, [2] * 3, [7, 8, 10], [0, 1_700_000_000_123, -1], [0, 1, 0]]
    columns = [pa.array(values, field.type) for values, field in zip(rows, LEVADA, strict=False)]
    as_dicts = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in headers]
    return pa.RecordBatch.from_arrays([*columns, pa.array(as_dicts, LEVADA.field("headers").type)], schema=LEVADA)


def test_the_schema_is_that_of_sparks_own_connector() -> None:
    assert record_schema(False).simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    assert record_schema(True)["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"


def test_an_arrow_batch_has_sparks_schema_to_the_letter() -> None:
    target = arrow_schema(record_schema(True))
    batch = to_spark(records(), target, OnLoss.FAIL)
    assert batch.schema.equals(target, check_metadata=True)
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [0, 1_700_000_000_123_000, -1_000]
    assert batch.column("key").to_pylist() == [b"k", None, b""]
    assert batch.column("timestampType").to_pylist() == [0, 1, 0]


def test_no_headers_are_null_as_in_sparks_own_connector() -> None:
    batch = to_spark(records(), arrow_schema(record_schema(True)), OnLoss.FAIL)
    assert batch.column("headers").to_pylist() == [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None, None]


def test_keys_and_values_are_not_copied() -> None:
    source = records()
    batch = to_spark(source, arrow_schema(record_schema(False)), OnLoss.FAIL)
    assert batch.column("value").buffers()[2].address == source.column("value").buffers()[2].address


def test_a_user_may_choose_columns() -> None:
    wanted = schema_of(offset=LongType(), timestampType=IntegerType(), value=BinaryType())
    check_schema(wanted)
    assert levada_columns(wanted) == ["offset", "timestamp_type", "value"]
    assert to_spark(records(), arrow_schema(wanted), OnLoss.FAIL).schema.names == ["offset", "timestampType", "value"]


def test_the_option_columns_chooses_columns() -> None:
    assert record_schema(False, ["offset", "headers"]).fieldNames() == ["offset", "headers"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("values", "there is no column 'values'; did you mean 'value'?"),
        ("Key", "there is no column 'Key'; did you mean 'key'?"),
        ("timestamp_type", "there is no column 'timestamp_type'; did you mean 'timestampType'?"),
        ("amount", "there is no column 'amount'; a levada source has key, value, topic"),
    ],
)
def test_an_unknown_name_in_the_option_columns_is_refused_with_what_was_meant(given: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"option 'columns': {said}")):
        record_schema(False, ["key", given])


def test_a_timestamp_is_asked_for_with_the_place_of_its_record() -> None:
    assert levada_columns(schema_of(value=BinaryType())) == ["value"]
    assert levada_columns(record_schema(False, ["timestamp", "offset"])) == ["timestamp", "offset", "topic", "partition"]


def test_a_schema_of_other_columns_is_refused() -> None:
    with pytest.raises(ConfigError, match="asks for a column 'amount'; a levada source has key, value"):
        check_schema(schema_of(amount=IntegerType()))
    with pytest.raises(ConfigError, match="asks for 'value' as string, but it is binary"):
        check_schema(schema_of(value=StringType()))
    with pytest.raises(ConfigError, match="asks for 'key' twice"):
        check_schema(StructType([StructField("key", BinaryType()), StructField("key", BinaryType())]))
    with pytest.raises(ConfigError, match="the schema has no column"):
        check_schema(StructType([]))


def test_a_schema_that_rules_nulls_out_is_refused_where_there_may_be_some() -> None:
    check_schema(StructType([StructField("offset", LongType(), nullable=False)]))
    with pytest.raises(ConfigError, match="says that 'key', or a part of it, is never null; leave NOT NULL out"):
        check_schema(StructType([StructField("key", BinaryType(), nullable=False)]))
    headers = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType(), nullable=False)]))
    with pytest.raises(ConfigError, match="'headers', or a part of it"):
        check_schema(schema_of(headers=headers))


def test_only_a_timestamp_that_spark_cannot_hold_is_taken_for_one() -> None:
    target = arrow_schema(schema_of(offset=IntegerType()))
    batch = pa.RecordBatch.from_pydict({"offset": pa.array([2**40], pa.int64()), "timestamp": pa.array([1], pa.timestamp("ms", tz="UTC"))})
    with pytest.raises(pa.ArrowInvalid, match="not in range"):
        to_spark(batch, target, OnLoss.SKIP)


def test_large_batches_are_cut_by_rows_and_by_bytes() -> None:
    batch = pa.RecordBatch.from_pydict({"value": [b"x" * 92] * 1000})
    by_rows = list(slices(iter([batch]), most_rows=300, most_bytes=1 << 30))
    assert [piece.num_rows for piece in by_rows] == [250, 250, 250, 250]
    by_bytes = list(slices(iter([batch]), most_rows=1 << 30, most_bytes=20_000))
    assert max(piece.nbytes for piece in by_bytes) <= 20_000
    assert pa.Table.from_batches(by_bytes).equals(pa.Table.from_batches([batch]))
    assert list(slices(iter([batch.slice(0, 0)]))) == []
