"""Messages of magic 0 and 1 as brokers and peers write them."""

from __future__ import annotations

import pytest

from penstock.record.batch import read_batches
from penstock.record.builder import RecordBatchBuilder
from penstock.record.legacy_conversion import down_convert
from penstock.types import TimestampType
from record_kit import only_batch

MAGIC_0 = bytes.fromhex("0000000000000000 00000011 feb01dbf 00 00 ffffffff 00000003 313233")
MAGIC_1 = bytes.fromhex("0000000000000000 00000019 478628c2 01 00 0000015e1867abae ffffffff 00000003 313233")
TIMESTAMP = 1503648000942


@pytest.mark.parametrize(
    ("vector", "timestamp", "kind"),
    [(MAGIC_0, -1, TimestampType.NO_TIMESTAMP_TYPE), (MAGIC_1, TIMESTAMP, TimestampType.CREATE_TIME)],
    ids=["magic 0", "magic 1"],
)
def test_M1_a_message_from_a_real_broker_is_read(vector: bytes, timestamp: int, kind: TimestampType) -> None:
    batch = only_batch(vector)

    batch.verify_crc()
    assert batch.records() == [(0, timestamp, None, b"123", ())]
    assert (batch.timestamp_type, batch.size_bytes) == (kind, len(vector))


@pytest.mark.parametrize(("magic", "vector"), [(0, MAGIC_0), (1, MAGIC_1)])
def test_M15_a_built_batch_becomes_the_message_that_a_broker_stores(magic: int, vector: bytes) -> None:
    builder = RecordBatchBuilder()
    builder.append(TIMESTAMP, None, b"123")

    assert down_convert(only_batch(builder.build()), magic) == vector


def test_M2_a_message_that_is_cut_short_at_the_end_is_no_error() -> None:
    for kept in range(len(MAGIC_1)):
        assert [batch.last_offset for batch in read_batches(MAGIC_0 + MAGIC_1[:kept])] == [0]
