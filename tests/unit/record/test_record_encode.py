from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Sequence
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from columns_kit import encode_columns
from levada.errors import SerializationError
from levada.record.batch import Record, record_size_upper_bound
from levada.record.columnar import ColumnDecoder, EncodedBatch, RejectedRow
from levada.record.compression import Codec
from levada.wire.murmur2 import partition_for_key
from record_kit import CODECS, NOW_MS, headers, only_batch

ROLES = ("key", "value", "headers", "timestamp", "partition")


def encode(data: Any, columns: Sequence[str] = ("value",), **options: Any) -> tuple[list[EncodedBatch], list[RejectedRow]]:
    """Columns are named by their role."""
    settings: dict[str, Any] = {
        "partition_count": 3,
        "next_sticky_partition": itertools.cycle(range(3)).__next__,
        "codec": Codec.NONE,
        "level": None,
        "batch_size": 16384,
        "max_record_size": 1_000_000,
        "now_ms": NOW_MS,
    }
    roles: dict[str, Any] = {role: role if role in columns else None for role in ROLES}
    batches, rejected = encode_columns(data, **roles, **settings | options)
    return list(batches), rejected


def read(batches: list[EncodedBatch]) -> dict[int, tuple[int, Record]]:
    """Every record by the number of its input row, with its partition."""
    found: dict[int, tuple[int, Record]] = {}
    for encoded in batches:
        batch = only_batch(encoded.data)
        batch.verify_crc()
        assert batch.records_count == encoded.record_count == len(encoded.rows)
        for row, record in zip(encoded.rows, batch.records(), strict=True):
            assert row not in found
            found[row] = (encoded.partition, record)
    return found


def column(values: list[Any], kind: pa.DataType | None = None, name: str = "value") -> pa.Table:
    return pa.table({name: pa.array(values, kind)})


rows = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.none() | st.binary(max_size=10),
            "value": st.none() | st.binary(max_size=60),
            "timestamp": st.none() | st.integers(0, 2**40),
            "partition": st.none() | st.integers(0, 4),
            "headers": st.none() | headers.map(lambda pairs: [{"key": key, "value": value} for key, value in pairs]),
        }
    ),
    min_size=1,
    max_size=60,
)
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("partition", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


@given(rows=rows, codec=st.sampled_from(CODECS), batch_size=st.integers(100, 2000), cuts=st.lists(st.integers(0, 60), max_size=3))
def test_every_row_becomes_its_record(rows: list[dict[str, Any]], codec: Codec, batch_size: int, cuts: list[int]) -> None:
    whole = pa.Table.from_pylist(rows, SCHEMA)
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    table = pa.concat_tables([whole.slice(start, stop - start) for start, stop in itertools.pairwise(edges)])

    batches, rejected = encode(table, ROLES, partition_count=5, codec=codec, batch_size=batch_size)

    found = read(batches)
    assert rejected == []
    assert sorted(found) == list(range(len(rows)))
    for number, row in enumerate(rows):
        partition, record = found[number]
        pairs = tuple((each["key"], each["value"]) for each in row["headers"] or ())
        assert record[1:] == (NOW_MS if row["timestamp"] is None else row["timestamp"], row["key"], row["value"], pairs)
        if row["partition"] is not None:
            assert partition == row["partition"]
        elif row["key"] is not None:
            assert partition == partition_for_key(row["key"], 5)
    for batch in batches:
        assert len(batch.rows) == 1 or len(batch.data) <= batch_size or codec
        assert list(batch.rows) == sorted(batch.rows)


@given(rows=rows, codec=st.sampled_from(CODECS))
def test_what_was_encoded_is_decoded_to_the_same_columns(rows: list[dict[str, Any]], codec: Codec) -> None:
    table = pa.Table.from_pylist([{**row, "partition": 0} for row in rows], SCHEMA)
    batches, _ = encode(table, ROLES, codec=codec, batch_size=300)
    decoder = ColumnDecoder(("key", "value"))
    for batch in batches:
        decoder.add(only_batch(batch.data), "t", 0)

    assert decoder.finish().to_pylist() == table.select(["key", "value"]).to_pylist()


BINARY = [b"a", None, b"", b"a", b"long " * 30]
TEXT = ["ä", None, "", "ä", "long " * 30]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int8(), pa.binary())], ids=str)
@pytest.mark.parametrize("role", ["key", "value"])
def test_any_binary_type_is_taken(kind: pa.DataType, role: str) -> None:
    whole = pa.array(BINARY, pa.binary())
    array = whole.dictionary_encode() if pa.types.is_dictionary(kind) else whole.cast(kind)
    found = read(encode(pa.table({role: array}).slice(1), (role,))[0])

    assert [getattr(found[row][1], role) for row in range(4)] == BINARY[1:]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str)
