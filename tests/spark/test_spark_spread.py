"""Which partitions rows without a key go to."""

from __future__ import annotations

import random
from itertools import groupby

import pytest

from levada.spark.spread import Spread

MEGABYTE = 1_000_000


def spread() -> Spread:
    return Spread(MEGABYTE, random.Random(5))


def counts(chosen: list[int], partitions: int) -> list[int]:
    return [chosen.count(partition) for partition in range(partitions)]


@pytest.mark.parametrize(("rows", "partitions"), [(1, 8), (5, 8), (8, 8), (1000, 8), (10_000, 7), (10_000, 1), (3, 1000)])
def test_a_small_batch_is_spread_evenly_in_runs(rows: int, partitions: int) -> None:
    chosen = spread().deal(rows, rows * 20, range(partitions)).to_pylist()
    assert len(chosen) == rows
    assert max(counts(chosen, partitions)) - min(counts(chosen, partitions)) <= 1
    assert len(list(groupby(chosen))) == min(rows, partitions)


def test_a_large_write_has_large_runs_and_stays_even() -> None:
    spreading, chosen = spread(), []
    for _ in range(200):
        block = spreading.deal(10_000, MEGABYTE, range(100)).to_pylist()
        chosen += block
    assert len(list(groupby(block))) <= 3, "each partition has 20,000 rows, and a run up to a quarter of that"
    found = counts(chosen, 100)
    assert max(found) - min(found) <= 2_000_000 // 100 // 4
    assert len(list(groupby(chosen))) < 100 * 25, "more of them with the logarithm of the rows only"


def test_no_run_has_more_than_batch_size_bytes() -> None:
    chosen = spread().deal(100, 100 * MEGABYTE, range(8)).to_pylist()
    assert len(list(groupby(chosen))) == 100
    assert max(counts(chosen, 8)) - min(counts(chosen, 8)) <= 1


def test_small_tasks_begin_at_different_partitions() -> None:
    begun = {Spread(MEGABYTE, random.Random(seed)).deal(1, 10, range(8)).to_pylist()[0] for seed in range(100)}
    assert begun == set(range(8))


def test_only_the_partitions_that_are_given_are_used_and_new_ones_catch_up() -> None:
    spreading = spread()
    assert set(spreading.deal(10, 100, [1, 4]).to_pylist()) == {1, 4}
    assert set(spreading.deal(10, 100, [1, 2, 4]).to_pylist()) == {1, 2, 4}
    assert spreading.deal(1, 10, [1, 2, 4]).to_pylist() == [2]
