"""Records as they are printed, filtered and read, without a broker."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Iterable
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cli_kit import run
from levada.cli.commands.consume import record_filter
from levada.cli.commands.perf import percentiles
from levada.cli.commands.produce import MOST_SHOWN, Outcomes
from levada.cli.exits import Exit
from levada.cli.output import json_text, plain
from levada.cli.records import json_records
from levada.cli.records.columns import _parsed_by_arrow, columns_of_json, columns_of_lines, rows_as_json
from levada.cli.records.input_records import InputError, InputRecord, Nulls, blocks, csv_rows, header_options, json_lines, lines
from levada.cli.records.printing import printer, time_text
from levada.cli.records.schemas import deserializers
from levada.cli.records.template import as_bytes, compiled, unescaped
from levada.errors import ConfigError, KafkaError, TransactionOutcomeUnknownError
from levada.types import ConsumerRecord, RecordMetadata

RECORD: ConsumerRecord[bytes, bytes] = ConsumerRecord("t", 1, 7, 1_500, 0, b"key", b"value\xff", [("h", b"x"), ("n", None)])


def changed(**fields: Any) -> ConsumerRecord[Any, Any]:
    return RECORD._replace(**fields)


# Columns

TEXTS = st.text(max_size=8)
VALUES = {
    "text": (pa.string(), TEXTS),
    "bytes": (pa.binary(), st.binary(max_size=4) | TEXTS.map(str.encode)),
    "number": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small": (pa.uint8(), st.integers(0, 255)),
    "float": (pa.float64(), st.floats()),
    "flag": (pa.bool_(), st.booleans()),
    "time": (pa.timestamp("ms"), st.integers(-(2**40), 2**40)),
    "headers 100%s": (
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        st.lists(st.tuples(TEXTS, st.binary(max_size=3) | st.none()), max_size=2).map(
            lambda headers: [{"key": key, "value": value} for key, value in headers]
        ),
    ),
}


@given(st.lists(st.fixed_dictionaries({name: st.none() | values for name, (_, values) in VALUES.items()}), max_size=5), st.booleans())
def test_rows_of_columns_are_the_json_of_their_values(rows: list[dict[str, Any]], dictionaries: bool) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema([(name, kind) for name, (kind, _) in VALUES.items()]))
    if dictionaries:
        batch = batch.set_column(0, "text", batch.column("text").dictionary_encode())
    assert rows_as_json(batch).to_pylist() == [json_text({name: as_json(row[name]) for name in VALUES}) for row in rows]


@given(st.none() | st.integers(-(2**40), 2**40), st.sampled_from(["s", "ms", "us"]), st.sampled_from([None, "UTC", "Asia/Tokyo"]))
def test_times_within_lists_and_structs_are_milliseconds_too(ms: int | None, unit: str, zone: str | None) -> None:
    second = None if ms is None else ms // 1000 * 1000
    time = pa.array([second], pa.timestamp("ms", zone)).cast(pa.timestamp(unit, zone))
    inner = pa.StructArray.from_arrays([time], ["at"])
    nested = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), inner)
    batch = pa.record_batch([time, inner, nested], ["at", "in", "of"])
    assert rows_as_json(batch).to_pylist() == [json_text({"at": second, "in": {"at": second}, "of": [{"at": second}]})]


def as_json(value: Any) -> Any:
    if isinstance(value, list):
        return [{name: as_json(one) for name, one in header.items()} for header in value]
    return plain(value)


# Templates


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        ("%t/%p@%o", b"t/1@7"),
        ("%k=%s\\n", b"key=value\xff\n"),
        ("%v %K %S %T", b"value\xff 3 6 1500"),
        ("%R", b"\0\0\0\6"),
        ("%h", b"h=x,n=NULL"),
        ("100%%\\t\\x41\\0\\\\", b"100%\tA\0\\"),
        ("a\\", b"a\\"),
        ("\\q", b"\\q"),
    ],
)
def test_kcats_letters(template: str, printed: bytes) -> None:
    assert compiled(template, bytes)(RECORD) == printed


def test_null_is_empty_with_the_size_minus_one() -> None:
    assert compiled("[%k|%s|%K|%S|%R]", bytes)(changed(key=None, value=None)) == b"[||-1|-1|\xff\xff\xff\xff]"


def test_a_letter_that_stands_for_nothing_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"%q stands for nothing; there are %t .topic."):
        compiled("%q", bytes)
    with pytest.raises(ConfigError, match="% stands for nothing"):
        compiled("50%", bytes)


def test_delimiters_are_unescaped() -> None:
    assert unescaped("\\t") == b"\t"
    assert unescaped("%\\x00\\n") == b"%\0\n"


# Formats


def test_words_that_are_no_utf_8_are_the_bytes_that_were_typed() -> None:
    typed = os.fsdecode(b"\xff")
    assert unescaped(typed) == b"\xff"
    assert header_options([f"name={typed}"]) == [("name", b"\xff")]
    keeps = record_filter(typed, f"/{typed}+/", ())
    assert keeps is not None
    assert keeps(changed(key=b"a\xff", value=b"\xff\xff"))
    assert not keeps(changed(key=b"a\xff", value=b""))


def test_control_characters_stay_out_of_the_table() -> None:
    row = printer("table", to_terminal=False)(changed(value=b"a\x1b[2J\nb")).decode().splitlines()[1]
    assert row.endswith("a\\x1b[2J\\nb")


def test_the_table_has_one_heading() -> None:
    show = printer("table", to_terminal=False)
    assert [len(show(RECORD).splitlines()) for _ in range(3)] == [2, 1, 1]


def test_hex_shows_bytes_beside_text() -> None:
    shown = printer("hex", to_terminal=False)(changed(value=None)).decode()
    assert "t-1 @7 1970-01-01T00:00:01.500Z" in shown
    assert "6b 65 79" in shown
    assert "value null" in shown


HOSTILE = changed(key=b"k\x1b[2J", value="v\x1b]0;t\x07\x9b\u202e\r\n\tä".encode() + b"\x9b", headers=[("h\x1b", b"\x1b[31m")])


@pytest.mark.parametrize("format", ["raw", "json", "yaml", "hex", "table", "%t %k %s %h %R"])
def test_no_terminal_is_commanded_by_a_record(format: str) -> None:
    shown = printer(format, to_terminal=True, key_delimiter=b":")(HOSTILE).decode()
    assert set(shown) - {"\n", "\t"} == {letter for letter in shown if letter.isprintable()}


def test_what_is_written_out_for_a_terminal_is_there_byte_for_byte_in_a_pipe() -> None:
    assert printer("raw", to_terminal=True, key_delimiter=b"\x1b[0m")(HOSTILE) == (
        b"k\\x1b[2J\x1b[0mv\\x1b]0;t\\x07\\x9b\\u202e\\r\n\t" + "ä".encode() + b"\\x9b\n"
    )
    assert printer("raw", to_terminal=False, key_delimiter=b":")(HOSTILE) == b"k\x1b[2J:" + (HOSTILE.value or b"") + b"\n"
    assert printer("\\x1b[1m%k", to_terminal=True)(HOSTILE) == b"\x1b[1mk\\x1b[2J"
    assert printer("\\x1b[1m%k %h", to_terminal=False)(HOSTILE) == b"\x1b[1mk\x1b[2J h\x1b=\x1b[31m"


def test_yaml_is_one_list_of_what_json_has() -> None:
    show = printer("yaml", to_terminal=False)
    listed = yaml.safe_load(show(RECORD) + show(changed(value="half \ud800", key=None)))
    assert listed[0] == json.loads(printer("json", to_terminal=False)(RECORD))
    assert (listed[1]["key"], listed[1]["value"]) == (None, "half \ud800")


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'json'"):
        printer("jsn", to_terminal=False)


def test_times_of_no_calendar() -> None:
    assert [time_text(ms) for ms in (-1, 0, 1 << 62)] == ["-", "1970-01-01T00:00:00.000Z", str(1 << 62)]


# JSON


@pytest.mark.parametrize("value", [None, b"", b"text", "ä\x85".encode(), b"\xff\x00", b'{"a": 1}'])
def test_bytes_survive_json(value: bytes | None) -> None:
    line = json_records.to_json(changed(key=value, value=value, headers=[("h", value)]))
    assert "\n" not in line
    assert "\x85" not in line
    [read] = json_lines(line.encode())
    assert read == InputRecord(1, value, value, [("h", value)], 1, 1_500)


def test_what_a_deserializer_made_is_json_of_its_own() -> None:
    line = json_records.to_json(changed(value={"a": [1, None]}))
    assert '"value":{"a":[1,null]}' in line
    assert next(json_lines(line.encode())).value == b'{"a":[1,null]}'


def test_numbers_that_json_does_not_have_are_printed_as_text() -> None:
    line = json_records.to_json(changed(key=math.nan, value={"a": [math.inf, 1.5], "b": -math.inf}))
    assert '"key":"NaN","value":{"a":["Infinity",1.5],"b":"-Infinity"}' in line
    assert json_text([math.nan], indent=2) == '[\n  "NaN"\n]'
    assert as_bytes(math.nan) == b'"NaN"'


@pytest.mark.parametrize(
    "text", ["1.10", "0.1234567890123456789", "-1.5", '{"a":[1.10,true,null,"é"],"b":{"c":12345678901234567890.5}}', "[1E+400]"]
)
def test_a_json_value_keeps_all_digits_of_its_numbers(text: str) -> None:
    found = json_records.parse(f'{{"value": {text}, "headers": {{"h": {text}}}}}')
    assert json_records.to_bytes(found["value"]) == text.encode()
    assert json_records.headers_of(found["headers"]) == [("h", text.encode())]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"{", "not JSON"),
        (b"[1]", "expected an object"),
        (b'{"val": 1}', "unknown field 'val', .*did you mean 'value'"),
        (b'{"order": 1}', "unknown field 'order', .*--format lines"),
        (b'{"value": {"base64": "?"}}', "not base64"),
        (b'{"headers": "h"}', "headers must be a list"),
        (b'{"partition": "one"}', "partition must be a whole number"),
        (b'{"partition": true}', "partition must be a whole number"),
        (b'{"value": "\xff"}', "decode|JSON"),
        (b'{"value": 1E9999999999999999999}', "out of range"),
        (b'{"value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"value": NaN}', 'not JSON: JSON has no number NaN; write null, or "NaN" as text'),
        (b'{"value": [1.5, -Infinity]}', "JSON has no number -Infinity"),
    ],
)
def test_a_bad_line_is_named_by_its_number(line: bytes, fault: str) -> None:
    with pytest.raises(InputError, match=fault) as refused:
        list(json_lines(b'{"value": "good"}\n\n' + line))
    assert refused.value.line == 3


JSON_DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=3,
)
JSON_LINE = st.fixed_dictionaries(
    {},
    optional={
        "topic": TEXTS,
        "offset": st.integers(0),
        "partition": st.none() | st.integers(0, 3),
        "timestamp": st.none() | st.integers(-1, 2**40),
        "key": JSON_DATA,
        "value": JSON_DATA | st.just({"base64": "/w=="}),
        "headers": st.none() | st.dictionaries(TEXTS, TEXTS | st.none(), max_size=2) | st.just([{"key": "h", "value": {"base64": "/w=="}}]),
    },
)


JSON_LINE_OF_TEXT = st.fixed_dictionaries(
    {},
    optional={
        "topic": TEXTS,
        "partition": st.integers(0, 3),
        "timestamp": st.none() | st.integers(-1, 2**40),
        "key": TEXTS | st.none(),
        "value": TEXTS | st.none(),
        "headers": st.just([]),
    },
)


@given(st.lists(JSON_LINE, min_size=1, max_size=4), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_columns_of_json_are_the_records_of_its_lines(objects: list[dict[str, Any]], end: str, more: bool) -> None:
    headers = [("c", b"x"), ("n", None)] if more else []
    check_columns_of_json(end.join(json.dumps(one, ensure_ascii=False) for one in objects).encode(), headers)


@given(st.lists(JSON_LINE_OF_TEXT, min_size=1, max_size=4), st.booleans())
def test_lines_of_text_are_parsed_by_arrow(objects: list[dict[str, Any]], ascii: bool) -> None:
    block = "\n".join(json.dumps(one, ensure_ascii=ascii) for one in objects).encode()
    assert _parsed_by_arrow(block) is not None
    check_columns_of_json(block, [])


def check_columns_of_json(block: bytes, headers: list[tuple[str, bytes | None]]) -> None:
    rows = columns_of_json(block, headers).to_pylist()
    expected = list(json_lines(block))
    assert len(rows) == len(expected)
    for row, record in zip(rows, expected, strict=True):
        names = ("value", "key", "partition", "timestamp")
        assert [row.get(name) for name in names] == [getattr(record, name) for name in names]
        if "headers" in row:
            assert [(one["key"], one["value"]) for one in row["headers"]] == [*record.headers, *headers]
        else:
            assert not record.headers


@pytest.mark.parametrize(
    "block",
    [
        b'{"value": 1}\n\n{"value": 2}',
        b'{"value":\n1}\n{"value": 2}{"value": 3}',
        b'{"value":"1"}\n{"value":"2"}{"value":"3"}',
        b'{"value":"1"}\n{"headers":[{}\n{}]}\n{"value":"2"}{"value":"3"}',
        b'{"headers":[null]}',
        b'{"headers":[{"key":null}]}',
        b'{"value":\n1}',
        b'{"value": 1} {"value": 2}\n{"value": 3}',
        b'{"value": "a\nb"}',
        b'{"value": "\\ud800"}',
        b'{"headers": {"\\ud800": 1}}',
        b'\xef\xbb\xbf{"value": 1}',
        b'{"value": 1}\n{"vlaue": 2}',
        b'{"value": 1}\n["key"]',
        b'{"value": "\xff"}',
        b'{"value": NaN}',
        b'{"partition": "one"}',
        b'{"partition": -1}',
        b'{"timestamp": -2}',
        b'{"timestamp": 9223372036854775807}',
        b'{"timestamp": 1000000000000000000000}',
        b'{"value": 1E9999999999999999999}',
        b'{"value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"value": {"base64": "?"}}',
    ],
)
def test_lines_of_json_that_are_not_plain_are_read_one_by_one(block: bytes) -> None:
    assert columns_of_json(block, []) is None


# Lines and CSV


def read_lines(data: bytes, delimiter: bytes = b"\n", key: bytes | None = None, nulls: Nulls = Nulls()) -> list[tuple[Any, Any]]:  # noqa: B008
    found = [record for first, block in blocks(io.BytesIO(data), delimiter) for record in lines(block, first, delimiter, key, nulls)]
    assert [record.line for record in found] == list(range(1, len(found) + 1))
    return [(record.key, record.value) for record in found]


def test_lines_with_and_without_keys() -> None:
    assert read_lines(b"a\n\nb") == [(None, b"a"), (None, b""), (None, b"b")]
    assert read_lines(b"a:b:c\n:d\n", key=b":") == [(b"a", b"b:c"), (b"", b"d")]
    assert read_lines(b"a\r\nb", b"\r\n") == [(None, b"a"), (None, b"b")]
    with pytest.raises(InputError, match="no key delimiter") as refused:
        read_lines(b"a:1\nb\n", key=b":")
    assert refused.value.line == 2


class Pieces:
    """A stream whose reads return these pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)

    def read1(self, size: int) -> bytes:
        return next(self._pieces, b"")

    read = read1


