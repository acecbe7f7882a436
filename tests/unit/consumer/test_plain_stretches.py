"""Plain batches are decoded many at once; what comes out, with whatever is wrong, is what comes out batch by batch."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pytest

from consumer_kit import Bench, batch, emptied, run_flow
from levada.consumer.fetch.decode import RecordConverter, on_decode_error
from levada.consumer.fetch.fetch_cursor import FetchCursor
from levada.errors import CorruptRecordError, KafkaError
from levada.logs import Log
from levada.record.batch import RecordBatch, assign_offsets
from levada.record.builder import RecordBatchBuilder
from levada.record.columnar import COLUMNS, ColumnDecoder
from levada.record.compression import Codec, compress, decompress
from levada.types import AnyRecord, IsolationLevel, TopicPartition
from settings_kit import read_options

LARGE = 1 << 30


def read(bench: Bench, sink: ColumnDecoder, limit: int | None, max_bytes: int) -> tuple[list[dict[str, Any]] | str, int, int]:
    """What one call returns or raises, and where the partition stands after it."""
    bench.collector.begin()
    sink.discard()
    try:
        found = run_flow(bench.collector.collect_columns(sink, limit, max_bytes, sink.finish))
        rows: list[dict[str, Any]] | str = [] if found is None else _rows(found)
    except KafkaError as error:
        rows = f"{type(error).__name__}: {error}"
    state = bench.subscription.state(next(iter(bench.subscription.assignment)))
    return rows, state.position, state.leader_epoch


def _rows(found: Any) -> list[dict[str, Any]]:
    """The rows; times as numbers, since damaged ones are beyond what Python's can be."""
    columns = {name: found[name].cast("int64") if name == "timestamp" else found[name] for name in found.schema.names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*(column.to_pylist() for column in columns.values()), strict=True)]


def with_headers(base_offset: int, random: Random, codec: Codec = Codec.NONE) -> bytes:
    builder = RecordBatchBuilder(codec=codec)
    for number in range(random.randrange(1, 5)):
        headers = [(f"h{n}", random.choice([None, b"", b"value"])) for n in range(random.randrange(3))]
        builder.append(1_000 - number, random.choice([None, b"key"]), random.choice([None, b"value"]), headers)
    data = builder.build()
    assign_offsets(data, base_offset=base_offset, leader_epoch=4, log_append_time_ms=random.choice([None, None, 5_000]))
    return bytes(data)


