"""Record batches and message sets beside Java's own MemoryRecords: what one writes the other reads, uncompressed byte for byte."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from columns_kit import encode_columns
from java_kit import JavaError, JavaProgram
from java_records import JavaRecords, ReadBatch, all_records, program_name, read_by_us
from kafka_cluster import VERSIONS
from levada.errors import CorruptRecordError
from levada.record.batch import assign_offsets, set_producer_state
from levada.record.compression import Codec, decompress
from levada.record.header import CODEC_BITS, MAGIC_AT
from levada.record.legacy.conversion import down_convert
from levada.record.legacy.lz4 import mend_frame, spoil_frame
from levada.record.legacy.message import read_message
from levada.record.record import Record
from levada.wire.varint import encode_varint
from record_kit import CODECS, NOW_MS, build, forge, only_batch, raw_record, records, values

# What both releases say is the same: the older one takes its turn in `make test-matrix`.
MARKS = {"3.9.2": pytest.mark.matrix}

pytestmark = [pytest.mark.kafka, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
enough = settings(max_examples=25)
OLD_CODECS = [codec for codec in CODECS if codec is not Codec.ZSTD]
LEVELS = {Codec.GZIP: (1, 6, 9), Codec.LZ4: (1, 9, 17), Codec.ZSTD: (-7, 1, 3, 19, 22)}
MOST_INT = 2**31 - 1
# First and other bytes of long characters, of surrogates and of numbers that are none.
UTF_8_PIECES = [bytes((number,)) for number in b"a\x80\x9f\xa0\xac\xc0\xc3\xe0\xe2\xed\xf0\xf4\xf8\xff"]
each_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
each_old_codec = pytest.mark.parametrize("codec", OLD_CODECS, ids=lambda codec: codec.name.lower())
each_old_magic = pytest.mark.parametrize("magic", [0, 1])


@pytest.fixture(scope="module", params=[pytest.param(version, id=f"kafka-{version}", marks=MARKS.get(version, ())) for version in VERSIONS])
def java(
    request: pytest.FixtureRequest, java_program: Callable[[str, str], JavaProgram], tmp_path_factory: pytest.TempPathFactory
) -> JavaRecords:
    name = program_name(request.param, tmp_path_factory.mktemp("java"))
    return JavaRecords(java_program(name, request.param))


def spread(rows: Sequence[tuple[Any, ...]], base_offset: int, gaps: Sequence[int]) -> list[Record]:
    """Turn (timestamp, key, value, headers) into records with holes between their offsets, as compaction leaves them."""
    offsets = accumulate((gap + 1 for gap in gaps[1 : len(rows)]), initial=base_offset + gaps[0])
    return [Record(offset, *row) for offset, row in zip(offsets, rows, strict=True)]


base_offsets = st.integers(0, 2**40)
gap_lists = st.lists(st.integers(0, 1000), min_size=40, max_size=40) | st.just([0] * 40)
plain_rows = records.map(lambda rows: [(*row[:3], ()) for row in rows])
identities: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {
            "producer_id": st.integers(0, 2**50),
            "producer_epoch": st.integers(0, 2**15 - 1),
            "base_sequence": st.integers(0, 1000) | st.integers(MOST_INT - 1000, MOST_INT),
            "is_transactional": st.booleans(),
        }
    ),
)
placements = st.fixed_dictionaries(
    {"base_offset": base_offsets, "leader_epoch": st.integers(-1, 1000), "append_time": st.none() | st.integers(0, 2**50)}
)
broker_fields = st.fixed_dictionaries(
    {
        "timestamp_type": st.integers(0, 1),
        "append_time": st.integers(0, 2**50),
        "leader_epoch": st.integers(-1, 1000),
        "delete_horizon": st.just(-1) | st.integers(0, 2**50),
    }
)


@each_codec
@enough
@given(rows=records, base_offset=base_offsets, gaps=gap_lists, identity=identities, fields=broker_fields)
def test_M8_we_read_what_java_writes(
    java: JavaRecords,
    codec: Codec,
    rows: list[tuple[Any, ...]],
    base_offset: int,
    gaps: list[int],
    identity: dict[str, Any],
    fields: dict[str, Any],
) -> None:
    sent = spread(rows, base_offset, gaps)
    data = java.write(sent, codec=codec, base_offset=base_offset, **identity, **fields)
    stamped = [record._replace(timestamp=fields["append_time"]) for record in sent] if fields["timestamp_type"] else sent

    found = read_by_us(data)

    assert found == java.read(data)
    assert all_records(found) == stamped
    assert only_batch(data).records() == stamped


@pytest.mark.parametrize(("codec", "level"), [(codec, level) for codec, levels in LEVELS.items() for level in levels])
def test_KIP390_both_read_every_level(java: JavaRecords, codec: Codec, level: int) -> None:
    rows = [(*row, ()) for row in values(500, size=100)]
    sent = [Record(offset, *row) for offset, row in enumerate(rows)]

    assert all_records(read_by_us(java.write(sent, codec=codec, level=level))) == sent
    assert all_records(java.read(build(rows, codec, level=level))) == sent


@pytest.mark.parametrize(("number", "value"), [(0, b"\0\0\0\0\0\7"), (1, b"\0\0\0\0\0\7"), (2, b"\0\0"), (4, b"\0\0\0"), (5, b"\0\0\0")])
def test_M19_we_read_the_control_batches_that_java_writes(java: JavaRecords, number: int, value: bytes) -> None:
    key = bytes((0, 0, 0, number))
    marks_end = number < 2
    identity = {"producer_id": 7, "producer_epoch": 3, "is_transactional": True} if marks_end else {}
    data = java.write([Record(50, 1000, key, value)], base_offset=50, is_control=True, **identity)

    assert read_by_us(data) == java.read(data)
    assert only_batch(data).control_type() == number
    assert only_batch(data).records() == []


@pytest.mark.parametrize("times", [[-1], [-1, 5], [5, -1], [0, 2**63 - 1], [2**63 - 1, -1]], ids=str)
def test_M9_the_farthest_timestamps_that_java_writes(java: JavaRecords, times: list[int]) -> None:
    data = java.write([Record(offset, time, None, b"v") for offset, time in enumerate(times)])

    assert read_by_us(data) == java.read(data)
    assert [record.timestamp for record in only_batch(data).records()] == times


@enough
@given(name=st.binary(max_size=12) | st.text("a€😀").map(str.encode) | st.lists(st.sampled_from(UTF_8_PIECES)).map(b"".join))
def test_M8_a_header_key_of_any_bytes_is_the_text_that_java_reads(java: JavaRecords, name: bytes) -> None:
    data = forge(raw_record(headers=encode_varint(1) + encode_varint(len(name)) + name + encode_varint(-1)))

    assert header_key(read_by_us(data)) == header_key(java.read(data))


def header_key(batches: Sequence[ReadBatch]) -> str:
    """The only one. For the bytes of a surrogate Java puts one U+FFFD, Python one per byte, so that only where they stand is compared."""
    ((name, _),) = all_records(batches)[0].headers
    return re.sub("\ufffd+", "\ufffd", name)


@each_codec
@enough
@given(rows=records, identity=identities, placement=placements)
def test_M8_java_reads_what_we_write(
    java: JavaRecords, codec: Codec, rows: list[tuple[Any, ...]], identity: dict[str, Any], placement: dict[str, Any]
) -> None:
    batch = placed(build(rows, codec), identity, placement)
    time = placement["append_time"]

    found = java.read(batch)

    assert found == read_by_us(batch)
    assert all_records(found) == [
        Record(placement["base_offset"] + number, row[0] if time is None else time, *row[1:]) for number, row in enumerate(rows)
    ]


def placed(batch: bytearray, identity: dict[str, Any], placement: dict[str, Any]) -> bytearray:
    """Do to a built batch what a producer and a broker do."""
    if identity:
        set_producer_state(batch, **identity)
    assign_offsets(
        batch,
        base_offset=placement["base_offset"],
        leader_epoch=placement["leader_epoch"],
        log_append_time_ms=placement["append_time"],
    )
    return batch


@enough
@given(rows=records, identity=identities)
def test_M14_uncompressed_batches_are_javas_bytes(java: JavaRecords, rows: list[tuple[Any, ...]], identity: dict[str, Any]) -> None:
    batch = build(rows)
    if identity:
        set_producer_state(batch, **identity)

    assert bytes(batch) == java.write([Record(offset, *row) for offset, row in enumerate(rows)], **identity)


@each_codec
@enough
@given(rows=records, placement=placements)
def test_TR71_brokers_patch_batches_as_javas_do(
    java: JavaRecords, codec: Codec, rows: list[tuple[Any, ...]], placement: dict[str, Any]
) -> None:
    batch = build(rows, codec)
    theirs = java.append(bytes(batch), **placement)

    assert bytes(placed(batch, {}, placement)) == theirs


@each_codec
@enough
@given(rows=records)
def test_M8_java_reads_the_columns_that_we_write(java: JavaRecords, codec: Codec, rows: list[tuple[Any, ...]]) -> None:
    batches = list(encoded(rows, codec))

    found = java.read(b"".join(batches))

    assert found == [batch for data in batches for batch in read_by_us(data)]
    assert [record[1:] for record in all_records(found)] == rows
    if not codec:
        assert b"".join(batches) == b"".join(java.write(batch.records) for batch in found)


def encoded(rows: Sequence[tuple[Any, ...]], codec: Codec) -> Iterator[bytes]:
    """Rows as batches of one partition, small enough that there are several."""
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "t": pa.array([row[0] for row in rows], pa.timestamp("ms", "UTC")),
            "k": pa.array([row[1] for row in rows], pa.binary()),
            "v": pa.array([row[2] for row in rows], pa.binary()),
            "h": pa.array([[{"key": name, "value": value} for name, value in row[3]] for row in rows], header),
        }
    )
    options: dict[str, Any] = {"key": "k", "value": "v", "headers": "h", "timestamp": "t", "partition": None}
    options |= {"batch_size": 600, "max_record_size": 1 << 20, "now_ms": 0}
    batches, rejected = encode_columns(table, **options, partition_count=1, next_sticky_partition=lambda: 0, codec=codec, level=None)
    for batch in batches:
        yield bytes(batch.data)
    assert not rejected


def large() -> list[tuple[Any, ...]]:
    """Records of many blocks of every codec: what compresses well, what does not, and one value of more than a block."""
    noise = random.Random(2026)
    rows = [noise.randbytes(20_000), b"0123456789" * 30_000, noise.randbytes(300_000), b"", *(b"text %d " % n * 500 for n in range(50))]
    return [(NOW_MS + number, b"%d" % number, value, (("h", value[:40_000]),)) for number, value in enumerate(rows)]


@each_codec
def test_Z2_Z3_both_read_batches_of_many_blocks(java: JavaRecords, codec: Codec) -> None:
    sent = [Record(offset, *row) for offset, row in enumerate(large())]

    assert all_records(read_by_us(java.write(sent, codec=codec))) == sent
    assert all_records(java.read(build(large(), codec))) == sent


@each_old_magic
@each_old_codec
@enough
@given(rows=plain_rows, base_offset=base_offsets, gaps=gap_lists, fields=broker_fields)
def test_M5_we_read_the_message_sets_that_java_writes(
    java: JavaRecords,
    magic: int,
    codec: Codec,
    rows: list[tuple[Any, ...]],
    base_offset: int,
    gaps: list[int],
    fields: dict[str, Any],
) -> None:
    sent = spread(rows, base_offset, gaps)
    kind = fields["timestamp_type"] if magic else -1
    data = java.write(sent, magic=magic, codec=codec, base_offset=base_offset, timestamp_type=kind, append_time=fields["append_time"])

    found = all_records(read_by_us(data))

    assert found == all_records(java.read(data))
    times = {-1: [-1] * len(sent), 0: [record.timestamp for record in sent], 1: [fields["append_time"]] * len(sent)}[kind]
    assert found == [record._replace(timestamp=time) for record, time in zip(sent, times, strict=True)]


@each_old_codec
@enough
@given(rows=plain_rows, base_offset=base_offsets, append_time=st.integers(0, 2**50))
def test_M6_a_broker_stamps_the_wrapper_only(
    java: JavaRecords, codec: Codec, rows: list[tuple[Any, ...]], base_offset: int, append_time: int
) -> None:
    sent = [Record(offset, *row) for offset, row in enumerate(rows)]
    data = java.append(java.write(sent, magic=1, codec=codec), base_offset=base_offset, leader_epoch=-1, append_time=append_time)

    found = all_records(read_by_us(data))

    assert found == all_records(java.read(data))
    assert found == [record._replace(offset=base_offset + record.offset, timestamp=append_time) for record in sent]


@enough
@given(rows=plain_rows)
def test_Z4_java_writes_the_frames_of_magic_0_as_we_do(java: JavaRecords, rows: list[tuple[Any, ...]]) -> None:
    data = java.write([Record(offset, *row) for offset, row in enumerate(rows)], magic=0, codec=Codec.LZ4, timestamp_type=-1)
    _, _, _, frame = read_message(memoryview(data), 0, len(data))

    assert frame is not None
    assert mend_frame(frame) != frame
    assert spoil_frame(mend_frame(frame)) == frame


@each_old_magic
@each_old_codec
@enough
@given(rows=plain_rows, placement=placements)
def test_M15_java_reads_the_message_sets_that_we_write(
    java: JavaRecords, magic: int, codec: Codec, rows: list[tuple[Any, ...]], placement: dict[str, Any]
) -> None:
    batch = only_batch(placed(build(rows, codec), {}, {**placement, "append_time": None}))
    data = down_convert(batch, magic)

    assert all_records(java.read(data)) == [record if magic else record._replace(timestamp=-1) for record in batch.records()]
    assert all_records(read_by_us(data)) == all_records(java.read(data))
    fields = {"base_offset": batch.base_offset, "timestamp_type": 0 if magic else -1, "append_time": -1}
    assert unpacked(data) == unpacked(java.write(batch.records(), magic=magic, codec=codec, **fields))


def unpacked(data: bytes | bytearray) -> Any:
    """A message set without what may differ: of a wrapper everything but size, checksum and how its value has been compressed."""
    view = memoryview(data)
    codec = Codec(view[MAGIC_AT + 1] & CODEC_BITS) if data else Codec.NONE
    if not codec:
        return bytes(data)
    offset, timestamp, key, value = read_message(view, 0, len(view))
    assert value is not None
    magic_0_lz4 = codec is Codec.LZ4 and not view[MAGIC_AT]
    inside = decompress(codec, mend_frame(value) if magic_0_lz4 else value)
    return bytes(view[MAGIC_AT : MAGIC_AT + 2]), offset, timestamp, key, bytes(inside)


# Kafka 4 knows no older formats on the wire.
@pytest.mark.parametrize("java", ["3.9.2"], indirect=True)
@each_old_magic
@each_old_codec
@enough
@given(rows=records, base_offset=base_offsets, gaps=gap_lists, start=st.integers(0, 50_000))
def test_V10_we_read_what_javas_broker_converts_down(
    java: JavaRecords, magic: int, codec: Codec, rows: list[tuple[Any, ...]], base_offset: int, gaps: list[int], start: int
) -> None:
    data = java.write(spread(rows, base_offset, gaps), codec=codec, base_offset=base_offset)

    converted = java.down_convert(data, magic, base_offset + start)

    assert all_records(read_by_us(converted)) == all_records(java.read(converted))


@enough
@given(rows=records, cut=st.integers(0, 200))
def test_M2_both_stop_at_a_batch_that_is_cut_short(java: JavaRecords, rows: list[tuple[Any, ...]], cut: int) -> None:
    older = [Record(offset, *row[:3]) for offset, row in enumerate(rows)]
    data = bytes(build(rows)) + java.write(older, magic=1) + bytes(build(rows, Codec.LZ4))
    data = data[: len(data) - cut]

    assert all_records(read_by_us(data)) == all_records(java.read(data))


@enough
@given(rows=records, data=st.data())
def test_M13_both_refuse_a_batch_with_a_flipped_bit(java: JavaRecords, rows: list[tuple[Any, ...]], data: st.DataObject) -> None:
    batch = build(rows)
    batch[data.draw(st.integers(17, len(batch) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(JavaError):
        java.read(batch)
    with pytest.raises(CorruptRecordError):
        read_by_us(batch)