TEXT = st.lists(st.sampled_from([b"a", b"|", b"||", b"b|", b":", b"", b"\xff"])).map(b"".join)


@given(st.lists(TEXT.filter(bool)), st.sampled_from([b"|", b"||", b"b||a"]))
def test_blocks_are_the_lines_of_a_stream_however_it_is_read(read: list[bytes], delimiter: bytes) -> None:
    whole = b"".join(read)
    *expected, last = whole.split(delimiter)
    expected += [last] if last else []
    found = [numbered for first, block in blocks(Pieces(read), delimiter) for numbered in enumerate(block.split(delimiter), first)]  # type: ignore[arg-type]
    assert found == list(enumerate(expected, 1))


def test_a_block_is_there_as_soon_as_its_lines_are() -> None:
    assert list(blocks(Pieces([b"a\nb", b"c", b"\nd\n", b"e"]), b"\n")) == [(1, b"a"), (2, b"bc\nd"), (4, b"e")]  # type: ignore[arg-type]


@given(TEXT, st.sampled_from([None, b":", b"||"]), st.booleans(), st.none() | st.sampled_from([b"a", b""]))
def test_columns_of_lines_are_the_records_of_lines(block: bytes, key: bytes | None, empty: bool, marker: bytes | None) -> None:
    nulls = Nulls(empty, marker)
    columns = columns_of_lines(block, b"|", key, nulls)
    try:
        expected = list(lines(block, 5, b"|", key, nulls))
    except InputError:
        assert columns is None
        return
    found = columns.to_pydict()
    assert found["value"] == [record.value for record in expected]
    assert found.get("key", [None] * len(expected)) == [record.key for record in expected]


