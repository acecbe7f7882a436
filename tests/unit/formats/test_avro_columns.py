"""Avro decoded by columns: the same rows as fastavro's, whatever the schemas and bytes are."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from io import BytesIO
from itertools import count
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
pytest.importorskip("fastavro", reason="the extra avro is not installed")

import fastavro
import pyarrow as pa

from levada.formats.avro import _reader_of
from levada.formats.avro_columns import AvroDecoder, steps_of
from levada.formats.avro_schema import AvroSchema
from levada.formats.reading import RowDecoder

Draw = Callable[[Any], Any]
Typed = tuple[Any, Any, Any]
"""A writer's type, the type that a reader may have in its place, and a strategy of values."""


class NotCalled:
    """Stands in for the decoder that reads value by value, where columns have to be decoded without it."""

    def decode(self, values: Any) -> Any:
        raise AssertionError("decoded value by value")


def both(writer: Any, reader: Any, one_by_one: Any = None) -> tuple[AvroDecoder, RowDecoder]:
    """Return the decoder by columns and the one that reads value by value."""
    of_writer, of_reader = (AvroSchema((json.dumps(schema),), "it") for schema in (writer, reader))
    built = of_reader.shape().kind
    slow = RowDecoder(_reader_of(of_reader, of_writer, 0, "its schema"), built)
    steps = steps_of(of_writer.parsed_with_names(), of_reader.parsed_with_names(), built)
    assert steps is not None
    return AvroDecoder(one_by_one or slow, built, built, only=steps), slow


def encoded(schema: Any, values: Sequence[Any]) -> list[bytes | None]:
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    found: list[bytes | None] = []
    for value in values:
        out = BytesIO()
        if value is not None:
            fastavro.schemaless_writer(out, parsed, value)
        found.append(None if value is None else out.getvalue())
    return found


INT, LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
REAL = st.floats(width=32, allow_nan=False)
PLAIN: tuple[Typed, ...] = (
    *(("int", reader, INT) for reader in ("int", "long", "double", "float")),
    *(("long", reader, LONG) for reader in ("long", "double")),
    ("float", "float", REAL),
    ("float", "double", REAL),
    ("double", "double", st.floats(allow_nan=False)),
    ("boolean", "boolean", st.booleans()),
    ("string", "string", st.text(max_size=9)),
    ("bytes", "bytes", st.binary(max_size=9)),
    ("null", "null", st.none()),
)


