from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.errors import IllegalStateError
from levada.record.builder import NO_ROOM, RecordBatchBuilder, pack_headers
from levada.record.compression import Codec
from record_kit import NOW_MS, build, only_batch, records


def test_append_counts_the_offsets_within_the_batch() -> None:
    builder = RecordBatchBuilder()

    assert [builder.append(NOW_MS, None, b"v") for _ in range(3)] == [0, 1, 2]
    assert builder.records_count == 3


def test_M17_the_first_record_always_fits() -> None:
    builder = RecordBatchBuilder(write_limit=100)

    assert builder.append_if_room(NOW_MS, None, bytes(10_000)) == 0
    assert builder.append_if_room(NOW_MS, None, None) == NO_ROOM
    assert builder.is_full
    assert len(only_batch(builder.build()).records()[0].value or b"") == 10_000


@pytest.mark.parametrize(("codec", "ratio"), [(Codec.NONE, 1.0), (Codec.LZ4, 0.3), (Codec.LZ4, 1.0)])
@given(rows=records, missing=st.integers(0, 1))
def test_M17_records_fit_up_to_the_limit(codec: Codec, ratio: float, rows: list[tuple[Any, ...]], missing: int) -> None:
    def filled(write_limit: int) -> RecordBatchBuilder:
        builder = RecordBatchBuilder(codec, write_limit=write_limit, compression_ratio=ratio)
        for row in rows:
            builder.append(*row)
        return builder

    headers, plain = [("name", b"value")], RecordBatchBuilder()
    for row in rows:
        plain.append(*row)
    before = plain.size_estimate
    plain.append(NOW_MS, b"key", bytes(100), headers)
    size = plain.size_estimate - before

    builder = filled(filled(0).size_estimate + size - missing)
    count, estimate = builder.records_count, builder.size_estimate

    assert builder.append_if_room(NOW_MS, b"key", bytes(100), pack_headers(headers)) == (NO_ROOM if missing else count)
    assert builder.records_count == (count if missing else count + 1)
    assert (builder.size_estimate == estimate) is bool(missing)


def test_a_record_that_does_not_fit_leaves_the_batch_as_it_was() -> None:
    builder = RecordBatchBuilder(write_limit=100)
    builder.append(NOW_MS, None, b"v")

    assert builder.append_if_room(NOW_MS + 1, b"key", bytes(100)) == NO_ROOM
    assert builder.max_timestamp == NOW_MS
    assert builder.build() == build([(NOW_MS, None, b"v")])


def test_a_builder_that_has_built_takes_no_more_records() -> None:
    builder = RecordBatchBuilder()
    builder.append(NOW_MS, None, b"v")
    builder.build()

    assert builder.append_if_room(NOW_MS, None, b"v") == NO_ROOM


def test_an_empty_builder_is_never_full() -> None:
    assert not RecordBatchBuilder(write_limit=0).is_full


@given(rows=records)
def test_M17_uncompressed_the_estimate_is_exact(rows: list[tuple[Any, ...]]) -> None:
    builder = RecordBatchBuilder(write_limit=1)
    for row in rows:
        builder.append(*row)

    assert builder.size_estimate == len(builder.build())


@given(ratio=st.floats(0.1, 1.0))
def test_M17_a_compressed_batch_is_estimated_by_its_ratio(ratio: float) -> None:
    plain, packed = RecordBatchBuilder(), RecordBatchBuilder(Codec.LZ4, compression_ratio=ratio)
    for builder in (plain, packed):
        builder.append(NOW_MS, None, bytes(1000))

    assert packed.size_estimate == 61 + int((plain.size_estimate - 61) * ratio * 1.05)


def test_M18_the_ratio_reached_is_reported() -> None:
    builder = RecordBatchBuilder(Codec.ZSTD)
    builder.append(NOW_MS, None, bytes(10_000))
    size = builder.size_estimate

    batch = builder.build()

    assert builder.compression_ratio == pytest.approx((len(batch) - 61) / (size - 61), rel=0.06)
    assert builder.compression_ratio < 0.05


def test_a_batch_without_records_cannot_be_built() -> None:
    with pytest.raises(IllegalStateError, match="empty"):
        RecordBatchBuilder().build()


@pytest.mark.parametrize("wrong", ["text", 5, 1.5])
def test_a_value_that_is_no_bytes_is_refused_and_changes_nothing(wrong: object) -> None:
    builder = RecordBatchBuilder()
    builder.append(NOW_MS, b"k", b"one")

    with pytest.raises(TypeError):
        builder.append(NOW_MS, None, wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        builder.append(NOW_MS, wrong, None)  # type: ignore[arg-type]

    builder.append(NOW_MS, None, b"two")
    assert [record.value for record in only_batch(builder.build()).records()] == [b"one", b"two"]


def test_bad_headers_are_refused_and_change_nothing() -> None:
    builder = RecordBatchBuilder()

    with pytest.raises((TypeError, AttributeError)):
        builder.append(NOW_MS, None, b"v", [(b"bytes", b"x")])  # type: ignore[list-item]

    builder.append(NOW_MS, None, b"v", [("text", b"x")])
    assert only_batch(builder.build()).records()[0].headers == (("text", b"x"),)


@pytest.mark.parametrize("timestamp", [2**63, 2**63 - 1, -2, -(2**63)])
def test_a_timestamp_that_is_no_time_is_refused(timestamp: int) -> None:
    with pytest.raises((ValueError, OverflowError)):
        RecordBatchBuilder().append(timestamp, None, b"v")


@pytest.mark.parametrize("timestamps", [(-1, 2**63 - 2), (2**63 - 2, -1), (0, -1)])
def test_timestamps_may_be_as_far_apart_as_can_be(timestamps: tuple[int, int]) -> None:
    batch = only_batch(build([(timestamp, None, None) for timestamp in timestamps]))

    assert tuple(record.timestamp for record in batch.records()) == timestamps


@given(rows=records, codec=st.sampled_from(list(Codec)))
def test_a_builder_grows_from_any_limit(rows: list[tuple[Any, ...]], codec: Codec) -> None:
    builder = RecordBatchBuilder(codec, write_limit=0)
    for row in rows:
        builder.append(*row)

    assert len(only_batch(builder.build()).records()) == len(rows)


@pytest.mark.parametrize(
    ("codec", "level"), [(Codec.GZIP, 1), (Codec.GZIP, 9), (Codec.LZ4, 1), (Codec.LZ4, 12), (Codec.ZSTD, -5), (Codec.ZSTD, 10)]
)
def test_KIP_390_levels_are_used(codec: Codec, level: int) -> None:
    builder = RecordBatchBuilder(codec, level)
    builder.append(NOW_MS, None, b"level " * 1000)

    assert only_batch(builder.build()).records()[0].value == b"level " * 1000
