"""aiokafka's and kafka-python's own builders and parsers as second opinions, per codec, both ways."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka_records
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import default_records as kafka_python_records

from penstock.record.columnar import ColumnDecoder
from penstock.record.compression import Codec
from record_kit import CODECS, as_rows, build, only_batch, records

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PEERS = pytest.mark.parametrize("peer", ["aiokafka", "kafka-python"])


def theirs(peer: str, rows: list[tuple[Any, ...]], codec: Codec) -> bytes:
    identity = {"is_transactional": False, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "batch_size": 1 << 20}
    module = aiokafka_records if peer == "aiokafka" else kafka_python_records
    builder = module.DefaultRecordBatchBuilder(magic=2, compression_type=int(codec), **identity)
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