def logical(kind: str, meaning: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": meaning, **more}


PRICE = logical("bytes", "decimal", precision=38, scale=2)
MOMENT = st.integers(-(2**52), 2**52)
LOGICAL: tuple[Typed, ...] = (
    *(
        (logical("long", f"timestamp-{writer}"), logical("long", f"timestamp-{reader}"), MOMENT)
        for writer, reader in (("millis", "millis"), ("millis", "micros"), ("micros", "millis"), ("nanos", "millis"))
    ),
    (logical("int", "date"), logical("int", "date"), INT),
    (logical("long", "timestamp-millis"), "long", MOMENT),
    (logical("string", "uuid"), "string", st.text(max_size=3)),
    (PRICE, PRICE, st.decimals("-1e30", "1e30", places=2)),
)
DEFAULTS: Sequence[tuple[Any, Any]] = (
    ("int", 5),
    ("string", "none"),
    (["null", "string"], None),
    ({"type": "array", "items": "int"}, [1, 2]),
    ({"type": "map", "values": "double"}, {"a": 1.5}),
    ({"type": "record", "name": "D", "fields": [{"name": "x", "type": "boolean", "default": True}]}, {}),
)


@st.composite
def types(draw: Draw, names: Any, depth: int = 0) -> Any:
    """Draw a type. names: numbers for the names of types."""
    kinds = ["plain", "logical", "enum", "fixed", "nullable", "made nullable"] + (["record", "array", "map"] if depth < 3 else [])
    match draw(st.sampled_from(kinds)):
        case "plain":
            return draw(st.sampled_from(PLAIN))
        case "logical":
            return draw(st.sampled_from(LOGICAL))
        case "enum":
            named = {"type": "enum", "name": f"E{next(names)}"}
            return {**named, "symbols": ["A", "BB", "C"]}, {**named, "symbols": ["C", "BB", "X", "A"]}, st.sampled_from(["A", "BB", "C"])
        case "fixed":
            fixed = {"type": "fixed", "name": f"F{next(names)}", "size": draw(st.integers(1, 20))}
            return fixed, fixed, st.binary(min_size=fixed["size"], max_size=fixed["size"])
        case "nullable":
            writer, reader, values = draw(types(names, depth + 1).filter(may_be_null))
            return ["null", writer], [reader, "null"], st.none() | values
        case "made nullable":
            writer, reader, values = draw(types(names, depth + 1).filter(may_be_null))
            return writer, ["null", reader], values
        case "record":
            return draw(records(names, depth + 1))
        case "array":
            writer, reader, values = draw(types(names, depth + 1).filter(lambda typed: takes_bytes(typed[0])))
            return {"type": "array", "items": writer}, {"type": "array", "items": reader}, st.lists(values, max_size=3)
        case _:
            writer, reader, values = draw(types(names, depth + 1))
            return (
                {"type": "map", "values": writer},
                {"type": "map", "values": reader},
                st.dictionaries(st.text(max_size=3), values, max_size=3),
            )


def may_be_null(typed: Typed) -> bool:
    return not any(isinstance(one, list) or one == "null" for one in typed[:2])


def takes_bytes(schema: Any) -> bool:
    if isinstance(schema, dict) and schema["type"] == "record":
        return any(takes_bytes(field["type"]) for field in schema["fields"])
    return bool(schema != "null")


@st.composite
def records(draw: Draw, names: Any, depth: int = 0) -> Typed:
    """Draw a record whose reader lacks fields, has more, and has some under another name."""
    name = f"R{next(names)}"
    fields = [(f"f{place}", *draw(types(names, depth))) for place in range(draw(st.integers(1, 4)))]
    read = []
    for field, _, reader, _ in fields:
        match draw(st.sampled_from(["kept", "kept", "renamed", "dropped"])):
            case "kept":
                read.append({"name": field, "type": reader})
            case "renamed":
                read.append({"name": f"new_{field}", "type": reader, "aliases": [field]})
    for place in range(draw(st.integers(0, 2))):
        kind, default = draw(st.sampled_from(DEFAULTS))
        kind = {**kind, "name": f"R{next(names)}"} if isinstance(kind, dict) and kind["type"] == "record" else kind
        read.append({"name": f"more{place}", "type": kind, "default": default})
    read = draw(st.permutations(read)) or [{"name": "n", "type": "int", "default": 0}]
    writer = {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind, _, _ in fields]}
    return (
        writer,
        {"type": "record", "name": name, "fields": read},
        st.fixed_dictionaries({field: values for field, _, _, values in fields}),
    )


@st.composite
def topics(draw: Draw) -> tuple[Any, Any, list[Any]]:
    """Draw a writer's schema, a reader's schema, and values."""
    writer, reader, values = draw(records(count()))
    return writer, reader, draw(st.lists(st.none() | values, min_size=1, max_size=5))


@given(topics())
def test_rows_are_those_of_fastavro(topic: tuple[Any, Any, list[Any]]) -> None:
    writer, reader, values = topic
    fast, slow = both(writer, reader, NotCalled())
    data = pa.array(encoded(writer, values), pa.binary())
    found = fast.decode(data)
    assert found.fault is None
    assert found.malformed.to_pylist() == [False] * len(values)
    found.rows.validate(full=True)
    assert found.rows.equals(slow.decode(data).rows)
    if len(values) > 1:
        assert fast.decode(data.slice(1)).rows.equals(found.rows.slice(1))


