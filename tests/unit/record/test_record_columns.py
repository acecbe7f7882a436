from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.errors import CorruptRecordError
from levada.record.batch import RecordBatch, assign_offsets
from levada.record.columnar import COLUMNS, ColumnDecoder, schema
from levada.record.compression import Codec
from record_kit import CODECS, NOW_MS, build, forge, only_batch, raw_record, records, values


def placed(rows: list[tuple[Any, ...]], base_offset: int = 0, codec: Codec = Codec.NONE, **options: Any) -> RecordBatch:
    batch = build(rows, codec)
    assign_offsets(batch, base_offset=base_offset, leader_epoch=4, **options)
    return only_batch(batch)


def test_the_schema_is_that_of_the_columns_asked_for() -> None:
    assert schema(("offset", "value")) == pa.schema([("offset", pa.int64()), ("value", pa.binary())])
    assert schema().names == list(COLUMNS)
    assert schema().field("timestamp").type == pa.timestamp("ms", tz="UTC")
    assert schema().field("headers").type == pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(ValueError, match="unknown column 'vlaue'; there are: key, value, topic"):
        ColumnDecoder(("key", "vlaue"))


@given(batches=st.lists(st.tuples(records, st.sampled_from(CODECS)), min_size=1, max_size=4))
def test_M8_columns_and_records_agree(batches: list[tuple[list[tuple[Any, ...]], Codec]]) -> None:
    decoder = ColumnDecoder()
    expected = []
    for number, (rows, codec) in enumerate(batches):
        batch = placed(rows, 1000 * number, codec)
        assert decoder.add(batch, f"topic-{number % 2}", number) == (len(rows), batch.next_offset)
        expected += [(f"topic-{number % 2}", number, record) for record in batch.records()]

    table = decoder.finish()

    table.validate(full=True)
    assert table.schema == schema()
    assert table["topic"].to_pylist() == [topic for topic, _, _ in expected]
    assert table["partition"].to_pylist() == [partition for _, partition, _ in expected]
    assert table["offset"].to_pylist() == [record.offset for _, _, record in expected]
    assert table["timestamp"].cast("int64").to_pylist() == [record.timestamp for _, _, record in expected]
    assert table["key"].to_pylist() == [record.key for _, _, record in expected]
    assert table["value"].to_pylist() == [record.value for _, _, record in expected]
    assert [tuple((each["key"], each["value"]) for each in row) for row in table["headers"].to_pylist()] == [
        record.headers for _, _, record in expected
    ]
    assert set(table["leader_epoch"].to_pylist()) == {4}
    assert set(table["timestamp_type"].to_pylist()) == {0}


@given(rows=records, columns=st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True))
def test_only_wanted_columns_are_made(rows: list[tuple[Any, ...]], columns: list[str]) -> None:
    decoder, whole = ColumnDecoder(columns), ColumnDecoder()
    for each in (decoder, whole):
        each.add(placed(rows), "t", 1)

    table = decoder.finish()

    assert table.schema.names == columns
    assert table.num_rows == len(rows)
    assert table.equals(whole.finish().select(columns))


@given(rows=st.integers(1, 30), start=st.integers(90, 140), length=st.none() | st.integers(0, 50), limit=st.none() | st.integers(0, 40))
def test_rows_are_taken_from_start_to_end_up_to_the_limit(rows: int, start: int, length: int | None, limit: int | None) -> None:
    batch = placed(values(rows), 100)
    end = None if length is None else start + length
    wanted = [offset for offset in range(100, 100 + rows) if start <= offset and (end is None or offset < end)]
    decoder = ColumnDecoder(("offset",))

    added, following = decoder.add(batch, "t", 0, start, end, limit)

    taken = wanted[:limit]
    assert decoder.finish()["offset"].to_pylist() == taken
    assert added == len(taken)
    if len(taken) < len(wanted):
        assert following == wanted[len(taken)]
    else:
        assert following == min(batch.next_offset, batch.next_offset if end is None else end)


