"""A value of a few bytes, and a schema of a few records, cost memory and time in proportion to their size."""

from __future__ import annotations

from typing import Any

import pytest

from levada.registry import avro_codec
from levada.registry.avro_codec import (
    EMPTY_PARTS_PER_BYTE,
    MOST_DECIMAL_BYTES,
    MOST_EMPTY_PARTS,
    MOST_FIELDS,
    ValueReader,
    parse,
    write_value,
)

EMPTY = {"type": "record", "name": "Empty", "fields": [{"name": "a", "type": "null"}]}
EMPTY_TYPES = ["null", EMPTY, {"type": "fixed", "name": "F", "size": 0}, {"type": "record", "name": "None", "fields": []}]
MANY = 1 << 40
TOO_MANY = "parts that take no bytes, such as nulls; at most [0-9]+ are allowed"


ORDINARY = {
    "type": "record",
    "name": "Ordinary",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
NESTED = {
    "type": "record",
    "name": "Nested",
    "fields": [
        {"name": "all", "type": {"type": "array", "items": ORDINARY}},
        {"name": "by", "type": {"type": "map", "values": "Ordinary"}},
    ],
}
LINKED = {"type": "record", "name": "Linked", "fields": [{"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Linked"]}]}
ORDINARY_VALUE = {"id": 1, "note": None, "tags": ["a"]}
ORDINARY_VALUES: dict[str, Any] = {
    "Ordinary": ORDINARY_VALUE,
    "Nested": {"all": [ORDINARY_VALUE] * 3, "by": {"k": ORDINARY_VALUE}},
    "Linked": {"value": 1, "next": {"value": 2, "next": None}},
}


def reader(schema: Any) -> ValueReader:
    names: dict[str, Any] = {}
    return ValueReader(parse([schema], names), names)


def written(schema: Any, value: Any) -> bytes:
    return write_value(b"", parse([schema]), value)


def a_long(number: int) -> bytes:
    return written("long", number)


@pytest.mark.parametrize("items", EMPTY_TYPES, ids=str)
@pytest.mark.parametrize("count", [a_long(MANY), a_long(-MANY) + a_long(0)], ids=["plain", "with the size of the block"])
def test_items_without_bytes_are_not_made_without_end(items: Any, count: bytes) -> None:
    with pytest.raises(ValueError, match=TOO_MANY):
        reader({"type": "array", "items": items})(count + a_long(0), 0)


