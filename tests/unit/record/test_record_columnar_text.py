"""Keys and values as strings, where a user asks for it: what is not UTF-8 is named, and costs no other record."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.errors import RecordDeserializationError
from levada.record.batch import RecordBatch, assign_offsets
from levada.record.columnar import COLUMNS, ColumnDecoder, schema
from levada.record.compression import Codec
from levada.record.stretch import Stretch
from record_kit import CODECS, NOW_MS, build, only_batch


def placed(rows: list[tuple[Any, ...]], base_offset: int = 0, codec: Codec = Codec.NONE) -> RecordBatch:
    batch = build(rows, codec)
    assign_offsets(batch, base_offset=base_offset, leader_epoch=4)
    return only_batch(batch)


def is_utf8(data: bytes | None) -> bool:
    try:
        return data is None or isinstance(data.decode(), str)
    except UnicodeDecodeError:
        return False


def test_the_schema_says_string_for_text() -> None:
    fields = schema(("value", "key", "offset"), ["value"])

    assert fields == pa.schema([("value", pa.string()), ("key", pa.binary()), ("offset", pa.int64())])


@pytest.mark.parametrize(
    ("columns", "text", "fault"),
    [
        (("key", "headers"), ["headers"], "column 'headers' cannot be text: only key and value can be text"),
        (("key",), ["vlaue"], "column 'vlaue' cannot be text: only key and value can be text"),
        (("key", "offset"), ["value"], "column 'value' cannot be text: it is not among the columns asked for: key, offset"),
    ],
)
def test_what_cannot_be_text_is_named(columns: tuple[str, ...], text: list[str], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        ColumnDecoder(columns, text=text)


fields = st.none() | st.text(max_size=6).map(str.encode) | st.binary(max_size=4)


@given(
    rows=st.lists(st.tuples(st.just(NOW_MS), fields, fields, st.just((("h", b"x"),))), min_size=1, max_size=20),
    text=st.sampled_from([["key"], ["value"], ["key", "value"]]),
    codec=st.sampled_from(CODECS),
    start=st.integers(0, 5),
)
def test_all_that_is_utf8_is_read_and_the_rest_is_named(rows: list[Any], text: list[str], codec: Codec, start: int) -> None:
    batch = placed(rows, 0, codec)
    decoder = ColumnDecoder(text=text)
    at, met = start, []
    while at < batch.next_offset:
        rows_before = decoder.rows
        try:
            added, following = decoder.add(batch, "orders", 3, start_offset=at)
            assert following == at + added > at
            at = following
        except RecordDeserializationError as error:
            assert decoder.rows == rows_before
            assert error.record.offset == at
            assert f"orders-3 at offset {at}: its " in str(error)
            assert f"seek to {at + 1} to skip the record" in str(error)
            met.append(at)
            at += 1

    table = decoder.finish()

    table.validate(full=True)
    bad = [offset for offset, row in enumerate(rows) if not all(is_utf8(row[COLUMNS.index(name) + 1]) for name in text)]
    assert met == [offset for offset in bad if offset >= start]
    assert table["offset"].to_pylist() == [offset for offset in range(start, len(rows)) if offset not in bad]
    for name in ("key", "value"):
        wanted = [rows[offset][COLUMNS.index(name) + 1] for offset in table["offset"].to_pylist()]
        assert table[name].to_pylist() == [data.decode() if name in text and data is not None else data for data in wanted]
    assert table["headers"].to_pylist() == [[{"key": "h", "value": b"x"}]] * table.num_rows


def test_the_error_says_which_field_and_where_in_it() -> None:
    decoder = ColumnDecoder(("offset", "value", "key"), text=["key", "value"])

    with pytest.raises(RecordDeserializationError) as raised:
        decoder.add(placed([(1, b"\xff", b"ok\xfe", ())], 7), "t", 0)

    assert str(raised.value) == (
        "t-0 at offset 7: its key is not UTF-8 (byte 0: invalid start byte) and its value is not UTF-8 (byte 2: invalid start byte); "
        "read it as binary, or seek to 8 to skip the record"
    )
    assert (raised.value.record.key, raised.value.record.value) == (b"\xff", b"ok\xfe")


def test_a_letter_cut_in_two_by_a_record_is_not_text() -> None:
    decoder = ColumnDecoder(("value",), text=["value"])

    assert decoder.add(placed([(1, None, b"ok"), (1, None, b"\xc3"), (1, None, b"\xa4")]), "t", 0) == (1, 1)
    with pytest.raises(RecordDeserializationError, match="at offset 1"):
        decoder.add(placed([(1, None, b"ok"), (1, None, b"\xc3"), (1, None, b"\xa4")]), "t", 0, start_offset=1)
    assert decoder.finish()["value"].to_pylist() == ["ok"]


def test_text_and_a_full_column_go_together() -> None:
    batch = placed([(1, None, b"x" * 30)] * 3 + [(1, None, b"\xff" * 30)] + [(1, None, b"y" * 30)] * 3)
    decoder = ColumnDecoder(("value",), max_column_bytes=70, text=["value"])

    assert decoder.add(batch, "t", 0) == (2, 2)
    assert decoder.finish().num_rows == 2
    assert decoder.add(batch, "t", 0, start_offset=2) == (1, 3)
    assert decoder.add(batch, "t", 0, start_offset=4) == (1, 5)
    assert decoder.finish()["value"].to_pylist() == ["x" * 30, "y" * 30]


def one_batch(count: int) -> int:
    """Read a batch in which every second text is bad; return how many are."""
    batch = placed([(1, None, b"\xff" if number % 2 else b"ok") for number in range(count)])
    decoder, at, bad = ColumnDecoder(("offset", "value"), text=["value"]), 0, 0
    while at < batch.next_offset:
        try:
            _, at = decoder.add(batch, "t", 0, start_offset=at)
        except RecordDeserializationError as error:
            at, bad = error.record.offset + 1, bad + 1
    assert decoder.rows == count - bad
    return bad


def many_batches(count: int) -> int:
    """Read plain batches of one record, as a fetch brings them, with a bad text in every second; return how many are."""
    batches = [placed([(1, None, b"\xff" if number % 2 else b"ok")], number) for number in range(count)]
    stretch = Stretch(b"".join(batch.data for batch in batches), 1 << 62, None, 1 << 30)
    decoder, at, place, bad = ColumnDecoder(("offset", "value"), text=["value"]), 0, 0, 0
    while at < count:
        stretch.begin_at(place, at)
        if decoder.add_plain(stretch, "t", 0, None, 1 << 30):
            at, place = stretch.next_offset, stretch.end
            continue
        with pytest.raises(RecordDeserializationError):
            decoder.add(batches[at], "t", 0, start_offset=at)
        at, place, bad = at + 1, place + batches[at].size_bytes, bad + 1
    assert decoder.rows == count - bad
    return bad


@pytest.mark.parametrize("read", [one_batch, many_batches])
def test_bad_text_costs_as_much_as_there_is_of_it(read: Callable[[int], int]) -> None:
    few, many = 500, 4_000

    def took(count: int) -> float:
        began = time.process_time()
        assert read(count) == count // 2
        return time.process_time() - began

    # The collector looks through all that other tests have left in this process.
    gc.disable()
    try:
        assert min(took(many) for _ in range(3)) < 3 * many / few * min(took(few) for _ in range(3))
    finally:
        gc.enable()