@given(topics(), st.data())
def test_damaged_bytes_are_malformed_or_another_value(topic: tuple[Any, Any, list[Any]], data: Any) -> None:
    writer, reader, values = topic
    fast, slow = both(writer, reader)
    good = [value or b"" for value in encoded(writer, values)]
    bad = []
    for value in good:
        at = data.draw(st.integers(0, len(value)))
        how = data.draw(st.sampled_from(["cut", "more", "set"]))
        change = {"cut": value[:at], "more": value[:at] + data.draw(st.binary(max_size=3)) + value[at:]}
        bad.append(change.get(how) or value[:at] + bytes([data.draw(st.integers(0, 255))]) + value[at + 1 :])
    column = pa.array([*bad, *good], pa.binary())
    found, expected = fast.decode(column), slow.decode(column)
    found.rows.validate(full=True)
    event("malformed" if expected.fault else "good")
    flags = found.malformed.to_pylist()
    assert (found.fault and found.fault.row) == (flags.index(True) if True in flags else None)
    for row, is_malformed in enumerate(flags):
        # fastavro takes a branch or a symbol below zero for one of the last ones, so it may read what is malformed here.
        assert is_malformed or found.rows.slice(row, 1).equals(expected.rows.slice(row, 1))
        assert is_malformed or not expected.malformed[row].as_py()


NUMBERS = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "n", "type": {"type": "array", "items": "long"}}, {"name": "s", "type": "string"}],
}
HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
"""2**63 - 1 as Avro writes it."""
LEAST = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HUGE,
        HUGE + b"\0",
        LEAST,
        LEAST + b"\2\0",
        LEAST + HUGE + b"\0",
        b"\1\2" + b"\0" * 2 + b"\2",
        b"\0" + HUGE,
        b"\0\1",
        b"\0\4a",
        b"\0\2\xff",
        b"\0\2aa",
        b"\2" + b"\x80" * 20 + b"\0\0",
        b"\2" + b"\xff" * 10,
    ],
)
def test_bytes_that_announce_more_than_there_is_are_malformed(data: bytes) -> None:
    fast, _ = both(NUMBERS, NUMBERS)
    value = {"n": [1, -(2**63), 2**63 - 1], "s": "é"}
    good = encoded(NUMBERS, [value])
    found = fast.decode(pa.array([*good, data, *good], pa.binary()))
    assert found.malformed.to_pylist() == [False, True, False]
    assert found.rows.to_pylist() == [
        {"n": [1, -(2**63), 2**63 - 1], "s": "é"},
        {"n": None, "s": None},
        {"n": [1, -(2**63), 2**63 - 1], "s": "é"},
    ]
    assert found.fault is not None
    assert found.fault.row == 1


def test_numbers_that_do_not_fit_are_malformed() -> None:
    def of(kind: Any) -> Any:
        return {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}

    millis, micros = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
    for writer, reader, fits, far in (("long", millis, 2**62, None), ("int", "int", 2**31 - 1, 2**31), (millis, micros, 2**53, 2**60)):
        fast, _ = both(of(writer), of(reader))
        values = encoded(of("long"), [{"x": value} for value in (fits, -fits, far) if value is not None])
        assert fast.decode(pa.array(values, pa.binary())).malformed.to_pylist() == [False, False, True][: len(values)]


def test_times_after_a_day_are_malformed() -> None:
    def of(kind: Any) -> Any:
        return {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}

    for kind, day in ((logical("int", "time-millis"), 86_400_000), (logical("long", "time-micros"), 86_400_000_000)):
        fast, _ = both(of(kind), of(kind))
        values = encoded(of("long"), [{"x": 0}, {"x": day - 1}, {"x": day}, {"x": -1}])
        assert fast.decode(pa.array(values, pa.binary())).malformed.to_pylist() == [False, False, True, True]


@pytest.mark.parametrize("size", [0, 1, 16, 17, 40])
def test_decimals_may_be_longer_than_they_need_to_be(size: int) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": logical("bytes", "decimal", precision=38)}]}
    fast, slow = both(schema, schema)
    for number in (0, 1, -1):
        data = pa.array([bytes([2 * size]) + number.to_bytes(size, "big", signed=True)] if size else [b"\0"], pa.binary())
        assert fast.decode(data).rows.to_pylist() == [{"x": Decimal(number if size else 0)}] == slow.decode(data).rows.to_pylist()
    far = pa.array([b"\x28" + (10**38).to_bytes(20, "big")], pa.binary())
    assert fast.decode(far).malformed.to_pylist() == [True]


