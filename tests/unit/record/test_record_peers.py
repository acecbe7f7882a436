"""aiokafka's and kafka-python's own builders and parsers as second opinions, per codec, both ways."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka_records
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import default_records as kafka_python_records

from levada.record.batch import assign_offsets, set_producer_state
from levada.record.columnar import ColumnDecoder
from levada.record.compression import Codec
from record_kit import CODECS, as_rows, build, only_batch, records

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PEERS = pytest.mark.parametrize("peer", ["aiokafka", "kafka-python"])


NO_PRODUCER = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "is_transactional": False}
identities = st.fixed_dictionaries(
    {
        "producer_id": st.integers(0, 2**62),
        "producer_epoch": st.integers(0, 2**15 - 1),
        "base_sequence": st.integers(0, 2**31 - 1),
        "is_transactional": st.booleans(),
    }
)
# What both call by the same names.
PLACE = ("base_offset", "next_offset", "timestamp_type", "max_timestamp", "crc", "attributes", "last_offset_delta")
placements = st.fixed_dictionaries(
    {"base_offset": st.integers(0, 2**50), "leader_epoch": st.integers(-1, 100), "log_append_time_ms": st.none() | st.integers(0, 2**50)}
)


def theirs(peer: str, rows: list[tuple[Any, ...]], codec: Codec, identity: dict[str, Any] = NO_PRODUCER) -> bytes:
    module = aiokafka_records if peer == "aiokafka" else kafka_python_records
    builder = module.DefaultRecordBatchBuilder(magic=2, compression_type=int(codec), batch_size=1 << 20, **identity)
    for offset, (timestamp, key, value, headers) in enumerate(rows):
        assert builder.append(offset, timestamp, key, value, list(headers)) is not None
    return bytes(builder.build())


def read_by(peer: str, data: bytes) -> list[tuple[Any, ...]]:
    module = aiokafka_records if peer == "aiokafka" else kafka_python_records
    batch = module.DefaultRecordBatch(data)
    assert batch.validate_crc()
    return [(each.offset, each.timestamp, each.key, each.value, tuple(map(tuple, each.headers))) for each in batch]


@PEERS
@pytest.mark.parametrize("codec", CODECS)
@given(rows=records)
def test_M8_peers_read_what_we_write(peer: str, codec: Codec, rows: list[tuple[Any, ...]]) -> None:
    assert read_by(peer, bytes(build(rows, codec))) == [(offset, *row) for offset, row in enumerate(rows)]


@PEERS
@pytest.mark.parametrize("codec", CODECS)
@given(rows=records)
def test_M8_we_read_what_peers_write(peer: str, codec: Codec, rows: list[tuple[Any, ...]]) -> None:
    batch = only_batch(theirs(peer, rows, codec))
    decoder = ColumnDecoder(("key", "value"))

    batch.verify_crc()
    decoder.add(batch, "t", 0)

    assert as_rows(batch.records()) == rows
    assert decoder.finish().to_pylist() == [{"key": row[1], "value": row[2]} for row in rows]


@PEERS
@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=30)
@given(rows=records, identity=identities, placement=placements)
def test_M10_peers_see_the_identity_and_the_place_that_we_give_a_batch(
    peer: str, codec: Codec, rows: list[tuple[Any, ...]], identity: dict[str, Any], placement: dict[str, Any]
) -> None:
    data = build(rows, codec)
    set_producer_state(data, **identity)
    assign_offsets(data, **placement)
    ours = only_batch(data)

    batch = (aiokafka_records if peer == "aiokafka" else kafka_python_records).DefaultRecordBatch(bytes(data))

    assert {name: getattr(batch, name) for name in identity} == identity
    assert {name: getattr(batch, name) for name in PLACE} == {name: getattr(ours, name) for name in PLACE}
    stamped = [(placement["log_append_time_ms"], *row[1:]) for row in rows] if ours.timestamp_type else rows
    assert read_by(peer, bytes(data)) == [(placement["base_offset"] + number, *row) for number, row in enumerate(stamped)]


@PEERS
@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=30)
@given(rows=records, identity=identities)
def test_M10_we_see_the_identity_that_peers_give_a_batch(
    peer: str, codec: Codec, rows: list[tuple[Any, ...]], identity: dict[str, Any]
) -> None:
    data = theirs(peer, rows, codec, identity)
    batch = only_batch(data)

    assert {name: getattr(batch, name) for name in identity} == identity
    assert as_rows(batch.records()) == rows


@given(rows=records)
def test_M8_uncompressed_batches_are_the_same_bytes(rows: list[tuple[Any, ...]]) -> None:
    ours = bytes(build(rows))

    # Peers write leader epoch 0 or -1, which the checksum does not cover.
    for peer in ("aiokafka", "kafka-python"):
        assert theirs(peer, rows, Codec.NONE)[16:] == ours[16:]


@given(data=st.data(), rows=records)
def test_M13_peers_see_our_checksum(data: st.DataObject, rows: list[tuple[Any, ...]]) -> None:
    batch = build(rows)
    batch[data.draw(st.integers(21, len(batch) - 1))] ^= 1

    assert not aiokafka_records.DefaultRecordBatch(bytes(batch)).validate_crc()
