from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrow_layouts import (
    BINARY_LAYOUTS,
    HEADER_LAYOUTS,
    PARTITION_LAYOUTS,
    TIME_LAYOUTS,
    Layout,
    chunked,
    dictionary,
    plain,
    runs,
)
from columns_kit import encode_columns
from levada.errors import SerializationError
from levada.record.batch import assign_offsets
from levada.record.builder import RecordBatchBuilder
from levada.record.columnar import ColumnDecoder, RejectedRow
from levada.record.columnar import rows as conversions
from levada.record.compression import Codec
from record_kit import CODECS, NOW_MS, only_batch

ROLES = ("key", "value", "headers", "timestamp", "partition")
PARTITIONS = 5
Encoded = tuple[dict[int, tuple[int, dict[str, Any]]], list[RejectedRow]]


def sent(data: Any, columns: Sequence[str] = ROLES, codec: Codec = Codec.NONE, **options: Any) -> Encoded:
    """Encode columns named by their role and decode them to columns again: per row its partition and its record; and what was rejected."""
    settings: dict[str, Any] = {"partition_count": PARTITIONS, "next_sticky_partition": lambda: 0, "codec": codec, "level": None}
    settings |= {"batch_size": 400, "max_record_size": 10_000, "now_ms": NOW_MS}
    batches, rejected = encode_columns(data, **settings | {role: role if role in columns else None for role in ROLES} | options)
    found = {}
    for batch in batches:
        decoder = ColumnDecoder(("key", "value", "headers", "timestamp"))
        decoder.add(only_batch(batch.data), "t", batch.partition)
        decoded = decoder.finish()
        decoded = decoded.set_column(3, "timestamp", decoded["timestamp"].cast(pa.int64()))
        for row, record in zip(batch.rows, decoded.to_pylist(), strict=True):
            found[row] = (batch.partition, record)
    return found, rejected


def record(key: str | None, value: str | None, headers: Any, timestamp: int | None) -> dict[str, Any]:
    """What becomes of a row."""
    pairs = [{"key": name, "value": None if data is None else data.encode()} for name, data in headers or ()]
    return {
        "key": None if key is None else key.encode(),
        "value": None if value is None else value.encode(),
        "headers": pairs,
        "timestamp": NOW_MS if timestamp is None else timestamp,
    }


texts = st.none() | st.sampled_from(["", "a", "ä", "the same again, and too long for a view of twelve bytes"]) | st.text(max_size=20)
pairs = st.lists(st.tuples(st.text(max_size=5), st.none() | st.text(max_size=16)), max_size=3).map(tuple)
rows = st.lists(
    st.tuples(texts, texts, st.none() | pairs, st.none() | st.integers(0, 2**41), st.none() | st.integers(0, PARTITIONS - 1)),
    max_size=30,
)


@given(rows=rows, codec=st.sampled_from(CODECS), data=st.data())
def test_rows_of_any_layout_are_sent_and_come_back(rows: list[Any], codec: Codec, data: st.DataObject) -> None:
    layouts = (BINARY_LAYOUTS, BINARY_LAYOUTS, HEADER_LAYOUTS, TIME_LAYOUTS, PARTITION_LAYOUTS)
    columns = [data.draw(chunked([row[at] for row in rows], layout)) for at, layout in enumerate(layouts)]

    found, rejected = sent(pa.table(columns, names=ROLES), codec=codec)

    assert rejected == []
    assert [found[row][1] for row in range(len(rows))] == [record(*row[:4]) for row in rows]
    assert all(found[number][0] == row[4] for number, row in enumerate(rows) if row[4] is not None)


SAMPLE = [None, "a", "a", "", None, None, "ä", "a value that is too long for a view of twelve bytes", "a"]


@pytest.mark.parametrize("layout", BINARY_LAYOUTS, ids=lambda layout: str(layout(["a"]).type))
@pytest.mark.parametrize("role", ["key", "value"])
@pytest.mark.parametrize("start", [0, 1, 5])
def test_keys_and_values_of_every_layout_are_taken(layout: Layout, role: str, start: int) -> None:
    found, _ = sent(pa.table({role: layout(SAMPLE)}).slice(start), (role,))

    assert [found[row][1][role] for row in range(len(found))] == [text if text is None else text.encode() for text in SAMPLE[start:]]


