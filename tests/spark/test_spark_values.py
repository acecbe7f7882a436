"""Typed keys and values: the columns of a source, and what becomes of values that are not of their schema."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import levada as lv
from levada.errors import ConfigError, SerializationError
from levada.formats.columns import ValueDecoder
from levada.spark.options.options import source_options
from levada.spark.pyspark_versions import arrow_schema
from levada.spark.schema import levada_columns, record_schema

JSON = {"value.format": "json", "value.schema": "n int, s string"}
VALUES = [b'{"n":1,"s":"a"}', None, b'{"n":"x","s":"b"}', b"no json", b'{"s":"\xc3\xa9"}', b"\xff"]
ROWS = [{"n": 1, "s": "a"}, None, {"n": None, "s": "b"}, {"n": None, "s": None}, {"n": None, "s": "é"}, {"n": None, "s": None}]


def options(**given: str) -> Any:
    return source_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **given}, streaming=False)


def decoded(columns: tuple[str, ...], **given: str) -> pa.RecordBatch:
    typed = options(**{**JSON, **given}).typed
    batch = pa.RecordBatch.from_pydict(
        {
            "value": pa.array(VALUES, pa.binary()),
            "topic": ["t"] * len(VALUES),
            "partition": pa.array([3] * len(VALUES), pa.int32()),
            "offset": list(range(10, 10 + len(VALUES))),
        }
    )
    return ValueDecoder(typed, arrow_schema(record_schema(False, columns, typed))).decode(batch)


def test_a_value_is_a_struct_and_what_cannot_be_read_of_it_is_null() -> None:
    assert decoded(("value",)).column("value").to_pylist() == ROWS


def test_the_text_of_malformed_values_is_a_column_on_request() -> None:
    batch = decoded(("value", "bad"), columnNameOfCorruptRecord="bad")
    assert batch.column("value").to_pylist() == ROWS
    assert batch.column("bad").to_pylist() == [None, None, '{"n":"x","s":"b"}', "no json", None, "\ufffd"]


def test_malformed_values_can_be_dropped_even_if_nobody_asks_for_values() -> None:
    for columns in (("value", "offset"), ("offset",)):
        assert decoded(columns, mode="DROPMALFORMED").column("offset").to_pylist() == [10, 11, 14]


def test_the_first_malformed_value_can_end_the_query() -> None:
    with pytest.raises(
        SerializationError, match=r"t-3 at offset 12: the value is not of the type int32 of field 'n' .*; mode=PERMISSIVE returns"
    ):
        decoded(("value",), mode="failfast")


def test_what_nobody_asks_for_is_not_decoded() -> None:
    assert decoded(("offset",)).column("value").to_pylist() == VALUES


def test_the_bytes_of_a_typed_value_are_a_column_on_request() -> None:
    batch = decoded(("value", "bytes"), **{"value.raw": "bytes"})
    assert batch.column("value").to_pylist() == ROWS
    assert batch.column("bytes").to_pylist() == VALUES
    assert decoded(("bytes",), **{"value.raw": "bytes"}).column("bytes").to_pylist() == VALUES


@pytest.mark.parametrize(
    ("given", "columns", "needed"),
    [
        ({"value.raw": "bytes"}, ("bytes", "offset"), ["value", "offset"]),
        ({}, ("value", "offset"), ["value", "offset"]),
        ({"columnNameOfCorruptRecord": "bad"}, ("bad",), ["value"]),
        ({"mode": "DROPMALFORMED"}, ("offset",), ["offset", "value"]),
        ({"mode": "FAILFAST"}, ("value",), ["value", "topic", "partition", "offset"]),
    ],
)
def test_which_columns_of_records_are_read(given: Any, columns: Any, needed: list[str]) -> None:
    typed = options(**{**JSON, **given}).typed
    assert levada_columns(record_schema(False, columns, typed), typed) == needed


def test_the_schema_has_the_types() -> None:
    typed = options(**JSON, columnNameOfCorruptRecord="_corrupt_record").typed
    assert record_schema(False, ("key", "value", "_corrupt_record"), typed).simpleString() == (
        "struct<key:binary,value:struct<n:int,s:string>,_corrupt_record:string>"
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"value.format": "json"}, "option 'value.format'=json needs the option 'value.schema', such as 'id long"),
        (
            {"value.schema": "a int"},
            "option 'value.schema' is for the option 'value.format'=json or json-schema or csv, but the format is binary",
        ),
        ({"value.format": "yaml"}, "option 'value.format': expected binary or json or .*, got 'yaml'"),
        ({**JSON, "mode": "strict"}, "option 'mode': expected permissive or dropmalformed or failfast, got 'strict'"),
        ({"mode": "failfast"}, "option 'mode' is for the options 'value.format' and 'key.format'"),
        ({**JSON, "columns": "values"}, None),
        ({"value.format": "csv", "value.schema": "a int", "value.csv.sep": ""}, "option 'value.csv.sep': '' cannot separate tokens"),
        ({"value.raw": "bytes"}, "option 'value.raw' is for the option 'value.format'=json or .*, but the format is binary"),
        ({**JSON, "value.raw": "offset"}, "option 'value.raw': a column cannot be called 'offset': another column has this name"),
        (
            {**JSON, "value.raw": "Timestamp_Type"},
            "option 'value.raw': a column cannot be called 'Timestamp_Type': another column has this name",
        ),
        (
            {**JSON, "columnNameOfCorruptRecord": "timestamp_type"},
            "option 'columnNameOfCorruptRecord': a column cannot be called 'timestamp_type'",
        ),
        ({**JSON, "value.raw": "a", "columnNameOfCorruptRecord": "a"}, "option 'columnNameOfCorruptRecord': a column cannot be called 'a'"),
        ({**JSON, "columnNameOfCorruptRecord": " "}, "option 'columnNameOfCorruptRecord': a column cannot be called ' '"),
    ],
)
def test_mistakes_are_said(given: Any, text: str | None) -> None:
    with pytest.raises(ConfigError, match=text):
        chosen = options(**given)
        record_schema(False, chosen.columns, chosen.typed)


@pytest.mark.spark
def test_spark_reads_typed_values(spark: Any, embedded: Any, new_topic: Any) -> None:
    topic = new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        for value in VALUES:
            producer.send(topic, value, key=b'{"id": 7}')
    given = {
        "kafka.bootstrap.servers": embedded.bootstrap_servers,
        "subscribe": topic,
        **JSON,
        "key.format": "json",
        "key.schema": "id long",
        "columnNameOfCorruptRecord": "bad",
    }
    rows = spark.read.format("levada").options(**given).load().select("offset", "key.id", "value.*", "bad").orderBy("offset").collect()
    assert [tuple(row) for row in rows] == [
        (0, 7, 1, "a", None),
        (1, 7, None, None, None),
        (2, 7, None, "b", '{"n":"x","s":"b"}'),
        (3, 7, None, None, "no json"),
        (4, 7, None, "é", None),
        (5, 7, None, None, "\ufffd"),
    ]