@pytest.mark.parametrize("role", ["key", "value"])
def test_any_string_type_is_taken_as_utf8(kind: pa.DataType, role: str) -> None:
    whole = pa.array(TEXT, pa.string())
    array = whole.dictionary_encode() if pa.types.is_dictionary(kind) else whole.cast(kind)
    found = read(encode(pa.table({role: array}).slice(1), (role,))[0])

    assert [getattr(found[row][1], role) for row in range(4)] == [None if text is None else text.encode() for text in TEXT[1:]]


def test_fixed_size_binary_and_null_columns_are_taken() -> None:
    table = pa.table({"key": pa.array([b"abcd", None], pa.binary(4)), "value": pa.nulls(2)})

    found = read(encode(table, ("key", "value"))[0])

    assert [(found[row][1].key, found[row][1].value) for row in range(2)] == [(b"abcd", None), (None, None)]


@pytest.mark.parametrize("role", ["key", "value"])
@pytest.mark.parametrize(
    "array", [pa.array([1]), pa.array([1.5]), pa.array([True]), pa.array([[b"a"]]), pa.array([{"a": 1}])], ids=lambda array: str(array.type)
)
def test_what_has_no_single_way_into_bytes_is_refused_by_name(role: str, array: pa.Array) -> None:
    with pytest.raises(SerializationError, match=rf"column '{role}' \({role}\) is .*; give binary or string"):
        encode(pa.table({role: array}), (role,))


def test_a_missing_column_is_named_with_those_that_are_there() -> None:
    with pytest.raises(SerializationError, match=r"column 'value' \(value\): there is no such column; there are: payload, other"):
        encode(pa.table({"payload": [b"x"], "other": [1]}))


def test_a_column_name_that_is_there_twice_is_refused() -> None:
    with pytest.raises(SerializationError, match="2 columns have this name"):
        encode(pa.table([pa.array([b"x"]), pa.array([b"y"])], names=["value", "value"]))


class Lazy:
    """A query that has not run yet, as polars has them."""

    def collect(self) -> None: ...


@pytest.mark.parametrize(
    ("data", "way"), [([{"v": 1}], r"Table\.from_pylist"), ({"v": [1]}, r"pyarrow\.table\("), (Lazy(), r"collect\(\) it")]
)
def test_what_is_no_arrow_data_is_refused_with_a_way_to_make_it_so(data: Any, way: str) -> None:
    with pytest.raises(SerializationError, match=rf"{type(data).__name__} is no Arrow data .*{way}"):
        encode(data)


MOMENT = dt.datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=dt.UTC)
MOMENT_MS = 1714979289123


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.timestamp("s", "UTC"), MOMENT_MS // 1000 * 1000),
        (pa.timestamp("ms"), MOMENT_MS),
        (pa.timestamp("us", "America/New_York"), MOMENT_MS),
        (pa.timestamp("ns", "Europe/Berlin"), MOMENT_MS),
        (pa.date32(), MOMENT_MS // 86_400_000 * 86_400_000),
        (pa.date64(), MOMENT_MS // 86_400_000 * 86_400_000),
        (pa.int64(), MOMENT_MS),
    ],
    ids=str,
)
def test_timestamps_of_any_unit_and_zone_become_milliseconds(kind: pa.DataType, expected: int) -> None:
    moment = pa.array([MOMENT, None], pa.timestamp("ns", "UTC"))
    if pa.types.is_timestamp(kind):
        array = moment.cast(kind, safe=False)
    else:
        array = moment.cast(pa.timestamp("ms"), safe=False).cast(kind, safe=False)

    found = read(encode(pa.table({"timestamp": array}), ("timestamp",))[0])

    assert [found[row][1].timestamp for row in range(2)] == [expected, NOW_MS]


