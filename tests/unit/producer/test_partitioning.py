"""Where records without a partition go."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from accumulator_kit import Bench
from levada.producer.append.partitioning import STICKY, Partitioning, RoundRobin, checked
from levada.producer.append.sticky import StickyPartition
from levada.wire.murmur2 import partition_for_key
from settings_kit import PLAIN_PARTITIONING


def test_P4_a_partition_is_kept_until_batch_size_bytes_went_there() -> None:
    sticky = StickyPartition(Random(1), limit=1000)
    assert sticky.is_due
    sticky.move(range(4))
    sticky.took(999, full=False)
    assert not sticky.is_due
    sticky.took(1, full=False)
    assert sticky.is_due


def test_P4_a_full_batch_is_a_whole_turn() -> None:
    sticky = StickyPartition(Random(1), limit=1000)
    sticky.move(range(4))
    sticky.took(960, full=True)
    assert sticky.is_due


def test_P5_the_next_is_drawn_evenly() -> None:
    sticky = StickyPartition(Random(1), limit=1)
    drawn = Counter(sticky.move([0, 1, 5]) for _ in range(3000))
    assert set(drawn) == {0, 1, 5}
    assert min(drawn.values()) > 850


def test_P5_adaptive_draws_less_from_longer_queues() -> None:
    sticky = StickyPartition(Random(1), limit=1)
    drawn = Counter(sticky.move([0, 1, 2], [3, 0, 1]) for _ in range(8000))
    assert drawn[0] == pytest.approx(1000, rel=0.15)
    assert drawn[1] == pytest.approx(4000, rel=0.15)
    assert drawn[2] == pytest.approx(3000, rel=0.15)


def test_P7_round_robin_deals_in_turn_per_topic() -> None:
    partitioner = RoundRobin()
    assert [partitioner("a", None, 3) for _ in range(4)] == [0, 1, 2, 0]
    assert partitioner("b", b"key", 3) == 0


@pytest.mark.parametrize("partition", [-1, 3, None, "0"])
def test_P8_a_partitioner_that_chooses_what_is_not_there_is_named(partition: int) -> None:
    with pytest.raises(ValueError, match=r"topic 'orders', which has partitions 0 to 2"):
        checked(partition, "orders", 3)


def test_P3_keys_are_hashed_unless_they_are_ignored() -> None:
    hashing, ignoring = Bench().accumulator, Bench(partitioning=Partitioning(None, ignore_keys=True)).accumulator
    topic = hashing.topics["t"]
    assert hashing.appender.partition_for(topic, b"key") == partition_for_key(b"key", topic.count)
    assert hashing.appender.partition_for(topic, None) == STICKY
    assert ignoring.appender.partition_for(topic, b"key") == STICKY


def test_P8_without_a_partitioner_nothing_is_chosen() -> None:
    assert PLAIN_PARTITIONING.for_record("t", b"key", 7) is None
    assert PLAIN_PARTITIONING.for_rows("t", 7) is None


def test_P7_round_robin_deals_rows_out_as_it_does_records() -> None:
    partitioner = RoundRobin()
    choose = Partitioning(partitioner, ignore_keys=False).for_rows("t", 3)
    assert choose is not None
    assert choose(pa.nulls(4, pa.large_binary())) == [0, 1, 2, 0]
    assert partitioner("t", None, 3) == 1
    assert choose(pa.nulls(2, pa.large_binary())) == [2, 0]


def test_P7_a_partitioner_without_a_form_for_rows_is_asked_for_each() -> None:
    asked: list[tuple[str, bytes | None, int]] = []

    def by_length(topic: str, key: bytes | None, count: int) -> int:
        asked.append((topic, key, count))
        return len(key or b"") % count

    choose = Partitioning(by_length, ignore_keys=False).for_rows("t", 3)
    assert choose is not None
    assert choose(pa.array([b"a", None, b"abcd", b"ab"], pa.large_binary())) == [1, 0, 1, 2]
    assert asked == [("t", b"a", 3), ("t", None, 3), ("t", b"abcd", 3), ("t", b"ab", 3)]


@pytest.mark.parametrize(
    ("chosen", "fault"), [([0, 3], "chose partition 3"), ([0], "chose 1 partitions for 2 rows"), (pa.array([0, -1]), "chose partition -1")]
)
def test_P8_a_choice_for_rows_that_is_not_there_is_named(chosen: object, fault: str) -> None:
    class Wrong(RoundRobin):
        def partition_rows(self, topic: str, keys: pa.Array, count: int, /) -> object:  # type: ignore[override]
            return chosen

    choose = Partitioning(Wrong(), ignore_keys=False).for_rows("t", 3)
    assert choose is not None
    with pytest.raises(ValueError, match=fault):
        choose(pa.nulls(2, pa.large_binary()))
