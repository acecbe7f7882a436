"""A consumer reads what brokers of before 0.11 answer as it reads everything else."""

from __future__ import annotations

from typing import Any

import pytest

from consumer_kit import Bench, batch, run_flow
from levada.errors import CorruptRecordError, DecompressionError
from levada.record.columnar import ColumnDecoder
from levada.record.compression import Codec
from levada.record.header import LOG_APPEND_TIME
from record_kit import raw_message, raw_wrapper
from settings_kit import read_options


def plain(*offsets: int, magic: int = 1, **options: Any) -> bytes:
    return b"".join(raw_message(offset, magic, **options) for offset in offsets)


PACKED = raw_wrapper(14, 1, Codec.GZIP, plain(0, 1, 2, 3, 4))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_log_of_all_magics_is_read_in_order(bench: Bench) -> None:
    bench.assign(0)
    bench.fetched(plain(0, 1, magic=0) + plain(2, 5) + PACKED + batch(15, [b"a", b"b"]))

    found = [offset for _ in range(4) for offset in bench.offsets()]

    assert found == [0, 1, 2, 5, 10, 11, 12, 13, 14, 15, 16]
    assert bench.position() == 17


@pytest.mark.parametrize("data", [PACKED, plain(10, 11, 12, 13, 14)], ids=["wrapper", "plain"])
def test_F24_reading_begins_and_ends_within_a_batch(bench: Bench, data: bytes) -> None:
    bench.assign(12, stop=14)
    bench.fetched(data)

    assert bench.offsets() == [12, 13]
    assert bench.position() == 14


def test_F24_a_stop_in_a_hole_before_a_wrapper_ends_there(bench: Bench) -> None:
    bench.assign(5, stop=9)
    bench.fetched(plain(5) + PACKED)

    assert bench.offsets() == [5]
    assert bench.offsets() == []
    assert bench.position() == 9


def test_columns_begin_and_end_within_a_wrapper(bench: Bench) -> None:
    bench.assign(12, stop=14)
    bench.fetched(PACKED)
    sink = ColumnDecoder(("offset",))

    columns = run_flow(bench.collector.collect_columns(sink, None, 1 << 30, sink.finish))

    assert columns is not None
    assert columns["offset"].to_pylist() == [12, 13]
    assert bench.position() == 14


def test_TR9_what_a_log_holds_twice_is_handed_out_once(bench: Bench) -> None:
    bench.assign(10)
    bench.fetched(PACKED + PACKED + plain(14, 14, 15))

    assert [offset for _ in range(3) for offset in bench.offsets()] == [10, 11, 12, 13, 14, 15]


def test_M13_good_messages_come_before_a_faulty_one_and_after_it(bench: Bench) -> None:
    bench.assign(0)
    bench.fetched(plain(0, 1) + plain(2, crc=7) + plain(3))

    assert bench.offsets() == [0, 1]
    with pytest.raises(CorruptRecordError, match=r"orders-0 at offset 2: message at offset 2 .*seek past the batch to skip it"):
        bench.offsets()
    assert bench.position() == 2


def test_M13_a_faulty_message_inside_a_wrapper_stops_it() -> None:
    data = raw_wrapper(1, 1, Codec.GZIP, plain(0) + plain(1, crc=7))
    strict, lenient = Bench(), Bench(options=read_options(check_crcs=False))
    for each in (strict, lenient):
        each.assign(0)
        each.fetched(data)

    with pytest.raises(CorruptRecordError, match="orders-0 at offset 0: compressed messages up to offset 1: the checksum"):
        strict.offsets()
    assert lenient.offsets() == [0, 1]


@pytest.mark.parametrize("limit", [100, 100_000])
@pytest.mark.parametrize(("magic", "attributes"), [(0, 0), (1, 0), (1, LOG_APPEND_TIME)], ids=["magic 0", "magic 1", "LogAppendTime"])
def test_Z6_the_consumers_own_limit_holds_for_a_wrapper(limit: int, magic: int, attributes: int) -> None:
    bench = Bench(options=read_options(max_decompressed_bytes=limit))
    bench.assign(0)
    bench.fetched(raw_wrapper(0, magic, Codec.LZ4, plain(0, magic=magic, value=bytes(1000)), attributes=attributes))

    if limit == 100:
        with pytest.raises(DecompressionError, match="more than the limit of 100 bytes"):
            bench.offsets()
    else:
        assert bench.offsets() == [0]