def test_a_timestamp_column_of_text_is_refused() -> None:
    with pytest.raises(SerializationError, match=r"column 'timestamp' \(timestamp\) is string; give a timestamp"):
        encode(pa.table({"timestamp": ["2024-01-01"]}), ("timestamp",))


HEADER_ROWS = [[("a", b"x"), ("b", None)], None, [], [("c", b"")]]
STRUCTS = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in HEADER_ROWS]
HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])


@pytest.mark.parametrize(
    "array",
    [
        pa.array(STRUCTS, pa.list_(HEADER)),
        pa.array(STRUCTS, pa.large_list(HEADER)),
        pa.array(STRUCTS, pa.list_(pa.struct([("value", pa.binary()), ("key", pa.large_string())]))),
        pa.array(HEADER_ROWS, pa.map_(pa.string(), pa.binary())),
    ],
    ids=lambda array: str(array.type),
)
@pytest.mark.parametrize("start", [0, 1, 3])
def test_headers_of_any_list_type_are_taken(array: pa.Array, start: int) -> None:
    found = read(encode(pa.table({"headers": array}).slice(start), ("headers",))[0])

    assert [found[row][1].headers for row in range(len(found))] == [tuple(row or ()) for row in HEADER_ROWS[start:]]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.list_(pa.string()), pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))], ids=str
)
def test_headers_of_another_shape_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(SerializationError, match=r"column 'headers' \(headers\) is .*; give list<struct<key: string, value: binary>>"):
        encode(pa.table({"headers": pa.array([None], kind)}), ("headers",))


def test_a_header_without_a_key_rejects_its_row_alone() -> None:
    rows = [[{"key": "a", "value": b"x"}], [{"key": None, "value": b"x"}], [None], []]

    batches, rejected = encode(pa.table({"headers": pa.array(rows, pa.list_(HEADER))}), ("headers",))

    assert sorted(read(batches)) == [0, 3]
    assert rejected == [RejectedRow(1, "a header has no key"), RejectedRow(2, "a header has no key")]


def test_a_row_that_is_too_large_is_rejected_by_its_number() -> None:
    values = [b"x" * 10] * 5000 + [b"y" * 2000] + [b"z" * 10] * 5000

    batches, rejected = encode(column(values), max_record_size=1000)

    size = record_size_upper_bound(None, 2000)
    assert rejected == [RejectedRow(5000, f"a record of {size} bytes with its overhead is more than the 1000 allowed (max.request.size)")]
    assert sorted(read(batches)) == [row for row in range(10_001) if row != 5000]


def test_the_largest_row_allowed_goes_through() -> None:
    bound = record_size_upper_bound(None, 2000)

    assert encode(column([b"y" * 2000]), max_record_size=bound)[1] == []
    assert len(encode(column([b"y" * 2000]), max_record_size=bound - 1)[1]) == 1


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint16()], ids=str)
def test_rows_with_a_bad_partition_are_rejected(kind: pa.DataType) -> None:
    partitions = [0, 3, 2, 99, None] + ([] if kind == pa.uint16() else [-1])

    batches, rejected = encode(pa.table({"partition": pa.array(partitions, kind)}), ("partition",))

    assert {row: partition for row, (partition, _) in read(batches).items() if row != 4} == {0: 0, 2: 2}
    assert rejected[0] == RejectedRow(1, "partition 3: the topic has 3 partitions, from 0")
    assert [row.row for row in rejected] == [1, 3] + ([] if kind == pa.uint16() else [5])


