"""JSON to Arrow columns: rows, nulls, malformed records, and how the memory of columns grows."""

from __future__ import annotations

import json
from datetime import UTC as ZONE
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from json_kit import BAD, BAD_TEXTS, GOOD_TEXTS, SYNTAX_FAULTS, UTC, decode, value_of
from levada.record.columnar.json import JsonDecoder

FLAT = {"a": pa.int32(), "b": pa.string()}


def test_every_value_is_a_row() -> None:
    found = decode(FLAT, ['{"a":1,"b":"x"}', '{"b":"y"}', None, "", "  \n", "{", '{"a":"x","b":"y"}', "{}"])

    assert found.rows.to_pylist() == [
        {"a": 1, "b": "x"},
        {"a": None, "b": "y"},
        None,
        None,
        None,
        {"a": None, "b": None},
        {"a": None, "b": "y"},
        {"a": None, "b": None},
    ]
    assert found.malformed.to_pylist() == [False] * 5 + [True, True, False]


def test_types_are_exactly_those_of_the_schema() -> None:
    schema = pa.schema([(f"f{at}", kind) for at, kind in enumerate(GOOD_TEXTS)] + [("l", pa.list_(pa.field("element", pa.int8())))])

    for values in ([], ["{}"], [None, "x"]):
        assert decode(schema, values).rows.type == pa.struct(list(schema))


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in GOOD_TEXTS.items() for text in texts], ids=str)
def test_a_good_value_is_one(kind: Any, text: str) -> None:
    assert value_of(kind, text) not in (BAD, None)


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in BAD_TEXTS.items() for text in texts], ids=str)
def test_a_value_of_another_type_is_null_and_the_rest_of_the_record_stays(kind: Any, text: str) -> None:
    found = decode({"f": kind, "g": pa.int8()}, [f'{{"f":{text},"g":1}}'])

    assert found.malformed.to_pylist() == [True]
    assert found.rows.to_pylist() == [{"f": None, "g": 1}]
    assert str(found.fault) == f"row 0: not of the type {kind} of field 'f' (byte 5)"


@pytest.mark.parametrize("field", ["f", "unknown"])
@pytest.mark.parametrize("kind", GOOD_TEXTS, ids=str)
@pytest.mark.parametrize("text", SYNTAX_FAULTS)
def test_what_is_not_JSON_spoils_its_record(kind: Any, text: str, field: str) -> None:
    found = decode({"f": kind, "g": pa.int8()}, ['{"g":1}', f'{{"g":2,"{field}":{text},"f":null}}', '{"g":3}'])

    assert found.malformed.to_pylist() == [False, True, False]
    assert [row["g"] for row in found.rows.to_pylist()] == [1, None, 3]
    assert found.fault is not None
    assert found.fault.field is None


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (UTC, '"2024-02-29T03:04:05.123456789+01:30"', datetime(2024, 2, 29, 1, 34, 5, 123456, ZONE)),
        (UTC, '"1960-01-02T03:04:05.5-0100"', datetime(1960, 1, 2, 4, 4, 5, 500000, ZONE)),
        (UTC, "-1", datetime(1969, 12, 31, 23, 59, 59, 0, ZONE)),
        (UTC, '"2024-01-02 3:4:5 UTC"', datetime(2024, 1, 2, 3, 4, 5, 0, ZONE)),
        (pa.timestamp("us"), '"1582-10-10 23:59:59.1"', datetime(1582, 10, 10, 23, 59, 59, 100000)),
        (pa.date32(), '"0001-01-01"', date(1, 1, 1)),
        (pa.date32(), '"9999-12-31T"', date(9999, 12, 31)),
        (pa.date32(), '"1900-3"', date(1900, 3, 1)),
        (pa.decimal128(5, 2), "-1.235", Decimal("-1.24")),
        (pa.decimal128(5, 2), "999.994", Decimal("999.99")),
        (pa.decimal128(5, 2), "1e-9", Decimal("0.00")),
        (pa.decimal128(38, 0), "-" + "9" * 38, Decimal("-" + "9" * 38)),
        (pa.decimal128(38, 0), '"18446744073709551616"', Decimal(2**64)),
        (pa.decimal128(38, 0), "-18446744073709551616", Decimal(-(2**64))),
        (pa.decimal128(2, 2), "0.995", BAD),
        (pa.binary(), '"\\/\\/8="', b"\xff\xff"),
        (pa.binary(), '" YQ== YWI= "', b"aab"),
        (pa.string(), '"\\ud83d\\ude00\\ud83d\\u0041\\udc00\\u0000"', "😀?A?\0"),
        (pa.string(), "'it\\'s'", "it's"),
        (pa.string(), '"' + "x" * 100 + '\\n"', "x" * 100 + "\n"),
        (pa.float64(), "0.1e-5", 1e-6),
        (pa.float64(), "1.7976931348623157e308", 1.7976931348623157e308),
        (pa.float64(), "1e99999999999999999999", float("inf")),
        (pa.float64(), "9007199254740993", 9007199254740992.0),
        (pa.float64(), "12345678901234567890123e-20", 123.45678901234568),
        (pa.float32(), "3.4e39", float("inf")),
    ],
    ids=str,
)
def test_values_are_exact(kind: Any, text: str, value: Any) -> None:
    assert value_of(kind, text) == value


