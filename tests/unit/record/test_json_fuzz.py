"""Whatever bytes come: the JSON decoder never fails, reads nothing beyond them, and agrees with Python's own reader."""

from __future__ import annotations

import json
import math
import random
from base64 import b64encode
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from json_kit import BAD_TEXTS, EVERYTHING, GOOD_TEXTS, Documents, decode
from levada.record.columnar.json import JsonDecoder
from levada.record.json.reader import COMPILED

TOKENS = st.sampled_from(
    [text.encode() for texts in (*GOOD_TEXTS.values(), *BAD_TEXTS.values()) for text in texts]
    + [b"{", b"}", b"[", b"]", b":", b",", b'"', b"'", b"\\", b"\\u", b"\\ud83d", b" ", b"\xff", b"\xf0\x9f", b"null", b"[1", b'{"a":']
    + [b'"%s":' % field.name.encode() for field in EVERYTHING]
)
HOSTILE = st.one_of(st.binary(max_size=60), st.lists(TOKENS, max_size=15).map(b"".join))


@given(values=st.lists(st.one_of(st.none(), HOSTILE, HOSTILE.map(lambda text: b"{" + text + b"}")), max_size=8))
@example(values=[b'{"l":["a","b"],"l":["\xff"]}', b'{"l":["c"]}'])
def test_hostile_bytes_come_to_sound_columns(values: list[bytes | None]) -> None:
    found = decode(EVERYTHING, values)

    for value, row, malformed in zip(values, found.rows, found.malformed.to_pylist(), strict=True):
        assert row.is_valid or (not malformed and (value is None or not value.strip(b" \n\r\t")))
        # The same record between others is read as it is alone.
        alone = decode(EVERYTHING, [value])
        assert alone.rows[0].equals(row) or "nan" in str(row)
        assert alone.malformed[0].as_py() == malformed


@given(seed=st.integers(0, 2**32), damage=st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=3)), max_size=3))
@settings(max_examples=60)
def test_damaged_documents_come_to_sound_columns(seed: int, damage: list[tuple[int, bytes]]) -> None:
    values = [text.encode() for text in Documents(EVERYTHING, seed).make(6)]
    for at, other in damage:
        values = [value[:at] + other + value[at + 1 :] for value in values]

    found = decode(EVERYTHING, values)

    for value, malformed in zip(values, found.malformed.to_pylist(), strict=True):
        assert malformed or is_lenient_json(value)


def is_lenient_json(value: bytes) -> bool:
    """Whether Python's reader takes a value, too, or may not for what we know more of: single quotes, INF, a sign before Infinity."""
    try:
        json.loads(value)
    except (ValueError, UnicodeDecodeError):
        return b"'" in value or b"INF" in value or b"+Infinity" in value
    return True


def test_a_document_cut_anywhere_is_malformed_though_the_rest_stands_behind_it() -> None:
    for text in Documents(EVERYTHING, 7).make(5, faults=0):
        whole = pa.py_buffer(text.rstrip().encode())
        for size in range(1, whole.size):
            offsets = pa.array([0, size, whole.size], pa.int32()).buffers()[1]
            halves = pa.Array.from_buffers(pa.binary(), 2, [None, offsets, whole])
            assert JsonDecoder(EVERYTHING).decode(halves.slice(0, 1)).malformed.to_pylist() == [True]


@given(value=st.floats())
@example(value=5e-324)
@example(value=2.2250738585072011e-308)
@example(value=0.1 + 0.2)
def test_doubles_come_back(value: float) -> None:
    (back,) = decode({"f": pa.float64()}, [json.dumps({"f": value})]).rows.field("f").to_pylist()

    # A negative whole zero is written as -0.0, which keeps its sign.
    assert (math.isnan(value) and math.isnan(back)) or (back == value and math.copysign(1, back) == math.copysign(1, value))


