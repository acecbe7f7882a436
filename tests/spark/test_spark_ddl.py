"""Schemas as Spark writes them, read without a JVM."""

from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, DecimalType, DoubleType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from levada.errors import ConfigError
from levada.spark.ddl import parse_schema


def field(name: str, kind: object) -> StructField:
    return StructField(name, kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("id long", [field("id", LongType())]),
        (" a INT , b: String ", [field("a", IntegerType()), field("b", StringType())]),
        ("`odd, ``name``` double", [field("odd, `name`", DoubleType())]),
        (
            "p decimal(12, 2), q decimal(3), r numeric",
            [field("p", DecimalType(12, 2)), field("q", DecimalType(3)), field("r", DecimalType())],
        ),
        ("t array<array<timestamp>>", [field("t", ArrayType(ArrayType(TimestampType())))]),
        ("at struct<x: double, y double>", [field("at", StructType([field("x", DoubleType()), field("y", DoubleType())]))]),
        ("a int NOT NULL COMMENT 'it''s', b long", [field("a", IntegerType()), field("b", LongType())]),
        ("a int comment 'x, ' \"y\", comment long", [field("a", IntegerType()), field("comment", LongType())]),
        # Spark's parser, too, accepts both. It depends on spark.sql.caseSensitive, which tasks do not know, whether a query can name them.
        ("id long, ID long", [field("id", LongType()), field("ID", LongType())]),
    ],
)
def test_what_is_read(text: str, fields: list[StructField]) -> None:
    if "''" in text:
        text = text.replace("''", r"\'")
    assert parse_schema(text, "value.schema") == StructType(fields)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "the name of a field is expected, not 'the end'"),
        ("a", "a type is expected, not 'the end'"),
        ("a int,", "the name of a field is expected, not 'the end'"),
        ("a varchar(3)", "there is no type 'varchar' here; there are boolean, "),
        ("a map<string, int>", "there is no type 'map' here"),
        ("a array<int", "'>' is expected, not 'the end'"),
        ("a int)", r"'\)' is not expected"),
        ("a int, a long", "field 'a' comes twice"),
        ("a decimal(40, 2)", r"decimal\(40, 2\) is not possible"),
        ("a decimal(x)", "'x' is not a number"),
        ("a decimal(²)", "'²' is not a number"),
        ("a int !", "'!' is not expected"),
        ("a int comment", "the text of COMMENT, in quotes, is expected, not 'the end'"),
        ("a int comment b", "the text of COMMENT, in quotes, is expected, not 'b'"),
        ("a int, b int comment, c int", "the text of COMMENT, in quotes, is expected, not ','"),
        ("a struct<b: int comment `c`>", "the text of COMMENT, in quotes, is expected, not 'c'"),
        ("a " + "array<" * 60 + "int" + ">" * 60, "more than 50 types within one another"),
    ],
)
def test_what_is_not_understood_is_shown(text: str, what: str) -> None:
    with pytest.raises(ConfigError, match=f"option 'value.schema': {what}.*write a schema such as 'id long, tags array<string>'"):
        parse_schema(text, "value.schema")


@pytest.mark.spark
def test_what_spark_itself_writes_is_read(spark: object) -> None:
    text = "a BIGINT, b STRUCT<c: DECIMAL(5,2), d: ARRAY<STRING>>, e TIMESTAMP_NTZ, f DATE, g TINYINT, id LONG, ID LONG"
    assert parse_schema(text, "value.schema") == StructType.fromDDL(text)