HEADERS = [(("a", "x"), ("b", None)), None, (), (("c", ""),), (("c", ""),)]


@pytest.mark.parametrize("layout", HEADER_LAYOUTS, ids=lambda layout: str(layout([(("a", "b"),)]).type))
@pytest.mark.parametrize("start", [0, 1, 3])
def test_headers_of_every_layout_are_taken(layout: Layout, start: int) -> None:
    found, _ = sent(pa.table({"headers": layout(HEADERS)}).slice(start), ("headers",))

    assert [found[row][1]["headers"] for row in range(len(found))] == [record(None, None, row, 0)["headers"] for row in HEADERS[start:]]


def test_headers_of_a_fixed_number_are_taken() -> None:
    entry = pa.struct([("key", pa.string()), ("value", pa.string())])
    rows = [[{"key": "a", "value": "1"}, {"key": "b", "value": None}], None, [{"key": "c", "value": ""}, {"key": "d", "value": "2"}]]

    found, _ = sent(pa.table({"headers": pa.array(rows, pa.list_(entry, 2))}).slice(1), ("headers",))

    assert [len(found[row][1]["headers"]) for row in range(2)] == [0, 2]
    assert found[1][1]["headers"][1] == {"key": "d", "value": b"2"}


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"0123456789abcdef", None], pa.binary(16)),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0123456789abcdef", None], pa.binary(16))),
        pa.DictionaryArray.from_arrays(pa.array([0, None]), pa.array([b"0123456789abcdef"], pa.binary(16))),
    ],
    ids=lambda column: str(column.type),
)
def test_values_of_a_fixed_size_are_taken(column: pa.Array) -> None:
    found, _ = sent(pa.table({"key": column, "value": pa.nulls(2)}), ("key", "value"))

    assert [(found[row][1]["key"], found[row][1]["value"]) for row in range(2)] == [(b"0123456789abcdef", None), (None, None)]


NUMBERS = [dictionary(plain(pa.int64()), pa.int8()), runs(plain(pa.float64()), pa.int32())]


@pytest.mark.parametrize("layout", NUMBERS, ids=lambda layout: str(layout([1]).type))
def test_a_layout_does_not_hide_a_type_that_is_refused(layout: Layout) -> None:
    with pytest.raises(SerializationError, match=r"column 'value' \(value\) is .*; give binary or string"):
        sent(pa.table({"value": layout([1, 2])}), ("value",))


def test_what_this_pyarrow_cannot_convert_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_: Any) -> pa.Array:
        raise pa.ArrowNotImplementedError("Unsupported cast from string_view")

    monkeypatch.setitem(conversions._LAST, "value", cannot)
    conversions._try_out.cache_clear()

    with pytest.raises(SerializationError, match=r"column 'value' \(value\) is string; pyarrow .* cannot convert this, newer versions may"):
        sent(pa.table({"value": ["x"]}), ("value",))


@pytest.mark.parametrize("data", [pa.chunked_array([["a"]]), pa.array(["a"])], ids=["chunked array", "array"])
def test_one_column_is_no_table(data: Any) -> None:
    with pytest.raises(SerializationError, match="cannot be read as a table with named columns"):
        sent(data, ("value",))


def test_an_array_of_structs_is_a_table() -> None:
    assert sent(pa.array([{"value": "a"}, {"value": None}]), ("value",))[0][0][1]["value"] == b"a"


TOO_LATE = [
    (pa.array([5, 2**62, -(2**62), None], pa.timestamp("s")), [1, 2]),
    (pa.array([5, 2**64 - 1, 2**63, None], pa.uint64()), [1, 2]),
]


@pytest.mark.parametrize(("column", "bad"), TOO_LATE, ids=["s", "uint64"])
def test_a_time_beyond_64_bits_of_milliseconds_rejects_its_row_alone(column: pa.Array, bad: list[int]) -> None:
    found, rejected = sent(pa.table({"timestamp": column}), ("timestamp",))

    assert sorted(found) == [row for row in range(4) if row not in bad]
    reason = "timestamp of more than 64 bits: expected whole milliseconds from 0 to 2**63 - 1"
    assert rejected == [RejectedRow(row, reason) for row in bad]


