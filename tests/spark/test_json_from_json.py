"""The JSON decoder beside Spark's from_json: the same documents, the same rows, but for what docs/JSON.md lists."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructType

from json_differences import differences
from json_kit import UTC, Documents
from levada.record.columnar import JsonDecoder

pytestmark = pytest.mark.spark

COUNT = 600
CORRUPT = "_corrupt"

SCHEMAS = {
    "flat": pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64()), ("d", pa.bool_()), ("f", UTC)]),
    "numbers": pa.schema([("a", pa.int8()), ("b", pa.int16()), ("c", pa.int32()), ("d", pa.float32()), ("e", pa.float64())]),
    "times": pa.schema([("a", UTC), ("b", pa.timestamp("us")), ("c", pa.date32())]),
    "exact": pa.schema([("a", pa.decimal128(9, 2)), ("b", pa.decimal128(38, 10)), ("c", pa.binary())]),
    "nested": pa.schema(
        [
            ("s", pa.struct([("x", pa.int32()), ("t", pa.struct([("y", pa.string()), ("z", pa.date32())]))])),
            ("l", pa.list_(pa.int64())),
            ("m", pa.list_(pa.list_(pa.bool_()))),
            ("q", pa.list_(pa.struct([("x", pa.int32()), ("n", pa.string())]))),
        ]
    ),
}
OTHERS: list[str | None] = [
    None,
    "",
    "  ",
    "null",
    "[]",
    "1",
    '"x"',
    "{}",
    "{",
    '{"a":1,}',
    '{,"a":1}',
    '{"a" 1}',
    "{'a':1}",
    "{a:1}",
    "\ufeff{}",
]


def by_spark(spark: SparkSession, schema: pa.Schema, values: list[str | None]) -> list[tuple[Any, bool]]:
    """Parse values with from_json. Returns for each the row without the corrupt-record column, and whether this column had a value."""
    kind = StructType([*from_arrow_schema(schema).fields]).add(CORRUPT, StringType())
    frame = spark.createDataFrame(list(enumerate(values)), "at int, value string").repartition(2)
    parsed = frame.select("at", from_json(col("value"), kind, {"columnNameOfCorruptRecord": CORRUPT}).alias("row"))
    found = []
    for entry in sorted(parsed.toArrow().to_pylist(), key=lambda entry: entry["at"]):
        row = entry["row"]
        found.append((row and {name: value for name, value in row.items() if name != CORRUPT}, bool(row and row[CORRUPT] is not None)))
    return found


@pytest.mark.parametrize("name", SCHEMAS)
def test_it_reads_what_from_json_reads(spark: SparkSession, name: str) -> None:
    schema = SCHEMAS[name]
    # Control characters in base64 are a line of docs/JSON.md.
    made = [text for text in Documents(schema, seed=len(name)).make(COUNT, faults=0.3) if '"\t"' not in text]
    values = OTHERS + made

    decoded = JsonDecoder(schema).decode(pa.array(values, pa.string()))
    theirs = by_spark(spark, schema, values)

    differences = []
    for value, ours, malformed, (row, corrupt) in zip(values, decoded.rows.to_pylist(), decoded.malformed.to_pylist(), theirs, strict=True):
        # Of a record that is not JSON from_json keeps the fields that it came by; here there are none.
        broken = malformed and (ours is None or not any(field is not None for field in ours.values()))
        if malformed != corrupt or not (broken or repr(ours) == repr(row)):
            differences.append((value, ours, row, malformed, corrupt))
    assert not differences
    assert 20 < sum(decoded.malformed.to_pylist()) < len(made)


def test_the_table_says_what_from_json_does(spark: SparkSession) -> None:
    rows = [(at, entry.kind.replace(": ", ":"), bytearray(entry.record)) for at, entry in enumerate(differences())]
    frame = spark.createDataFrame(rows, "at int, kind string, value binary").withColumn("value", col("value").cast("string"))
    found = {}
    for kind in {kind for _, kind, _ in rows}:
        parsed = from_json(col("value"), f"f {kind}, g string, {CORRUPT} string", {"columnNameOfCorruptRecord": CORRUPT})
        of_kind = frame.where(col("kind") == kind).select("at", parsed.alias("row"))
        for at, text, corrupt in of_kind.selectExpr("at", "cast(row.f as string)", f"row.{CORRUPT} is not null").collect():
            found[at] = ("null" if text is None else text, corrupt)

    for at, entry in enumerate(differences()):
        text, corrupt = entry.theirs
        assert found[at] == (found[at][0] if text is None else text, corrupt), entry
