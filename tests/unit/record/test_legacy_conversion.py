"""Record batches into message sets, for a producer at an old broker."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.errors import UnsupportedRecordFormatError
from levada.record.batch import set_producer_state
from levada.record.compression import Codec
from levada.record.legacy.conversion import down_convert
from levada.record.memory_records import read_batches
from record_kit import NOW_MS, OLD_CODECS, build, only_batch, values

BOTH = pytest.mark.parametrize("magic", [0, 1])
EACH_CODEC = pytest.mark.parametrize("codec", OLD_CODECS)
rows = st.lists(
    st.tuples(st.integers(0, 2**50), st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=200)), min_size=1, max_size=30
)


def shown(data: Any) -> list[tuple[Any, ...]]:
    return [tuple(record[:4]) for batch in read_batches(data) for record in batch.records()]


@BOTH
@EACH_CODEC
@given(rows=rows)
def test_M15_a_built_batch_becomes_a_message_set(magic: int, codec: Codec, rows: list[tuple[Any, ...]]) -> None:
    data = down_convert(only_batch(build(rows, codec)), magic)

    for batch in read_batches(data):
        batch.verify_crc()
    assert {(batch.magic, batch.codec) for batch in read_batches(data)} == {(magic, codec)}
    assert shown(data) == [(offset, ms if magic else -1, key, value) for offset, (ms, key, value) in enumerate(rows)]


@BOTH
@pytest.mark.parametrize("codec", OLD_CODECS[1:])
def test_M4_a_produce_request_holds_one_wrapper_numbered_from_0(magic: int, codec: Codec) -> None:
    data = down_convert(only_batch(build([(9, None, b"a"), (7, None, b"b")], codec)), magic)

    (batch,) = read_batches(data)
    assert (batch.base_offset, batch.last_offset, batch.max_timestamp) == (0, 1, 9 if magic else -1)
    # The wrapper's own time, null key, and offset.
    assert data[:8] == (1).to_bytes(8)
    if magic:
        assert data[18:30] == (9).to_bytes(8) + b"\xff" * 4


@pytest.mark.parametrize("magic", [-1, 2, None])
def test_M15_a_message_set_of_another_magic_is_refused(magic: Any) -> None:
    with pytest.raises(ValueError, match=f"message sets are of magic 0 or 1, got {magic}"):
        down_convert(only_batch(build(values(2))), magic)


def test_M1_messages_are_no_larger_than_their_fields() -> None:
    for magic, overhead in ((0, 26), (1, 34)):
        assert len(down_convert(only_batch(build([(NOW_MS, b"key", b"value")])), magic)) == overhead + 8


def test_a_level_reaches_the_codec() -> None:
    batch = only_batch(build(values(2000), Codec.GZIP))

    assert len(down_convert(batch, 1, level=9)) != len(down_convert(batch, 1, level=1))


@BOTH
def test_headers_are_refused_with_what_to_do(magic: int) -> None:
    batch = only_batch(build([(1, None, b"a"), (1, None, b"b", (("name", b"x"),))]))

    with pytest.raises(
        UnsupportedRecordFormatError, match=rf"headers need Kafka 0\.11; the broker takes only message sets \(magic {magic}\)"
    ):
        down_convert(batch, magic)


@BOTH
def test_M7_zstd_is_refused(magic: int) -> None:
    with pytest.raises(UnsupportedRecordFormatError, match=r"zstd needs Kafka 2\.1"):
        down_convert(only_batch(build(values(2), Codec.ZSTD)), magic)


@BOTH
@pytest.mark.parametrize("is_transactional", [False, True])
def test_M15_an_idempotent_producer_is_refused(magic: int, is_transactional: bool) -> None:
    batch = build(values(2))
    set_producer_state(batch, producer_id=0, producer_epoch=0, base_sequence=0, is_transactional=is_transactional)

    with pytest.raises(UnsupportedRecordFormatError, match=r"idempotent or transactional producer needs Kafka 0\.11"):
        down_convert(only_batch(batch), magic)