def test_what_stands_for_null() -> None:
    assert read_lines(b":\nk:NIL\n", key=b":", nulls=Nulls(empty=True)) == [(None, None), (b"k", b"NIL")]
    assert read_lines(b":\nk:NIL\n", key=b":", nulls=Nulls(marker=b"NIL")) == [(b"", b""), (b"k", None)]


def test_csv_keeps_line_feeds_and_counts_lines() -> None:
    rows = list(csv_rows(io.BytesIO(b'\xef\xbb\xbfkey,value\nk,"a\nb"\nl,c\n'), Nulls()))
    assert [(row.line, row.key, row.value) for row in rows] == [(3, b"k", b"a\nb"), (4, b"l", b"c")]
    with pytest.raises(InputError, match="2 columns") as refused:
        list(csv_rows(io.BytesIO(b"key,value\na\n"), Nulls()))
    assert refused.value.line == 2


def test_columns_that_records_do_not_have_are_refused_unless_they_may_be_left_out() -> None:
    rows = b"kye,value,offset\nk,v,7\n"
    with pytest.raises(InputError, match="no column 'kye'; --ignore-columns leaves it out; did you mean 'key'") as refused:
        list(csv_rows(io.BytesIO(rows), Nulls()))
    assert refused.value.line == 1
    assert list(csv_rows(io.BytesIO(rows), Nulls(), ignores_columns=True)) == [InputRecord(2, b"v", headers=[])]


