"""What poll() makes of fetched data: order, limits, gaps, aborted transactions, damage."""

from __future__ import annotations

import json

import pytest

from consumer_kit import Bench, batch, emptied
from levada.base.flow import Compute
from levada.consumer.fetch.decode import RecordConverter
from levada.consumer.positions.subscription_state import PartitionStatus
from levada.errors import CorruptRecordError, DecompressionError, OffsetOutOfRangeError, RecordDeserializationError, broker_error
from levada.record.compression import Codec
from levada.types import ConsumerRecord, IsolationLevel, OffsetSpec, TopicPartition
from levada.wire.varint import encode_varint
from record_kit import forge, raw_message, raw_record
from settings_kit import read_options

READ_COMMITTED = read_options(isolation_level=IsolationLevel.READ_COMMITTED)
ABORT, COMMIT = 0, 1


def test_records_come_with_their_place_and_time() -> None:
    bench = Bench()
    bench.assign(7)
    bench.fetched(batch(7, [b"a", None], key=b"k", epoch=4, timestamp=99))
    assert bench.records(10) == [
        ConsumerRecord("orders", 0, 7, 99, 0, b"k", b"a", (), 4),
        ConsumerRecord("orders", 0, 8, 99, 0, b"k", None, (), 4),
    ]
    assert bench.position() == 9


def test_F6_the_limit_counts_over_all_partitions_and_the_rest_stays() -> None:
    bench = Bench()
    bench.assign(0, 0)
    bench.fetched(batch(0, [b""] * 3), partition=0)
    bench.fetched(batch(0, [b""] * 3), partition=1)
    taken = [(record.partition, record.offset) for record in bench.records(4)]
    assert taken == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert (bench.position(0), bench.position(1)) == (3, 1)
    assert bench.offsets() == [1, 2]


@pytest.mark.parametrize(("value_bytes", "of"), [(10, 500), (10_000, 500), (1 << 20, 3)])
def test_the_work_of_a_poll_is_known_before_it_begins(value_bytes: int, of: int) -> None:
    """asyncio decides by it whether the event loop or its executor decodes, which matters for few large records as for many small ones."""
    bench = Bench()
    bench.assign(0)
    values = [b"v" * value_bytes] * of
    bench.fetched(batch(0, [b"small"] * 500) + batch(500, values))

    def work(limit: int) -> int:
        bench.collector.begin()
        flow = bench.collector.collect_records(limit)
        step = next(flow)
        assert isinstance(step, Compute)
        flow.close()
        return step.size_bytes

    assert work(500) < 20_000, "the records of the first batch"
    assert len(bench.records(500)) == 500
    bench.records(1)
    assert value_bytes <= work(2) / 2 < value_bytes * 1.02 + 100


def hostile(at: int, number: int) -> bytes:
    """A batch with another number in its header."""
    data = bytearray(batch(0, [b"v"] * 10))
    data[at : at + 4] = number.to_bytes(4, "big", signed=True)
    return bytes(data)


LENGTH_AT, COUNT_AT = 8, 57


@pytest.mark.parametrize(
    "data",
    [
        batch(0, [b"v" * 1_000] * 100, codec=Codec.GZIP),
        raw_message(0, 1, value=b"v" * 1_000),
        hostile(LENGTH_AT, -13),
        hostile(LENGTH_AT, -(2**31)),
        hostile(COUNT_AT, 2**31 - 1),
        hostile(COUNT_AT, -1),
    ],
)
def test_all_bytes_are_work_where_records_of_unknown_size_come_next(data: bytes) -> None:
    bench = Bench()
    bench.assign(0)
    bench.fetched(data * 3)
    bench.collector.begin()
    step = next(bench.collector.collect_records(1))
    assert isinstance(step, Compute)
    assert step.size_bytes == len(data) * 3


def test_F8_a_paused_partition_keeps_what_is_buffered_until_it_is_resumed() -> None:
    bench = Bench()
    bench.assign(0, 0)
    tp = TopicPartition("orders", 0)
    bench.fetched(batch(0, [b""] * 4), partition=0)
    bench.fetched(batch(0), partition=1)
    assert bench.offsets(2) == [0, 1]
    bench.subscription.pause([tp])
    assert [record.partition for record in bench.records(10)] == [1]
    bench.subscription.resume([tp], 0)
    assert bench.offsets() == [2, 3]


def test_F10_data_fetched_for_an_older_position_is_dropped() -> None:
    bench = Bench()
    bench.assign(0)
    bench.fetched(batch(0, [b""] * 4))
    assert bench.offsets(1) == [0]
    bench.subscription.seek(TopicPartition("orders", 0), 100)
    assert bench.offsets() == []
    assert bench.position() == 100
    assert bench.buffer.size_bytes == 0