def test_every_day_of_four_centuries() -> None:
    days = [date.fromordinal(day) for day in range(date(1799, 12, 25).toordinal(), date(2200, 1, 5).toordinal(), 7)]

    found = decode({"d": pa.date32()}, [f'{{"d":"{day}"}}' for day in days])

    assert found.rows.field("d").to_pylist() == days


def test_only_a_whole_zero_has_no_sign() -> None:
    texts = ["-0", "-0.0", "-0e0"]
    assert [str(value_of(pa.float64(), text)) for text in texts] == ["0.0", "-0.0", "-0.0"]


NESTED = {
    "s": pa.struct([("x", pa.int32()), ("t", pa.struct([("y", pa.string())]))]),
    "l": pa.list_(pa.int64()),
    "m": pa.list_(pa.list_(pa.bool_())),
    "q": pa.list_(pa.struct([("x", pa.int32()), ("n", pa.string())])),
}


@pytest.mark.parametrize(
    "text",
    [
        '{"s":{"x":1,"t":{"y":"z"}},"l":[1,null,2],"m":[[true],[],null,[false,null]],"q":[{"x":1,"n":"a"},null,{}]}',
        '{"s":{"t":null},"l":[],"m":null}',
        '{"s":null,"q":[]}',
    ],
)
def test_structs_and_arrays(text: str) -> None:
    found = decode(NESTED, [text])

    assert found.malformed.to_pylist() == [False]
    assert found.rows.to_pylist() == [completed(json.loads(text), pa.struct(list(NESTED.items())))]