def test_partitions_are_taken_from_a_buffer_with_more_bytes_than_rows() -> None:
    data = pa.py_buffer(pa.array([9, 2, 0, 1], pa.int64()).buffers()[1].to_pybytes()[:32] + b"abc")
    given = pa.Array.from_buffers(pa.int64(), 3, [None, data], offset=1)

    batches, _ = encode(pa.table({"partition": given}), ("partition",))

    assert {row: partition for row, (partition, _) in read(batches).items()} == {0: 2, 1: 0, 2: 1}


def test_a_bad_partition_is_named_by_its_row_in_a_later_piece_too() -> None:
    partitions = [0] * 300_000
    partitions[299_999] = 7

    _, rejected = encode(pa.table({"partition": partitions, "value": [b"x" * 50] * 300_000}), ("partition", "value"))

    assert [row.row for row in rejected] == [299_999]


@pytest.mark.parametrize("start", range(12))
def test_partitions_of_a_slice_are_those_of_its_rows(start: int) -> None:
    partitions = [0, None, 2, 7, 1, None, None, 0, 2, None, 1, -2]

    table = pa.table({"partition": pa.array(partitions, pa.int64())}).slice(start)
    batches, rejected = encode(table, ("partition",), next_sticky_partition=lambda: 1)

    own = enumerate(partitions[start:])
    expected = {row: 1 if partition is None else partition for row, partition in own if partition not in (7, -2)}
    assert {row: partition for row, (partition, _) in read(batches).items()} == expected
    assert [start + row.row for row in rejected] == [row for row in (3, 11) if row >= start]


def test_a_negative_timestamp_is_rejected() -> None:
    batches, rejected = encode(pa.table({"timestamp": [5, -5]}), ("timestamp",))

    assert sorted(read(batches)) == [0]
    assert rejected == [RejectedRow(1, "timestamp -5: expected whole milliseconds from 0 to 2**63 - 1")]


def test_P4_rows_without_a_key_stick_to_a_partition_until_a_batch_is_full() -> None:
    batches, _ = encode(
        column([b"x" * 100] * 1000), batch_size=10_000, partition_count=20, next_sticky_partition=itertools.count(7).__next__
    )

    assert [(batch.partition, batch.rows[0], len(batch.rows)) for batch in batches][:3] == [(7, 0, 79), (8, 79, 79), (9, 158, 79)]
    assert sum(len(batch.rows) for batch in batches) == 1000
    assert all(8_000 < len(batch.data) <= 10_000 for batch in batches[:-1])


def test_P4_the_sticky_partition_outlasts_a_piece() -> None:
    table = column([b"x" * 1000] * 3000)

    batches, _ = encode(table, batch_size=2**20, next_sticky_partition=itertools.count().__next__)

    assert [batch.partition for batch in batches] == sorted(batch.partition for batch in batches)
    assert len({batch.partition for batch in batches}) == 3


def test_a_row_larger_than_a_batch_makes_a_batch_of_its_own() -> None:
    batches, _ = encode(column([b"a", b"b" * 5000, b"c"]), batch_size=1000, partition_count=1, next_sticky_partition=lambda: 0)

    assert [list(batch.rows) for batch in batches] == [[0], [1], [2]]


def test_batches_are_cut_at_their_size() -> None:
    batches, _ = encode(column([b"x" * 100] * 1000), batch_size=2000, partition_count=1, next_sticky_partition=lambda: 0)

    assert max(len(batch.data) for batch in batches) <= 2000
    assert sum(len(batch.data) for batch in batches) / len(batches) > 1700


def test_batches_fill_up_across_chunks_of_any_size() -> None:
    keys = [b"%d" % (row % 7) for row in range(3000)]
    whole = pa.table({"key": keys, "value": [b"x" * 50] * 3000})
    chunks = pa.concat_tables([whole.slice(start, 10) for start in range(0, 3000, 10)])

    batches, _ = encode(chunks, ("key", "value"), batch_size=2000)

    assert len(batches) <= 3000 * 60 // 2000 * 1.2 + 3
    assert len(read(batches)) == 3000