def test_TR57_a_partition_that_left_and_came_back_starts_afresh() -> None:
    bench = Bench()
    bench.assign(0)
    bench.fetched(batch(0))
    bench.subscription.assign([], 0)
    bench.assign(0)
    assert bench.offsets() == []


def test_F11_an_error_waits_until_the_records_before_it_are_out() -> None:
    bench = Bench()
    bench.assign(0, 0)
    bench.fetched(batch(0), partition=0)
    bench.fetched(b"", partition=1, error=broker_error(29, "orders-1"))
    assert bench.offsets() == [0]
    with pytest.raises(Exception, match="orders-1: TOPIC_AUTHORIZATION_FAILED"):
        bench.offsets()
    assert bench.offsets() == []


def test_F24_records_before_the_position_are_skipped() -> None:
    bench = Bench()
    bench.assign(12)
    bench.fetched(batch(10, [b""] * 5, codec=Codec.GZIP))
    assert bench.offsets() == [12, 13, 14]


def test_F26_a_compacted_tail_moves_the_position_past_the_batch() -> None:
    bench = Bench()
    bench.assign(0)
    bench.fetched(batch(0, [b"", b""], last_offset=9) + emptied(batch(10, last_offset=19)))
    assert bench.offsets() == [0, 1]
    assert bench.offsets() == []
    assert bench.position() == 20


def test_F23_a_cut_off_batch_at_the_end_is_no_error() -> None:
    bench = Bench()
    bench.assign(0)
    bench.fetched(batch(0) + batch(1)[:-3])
    assert bench.offsets() == [0]
    assert bench.offsets() == []


def test_F23_bytes_without_one_complete_batch_are_an_error() -> None:
    bench = Bench()
    bench.assign(0)
    bench.fetched(batch(0)[:-1])
    with pytest.raises(CorruptRecordError, match=r"orders-0 at offset 0: .* hold no complete record batch"):
        bench.offsets()


def test_F24_control_records_are_never_handed_out_but_move_the_position() -> None:
    bench = Bench()
    bench.assign(0)
    bench.fetched(batch(0, producer=(9, 0)) + batch(1, control=COMMIT, producer=(9, 0)))
    assert bench.offsets() == [0]
    assert bench.offsets() == []
    assert bench.position() == 2


def test_F25_read_committed_leaves_out_what_was_aborted() -> None:
    bench = Bench(options=READ_COMMITTED)
    bench.assign(0)
    data = (
        batch(0, producer=(9, 0))
        + batch(1, producer=(8, 0))
        + batch(2, control=ABORT, producer=(9, 0))
        + batch(3, producer=(9, 0))
        + batch(4)
    )
    bench.fetched(data, aborted=((9, 0),))
    assert bench.offsets() == [1, 3, 4]
    assert bench.position() == 5


def test_F25_a_marker_that_unpacks_to_more_than_the_limit_is_refused() -> None:
    bench = Bench(options=read_options(isolation_level=IsolationLevel.READ_COMMITTED, max_decompressed_bytes=1024))
    bench.assign(0)
    # Transactional (0x10), a marker (0x20), and a record whose value is larger than any marker's.
    marker = forge(raw_record(value=encode_varint(100_000) + bytes(100_000)), codec=Codec.ZSTD, attributes=0x34, producer_id=9)
    bench.fetched(bytes(marker), aborted=((9, 0),))
    with pytest.raises(DecompressionError, match="1024"):
        bench.offsets()


def test_F25_read_uncommitted_returns_aborted_records_too() -> None:
    bench = Bench()
    bench.assign(0)
    bench.fetched(batch(0, producer=(9, 0)) + batch(1, control=ABORT, producer=(9, 0)), aborted=((9, 0),))
    assert bench.offsets() == [0]


def test_TR13_a_transaction_is_taken_in_up_to_the_last_offset_of_a_batch() -> None:
    bench = Bench(options=READ_COMMITTED)
    bench.assign(0)
    # After compaction the first offset of a transaction may lie within a batch.
    bench.fetched(batch(0, [b""] * 3, producer=(9, 0)), aborted=((9, 1),))
    assert bench.offsets() == []
    assert bench.position() == 3


def test_TR12_an_emptied_marker_ends_no_transaction() -> None:
    bench = Bench(options=READ_COMMITTED)
    bench.assign(0)
    marker = emptied(batch(1, control=ABORT, producer=(9, 0)))
    bench.fetched(batch(0, producer=(9, 0)) + marker + batch(2, producer=(9, 0)), aborted=((9, 0),))
    assert bench.offsets() == []
    assert bench.position() == 3


def test_M13_a_wrong_checksum_is_raised_again_and_again_until_a_seek() -> None:
    bench = Bench()
    bench.assign(0)
    damaged = bytearray(batch(1, [b"value"]))
    damaged[-1] ^= 1
    bench.fetched(batch(0) + bytes(damaged) + batch(2))
    assert bench.offsets() == [0]
    for _ in range(3):
        with pytest.raises(CorruptRecordError, match=r"orders-0 at offset 1: .*checksum.*seek past"):
            bench.offsets()
    bench.subscription.seek(TopicPartition("orders", 0), 2)
    bench.fetched(batch(2))
    assert bench.offsets() == [2]