def test_timestamps_of_csv_may_be_dates_and_times() -> None:
    rows = b"value,timestamp\na,5\nb,1970-01-01 00:00:01.004Z\nc,1970-01-01T00:00:02\nd,1970-01-01T01:00:03+01:00\n"
    assert [record.timestamp for record in csv_rows(io.BytesIO(rows), Nulls())] == [5, 1_004, 2_000, 3_000]
    with pytest.raises(InputError, match=r"timestamp must be milliseconds since the epoch, or such as .*; got 'noon'"):
        list(csv_rows(io.BytesIO(b"value,timestamp\na,noon\n"), Nulls()))


def test_a_header_of_the_command_line_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(ConfigError, match="names of headers are UTF-8"):
        header_options(["\udcff=1"])


def test_headers_of_the_command_line() -> None:
    assert header_options(["a=1", "b=", "c", "d=x=y"]) == [("a", b"1"), ("b", b""), ("c", None), ("d", b"x=y")]


# Filters


@pytest.mark.parametrize(
    ("key", "value", "headers", "kept"),
    [
        ("ke", None, (), True),
        ("kex", None, (), False),
        ("/^key$/", "/v.l/", (), True),
        (None, "/^alue/", (), False),
        (None, None, ("h",), True),
        (None, None, ("h=x", "n"), True),
        (None, None, ("h=y",), False),
        (None, None, ("n=",), False),
        ("/", None, (), False),
    ],
)
def test_a_record_has_to_pass_all(key: str | None, value: str | None, headers: tuple[str, ...], kept: bool) -> None:
    keeps = record_filter(key, value, headers)
    assert keeps is not None
    assert keeps(RECORD) is kept


