"""Message sets as others wrote them: a broker, Java's MemoryRecordsBuilder (kafka-clients 3.9.2), aiokafka and kafka-python."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record import legacy_records as aiokafka_records
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import legacy_records as kafka_python_records

from levada.record.batch import assign_offsets
from levada.record.builder import RecordBatchBuilder
from levada.record.columnar import ColumnDecoder
from levada.record.compression import Codec
from levada.record.legacy.conversion import down_convert
from levada.record.memory_records import read_batches
from levada.types import TimestampType
from record_kit import OLD_CODECS, build, forge, only_batch, raw_record

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

MAGIC_0 = bytes.fromhex("0000000000000000 00000011 feb01dbf 00 00 ffffffff 00000003 313233")
MAGIC_1 = bytes.fromhex("0000000000000000 00000019 478628c2 01 00 0000015e1867abae ffffffff 00000003 313233")
TIMESTAMP = 1503648000942

CREATE_TIME, APPEND_TIME = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
# Offsets 40, 42 and 43 with key, value: (k, 28 times a), (null, b), (k, null).
KEYS_AND_VALUES = [(b"k", b"a" * 28), (None, b"b"), (b"k", None)]
CREATED_MS = [1700000000005, 1700000000003, 1700000000004]
APPENDED_MS = 1700000009999

JAVA = {
    (
        0,
        Codec.NONE,
        CREATE_TIME,
    ): "00000000000000280000002b383bc74a0000000000016b0000001c616161616161616161616161616161616161616161616161616161"
    "61000000000000002a0000000fc8d66b880000ffffffff0000000162000000000000002b0000000f908204f60000000000016bffffffff",
    (
        0,
        Codec.GZIP,
        CREATE_TIME,
    ): "000000000000002b0000005505a22ea70001ffffffff000000471f8b08000000000000ff636000030d20d6b6b03eee05e63166030999"
    "443c00a28b410b88f94f5ccbee6060f80f0420ad4950296d90d48426966f501341f2002fba6b036d000000",
    (
        0,
        Codec.SNAPPY,
        CREATE_TIME,
    ): "000000000000002b0000006f3610be490002ffffffff0000006182534e415050590000000001000000010000004d6d0000090120280000"
    "002b383bc74a050f18016b0000001c616a010000000901502a0000000fc8d66b880000ffffffff00000001620009014c2b0000000f908204f60000000000016bffff"
    "ffff",
    (
        0,
        Codec.LZ4,
        CREATE_TIME,
    ): "000000000000002b0000006cf6e320290003ffffffff0000005e04224d1860401a4f0000001200010091280000002b383bc74a0f007f016b"
    "0000001c61010008012700f00700002a0000000fc8d66b880000ffffffff00000001621800004e00001b00f000908204f60000000000016bffffffff00000000",
    (
        1,
        Codec.NONE,
        CREATE_TIME,
    ): "0000000000000028000000338de7b84201000000018bcfe56805000000016b0000001c6161616161616161616161616161616161616161"
    "6161616161616161000000000000002a00000017308a45bb01000000018bcfe56803ffffffff0000000162000000000000002b000000178a0231bc01000000018bcf"
    "e56804000000016bffffffff",
    (
        1,
        Codec.NONE,
        APPEND_TIME,
    ): "0000000000000028000000336ff5c7d001080000018bcfe58f0f000000016b0000001c6161616161616161616161616161616161616161"
    "6161616161616161000000000000002a0000001733e9bd1d01080000018bcfe58f0fffffffff0000000162000000000000002b000000176bbdd26301080000018bcf"
    "e58f0f000000016bffffffff",
    (
        1,
        Codec.GZIP,
        CREATE_TIME,
    ): "000000000000002b00000066014f766201010000018bcfe56805ffffffff000000501f8b08000000000000ff63608003e3dee73b9c1881"
    "0cc6eef34f3358418c6c202193880740b53201b1b84197eb6eb876e6ff4000e2244195308394743119ee812b6101db00520700c8c6ab8d85000000",
    (
        1,
        Codec.GZIP,
        APPEND_TIME,
    ): "000000000000002b0000006526f6417601090000018bcfe58f0fffffffff0000004f1f8b08000000000000ff63608003e3fcafc72f3072"
    "303030769f7fdacf0f1461cc061232897800542b13108b1bbfdc2b8bd0fe1f08404624419530839464efbd948c6603481d003dd923a185000000",
    (
        1,
        Codec.SNAPPY,
        CREATE_TIME,
    ): "000000000000002b00000082ea95356101020000018bcfe56805ffffffff0000006c82534e41505059000000000100000001000000588501"
    "0000190138338de7b84201000000018bcfe568050109146b0000001c616a010000000901240200000017308a45bb010136013f1003ffffffff010d00620922040003"
    "01230c8a0231bc15232404000000016bffffffff",
    (
        1,
        Codec.SNAPPY,
        APPEND_TIME,
    ): "000000000000002b0000007b98581aaa010a0000018bcfe58f0fffffffff0000006582534e41505059000000000100000001000000518501"
    "0000190160336ff5c7d001080000018bcfe58f0f000000016b0000001c616a01000000090120020000001733e9bd1d193f0cffffffff014300620922040003012310"
    "6bbdd263013662000cffffffff",
    (
        1,
        Codec.LZ4,
        CREATE_TIME,
    ): "000000000000002b00000077021a3f0d01030000018bcfe56805ffffffff0000006104224d186040825200000016000100f000338de7b842"
    "01000000018bcfe5680509006f6b0000001c61010008033e00950200000017308a45bb3f005003ffffffff43001362230010032300458a0231bc2300a00400000001"
    "6bffffffff00000000",
    (
        1,
        Codec.LZ4,
        APPEND_TIME,
    ): "000000000000002b0000007661b8db7c010b0000018bcfe58f0fffffffff0000006004224d186040825100000016000100ff0a336ff5c7d0"
    "01080000018bcfe58f0f000000016b0000001c61010008033e0096020000001733e9bd1d3f0040ffffffff43001362230010032300466bbdd263230090000000016b"
    "ffffffff00000000",
}
BY_JAVA = pytest.mark.parametrize(("made", "data"), JAVA.items(), ids=[f"magic {m} {c.name} {t.name}" for m, c, t in JAVA])
Made = tuple[int, Codec, TimestampType]


def expected_times(made: Made) -> list[int]:
    magic, _, kind = made
    return [-1] * 3 if not magic else CREATED_MS if kind is CREATE_TIME else [APPENDED_MS] * 3


@pytest.mark.parametrize(
    ("vector", "timestamp", "kind"),
    [(MAGIC_0, -1, TimestampType.NO_TIMESTAMP_TYPE), (MAGIC_1, TIMESTAMP, CREATE_TIME)],
    ids=["magic 0", "magic 1"],
)
def test_M1_a_message_from_a_real_broker_is_read(vector: bytes, timestamp: int, kind: TimestampType) -> None:
    batch = only_batch(vector)

    batch.verify_crc()
    assert batch.records() == [(0, timestamp, None, b"123", ())]
    assert (batch.timestamp_type, batch.size_bytes) == (kind, len(vector))


@pytest.mark.parametrize(("magic", "vector"), [(0, MAGIC_0), (1, MAGIC_1)])
def test_M15_a_built_batch_becomes_the_message_that_a_broker_stores(magic: int, vector: bytes) -> None:
    assert down_convert(only_batch(build([(TIMESTAMP, None, b"123")])), magic) == vector


@BY_JAVA
def test_M5_what_java_writes_is_read(made: Made, data: str) -> None:
    magic, codec, kind = made
    batch = only_batch(bytes.fromhex(data))

    batch.verify_crc()
    times = expected_times(made)
    assert batch.records() == [(at, ms, *row, ()) for at, ms, row in zip((40, 42, 43), times, KEYS_AND_VALUES, strict=True)]
    assert (batch.magic, batch.codec, batch.timestamp_type) == (magic, codec, kind if magic else TimestampType.NO_TIMESTAMP_TYPE)
    assert (batch.base_offset, batch.last_offset, batch.next_offset, batch.last_offset_delta, batch.records_count) == (40, 43, 44, 3, 3)
    assert batch.max_timestamp == max(times)
    assert (batch.is_transactional, batch.is_control, batch.delete_horizon_ms, batch.control_type()) == (False, False, None, None)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (-1, -1, -1, -1)
    assert batch.partition_leader_epoch == -1


def stored(codec: Codec) -> bytearray:
    """The batch of magic 2 of which Java makes the vectors with CreateTime."""
    fields = [b"\x02k" + b"\x38" + b"a" * 28, b"\x01" + b"\x02b", b"\x02k" + b"\x01"]
    deltas = [(0, 0), (-2, 2), (-1, 3)]
    payload = b"".join(
        raw_record(timestamp=time, offset=offset, key=field, value=b"") for (time, offset), field in zip(deltas, fields, strict=True)
    )
    batch = forge(payload, codec=codec, base_timestamp=CREATED_MS[0], max_timestamp=CREATED_MS[0], records_count=3, last_offset_delta=3)
    assign_offsets(batch, base_offset=40, leader_epoch=1)
    return batch


@pytest.mark.parametrize(("made", "data"), [(made, data) for made, data in JAVA.items() if made[2] is CREATE_TIME])
def test_M15_a_batch_is_converted_as_java_does(made: Made, data: str) -> None:
    magic, codec, _ = made

    ours = bytes(down_convert(only_batch(stored(codec)), magic))

    theirs = bytes.fromhex(data)
    if codec is Codec.NONE:
        assert ours == theirs
    # Compressors differ; what they pack does not, and neither do the offsets.
    assert ours[:8] == theirs[:8]
    assert only_batch(ours).records() == only_batch(theirs).records()
    assert only_batch(ours).attributes == only_batch(theirs).attributes


def test_Z4_the_lz4_header_of_magic_0_is_the_one_that_java_writes() -> None:
    ours = bytes(down_convert(only_batch(stored(Codec.LZ4)), 0))

    assert ours[26:33] == bytes.fromhex(JAVA[0, Codec.LZ4, CREATE_TIME])[26:33] == bytes.fromhex("04224d1860401a")


rows = st.lists(
    st.tuples(st.integers(0, 2**50), st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=200)), min_size=1, max_size=20
)
PEERS = pytest.mark.parametrize("peer", [aiokafka_records, kafka_python_records], ids=["aiokafka", "kafka-python"])
# Peers know no lz4 of magic 0, or need one more library for it; Java's vectors stand in.
KINDS = [(magic, codec) for magic in (0, 1) for codec in OLD_CODECS if (magic, codec) != (0, Codec.LZ4)]
EACH_KIND = pytest.mark.parametrize(("magic", "codec"), KINDS)


def written_by(peer: Any, magic: int, codec: Codec, rows: list[tuple[Any, ...]]) -> bytes:
    builder = peer.LegacyRecordBatchBuilder(magic=magic, compression_type=int(codec), batch_size=1 << 20)
    for offset, (timestamp, key, value) in enumerate(rows):
        assert builder.append(offset, timestamp, key, value) is not None
    return bytes(builder.build())


def read_by(peer: Any, magic: int, data: bytes) -> list[tuple[Any, ...]]:
    found = []
    while data:
        size = 12 + int.from_bytes(data[8:12])
        batch = peer.LegacyRecordBatch(data[:size], magic)
        assert batch.validate_crc()
        found += [(each.offset, each.timestamp, each.key, each.value) for each in batch]
        data = data[size:]
    return found


def timed(magic: int, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(offset, ms if magic else -1, key, value) for offset, (ms, key, value) in enumerate(rows)]


@PEERS
@EACH_KIND
@given(rows=rows)
def test_M4_what_peers_write_is_read(peer: Any, magic: int, codec: Codec, rows: list[tuple[Any, ...]]) -> None:
    decoder = ColumnDecoder(("offset", "key", "value"))
    found = []
    for batch in read_batches(written_by(peer, magic, codec, rows)):
        batch.verify_crc()
        found += [record[:4] for record in batch.records()]
        decoder.add(batch, "t", 0)

    assert found == timed(magic, rows)
    assert [tuple(row.values()) for row in decoder.finish().to_pylist()] == [(offset, *row[1:]) for offset, row in enumerate(rows)]


@PEERS
@EACH_KIND
@given(rows=rows)
def test_M4_peers_read_what_is_written(peer: Any, magic: int, codec: Codec, rows: list[tuple[Any, ...]]) -> None:
    builder = RecordBatchBuilder(codec)
    for row in rows:
        builder.append(*row)

    data = down_convert(only_batch(builder.build()), magic)

    expected = timed(magic, rows)
    assert [(offset, -1 if ms is None else ms, key, value) for offset, ms, key, value in read_by(peer, magic, bytes(data))] == expected