def test_check_crcs_may_be_switched_off() -> None:
    bench = Bench(options=read_options(check_crcs=False))
    bench.assign(0)
    damaged = bytearray(batch(0, [b"value"]))
    damaged[17] ^= 1
    bench.fetched(bytes(damaged))
    assert bench.offsets() == [0]


def test_F27_a_record_that_does_not_deserialize_stays_next_in_line() -> None:
    bench = Bench(converter=RecordConverter(value_deserializer=json.loads))
    bench.assign(0)
    bench.fetched(batch(0, [b"1", None, b"{", b"4"], key=b"k"))
    assert [record.value for record in bench.records(10)] == [1, None]
    for _ in range(2):
        with pytest.raises(RecordDeserializationError, match=r"orders-0 at offset 2: .*seek to 3 to skip") as raised:
            bench.offsets()
        assert (raised.value.record.offset, raised.value.record.key, raised.value.record.value) == (2, b"k", b"{")
    assert bench.position() == 2


def test_a_bounded_read_stops_within_a_batch() -> None:
    bench = Bench()
    bench.assign(1, stop=3)
    bench.fetched(batch(0, [b""] * 5))
    assert bench.offsets() == [1, 2]
    assert bench.subscription.state(TopicPartition("orders", 0)).finished


def test_a_bounded_read_stops_in_a_hole_that_compaction_left() -> None:
    bench = Bench()
    bench.assign(0, stop=5)
    bench.fetched(batch(0, [b"", b""]))
    bench.fetched(batch(90))
    assert bench.offsets() == [0, 1]
    assert bench.offsets() == []
    assert bench.position() == 5


def test_a_bounded_read_ends_when_its_last_records_are_gone() -> None:
    bench = Bench()
    bench.assign(2, stop=4)
    bench.fetched(batch(0, [b""], last_offset=9))
    assert bench.offsets() == []
    assert bench.position() == 4


def test_F4_a_fetch_is_given_back_with_its_last_record() -> None:
    bench = Bench()
    bench.assign(0)
    bench.fetched(batch(0, [b""] * 2))
    state = bench.subscription.state(TopicPartition("orders", 0))
    assert (bench.offsets(1), state.buffered) == ([0], 1)
    assert (bench.offsets(1), state.buffered) == ([1], 0)


def test_F10_an_offset_out_of_range_is_reset_by_policy_after_the_records_before_it() -> None:
    bench = Bench(reset_to=OffsetSpec.EARLIEST)
    bench.assign(0)
    bench.fetched(batch(0))
    bench.fetched(b"", error=OffsetOutOfRangeError("orders-0", partition=TopicPartition("orders", 0), offset=1))
    assert bench.offsets() == [0]
    assert bench.offsets() == []
    state = bench.subscription.state(TopicPartition("orders", 0))
    assert (state.status, state.reset_to, state.asked_offset) == (PartitionStatus.AWAIT_RESET, OffsetSpec.EARLIEST, 1)


def test_an_offset_out_of_range_is_raised_without_a_policy() -> None:
    bench = Bench()
    bench.assign(7)
    bench.fetched(b"", error=OffsetOutOfRangeError("orders-0", partition=TopicPartition("orders", 0), offset=7))
    with pytest.raises(OffsetOutOfRangeError):
        bench.offsets()
    assert bench.position() == 7


def test_M_P4_ctrl_c_in_the_middle_of_a_poll_costs_no_record() -> None:
    interrupt = iter([False, False, True])

    def value(raw: bytes) -> bytes:
        if next(interrupt, False):
            raise KeyboardInterrupt
        return raw

    bench = Bench(converter=RecordConverter(value_deserializer=value))
    bench.assign(10, 20)
    bench.fetched(batch(10), partition=0)
    bench.fetched(batch(20, [b"a", b"b"]), partition=1)
    with pytest.raises(KeyboardInterrupt):
        bench.records(10)
    assert (bench.position(0), bench.position(1)) == (10, 20)
    assert bench.offsets() == [10, 20, 21]
    assert bench.buffer.size_bytes == 0


def test_F8_what_comes_in_while_a_partition_is_paused_stays_behind_what_was_there() -> None:
    bench = Bench()
    bench.assign(0)
    bench.fetched(batch(0, [b""] * 2))
    bench.subscription.pause([TopicPartition("orders", 0)])
    assert bench.records() == []
    bench.fetched(batch(2, [b""] * 2))
    bench.subscription.resume([TopicPartition("orders", 0)], 0)
    assert [record.offset for record in bench.records()] == [0, 1, 2, 3]