def test_filters_of_nothing_and_bad_ones() -> None:
    assert record_filter(None, None, ()) is None
    null = record_filter("", None, ())
    assert null is not None
    assert not null(changed(key=None))
    with pytest.raises(ConfigError, match="no regular expression"):
        record_filter("/(/", None, ())


# What became of records


def test_outcomes_keep_the_first_failures() -> None:
    outcomes = Outcomes()
    outcomes.done("", 1, RecordMetadata("t", 0, 0, 0), None)
    for line in range(2, 50):
        outcomes.done("a: ", line, RecordMetadata("t", 0, -1, 0), KafkaError("no"))
    assert (outcomes.acknowledged, outcomes.failed, len(outcomes.shown)) == (1, 48, MOST_SHOWN)
    assert outcomes.shown[0].where == "a: line 2"


def test_records_without_an_outcome_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = MagicMock()
    producer.send.side_effect = [None, None, KeyboardInterrupt]
    producer.__enter__.return_value = producer
    monkeypatch.setattr("levada.cli.invocation.Invocation.producer", lambda *_, **__: producer)
    broken_off = run("produce", "t", stdin=b"a\nb\nc\nd\n")
    assert broken_off.code == Exit.INTERRUPTED
    assert "0 records acknowledged\n" in broken_off.err
    assert "3 records sent without an acknowledgement; some may have been written" in broken_off.err