@given(rows=records, limit=st.integers(1, 7))
def test_reading_in_portions_reads_everything_once(rows: list[tuple[Any, ...]], limit: int) -> None:
    batch = placed(rows, 500, Codec.ZSTD)
    decoder, at, portions = ColumnDecoder(), 0, 0
    while at < batch.next_offset:
        added, at = decoder.add(batch, "t", 0, start_offset=at, limit=limit)
        assert 0 < added <= limit
        portions += 1

    table = decoder.finish()

    assert portions == -(-len(rows) // limit)
    assert table["value"].to_pylist() == [row[2] for row in rows]
    assert table["headers"].to_pylist() == [[{"key": key, "value": value} for key, value in row[3]] for row in rows]


def test_a_gap_of_compaction_is_stepped_over() -> None:
    payload = raw_record(offset=2) + raw_record(offset=7)
    batch = only_batch(forge(payload, records_count=2, last_offset_delta=9, base_offset=100))
    decoder = ColumnDecoder(("offset",))

    assert decoder.add(batch, "t", 0, start_offset=103) == (1, 110)
    assert decoder.add(batch, "t", 0, start_offset=0, limit=1) == (1, 107)
    assert decoder.add(batch, "t", 0, end_offset=105) == (1, 105)
    assert decoder.finish()["offset"].to_pylist() == [107, 102, 102]


@pytest.mark.parametrize(
    ("start", "end", "following"),
    [(110, None, 110), (105, None, 110), (0, 100, 100), (0, 50, 50)],
    ids=["after", "within", "before", "far"],
)
def test_a_batch_outside_the_range_is_not_even_decompressed(start: int, end: int | None, following: int) -> None:
    broken = only_batch(forge(b"\x00", attributes=4, records_count=1, last_offset_delta=9, base_offset=100))
    decoder = ColumnDecoder()
    if start == 105:
        with pytest.raises(CorruptRecordError):
            decoder.add(broken, "t", 0, start, end)
    else:
        assert decoder.add(broken, "t", 0, start, end) == (0, following)


def test_M20_control_batches_give_no_rows_but_take_their_offset() -> None:
    marker = only_batch(forge(raw_record(key=b"\x08\0\0\0\1"), attributes=0x30, base_offset=9))
    decoder = ColumnDecoder()

    assert decoder.add(marker, "t", 0) == (0, 10)
    assert decoder.rows == 0
    assert decoder.finish().num_rows == 0


def test_M10_log_append_time_is_the_time_of_every_row() -> None:
    decoder = ColumnDecoder(("timestamp", "timestamp_type"))
    decoder.add(placed(values(3), log_append_time_ms=123), "t", 0)

    table = decoder.finish()

    assert table["timestamp"].cast("int64").to_pylist() == [123] * 3
    assert table["timestamp_type"].to_pylist() == [1] * 3


def test_M13_a_broken_batch_leaves_what_came_before_it() -> None:
    decoder = ColumnDecoder()
    good = [(NOW_MS, None, b"a", (("h", b"x"),)), (NOW_MS, b"k", None, ())]
    decoder.add(placed(good), "t", 0)
    broken = b"".join(raw_record(offset=row, value=b"\x01", headers=b"\x02\x02a\x02b") for row in range(20)) + b"\x02\x00"

    with pytest.raises(CorruptRecordError):
        decoder.add(only_batch(forge(broken, records_count=21, last_offset_delta=20)), "t", 0)

    assert decoder.rows == 2
    decoder.add(placed(good, 50), "t", 0)
    table = decoder.finish()
    table.validate(full=True)
    assert table["value"].to_pylist() == [b"a", None] * 2
    assert table["key"].to_pylist() == [None, b"k"] * 2
    assert table["headers"].to_pylist() == [[{"key": "h", "value": b"x"}], []] * 2
    assert table["offset"].to_pylist() == [0, 1, 50, 51]


@pytest.mark.parametrize("column", ["key", "value", "headers"])
def test_a_full_column_takes_fewer_rows(column: str) -> None:
    part = b"x" * 30
    row = {"key": (1, part, b"v"), "value": (1, b"k", part), "headers": (1, b"k", b"v", (("h", part),))}[column]
    batch = placed([row] * 10, 100)
    decoder = ColumnDecoder(max_column_bytes=100)

    assert decoder.add(batch, "t", 0) == (3, 103)
    assert decoder.add(batch, "t", 0, start_offset=103) == (0, 103)
    assert decoder.finish().num_rows == 3
    assert decoder.add(batch, "t", 0, start_offset=103) == (3, 106)


def test_a_decoder_starts_anew_after_finish() -> None:
    decoder = ColumnDecoder(("value",))
    decoder.add(placed(values(5)), "t", 0)
    first = decoder.finish()
    decoder.add(placed(values(3)), "t", 0)
    second = decoder.finish()

    assert (first.num_rows, second.num_rows, decoder.rows, decoder.nbytes) == (5, 3, 0, 0)
    assert first["value"].to_pylist() == [row[2] for row in values(5)]
    assert second["value"].to_pylist() == [row[2] for row in values(3)]


def test_the_size_collected_is_reported() -> None:
    decoder = ColumnDecoder(("key", "value", "headers"))
    decoder.add(placed([(1, b"abc", b"de", (("f", b"ghi"),))] * 10), "t", 0)

    offsets_in_arrow, offsets_of_a_header = 3 * 4, 2 * 4
    assert (decoder.rows, decoder.nbytes) == (10, 90 + 10 * (offsets_in_arrow + offsets_of_a_header))


def test_nothing_collected_is_an_empty_batch() -> None:
    empty = ColumnDecoder().finish()

    assert empty.num_rows == 0
    assert empty.schema == schema()


def test_many_batches_grow_the_columns() -> None:
    decoder = ColumnDecoder()
    for number in range(200):
        decoder.add(
            placed([(NOW_MS, None if row % 3 else b"k", bytes(number), (("h", None),)) for row in range(number % 17)] or [(1, None, None)]),
            "t",
            number,
        )

    table = decoder.finish()

    table.validate(full=True)
    assert table["key"].null_count == sum(key is None for key in table["key"].to_pylist())
    assert table["partition"].to_pylist() == sorted(table["partition"].to_pylist())


def test_a_decoder_that_expects_what_came_last_decodes_the_same() -> None:
    seasoned = ColumnDecoder()
    for batches, rows in ((1, 1), (7, 100), (3, 333), (1, 2), (40, 5), (2, 1000)):
        fresh = ColumnDecoder()
        for decoder in (seasoned, fresh):
            for number in range(batches):
                decoder.add(placed([(NOW_MS + row, b"k" * (row % 3) or None, bytes(row % 41)) for row in range(rows)]), "t", number)

        table = seasoned.finish()

        table.validate(full=True)
        assert table == fresh.finish()


def test_header_keys_that_are_no_utf8_are_read_as_java_reads_them() -> None:
    decoder = ColumnDecoder(("headers",))
    decoder.add(only_batch(forge(raw_record(headers=b"\x02\x04\xff\xfe\x02x"))), "t", 0)

    assert decoder.finish()["headers"].to_pylist() == [[{"key": "\ufffd\ufffd", "value": b"x"}]]


def test_the_arrow_batch_outlives_its_sources() -> None:
    decoder = ColumnDecoder(("value",))
    data = build(values(1000))
    decoder.add(only_batch(memoryview(data)), "t", 0)
    table = decoder.finish()
    data[:] = bytes(len(data))
    decoder.add(placed([(1, None, b"z" * 50)] * 1000), "t", 0)

    assert table["value"].to_pylist() == [row[2] for row in values(1000)]