def test_items_without_bytes_are_counted_over_the_whole_value() -> None:
    inner = {"type": "array", "items": "null"}
    schema = {
        "type": "array",
        "items": {"type": "record", "name": "R", "fields": [{"name": "m", "type": {"type": "map", "values": inner}}]},
    }
    few: list[Any] = [{"m": {"a": [None] * 100}}] * 3
    assert reader(schema)(written(schema, few), 0) == few
    with pytest.raises(ValueError, match=TOO_MANY):
        reader(schema)(written(schema, [{"m": {"a": [None] * (MOST_EMPTY_PARTS // 2)}}] * 3), 0)


def doubling(depth: int, innermost: Any) -> Any:
    """A record that stands for 2**depth of the innermost type."""
    schema = innermost
    for number in range(depth):
        last = schema if number == 0 else f"R{number - 1}"
        schema = {"type": "record", "name": f"R{number}", "fields": [{"name": "a", "type": schema}, {"name": "b", "type": last}]}
    return schema


@pytest.mark.parametrize("around", ["array", "map", "union", "itself"])
def test_a_byte_does_not_stand_for_as_many_parts_as_the_schema_has(around: str) -> None:
    empty = doubling(14, "null")
    item: Any = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "boolean"}, {"name": "e", "type": empty}]}
    schema: Any = item
    if around == "array":
        schema, data = {"type": "array", "items": item}, a_long(10) + b"\1" * 10 + a_long(0)
    elif around == "map":
        schema, data = {"type": "map", "values": item}, a_long(10) + b"\2a\1" * 10 + a_long(0)
    elif around == "union":
        schema, data = {"type": "array", "items": ["null", empty]}, a_long(10) + a_long(1) * 10 + a_long(0)
    else:
        item["fields"].append({"name": "next", "type": ["null", "I"]})
        data = b"\1\2" * 9 + b"\1\0"
    with pytest.raises(ValueError, match=TOO_MANY):
        reader(schema)(data, 0)


def test_a_long_value_may_have_more_empty_parts() -> None:
    item: Any = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "boolean"}]}
    item["fields"] += [{"name": f"n{number}", "type": "null"} for number in range(EMPTY_PARTS_PER_BYTE)]
    some = {"x": True} | {f"n{number}": None for number in range(EMPTY_PARTS_PER_BYTE)}
    schema: Any = {"type": "array", "items": item}
    value = [some] * (MOST_EMPTY_PARTS // 2)
    assert reader(schema)(written(schema, value), 0) == value


def test_a_schema_of_few_bytes_is_not_walked_for_each_array(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "array", "items": {"type": "array", "items": doubling(14, "null")}}
    read = reader(schema)
    looked_at = 0
    of_kind = avro_codec.kind_of

    def counted(schema: Any) -> str:
        nonlocal looked_at
        looked_at += 1
        return of_kind(schema)

    monkeypatch.setattr(avro_codec, "kind_of", counted)
    assert read(a_long(50) + a_long(0) * 51, 0) == [[]] * 50
    assert looked_at < 1000


@pytest.mark.parametrize("schema", [ORDINARY, NESTED, LINKED], ids=["record", "nested records", "within itself"])
def test_an_ordinary_value_is_read_once(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_codec, "_EmptyParts", None)
    data = written(schema, ORDINARY_VALUES[schema["name"]])
    assert reader(schema)(data, 0) == ORDINARY_VALUES[schema["name"]]


def test_every_type_is_passed_over_on_the_way_to_an_array() -> None:
    kinds = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
    fields: list[dict[str, Any]] = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]
    fields += [
        {"name": "x", "type": {"type": "fixed", "name": "X", "size": 3}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "u", "type": ["null", "string", {"type": "array", "items": "long"}]},
        {"name": "ms", "type": {"type": "map", "values": "X"}},
        {"name": "n", "type": {"type": "array", "items": "null"}},
    ]
    schema = {"type": "record", "name": "All", "fields": fields}
    values = [None, True, -5, 1 << 60, 0.5, 0.25, b"ab", "é"]
    value: dict[str, Any] = {f"f{number}": one for number, one in enumerate(values)} | {
        "x": b"abc",
        "e": "B",
        "u": [1, 2],
        "ms": {"k": b"xyz"},
        "n": [None] * 5,
    }
    assert reader(schema)(written(schema, value), 0) == value


RECORD_OF_STRING_AND_NULLS = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "s", "type": "string"}, {"name": "n", "type": {"type": "array", "items": "null"}}],
}


@pytest.mark.parametrize("data", [b"", b"\x02", b"\xff" * 20, b"\x02\x50a", a_long(1 << 62)], ids=repr)
def test_bytes_that_are_no_value_are_refused(data: bytes) -> None:
    with pytest.raises((ValueError, EOFError, IndexError)):
        reader({"type": "array", "items": RECORD_OF_STRING_AND_NULLS})(data, 0)


def test_a_record_within_itself_raises_and_does_not_end_the_process() -> None:
    fields: list[dict[str, Any]] = [{"name": "next", "type": ["null", "Node"]}, {"name": "n", "type": {"type": "array", "items": "null"}}]
    schema = {"type": "record", "name": "Node", "fields": fields}
    with pytest.raises(RecursionError):
        reader(schema)(b"\x02" * 100_000, 0)


def test_a_schema_that_doubles_with_each_record_is_refused() -> None:
    with pytest.raises(ValueError, match=f"fields; at most {MOST_FIELDS} are supported"):
        parse([doubling(40, "long")])


@pytest.mark.parametrize("size", [-1, "3", 1.5, None, True])
def test_a_fixed_type_without_a_size_is_refused(size: Any) -> None:
    with pytest.raises(ValueError, match="fixed 'F' has no valid size"):
        parse([{"type": "array", "items": {"type": "fixed", "name": "F", "size": size}}])


@pytest.mark.parametrize("kind", ["bytes", "fixed"])
def test_a_decimal_is_not_of_any_length(kind: str) -> None:
    """Its digits are made in time by the square of their number."""

    def of(size: int) -> Any:
        schema = {"type": kind, "name": "F", "size": size, "logicalType": "decimal", "precision": 1000}
        return reader(schema)(b"\0" * size if kind == "fixed" else a_long(size) + b"\0" * size, 0)

    assert of(MOST_DECIMAL_BYTES) == 0
    with pytest.raises(ValueError, match=f"a decimal has {MOST_DECIMAL_BYTES + 1} bytes; at most {MOST_DECIMAL_BYTES} are supported"):
        of(MOST_DECIMAL_BYTES + 1)