@pytest.mark.parametrize(
    ("error", "code"), [(TransactionOutcomeUnknownError("no answer"), Exit.TIMED_OUT), (KeyboardInterrupt(), Exit.INTERRUPTED)]
)
def test_records_of_a_commit_with_an_unknown_outcome_may_have_been_written(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: Exit
) -> None:
    producer = MagicMock()
    producer.send.side_effect = lambda *_, on_delivery, **__: on_delivery(RecordMetadata("t", 0, 0, 0), None)
    producer.__enter__.return_value = producer
    producer.transaction.return_value.__exit__.side_effect = error
    monkeypatch.setattr("levada.cli.invocation.Invocation.producer", lambda *_, **__: producer)
    in_doubt = run("produce", "t", "--transactional-id", "id", stdin=b"a\nb\n")
    assert in_doubt.code == code
    assert in_doubt.err.splitlines()[:2] == [
        "levada: 0 records acknowledged",
        "levada: 2 records may have been written, all or none of them",
    ]


def test_without_pyarrow_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    ran = run("produce", "t", "x.parquet", "-b", "localhost:1")
    assert (ran.code, ran.err) == (Exit.WRONG_USE, "levada: parquet and Arrow files need pyarrow: pip install 'levada[arrow]'\n")


def test_json_schema_needs_no_avro(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    monkeypatch.delitem(sys.modules, "levada.registry.avro", raising=False)
    monkeypatch.delitem(sys.modules, "levada.registry.avro_codec", raising=False)
    assert list(deserializers(["value=json-schema"], MagicMock())) == ["value_deserializer"]
    with pytest.raises(ImportError, match="Avro needs fastavro"):
        deserializers(["avro"], MagicMock())


def test_before_the_first_record_only_the_mistake_is_told() -> None:
    ran = run("produce", "t", "-z", "brotli", "-b", "localhost:1", stdin=b"x\n")
    assert (ran.code, ran.out) == (Exit.WRONG_USE, b"")
    (line,) = ran.err.splitlines()
    assert "got 'brotli'" in line


@pytest.mark.parametrize("signal", [KeyboardInterrupt(), SystemExit(Exit.TERMINATED)], ids=["Ctrl-C", "SIGTERM"])
def test_a_member_that_is_ended_says_that_it_leaves_and_is_patient_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch, signal: BaseException
) -> None:
    consumer = MagicMock()
    consumer.__enter__.return_value = consumer
    consumer.poll.side_effect = signal
    monkeypatch.setattr("levada.cli.invocation.Invocation.consumer", lambda *_, **__: consumer)
    ended = run("consume", "t", "-G", "g")
    assert ended.code == (Exit.INTERRUPTED if isinstance(signal, KeyboardInterrupt) else Exit.TERMINATED)
    assert ended.err == "levada: leaving group g, for up to 5 s; Ctrl-C again ends at once\n"
    consumer.close.assert_called_once_with(5)


def test_percentiles_are_latencies_that_were_measured() -> None:
    assert percentiles([]) is None
    assert percentiles([3.0]) == (3.0, 3.0, 3.0, 3.0)
    assert percentiles([float(ms) for ms in range(1, 101)]) == (50.0, 95.0, 99.0, 100.0)
