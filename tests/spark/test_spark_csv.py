"""CSV values as columns, beside Spark's from_csv; and values that are text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_csv

from levada.errors import ConfigError
from levada.formats.csv import csv_format
from levada.formats.string import StringFormat
from levada.spark.ddl import parse_schema
from levada.spark.pyspark_versions import arrow_schema
from levada.spark.types import name_of

FIELDS = {
    "n": ("int", "1"),
    "s": ("string", "x"),
    "d": ("double", "1.5"),
    "b": ("boolean", "true"),
    "t": ("timestamp", "2024-01-02 03:04:05.5"),
    "a": ("date", "2024-01-02"),
    "m": ("decimal(5,2)", "1.25"),
}
DDL = ", ".join(f"{name} {kind}" for name, (kind, _) in FIELDS.items())
TOKENS = {
    "n": ["1", "+7", "007", "3000000000", " 1", "1.0", "1e3", '"5"', "", "x"],
    "s": ['"a, b"', r'"a \"b\" c"', r"a\b", r'"a\b"', r'"a\\b"', 'a"b', " x ", '"a\nb"', "null", "é", ""],
    "d": ["NaN", "Inf", "-Inf", "Infinity", "1.", ".5", "1d", "1e400", "nan", "+1", "-Infinity", " 1.5", "x"],
    "b": ["TRUE", "False", "1", "yes", " true"],
    "t": ["2024", "2024-1", "2024-01-02T03:04:05Z", "2024-01-02 03:04:05+01:30", "123", "1700000000", "x"],
    "a": ["2024-1-2", "2024", "2024-01-02T03", "20240102"],
    "m": ["1.256", "12345", "1e2", "+1", " 1", "x", ".5"],
}


def record(**tokens: str) -> str:
    return ",".join({**{name: token for name, (_, token) in FIELDS.items()}, **tokens}.values())


SAME = [record(**{name: token}) for name, tokens in TOKENS.items() for token in tokens]
SAME += ["1", "1,2", f"{record()},more", f"{record()},", " ", ",,,,,,"]
OTHERWISE = ["", record(s='""'), record(s='"a ""b"" c"'), record(s='"a"b'), record(t="12:00"), f"{record()}\n", f"{record()}\n1,2", '1,"x']


def decoded(values: Any, ddl: str = DDL, separator: str = ",") -> Any:
    chosen = csv_format(
        arrow_schema(parse_schema(ddl, "value.schema")),
        separator,
        named=name_of,
        schema_option="value.schema",
        separator_option="value.csv.sep",
    )
    return chosen.decoder().decode(pa.array(values, pa.binary()))


def one(text: str, ddl: str = "n int, s string", separator: str = ",") -> Any:
    found = decoded([text.encode()], ddl, separator)
    return found.rows[0].as_py(), found.fault and found.fault.reason


@pytest.mark.parametrize(
    ("text", "row", "reason"),
    [
        ("7,x", {"n": 7, "s": "x"}, None),
        ("7,x\r\n", {"n": 7, "s": "x"}, None),
        ('7,"say ""x"""', {"n": 7, "s": 'say "x"'}, None),
        ('7,""', {"n": 7, "s": ""}, None),
        ("7,", {"n": 7, "s": None}, None),
        ("", None, None),
        ("x,y", {"n": None, "s": "y"}, "not of the type int32 of field 'n'"),
        ("7", {"n": 7, "s": None}, "a record of 1 tokens instead of 2"),
        ("7,x,", {"n": 7, "s": "x"}, "a record of 3 tokens instead of 2"),
        ("7,x\n8,y", {"n": None, "s": None}, "not CSV (the token at character 2)"),
        ('7,"x', {"n": None, "s": None}, "not CSV (the token at character 2)"),
        ('7,"x"y', {"n": None, "s": None}, "not CSV (the token at character 2)"),
    ],
)
def test_a_value_is_one_record(text: str, row: Any, reason: Any) -> None:
    assert one(text) == (row, reason)


def test_any_text_may_stand_between_tokens() -> None:
    assert one("7;a,b", separator=";")[0] == {"n": 7, "s": "a,b"}
    assert one("7\ta,b", separator="\t") == one("7\ta,b", separator=r"\t") == ({"n": 7, "s": "a,b"}, None)
    assert one('7||"a||b"', separator="||")[0] == {"n": 7, "s": "a||b"}


def test_bad_values_leave_the_others_alone() -> None:
    found = decoded([b"1,a", None, b"\xff", b"x,b", b"2,c"], "n int, s string")
    assert found.rows.to_pylist() == [{"n": 1, "s": "a"}, None, {"n": None, "s": None}, {"n": None, "s": "b"}, {"n": 2, "s": "c"}]
    assert found.malformed.to_pylist() == [False, False, True, True, False]
    assert (found.fault.row, found.fault.reason) == (2, "not UTF-8 (byte 0)")


def test_the_first_fault_may_be_in_a_field() -> None:
    assert decoded([b"x,b", b"\xff"], "n int, s string").fault.row == 0


@pytest.mark.parametrize(
    ("ddl", "separator", "text"),
    [
        ("a array<int>", ",", "option 'value.schema': CSV has no array<int> \\(field 'a'\\)"),
        ("a binary", ",", "option 'value.schema': CSV has no binary"),
        ("a int", "", "option 'value.csv.sep': '' cannot separate tokens"),
        ("a int", r"\n", r"option 'value.csv.sep': '.*n' cannot separate tokens"),
        ("a int", '"', "option 'value.csv.sep': '\"' cannot separate tokens"),
    ],
)
def test_mistakes_are_said(ddl: str, separator: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        decoded([], ddl, separator)


def test_text_is_text() -> None:
    decoder = StringFormat().decoder()
    good = pa.array([b"a", None, "é".encode()], pa.binary())
    assert decoder.decode(good).rows.to_pylist() == ["a", None, "é"]
    assert decoder.decode(good).rows.buffers()[2].address == good.buffers()[2].address
    found = decoder.decode(pa.array([b"a", None, b"b\xff"], pa.binary()))
    assert found.rows.to_pylist() == ["a", None, None]
    assert found.malformed.to_pylist() == [False, False, True]
    assert found.fault is not None
    assert found.fault.reason == "not UTF-8 (byte 1)"


@pytest.mark.spark
def test_it_reads_what_from_csv_reads(spark: SparkSession) -> None:
    """But for what docs/SPARK.md lists, of which each differs."""
    records = SAME + OTHERWISE
    options = {"columnNameOfCorruptRecord": "bad"}
    frame = spark.createDataFrame(list(enumerate(records)), "at int, value string")
    parsed = frame.select("at", from_csv(col("value"), f"{DDL}, bad string", options).alias("row"))
    ours = decoded([text.encode() for text in records])
    mine = spark.createDataFrame(pa.table({"at": range(len(records)), "row": ours.rows, "malformed": ours.malformed}))

    texts = [f"cast(row.{name} as string)" for name in FIELDS]
    theirs_found = parsed.selectExpr("at", "row is null", "row.bad is not null", *texts).collect()
    ours_found = mine.selectExpr("at", "row is null", "malformed", *texts).collect()
    theirs_by_record, ours_by_record = ({row[0]: tuple(row[1:]) for row in rows} for rows in (theirs_found, ours_found))
    differs = [record for at, record in enumerate(records) if theirs_by_record[at] != ours_by_record[at]]
    assert differs == OTHERWISE