def completed(value: Any, kind: pa.DataType) -> Any:
    """Return a value with null for each field that it does not have."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: completed(value.get(field.name), field.type) for field in kind}
    return [completed(element, kind.value_type) for element in value] if pa.types.is_list(kind) else value


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ('{"s":{"x":"q","t":{"y":"z"}}}', "s", {"x": None, "t": {"y": "z"}}),
        ('{"s":[],"l":[1]}', "s", None),
        ('{"l":[1,"x",2]}', "l", None),
        ('{"l":{}}', "l", None),
        ('{"m":[[true],[1]]}', "m", None),
        ('{"q":[{"x":1},{"x":"z","n":"k"}]}', "q", [{"x": 1, "n": None}, {"x": None, "n": "k"}]),
        ('{"q":[1,{"x":3}]}', "q", None),
    ],
)
def test_a_bad_value_inside_of_others(text: str, field: str, value: Any) -> None:
    found = decode(NESTED, ['{"l":[9]}', text, '{"l":[8],"q":[{"n":"a"}]}'])

    assert found.malformed.to_pylist() == [False, True, False]
    assert found.rows.to_pylist()[1][field] == value
    assert [found.rows.to_pylist()[row]["l"] for row in (0, 2)] == [[9], [8]]


def test_the_last_of_two_equal_keys_counts() -> None:
    texts = ['{"a":1,"b":"long","a":2,"b":"s"}', '{"a":1,"a":null}', '{"a":null,"a":3}', '{"b":"x","b":"\\q"}']
    found = decode(FLAT, texts)

    assert found.rows.to_pylist() == [{"a": 2, "b": "s"}, {"a": None, "b": None}, {"a": 3, "b": None}, {"a": None, "b": None}]
    twice = decode(NESTED, ['{"l":[1,2],"s":{"x":1},"l":[3],"s":{"t":{"y":"k"}}}'])
    assert twice.rows.to_pylist()[0] == {"s": {"x": None, "t": {"y": "k"}}, "l": [3], "m": None, "q": None}


def test_names_are_compared_as_they_are_meant() -> None:
    schema = {'qu"ote': pa.int8(), "é": pa.int8(), "back\\slash": pa.int8(), "new\nline": pa.int8(), "": pa.int8()}
    row = dict(zip(schema, range(5), strict=True))

    for text in (json.dumps(row), json.dumps(row, ensure_ascii=False), '{"\\u0071u\\"ote":0,"\\u00E9":1,"Q":9}'):
        found = decode(schema, [text]).rows.to_pylist()[0]
        assert {name: value for name, value in found.items() if value is not None} == {
            name: value for name, value in json.loads(text).items() if name in schema
        }
    assert decode(schema, ['{"qu"ote":1}']).malformed.to_pylist() == [True]
    assert decode(FLAT, ['{"A":1}', '{"aa":1}', '{"a ":1}']).rows.field("a").to_pylist() == [None] * 3


def test_nesting_has_an_end() -> None:
    deep = ['{"z":' + "[" * depth + "]" * depth + ',"a":1}' for depth in (999, 1000, 100_000)]
    assert decode(FLAT, deep).malformed.to_pylist() == [False, True, True]


def test_a_number_of_a_thousand_characters_is_the_longest() -> None:
    assert decode(FLAT, [f'{{"z":{"1" * size}}}' for size in (1000, 1001)]).malformed.to_pylist() == [False, True]


@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80", b"\xf0\x80\x80\x80"])
@pytest.mark.parametrize("text", [b'{"b":"12345678%s"}', b'{"z":"%s"}', b'{"%s":1}'])
def test_what_is_not_UTF_8_is_malformed(text: bytes, bad: bytes) -> None:
    assert decode(FLAT, [text % bad]).malformed.to_pylist() == [True]


def test_the_first_fault_is_told() -> None:
    found = decode({"s": pa.struct([("l", pa.list_(pa.int8()))])}, ["{}", '  {"s":{"l":[1,300]}}', "{"])

    assert found.fault is not None
    assert tuple(found.fault) == (1, 12, "s.l", pa.list_(pa.int8()))
    assert str(decode(FLAT, ['{"a":1}x']).fault) == "row 0: not a JSON object (byte 7)"
    assert decode(FLAT, ["{}"]).fault is None


def test_of_several_faults_the_first_is_told_unless_the_record_is_not_JSON() -> None:
    # The text does not fit at first, so that the record is read twice.
    long = f'{{"a":"x","b":"{"y" * 1000}","a":[]'
    for values in ([long + "}", "{"], ["{}"] * 9 + [long + "}"]):
        fault = decode({**FLAT, "c": pa.string()}, values).fault
        assert fault is not None
        assert (fault.row, fault.position, fault.field) == (len(values) - 1 if values[0] == "{}" else 0, 5, "a")
    assert str(decode(FLAT, [long]).fault) == f"row 0: not a JSON object (byte {len(long)})"


def test_a_decoder_keeps_neither_values_nor_columns() -> None:
    before = pa.total_allocated_bytes()
    decoder = JsonDecoder(pa.schema([*FLAT.items(), ("l", pa.list_(pa.string()))]))

    for _ in range(2):
        decoder.decode(pa.array([b'{"a":1,"b":"x","l":["y"]}'] * 10_000, pa.binary()))

    assert pa.total_allocated_bytes() - before < 10_000


def test_columns_take_memory_for_what_is_there() -> None:
    kinds = [pa.string(), pa.list_(pa.string()), pa.list_(pa.int64())]
    decoder = JsonDecoder(pa.schema([(f"f{at}", kinds[at % 3]) for at in range(60)]))
    values = pa.array([b'{"f0":"%s","f1":["%s"],"f2":[1,2,3]}' % (b"x" * 50_000, b"y" * 50_000)] * 20, pa.binary())
    before = pa.total_allocated_bytes()

    found = [decoder.decode(values) for _ in range(2)]

    assert pa.total_allocated_bytes() - before < 2.5 * len(found) * values.nbytes


def test_columns_grow_as_far_as_they_have_to() -> None:
    decoder = JsonDecoder(pa.schema([("t", pa.list_(pa.string())), ("q", pa.list_(pa.struct([("n", pa.list_(pa.int8()))])))]))
    rows = [{"t": ["é" * size] * 50, "q": [{"n": [1] * size}] * 200} for size in (0, 3, 50, 1)]
    values = pa.array([json.dumps(row, ensure_ascii=False).encode() for row in rows], pa.binary())

    for _ in range(2):
        assert decoder.decode(values).rows.to_pylist() == rows
    assert decoder.decode(values[:0]).rows.to_pylist() == []


def test_a_record_is_read_anew_a_few_times_for_a_column_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[int] = []
    feed = JsonDecoder._feed

    def count(decoder: JsonDecoder, index: int) -> None:
        fed.append(index)
        feed(decoder, index)

    monkeypatch.setattr(JsonDecoder, "_feed", count)
    row = {f"f{at}": [1] * 3000 for at in range(10)}

    decoder = JsonDecoder(pa.schema([(name, pa.list_(pa.int64())) for name in row]))

    for _ in range(2):
        assert decoder.decode(pa.array([json.dumps(row, separators=(",", ":"))])).rows.to_pylist() == [row]
    assert max(map(fed.count, fed)) <= 2


def test_slices_and_strings_are_read_too() -> None:
    decoder = JsonDecoder(pa.schema(list(FLAT.items())))
    values = pa.array(["x", None, '{"a":1}', None, '{"a":2}', "}"])

    for part in (values, values.cast(pa.binary())):
        found = decoder.decode(part.slice(1, 4))
        assert found.rows.to_pylist() == [None, {"a": 1, "b": None}, None, {"a": 2, "b": None}]
        assert found.malformed.to_pylist() == [False] * 4


def test_a_value_is_read_no_further_than_it_goes() -> None:
    whole = b'{"a":12345}'
    values = pa.Array.from_buffers(pa.binary(), 2, [None, pa.array([0, 7, 11], pa.int32()).buffers()[1], pa.py_buffer(whole)])

    assert JsonDecoder(pa.schema(list(FLAT.items()))).decode(values).malformed.to_pylist() == [True, True]


def test_offsets_that_lead_out_of_the_data_are_refused() -> None:
    values = pa.Array.from_buffers(pa.binary(), 2, [None, pa.array([0, 99, 2], pa.int32()).buffers()[1], pa.py_buffer(b"{}")])

    with pytest.raises(pa.ArrowInvalid):
        JsonDecoder(pa.schema(list(FLAT.items()))).decode(values)


@pytest.mark.parametrize(
    "kind", [pa.uint8(), pa.timestamp("ms"), pa.timestamp("us", tz="Europe/Paris"), pa.large_string(), pa.decimal256(5, 2)]
)
def test_a_type_that_Spark_does_not_have_is_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"field 's\.f'"):
        JsonDecoder(pa.schema([("s", pa.struct([("f", kind)]))]))


def test_a_name_comes_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        JsonDecoder(pa.schema([("a", pa.int8()), ("a", pa.int8())]))


def test_values_are_binary_or_string() -> None:
    with pytest.raises(TypeError, match="int8"):
        JsonDecoder(pa.schema([])).decode(pa.array([1], pa.int8()))


def test_a_schema_without_fields_checks_the_values() -> None:
    assert decode({}, ['{"a":1}', "{}", '{"a":}']).malformed.to_pylist() == [False, False, True]