def a_batch(base_offset: int, random: Random, usual: Codec, *, damages: bool) -> bytes:
    """A batch of some kind, most often a plain one of the usual codec."""
    values = [random.choice([None, b"", b"v" * random.randrange(300), "ü".encode()]) for _ in range(random.randrange(1, 9))]
    kinds = [
        lambda: batch(base_offset, values, codec=usual),
        lambda: batch(base_offset, values, last_offset=base_offset + len(values) + random.randrange(3), codec=usual),
        lambda: batch(base_offset, values, epoch=random.choice([4, 5]), codec=usual),
        lambda: with_headers(base_offset, random, usual),
        lambda: batch(base_offset, values, producer=(7, 0), codec=usual),
        lambda: batch(base_offset, values, codec=random.choice(list(Codec))),
        lambda: batch(base_offset, control=random.choice([0, 1]), producer=(7, 0)),
        lambda: emptied(batch(base_offset, values)),
    ]
    data = bytearray(random.choices(kinds, weights=[8, 2, 3, 4, 2, 1, 1, 1])[0]())
    if damages and random.random() < 0.1:
        data[random.randrange(17, len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def some_fetches(bench: Bench, random: Random, usual: Codec, *, damages: bool) -> None:
    """Add a fetch with batches of all kinds."""
    piece, offset = b"", 0
    for _ in range(random.randrange(1, 25)):
        data = a_batch(offset, random, usual, damages=damages)
        piece += data
        offset += 9 if damages else max(RecordBatch(memoryview(data)).last_offset + 1 - offset, 1)
    bench.fetched(piece[: len(piece) - random.choice([0, 0, 10])], aborted=random.choice([(), ((7, 20),)]))


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("seed", range(100))
def test_stretches_and_single_batches_give_the_same(monkeypatch: pytest.MonkeyPatch, seed: int, checks: bool) -> None:
    def story(*, at_once: bool) -> list[Any]:
        random = Random(seed)
        level = random.choice(list(IsolationLevel))
        bench = Bench(options=read_options(isolation_level=level, check_crcs=checks))
        bench.assign(random.randrange(4), stop=random.choice([None, None, 60]))
        some_fetches(bench, random, list(Codec)[seed // 2 % len(Codec)], damages=seed % 2 == 1)
        sink = ColumnDecoder(COLUMNS, text=random.choice([(), ("value",)]))
        limits = [(random.choice([None, 3, 11, 40]), random.choice([LARGE, 50, 700])) for _ in range(60)]
        with monkeypatch.context() as patch:
            if not at_once:
                patch.setattr(FetchCursor, "_add_plain", lambda *_: 0)
            return [read(bench, sink, *limit) for limit in limits]

    def flat(calls: list[Any]) -> list[Any]:
        """How rows are spread over the calls that max_bytes ends may differ by a batch."""
        rows = [row for found, _, _ in calls if isinstance(found, list) for row in found]
        return [rows, list(dict.fromkeys(found for found, _, _ in calls if isinstance(found, str))), calls[-1][1:]]

    assert flat(story(at_once=True)) == flat(story(at_once=False))


def only_short(value: bytes) -> bytes:
    """A deserializer to which some values of a_batch() are errors."""
    if len(value) > 200:
        raise ValueError(f"{len(value)} bytes")
    return value


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("seed", range(100))
def test_records_of_stretches_and_of_single_batches_are_the_same(monkeypatch: pytest.MonkeyPatch, seed: int, checks: bool) -> None:
    def story(*, at_once: bool) -> list[Any]:
        random = Random(seed)
        level = random.choice(list(IsolationLevel))
        word = random.choice(["raise", "skip", "null"])
        deserializer = random.choice([None, only_short])
        bench = Bench(
            options=read_options(isolation_level=level, check_crcs=checks),
            converter=RecordConverter(value_deserializer=deserializer, on_error=on_decode_error(word, Log("levada.consumer"))),
        )
        bench.assign(random.randrange(4), stop=random.choice([None, None, 60]))
        some_fetches(bench, random, list(Codec)[seed // 2 % len(Codec)], damages=seed % 2 == 1)
        told: list[Any] = []
        with monkeypatch.context() as patch:
            if not at_once:
                patch.setattr(FetchCursor, "_take_plain", lambda *_: [])
            for _ in range(60):
                try:
                    told.append([shown(record) for record in bench.records(random.choice([1, 3, 11, 40]))])
                except KafkaError as error:
                    told.append(f"{type(error).__name__}: {error}")
                # Before an error in a later batch, the position may be anywhere in a hole between the batches.
                if word != "raise":
                    told.append((bench.position(), bench.subscription.state(TopicPartition("orders", 0)).leader_epoch))
        return told

    def shown(record: AnyRecord) -> tuple[Any, ...]:
        return (*record[:9], str(record.decode_error))

    assert story(at_once=True) == story(at_once=False)


def filled(*data: bytes, **settings: Any) -> Bench:
    bench = Bench(**settings)
    bench.assign(0)
    bench.fetched(b"".join(data))
    return bench


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The base offsets of the batches that were looked at one by one."""
    seen: list[int] = []
    make = RecordBatch.__init__

    def init(self: RecordBatch, data: memoryview) -> None:
        make(self, data)
        seen.append(self.base_offset)

    monkeypatch.setattr(RecordBatch, "__init__", init)
    return seen


@pytest.mark.parametrize("codec", Codec)
def test_plain_batches_are_not_looked_at_one_by_one(looked_at: list[int], codec: Codec) -> None:
    bench = filled(*(batch(10 * n, [b"v"] * 10, epoch=n // 3, codec=codec) for n in range(9)))
    rows, position, epoch = read(bench, ColumnDecoder(("offset", "leader_epoch")), None, LARGE)
    assert rows == [{"offset": offset, "leader_epoch": offset // 30} for offset in range(90)]
    assert (position, epoch) == (90, 2)
    assert looked_at == []


@pytest.mark.parametrize("codec", Codec)
def test_records_of_plain_batches_come_without_an_object_per_batch(looked_at: list[int], codec: Codec) -> None:
    bench = filled(*(batch(10 * n, [b"v"] * 10, epoch=n // 3, codec=codec) for n in range(9)))
    records = bench.records()
    assert [(record.offset, record.leader_epoch) for record in records] == [(offset, offset // 30) for offset in range(90)]
    assert bench.position() == 90
    assert looked_at == []


@pytest.mark.parametrize(
    "special",
    [
        batch(10, [Random(1).randbytes(70_000)] * 10, codec=Codec.LZ4),
        batch(10, [b"v" * 70_000] * 10, codec=Codec.LZ4),
        batch(10, control=1, producer=(1, 0), last_offset=19),
        emptied(batch(10, [b"v"] * 10)),
    ],
    ids=["large", "large once decompressed", "control", "empty"],
)
def test_a_stretch_ends_before_a_batch_that_takes_a_closer_look(looked_at: list[int], special: bytes) -> None:
    looked_at.clear()
    bench = filled(batch(0, [b"v"] * 10), special, batch(20, [b"v"] * 10), batch(30, [b"v"] * 10))
    read(bench, ColumnDecoder(("offset",)), None, LARGE)
    assert bench.position() == 40
    assert 10 in looked_at
    assert not set(looked_at) & {0, 30}


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_compressed_batches_that_together_are_large_are_plain(looked_at: list[int], codec: Codec) -> None:
    values = [Random(1).randbytes(5_000) * 40, b"last"]
    pieces = [batch(2 * n, values, codec=codec) for n in range(9)]
    bench = filled(*pieces)
    rows, position, _ = read(bench, ColumnDecoder(("value", "offset")), None, LARGE)
    assert rows == [{"value": values[offset % 2], "offset": offset} for offset in range(18)]
    assert position == 18
    assert not looked_at


def test_a_codec_does_not_end_the_search_for_plain_batches(looked_at: list[int]) -> None:
    bench = filled(*(batch(n, [b"v"], codec=Codec(n % 5)) for n in range(20)))
    rows, _, _ = read(bench, ColumnDecoder(("offset",)), None, LARGE)
    assert rows == [{"offset": offset} for offset in range(20)]
    assert not looked_at


def test_behind_a_large_compressed_batch_none_is_decompressed_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    decompressed: list[int] = []

    def noted(codec: Codec, data: Any, most: int) -> Any:
        decompressed.append(len(data))
        assert most <= 256 << 10
        return decompress(codec, data, most)

    monkeypatch.setattr("levada.record.stretch.decompress", noted)
    bench = filled(*(batch(10 * n, [b"v" * 70_000] * 10, codec=Codec.LZ4) for n in range(5)))
    read(bench, ColumnDecoder(("offset",)), None, LARGE)
    assert bench.position() == 50
    assert len(decompressed) == 1


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_what_a_batch_may_be_decompressed_to_holds_in_a_stretch(codec: Codec) -> None:
    pieces = [batch(0, [b"v"] * 10, codec=codec), batch(10, [b"v" * 900], codec=codec)]
    bench = filled(*pieces, options=read_options(max_decompressed_bytes=800))
    sink = ColumnDecoder(("offset",), max_decompressed=800)
    rows, position, _ = read(bench, sink, None, LARGE)
    assert (len(rows), position) == (10, 10)
    error, _, _ = read(bench, sink, None, LARGE)
    assert "more than the limit of 800 bytes" in error


def test_more_records_than_fit_what_was_decompressed_are_for_a_closer_look() -> None:
    data = bytearray(batch(10, [b"v"] * 10, codec=Codec.LZ4))
    struct.pack_into(">i", data, 23, 5_000)
    struct.pack_into(">i", data, 57, 5_000)
    bench = filled(batch(0, [b"v"] * 10, codec=Codec.LZ4), bytes(data), options=read_options(check_crcs=False))
    sink = ColumnDecoder(("offset",))
    rows, _, _ = read(bench, sink, None, LARGE)
    assert len(rows) == 10
    error, _, _ = read(bench, sink, None, LARGE)
    assert "5000 records cannot fit" in error


def test_no_offset_comes_twice_where_batches_overlap() -> None:
    bench = filled(batch(0, [b"v"] * 10), batch(4, [b"v"] * 16), batch(0, [b"v"] * 5), batch(20))
    rows, _, _ = read(bench, ColumnDecoder(("offset",)), None, LARGE)
    assert rows == [{"offset": offset} for offset in range(21)]


def test_a_stretch_ends_where_the_columns_are_full() -> None:
    bench = filled(*(batch(10 * n, [b"v" * 100] * 10) for n in range(20)))
    sink = ColumnDecoder(("value", "offset"))
    rows, position, _ = read(bench, sink, None, 3_000)
    assert 30 <= len(rows) <= 40
    assert position == len(rows)


def damaged_record(base_offset: int, codec: Codec) -> bytes:
    """A batch whose first record's length is wrong, compressed after that."""
    plain = bytearray(batch(base_offset, [b"v"] * 3))
    plain[61] ^= 0x40
    records = compress(codec, plain[61:])
    header = plain[:61]
    struct.pack_into(">i", header, 8, 61 - 12 + len(records))
    header[22] |= codec
    return bytes(header) + bytes(records)


@pytest.mark.parametrize("codec", Codec)
def test_damage_within_a_stretch_ends_it_with_all_that_belongs_to_the_rows_before(codec: Codec) -> None:
    random = Random(1)
    damaged = damaged_record(100, codec)
    pieces = [with_headers(10 * n, random, codec) for n in range(5)]
    expected = [header for piece in pieces for record in RecordBatch(memoryview(piece)).records() for header in record.headers]
    bench = filled(*pieces, damaged, options=read_options(check_crcs=False))
    sink = ColumnDecoder(("headers",))
    rows, _, _ = read(bench, sink, None, LARGE)
    assert [(header["key"], header["value"]) for row in rows for header in row["headers"]] == expected  # type: ignore[index]
    error, _, _ = read(bench, sink, None, LARGE)
    assert "offset 100" in error


@pytest.mark.parametrize("codec", Codec)
def test_records_before_a_damaged_one_are_handed_out_before_its_error(codec: Codec) -> None:
    pieces = [batch(10 * n, [b"v"] * 10, codec=codec) for n in range(5)]
    bench = filled(*pieces, damaged_record(100, codec), batch(110, [b"v"], codec=codec), options=read_options(check_crcs=False))
    assert bench.offsets() == list(range(50))
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match="offset 100"):
            bench.offsets()
    assert bench.position() == 50
