"""A value of a few bytes, and a schema of a few records, cost memory and time in proportion to their size."""

from __future__ import annotations

from typing import Any

import pytest

from levada.registry.avro_codec import MOST_EMPTY_ITEMS, MOST_FIELDS, ValueReader, parse, write_value

EMPTY = {"type": "record", "name": "Empty", "fields": [{"name": "a", "type": "null"}]}
EMPTY_TYPES = ["null", EMPTY, {"type": "fixed", "name": "F", "size": 0}, {"type": "record", "name": "None", "fields": []}]
MANY = 1 << 40


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
    with pytest.raises(ValueError, match=f"items that take no bytes; {MOST_EMPTY_ITEMS} are the most"):
        reader({"type": "array", "items": items})(count + a_long(0), 0)


def test_items_without_bytes_are_counted_over_the_whole_value() -> None:
    inner = {"type": "array", "items": "null"}
    schema = {
        "type": "array",
        "items": {"type": "record", "name": "R", "fields": [{"name": "m", "type": {"type": "map", "values": inner}}]},
    }
    few: list[Any] = [{"m": {"a": [None] * 100}}] * 3
    assert reader(schema)(written(schema, few), 0) == few
    with pytest.raises(ValueError, match="items that take no bytes"):
        reader(schema)(written(schema, [{"m": {"a": [None] * (MOST_EMPTY_ITEMS // 2)}}] * 3), 0)


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
    schema: Any = "long"
    for number in range(40):
        last = schema if number == 0 else f"R{number - 1}"
        schema = {"type": "record", "name": f"R{number}", "fields": [{"name": "a", "type": schema}, {"name": "b", "type": last}]}
    with pytest.raises(ValueError, match=f"fields; {MOST_FIELDS} are the most"):
        parse([schema])
