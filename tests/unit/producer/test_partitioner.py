"""Where records without a partition go."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from levada.producer.partitioner import StickyPartition, checked, round_robin


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
    partitioner = round_robin()
    assert [partitioner("a", None, 3) for _ in range(4)] == [0, 1, 2, 0]
    assert partitioner("b", b"key", 3) == 0


@pytest.mark.parametrize("partition", [-1, 3, None, "0"])
def test_P8_a_partitioner_that_chooses_what_is_not_there_is_named(partition: int) -> None:
    with pytest.raises(ValueError, match=r"topic 'orders', which has partitions 0 to 2"):
        checked(partition, "orders", 3)