def test_a_value_is_not_malformed_because_of_its_neighbours() -> None:
    fields = [{"name": "s", "type": "string"}, {"name": "n", "type": "long"}]
    writer = {"type": "record", "name": "R", "fields": fields}
    fast, _ = both(writer, {**writer, "fields": fields[:1]})
    # fastavro reads the number of eleven bytes.
    skipped = [b"\2a" + b"\x80" * 10 + b"\0", b"\2a"]
    good, no_text = b"\2a\0", b"\2\xff\0"
    alone = fast.decode(pa.array([good, *skipped, good], pa.binary())).malformed.to_pylist()
    found = fast.decode(pa.array([None, good, *skipped, good, no_text, good, no_text], pa.binary()))
    assert alone == [False, True, True, False]
    assert found.malformed.to_pylist() == [False, *alone, True, False, True]
    assert found.rows.to_pylist() == [None, {"s": "a"}, {"s": None}, {"s": None}, {"s": "a"}, {"s": None}, {"s": "a"}, {"s": None}]


@pytest.mark.parametrize("kind", ["string", "double", {"type": "fixed", "name": "F", "size": 4}])
def test_a_field_that_is_skipped_has_all_its_bytes(kind: Any) -> None:
    def of(*fields: Any) -> Any:
        return {"type": "record", "name": "R", "fields": list(fields)}

    number = {"name": "n", "type": "int"}
    writer = of(number, {"name": "gone", "type": kind})
    (value,) = encoded(writer, [{"n": 1, "gone": {"string": "abc", "double": 1.5}.get(str(kind), b"abcd")}])
    for decoder in both(writer, of(number)):
        assert value is not None
        values = [value[:size] for size in range(1, len(value) + 1)]
        assert decoder.decode(pa.array(values, pa.binary())).malformed.to_pylist() == [True] * (len(value) - 1) + [False]


def test_null_may_be_written_as_an_object() -> None:
    def of(null: Any) -> Any:
        return {"type": "record", "name": "R", "fields": [{"name": "n", "type": null}, {"name": "x", "type": [null, "int"]}]}

    fast, slow = both(of({"type": "null"}), of("null"))
    values = pa.array(encoded(of("null"), [{"n": None, "x": None}, {"n": None, "x": 5}]), pa.binary())
    assert fast.decode(values).rows.to_pylist() == [{"n": None, "x": None}, {"n": None, "x": 5}] == slow.decode(values).rows.to_pylist()


def test_a_map_has_each_key_once() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "m", "type": {"type": "array", "items": {"type": "map", "values": "int"}}}],
    }
    fast, slow = both(schema, schema)
    good, large = encoded(schema, [{"m": [{"a": 1}, {"a": 1, "b": 2}, {}]}, {"m": [{f"k{number}": number for number in range(100)}]}])
    assert large is not None
    values = [good, b"\2\4\2a\2\2b\4\2\2a\6\0\0", None, large, large.replace(b"k98", b"k97"), good]
    rows = fast.decode(pa.array(values, pa.binary())).rows.to_pylist()
    assert rows[1] == {"m": [[("a", 3), ("b", 2)]]}
    assert rows[4]["m"][0][-2:] == [("k97", 98), ("k99", 99)]
    assert rows == slow.decode(pa.array(values, pa.binary())).rows.to_pylist()


def test_what_has_no_steps_is_decoded_value_by_value() -> None:
    def planned(writer: Any, reader: Any | None = None) -> bool:
        of_writer, of_reader = (AvroSchema((json.dumps(schema),), "it") for schema in (writer, writer if reader is None else reader))
        return steps_of(of_writer.parsed_with_names(), of_reader.parsed_with_names(), of_reader.shape().kind) is not None

    def of(kind: Any) -> Any:
        return {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}

    assert planned(of(["int", "long", "null"]))
    assert not planned(of(["int", "string"]))
    assert not planned(of({"type": "array", "items": "null"}))
    assert not planned(of("bytes"), of("string"))
    assert not planned(of("bytes"), of(logical("bytes", "decimal", precision=3)))
    assert not planned(of({"type": "fixed", "name": "F", "size": 0}))
    loop = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
    assert not planned({**of(loop), "fields": [{"name": "l", "type": loop}, {"name": "x", "type": "int"}]}, of("int"))
