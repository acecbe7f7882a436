"""The table of docs/JSON.md, levada's side of it; from_json's is in tests/spark/test_json_from_json.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from json_differences import Difference, differences
from json_kit import UTC, decode

TYPES: dict[str, Any] = {
    "int": pa.int32(),
    "byte": pa.int8(),
    "string": pa.string(),
    "float": pa.float32(),
    "timestamp": UTC,
    "timestamp_ntz": pa.timestamp("us"),
    "date": pa.date32(),
    "binary": pa.binary(),
    "decimal(5,2)": pa.decimal128(5, 2),
    "struct<x: binary, y: int>": pa.struct([("x", pa.binary()), ("y", pa.int32())]),
}


def text_of(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(map(text_of, value.values())) + "}"
    return "null" if value is None else str(np.float32(value)) if isinstance(value, float) else str(value)


@pytest.mark.parametrize("difference", differences(), ids=lambda difference: f"{difference.kind} {difference.record!r}")
def test_the_table_says_what_levada_does(difference: Difference) -> None:
    found = decode({"f": TYPES[difference.kind], "g": pa.string()}, [difference.record])

    assert (text_of(found.rows[0].as_py()["f"]), found.malformed[0].as_py()) == difference.ours


def test_what_the_table_has_no_room_for() -> None:
    escaped = '"' + "\\u0020" * 50 + '2024"'
    texts = [f'{{"{"k" * 60_000}":1}}', f'{{"f":"2024"{" " * 300}}}', f'{{"f":{escaped}}}']

    assert decode({"f": pa.date32()}, texts).malformed.to_pylist() == [False, False, True]
    assert decode({"f": UTC}, ['{"f":"2024-01-02 03:04:05"}']).rows.field("f").cast(pa.int64()).to_pylist() == [1704164645000000]
    assert decode({"f": pa.string()}, ['{"f":"%s"}' % ("x" * 21_000_000)]).malformed.to_pylist() == [False]