def test_many_partitions_do_not_keep_everything_open() -> None:
    table = pa.table({"partition": pa.array([row % 1000 for row in range(20_000)]), "value": [b"x" * 500] * 20_000})

    batches, _ = encode(table, ("partition", "value"), partition_count=1000, batch_size=2**20)

    assert len(read(batches)) == 20_000


def test_a_batch_once_made_is_not_touched_again() -> None:
    batches, _ = encode(column([b"%d" % row * 20 for row in range(500)]), batch_size=500)
    copies = [bytes(batch.data) for batch in batches]

    assert [bytes(batch.data) for batch in batches] == copies
    assert len(read(batches)) == 500


def test_encoding_is_lazy() -> None:
    taken = []

    def pieces() -> Any:
        for number in range(100):
            taken.append(number)
            yield pa.record_batch({"value": pa.array([b"x" * 1000] * 1000)})

    reader = pa.RecordBatchReader.from_batches(pa.schema([("value", pa.binary())]), pieces())
    batches, _ = encode_columns(
        reader,
        key=None,
        value="value",
        headers=None,
        timestamp=None,
        partition=None,
        partition_count=1,
        next_sticky_partition=lambda: 0,
        codec=Codec.NONE,
        level=None,
        batch_size=16384,
        max_record_size=10**6,
        now_ms=NOW_MS,
    )

    assert taken == []
    assert next(batches).rows[0] == 0
    assert len(taken) < 10


@pytest.mark.parametrize(
    "data",
    [
        pl.DataFrame({"key": ["a", None], "value": [b"1", b"2"]}),
        pd.DataFrame({"key": ["a", None], "value": [b"1", b"2"]}),
        pa.record_batch({"key": ["a", None], "value": [b"1", b"2"]}),
        pa.table({"key": ["a", None], "value": [b"1", b"2"]}).to_reader(),
    ],
    ids=["polars", "pandas", "record batch", "reader"],
)
def test_anything_that_speaks_arrow_is_taken(data: Any) -> None:
    found = read(encode(data, ("key", "value"))[0])

    assert [(found[row][1].key, found[row][1].value) for row in range(2)] == [(b"a", b"1"), (None, b"2")]


@pytest.mark.parametrize("data", [pa.table({"value": pa.array([], pa.binary())}), pa.table({"value": pa.chunked_array([], pa.binary())})])
def test_an_empty_table_makes_no_batches(data: pa.Table) -> None:
    assert encode(data) == ([], [])


def test_keys_alone_make_tombstones() -> None:
    found = read(encode(pa.table({"key": [b"%d" % row for row in range(100)], "other": range(100)}), ("key",))[0])

    assert [(found[row][1].key, found[row][1].value) for row in range(100)] == [(b"%d" % row, None) for row in range(100)]


@pytest.mark.parametrize("kind", [pa.null(), pa.binary(), pa.string_view()], ids=str)
def test_columns_of_nulls_alone_make_records_of_nulls(kind: pa.DataType) -> None:
    found = read(encode(pa.table({"key": pa.nulls(100, kind), "value": pa.nulls(100, kind)}), ("key", "value"))[0])

    assert {(record.key, record.value) for _, record in found.values()} == {(None, None)}
    assert len(found) == 100


def test_headers_alone_make_records_of_headers() -> None:
    found = read(encode(pa.table({"headers": pa.array([[("h", b"x")]] * 100, pa.map_(pa.string(), pa.binary()))}), ("headers",))[0])

    assert [found[row][1][1:] for row in range(100)] == [(NOW_MS, None, None, (("h", b"x"),))] * 100


def test_a_long_value_column_beyond_one_piece() -> None:
    values = [b"%07d" % row + bytes(993) for row in range(5000)]

    batches, _ = encode(column(values), batch_size=100_000)

    found = read(batches)
    assert [found[row][1].value for row in range(5000)] == values
