"""Records and columns of the same bytes always agree, whatever the magic, codec, timestamp type and holes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from levada.record.batch import RecordBatch, assign_offsets
from levada.record.columnar import ColumnDecoder
from levada.record.compression import Codec
from levada.record.memory_records import read_batches
from levada.types import TopicPartition
from levada.wire.varint import encode_varint
from record_kit import CODECS, OLD_CODECS, forge, headers, raw_message, raw_record, raw_wrapper

TP = TopicPartition("orders", 3)
APPENDED_MS = 1_700_000_009_999
APPEND_TIME, TRANSACTIONAL, DELETE_HORIZON = 0x08, 0x10, 0x40


@dataclass(frozen=True)
class Row:
    """One record: how many offsets after the last one, and what it holds."""

    step: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


fields = st.none() | st.binary(max_size=30)
rows = st.builds(Row, st.sampled_from([1, 1, 1, 2, 70]), st.integers(-1, 2**45), fields, fields, headers)


def offsets_of(batch: list[Row], first: int) -> list[int]:
    found = [first]
    for row in batch[1:]:
        found.append(found[-1] + row.step)
    return found


def _field(data: bytes | None) -> bytes:
    return b"\x01" if data is None else encode_varint(len(data)) + data


def _headers(row: Row) -> bytes:
    entries = b"".join(_field(name.encode()) + _field(value) for name, value in row.headers)
    return encode_varint(len(row.headers)) + entries


def new_batch(batch: list[Row], first: int, codec: Codec, append_time: bool, extra: int) -> bytes:
    """A batch of magic 2. extra: more attributes; with a delete horizon that is the time the deltas count from."""
    offsets = offsets_of(batch, first)
    base = APPENDED_MS if extra & DELETE_HORIZON else batch[0].timestamp
    records = [
        raw_record(timestamp=row.timestamp - base, offset=at - first, key=_field(row.key), value=_field(row.value), headers=_headers(row))
        for at, row in zip(offsets, batch, strict=True)
    ]
    data = forge(
        b"".join(records),
        codec=codec,
        attributes=codec | extra,
        base_timestamp=base,
        max_timestamp=max(row.timestamp for row in batch),
        records_count=len(batch),
        last_offset_delta=offsets[-1] - first + 2,
        producer_id=7 if extra & TRANSACTIONAL else -1,
    )
    assign_offsets(data, base_offset=first, leader_epoch=4, log_append_time_ms=APPENDED_MS if append_time else None)
    return bytes(data)


def old_set(batch: list[Row], first: int, magic: int, codec: Codec, append_time: bool) -> bytes:
    offsets = offsets_of(batch, first)
    attributes = APPEND_TIME if append_time else 0
    base = offsets[0] if codec and magic else 0
    inside = b"".join(
        raw_message(at - base, magic, row.key, row.value, timestamp=row.timestamp, attributes=attributes)
        for at, row in zip(offsets, batch, strict=True)
    )
    if not codec:
        return inside
    return raw_wrapper(offsets[-1], magic, codec, inside, attributes=attributes, timestamp=APPENDED_MS)


def expected(batch: list[Row], first: int, magic: int, codec: Codec, append_time: bool) -> list[tuple[Any, ...]]:
    """What a reader gets: a broker stamps a batch or a wrapper as a whole, and plain messages one by one."""
    stamped = append_time and (magic == 2 or (magic and codec))
    return [
        (at, -1 if not magic else APPENDED_MS if stamped else row.timestamp, row.key, row.value, row.headers if magic == 2 else ())
        for at, row in zip(offsets_of(batch, first), batch, strict=True)
    ]


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, list[tuple[Any, ...]]]:
    """The bytes of a log, and what a reader should find in it."""
    data, found, next_offset = b"", [], draw(st.sampled_from([0, 1, 2**31 - 3, 2**40]))
    for _ in range(draw(st.integers(1, 4))):
        batch = draw(st.lists(rows, min_size=1, max_size=8))
        magic = draw(st.integers(0, 2))
        codec = draw(st.sampled_from(CODECS if magic == 2 else OLD_CODECS))
        append_time = draw(st.booleans())
        event(f"magic {magic}, {codec.name}, append time {append_time}")
        if magic == 2:
            data += new_batch(batch, next_offset, codec, append_time, draw(st.sampled_from([0, TRANSACTIONAL, DELETE_HORIZON, 0x50])))
        else:
            data += old_set(batch, next_offset, magic, codec, append_time)
        found += expected(batch, next_offset, magic, codec, append_time)
        next_offset = offsets_of(batch, next_offset)[-1] + draw(st.sampled_from([1, 1, 5]))
        next_offset += 2 if magic == 2 else 0
    return data, found


def from_columns(decoder: ColumnDecoder) -> list[tuple[Any, ...]]:
    found = decoder.finish()
    times = found["timestamp"].cast("int64").to_pylist()
    return [
        (
            row["topic"],
            row["partition"],
            row["offset"],
            time,
            row["timestamp_type"],
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
            row["leader_epoch"],
        )
        for row, time in zip(found.to_pylist(), times, strict=True)
    ]


@given(log=logs())
def test_records_and_columns_agree(log: tuple[bytes, list[tuple[Any, ...]]]) -> None:
    data, wanted = log
    decoder = ColumnDecoder()
    records, consumer_records = [], []
    for batch in read_batches(data):
        batch.verify_crc()
        records += [tuple(record) for record in batch.records()]
        consumer_records += [tuple(record) for record in batch.consumer_records(TP)]
        decoder.add(batch, TP.topic, TP.partition)

    assert records == wanted
    assert consumer_records == from_columns(decoder)
    assert [(each[2], each[3], each[5], each[6], each[7]) for each in consumer_records] == wanted


@given(log=logs(), data=st.data())
def test_slices_of_columns_are_slices_of_records(log: tuple[bytes, list[tuple[Any, ...]]], data: st.DataObject) -> None:
    log_bytes, wanted = log
    places = st.integers(wanted[0][0] - 1, wanted[-1][0] + 4)
    start, end = sorted([data.draw(places), data.draw(places)])
    decoder = ColumnDecoder(("offset",))

    for batch in read_batches(log_bytes):
        decoder.add(batch, TP.topic, TP.partition, max(start, 0), end)

    assert decoder.finish()["offset"].to_pylist() == [offset for offset, *_ in wanted if start <= offset < end]


@given(log=logs(), limit=st.integers(1, 3))
def test_an_iteration_in_small_steps_meets_every_record_once(log: tuple[bytes, list[tuple[Any, ...]]], limit: int) -> None:
    data, wanted = log
    found: list[int] = []
    for batch in read_batches(data):
        found += _in_steps(batch, limit)

    assert found == [offset for offset, *_ in wanted]


def _in_steps(batch: RecordBatch, limit: int) -> list[int]:
    position, found = 0, []
    while position < batch.next_offset:
        decoder = ColumnDecoder(("offset",))
        _, position = decoder.add(batch, TP.topic, TP.partition, position, limit=limit)
        found += decoder.finish()["offset"].to_pylist()
    return found