def test_the_largest_times_are_sent_as_they_are() -> None:
    seconds, milliseconds = (2**63 - 1) // 1000, 2**63 - 1

    assert sent(pa.table({"timestamp": pa.array([seconds], pa.timestamp("s"))}), ("timestamp",))[0][0][1]["timestamp"] == seconds * 1000
    assert sent(pa.table({"timestamp": pa.array([milliseconds])}), ("timestamp",))[0][0][1]["timestamp"] == milliseconds


def test_a_partition_beyond_64_bits_rejects_its_row_alone() -> None:
    found, rejected = sent(pa.table({"partition": pa.array([1, 2**64 - 1, None], pa.uint64())}), ("partition",))

    assert sorted(found) == [0, 2]
    assert rejected == [RejectedRow(1, "partition of more than 64 bits: the topic has 5 partitions, from 0")]


def test_rejected_rows_are_numbered_across_chunks_whatever_their_fault() -> None:
    chunk = pa.table(
        {
            "value": ["fine", "x" * 20_000, "fine", "fine", "fine"],
            "partition": [0, 1, 7, -1, 2],
            "timestamp": [1, 2, 3, 4, -5],
            "headers": pa.array([None] * 5, pa.map_(pa.string(), pa.string())),
        }
    )

    found, rejected = sent(pa.concat_tables([chunk] * 3), ("value", "partition", "timestamp", "headers"))

    assert sorted(found) == [0, 5, 10]
    assert sorted(row for row, _ in rejected) == [row for row in range(15) if row % 5]
    by_row = dict(rejected)
    assert [by_row[5 + row].split()[:2] for row in (1, 2, 3, 4)] == [
        ["a", "record"],
        ["partition", "7:"],
        ["partition", "-1:"],
        ["timestamp", "-5:"],
    ]


@given(rows=rows)
def test_M14_columns_become_the_bytes_that_records_become(rows: list[Any]) -> None:
    builder = RecordBatchBuilder(write_limit=10**6)
    for key, value, headers, timestamp, _ in rows:
        expected = record(key, value, headers, timestamp)
        builder.append(
            expected["timestamp"], expected["key"], expected["value"], [(each["key"], each["value"]) for each in expected["headers"]]
        )
    layouts = (plain(pa.string()), plain(pa.binary()), HEADER_LAYOUTS[0], plain(pa.timestamp("ms")))
    table = pa.table([layout([row[at] for row in rows]) for at, layout in enumerate(layouts)], names=ROLES[:4])

    roles: dict[str, Any] = dict(zip(ROLES, ROLES[:4], strict=False))
    batches, _ = encode_columns(
        table,
        **roles,
        partition=None,
        partition_count=1,
        next_sticky_partition=lambda: 0,
        codec=Codec.NONE,
        level=None,
        batch_size=10**6,
        max_record_size=10**6,
        now_ms=NOW_MS,
    )

    assert [bytes(batch.data) for batch in batches] == ([bytes(builder.build())] if rows else [])


@given(rows=rows.filter(len), codec=st.sampled_from(CODECS), data=st.data())
def test_what_poll_arrow_returns_can_be_sent_on(rows: list[Any], codec: Codec, data: st.DataObject) -> None:
    first = pa.table([layout([row[at] for row in rows]) for at, layout in enumerate([plain(pa.string())] * 2)], names=ROLES[:2])
    batches, _ = encode_columns(
        first,
        key="key",
        value="value",
        headers=None,
        timestamp=None,
        partition=None,
        partition_count=1,
        next_sticky_partition=itertools.repeat(0).__next__,
        codec=codec,
        level=None,
        batch_size=10**6,
        max_record_size=10**6,
        now_ms=NOW_MS,
    )
    decoder = ColumnDecoder()
    for batch in batches:
        assign_offsets(batch.data, base_offset=7, leader_epoch=1)
        decoder.add(only_batch(batch.data), "t", 0)
    polled = decoder.finish()

    found, rejected = sent(polled)

    assert rejected == []
    assert [found[row][1] for row in range(len(rows))] == [record(row[0], row[1], None, None) for row in rows]
