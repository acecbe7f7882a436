"""Which partitions rows without a key go to."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext

from levada.spark.options.options import Spreads
from levada.spark.sink.spread import LEAST_RUN, Spread, Turn, turn_of_task
from levada.spark.sink.writing import with_partitions

MEGABYTE = 1_000_000
SOME = Turn(5, 0, 0)


def spread(turn: Turn = SOME) -> Spread:
    return Spread(MEGABYTE, turn)


def first_of(turn: Turn, partitions: int = 8) -> int:
    """Where the rows of a small task go, all of them."""
    (found,) = set(spread(turn).deal(7, LEAST_RUN, range(partitions)).to_pylist())
    assert isinstance(found, int)
    return found


def counts(chosen: list[int], partitions: int) -> list[int]:
    return [chosen.count(partition) for partition in range(partitions)]


@pytest.mark.parametrize(("rows", "partitions"), [(1, 8), (5, 8), (8, 8), (1000, 8), (10_000, 7), (10_000, 1), (3, 1000)])
def test_a_block_of_some_size_is_spread_evenly_in_runs(rows: int, partitions: int) -> None:
    chosen = spread().deal(rows, partitions * LEAST_RUN, range(partitions)).to_pylist()
    assert len(chosen) == rows
    assert max(counts(chosen, partitions)) - min(counts(chosen, partitions)) <= 1
    assert len(list(groupby(chosen))) == min(rows, partitions)


@pytest.mark.parametrize(("size", "used"), [(1, 1), (2 * LEAST_RUN - 1, 1), (2 * LEAST_RUN, 2), (5 * LEAST_RUN, 5), (99 * LEAST_RUN, 8)])
def test_a_small_block_is_in_no_more_partitions_than_are_worth_a_record_batch(size: int, used: int) -> None:
    assert len(list(groupby(spread().deal(1000, size, range(8)).to_pylist()))) == used


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


@pytest.mark.parametrize("begun", range(9))
@pytest.mark.parametrize("partitions", [1, 2, 7, 8])
def test_small_micro_batches_reach_all_partitions_in_turn(begun: int, partitions: int) -> None:
    firsts = [first_of(Turn(3, batch, 0), partitions) for batch in range(begun, begun + partitions + 1)]
    assert set(firsts) == set(range(partitions))


@pytest.mark.parametrize("step", range(1, 13))
def test_the_partitions_are_used_alike_whichever_micro_batches_have_rows(step: int) -> None:
    found = Counter(first_of(Turn(3, batch, 0)) for batch in range(0, step * 8 * 8, step))
    assert set(found) == set(range(8))
    assert max(found.values()) <= 2 * 8


def test_small_tasks_of_a_micro_batch_begin_at_different_partitions() -> None:
    assert {first_of(Turn(3, 12, task)) for task in range(8)} == set(range(8))


def test_queries_begin_at_different_partitions() -> None:
    assert {first_of(Turn(seed, 0, 0)) for seed in range(8)} == set(range(8))


class FakeTask:
    def __init__(self, **told: str) -> None:
        self._told = told

    def getLocalProperty(self, name: str) -> str | None:
        return self._told.get(name.rpartition(".")[2])

    def partitionId(self) -> int:
        return 4


def test_a_turn_follows_from_query_micro_batch_and_task(monkeypatch: Any) -> None:
    def turn(task: FakeTask | None, *write: Any) -> Turn:
        monkeypatch.setattr(TaskContext, "get", lambda: task)
        return turn_of_task(*write)

    streaming = FakeTask(queryId="q", batchId="11")
    assert turn(streaming, "w") == turn(streaming, "another") == turn(FakeTask(queryId="q", batchId="11"), "w")
    assert turn(streaming, "w")[1:] == (11, 4)
    assert turn(FakeTask(queryId="p", batchId="11"), "w").seed != turn(streaming, "w").seed
    assert turn(streaming, "w", 7)[1:] == (7, 4), "a program's number counts"
    assert turn(FakeTask(), "w") == turn(FakeTask(), "w") == (turn(None, "w").seed, 0, 4)
    assert turn(FakeTask(), "w").seed != turn(FakeTask(), "x").seed


def test_only_the_partitions_that_are_given_are_used_and_new_ones_catch_up() -> None:
    spreading = spread()
    assert set(spreading.deal(10, MEGABYTE, [1, 4]).to_pylist()) == {1, 4}
    assert set(spreading.deal(10, MEGABYTE, [4, 2, 1]).to_pylist()) == {1, 2, 4}
    assert spreading.deal(1, 10, [1, 2, 4]).to_pylist() == [2]


KEYS: dict[str, list[bytes | None] | None] = {"none": [None] * 4, "some": [b"a", None, None, b"b"], "all": [b"a"] * 4, "no column": None}
GIVEN: dict[str, list[int | None] | None] = {"none": [None] * 4, "some": [5, 5, None, None], "all": [5] * 4, "no column": None}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("which", Spreads)
def test_rows_are_spread_that_have_no_partition_and_no_key_or_keys_are_ignored(which: Spreads, keys: str, given: str) -> None:
    columns = {"key": pa.array(KEYS[keys], pa.binary())} if KEYS[keys] else {}
    columns |= {"partition": pa.array(GIVEN[given], pa.int32())} if GIVEN[given] else {}
    rows = pa.RecordBatch.from_pydict({"value": [b"v"] * 4, **columns})

    found = with_partitions(rows, which, spread(), [2])

    named, keyed = GIVEN[given] or [None] * 4, KEYS[keys] or [None] * 4
    left = [which is Spreads.NONE or (which is Spreads.KEYLESS and key is not None) for key in keyed]
    chosen = [None if leave else 2 for leave in left]
    expected = [other if own is None else own for own, other in zip(named, chosen, strict=True)]
    assert (found.column("partition").to_pylist() if "partition" in found.schema.names else [None] * 4) == expected
    assert all(found.column(name) == rows.column(name) for name in rows.schema.names if name != "partition")
    assert with_partitions(rows, which, spread(), []) == rows
    assert with_partitions(rows.slice(0, 0), which, spread(), [2]).num_rows == 0


def test_some_rows_of_a_batch_are_cut_into_runs_by_their_own_bytes() -> None:
    keys = [b"a"] * 900 + [None] * 100
    rows = pa.RecordBatch.from_pydict({"key": pa.array(keys, pa.binary()), "value": [b"v" * 1000] * 1000})

    found = with_partitions(rows, Spreads.KEYLESS, Spread(10_000, SOME), [0, 1]).column("partition").to_pylist()

    assert found[:900] == [None] * 900
    assert len(list(groupby(found[900:]))) == 11, "100,000 bytes and what the columns take beside them"