@given(digits=st.integers(1, 10**19 - 1), exponent=st.integers(-80, 80))
@example(digits=9007199254740993, exponent=0)
@example(digits=9007199254740995, exponent=0)
@example(digits=10**19 - 1, exponent=-64)
@example(digits=10**19 - 1, exponent=64)
@example(digits=1, exponent=23)
@example(digits=18014398509481983, exponent=0)
@example(digits=36028797018963969, exponent=22)
def test_numbers_become_the_double_next_to_them(digits: int, exponent: int) -> None:
    point = len(str(digits)) // 2
    texts = [f"{digits}e{exponent}", f"{str(digits)[:point] or 0}.{str(digits)[point:]}E{exponent:+}"]

    found = decode({"f": pa.float64()}, [f'{{"f":{text}}}' for text in texts]).rows.field("f").to_pylist()

    assert found == [float(text) for text in texts]


def test_a_hundred_thousand_numbers_of_seventeen_digits() -> None:
    chance = random.Random(17)
    values = [chance.random() * 10 ** chance.randint(-20, 20) for _ in range(100_000 if COMPILED else 5_000)]

    assert decode({"f": pa.float64()}, [f'{{"f":{value!r}}}' for value in values]).rows.field("f").to_pylist() == values


@given(value=st.text(st.characters(exclude_categories=["Cs"])), ascii_only=st.booleans())
def test_strings_come_back(value: str, ascii_only: bool) -> None:
    assert decode({"f": pa.string()}, [json.dumps({"f": value}, ensure_ascii=ascii_only)]).rows.to_pylist() == [{"f": value}]


@given(value=st.integers(-(2**70), 2**70))
@example(value=2**63)
@example(value=-(2**63))
@example(value=10**19)
def test_whole_numbers_fit_or_are_null(value: int) -> None:
    found = decode({"f": pa.int64(), "d": pa.decimal128(38, 0)}, [f'{{"f":{value},"d":{value}}}']).rows.to_pylist()[0]

    assert found == {"f": value if -(2**63) <= value < 2**63 else None, "d": value}


@given(value=st.decimals(-(10**9), 10**9, places=6), scale=st.integers(0, 8))
def test_decimals_are_rounded_half_up(value: Any, scale: int) -> None:
    expected = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    for text in (f"{value}", f'"{value:e}"'):
        assert decode({"f": pa.decimal128(20, scale)}, [f'{{"f":{text}}}']).rows.to_pylist() == [{"f": expected}]


@given(value=st.datetimes(), zoned=st.booleans())
def test_times_come_back(value: Any, zoned: bool) -> None:
    kind = pa.timestamp("us", tz="UTC") if zoned else pa.timestamp("us")
    texts = [value.isoformat(separator) + ("Z" if zoned else "") for separator in "T "]

    found = decode({"f": kind}, [f'{{"f":"{text}"}}' for text in texts]).rows.field("f").cast(pa.timestamp("us"))

    assert found.to_pylist() == [value, value]


@given(value=st.binary(max_size=50))
def test_bytes_come_back(value: bytes) -> None:
    assert decode({"f": pa.binary()}, [b'{"f":"%s"}' % b64encode(value)]).rows.to_pylist() == [{"f": value}]


@pytest.mark.parametrize("seed", range(5))
def test_documents_mean_what_python_reads(seed: int) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64()), ("d", pa.bool_()), ("l", pa.list_(pa.int32()))])
    texts = [text for text in Documents(schema, seed).make(50, faults=0) if is_plain(text)]

    for text, row in zip(texts, JsonDecoder(schema).decode(pa.array(texts)).rows.to_pylist(), strict=True):
        for name, value in json.loads(text).items():
            if name in schema.names and isinstance(value, type(row[name])):
                assert value == row[name]


def is_plain(text: str) -> bool:
    """Whether Python reads a text as we do."""
    return "'" not in text and "INF" not in text and "+" not in text and "NaN" not in text and "\\ud800" not in text
