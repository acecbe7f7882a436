"""Parts of a scan: by time, partition and key, and cut into splits. In virtual time."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer_kit import batch
from consumer_sim import World
from levada.consumer.scan.ranges import Range, split_ranges
from levada.errors import ConfigError
from levada.sync.scan import Scan, ScanProgress, scan
from levada.testing.simulation import EPOCH_MS, Simulation
from levada.types import TopicPartition

T0, T1, T2 = (TopicPartition("t", partition) for partition in range(3))
HOUR_MS = 3_600_000


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulation]:
    with Simulation(seed=5) as simulation:
        monkeypatch.setitem(globals(), "scan", simulation.scan)
        yield simulation


@pytest.fixture
def world(simulation: Simulation) -> World:
    """Three partitions; the records of the first two are 9 to 0 hours old, their keys are a and b in turn, and null in the second."""
    world = World(simulation)
    world.topic("t", 3)
    now_ms = EPOCH_MS + simulation.now_ms
    for n in range(10):
        time = now_ms - (9 - n) * HOUR_MS
        world.append("t", [b"%d" % n], 0, key=(b"a", b"b")[n % 2], timestamp=time)
        world.append("t", [b"%d" % n], 1, key=None, timestamp=time)
    return world


def begun(**arguments: Any) -> Scan[Any, Any]:
    return scan("t", bootstrap_servers="b1:9092", **arguments)


def read(found: Scan[Any, Any]) -> dict[int, list[int]]:
    """The values of a scan by partition, as records and as columns alike."""
    by_partition: dict[int, list[int]] = {}
    for record in found:
        by_partition.setdefault(record.partition, []).append(int(record.value or b""))
    pytest.importorskip("pyarrow")
    columns = {name: found.to_table()[name].to_pylist() for name in ("partition", "value")}
    rows: dict[int, list[int]] = {}
    for partition, value in zip(columns["partition"], columns["value"], strict=True):
        rows.setdefault(partition, []).append(int(value))
    assert rows == by_partition
    return by_partition


ALL = list(range(10))


def test_times_may_be_told_from_now_and_as_text(world: World) -> None:
    assert read(begun(start="-3h30m")) == {0: [6, 7, 8, 9], 1: [6, 7, 8, 9]}
    assert read(begun(start={0: "-1h1m", 1: "-5400s"}, end={1: "-30m"})) == {0: [8, 9], 1: [8]}
    assert read(begun(start="-1w", end="-0d")) == {0: ALL, 1: ALL}
    # 2023-11-14T22:13:20Z is where virtual time begins, and 1,000 s later the world.
    assert read(begun(start="2023-11-14T21:45:00+00:00", partitions=[0])) == {0: [9]}
    assert read(begun(start="2023-11-14T22:30:00Z", end="2023-11-15T22:30+01:00", partitions=[0])) == {0: [9]}


def test_now_is_when_a_scan_is_first_read(world: World, simulation: Simulation) -> None:
    recent = begun(start="-90m", timestamps=("-90m", None))
    simulation.advance(HOUR_MS)
    assert read(recent) == {0: [9], 1: [9]}
    simulation.advance(HOUR_MS)
    assert read(recent) == {0: [9], 1: [9]}


def test_partitions_alone_are_read(world: World) -> None:
    assert read(begun(partitions=[1])) == {1: ALL}
    assert read(begun(partitions=[T0], start={0: 8})) == {0: [8, 9]}
    before = world.requests("Fetch")
    assert read(begun(partitions=[2])) == {}
    assert world.requests("Fetch") == before
    with pytest.raises(ConfigError, match="t-7 is not among the partitions"):
        list(begun(partitions=[7]))


def test_records_are_kept_by_key(world: World) -> None:
    assert read(begun(keys=["a"])) == {0: ALL[::2]}
    assert read(begun(keys=[b"b", None], end={1: 3})) == {0: ALL[1::2], 1: [0, 1, 2]}
    assert read(begun(keys=[])) == {}


def test_records_are_kept_by_time_wherever_they_stand(world: World) -> None:
    late = EPOCH_MS + world.now_ms - 12 * HOUR_MS
    world.append("t", [b"99"], 0, key=b"a", timestamp=late)
    assert read(begun(timestamps=("-3h1m", None))) == {0: [6, 7, 8, 9], 1: [6, 7, 8, 9]}
    assert read(begun(timestamps=(None, "-450m"), keys=["a"])) == {0: [0, 99]}
    assert read(begun(timestamps=(late, late + 1))) == {0: [99]}


def test_reading_begins_at_the_first_record_that_is_not_too_old(world: World) -> None:
    told: list[ScanProgress] = []
    assert len(list(begun(timestamps=("-1h1m", None), progress=told.append))) == 4
    assert (told[-1].of, told[-1].offsets, told[-1].records) == (4, 4, 4)


def test_what_is_left_out_is_not_deserialized(world: World) -> None:
    world.append("t", [b"broken"], 0, key=b"broken")
    assert [record.value for record in begun(keys=["a"], value_deserializer=int)] == ALL[::2]
    world.append("t", [b"\xff"], 0, key=b"broken")
    pytest.importorskip("pyarrow")
    assert begun(keys=["a"], columns=["value"], text=["value"]).to_table()["value"].to_pylist() == [str(n) for n in ALL[::2]]


def test_columns_that_a_filter_looks_at_are_handed_out_only_where_they_are_asked_for(world: World) -> None:
    pytest.importorskip("pyarrow")
    table = begun(keys=["b"], timestamps=("-4h1m", None), columns=["value"], text=["value"]).to_table()
    assert table.schema.names == ["value"]
    assert table["value"].to_pylist() == ["5", "7", "9"]
    with_key = begun(keys=["b"], columns=["key", "offset"], text=["key"]).to_reader().read_all()
    assert with_key.to_pylist()[0] == {"key": "b", "offset": 1}


def test_progress_is_told_up_to_the_end(world: World) -> None:
    told: list[ScanProgress] = []
    assert len(list(begun(keys=["a"], progress=told.append))) == 5
    assert told[-1] == ScanProgress(records=5, offsets=20, of=20, partitions=3, of_partitions=3)
    assert [step.offsets for step in told] == sorted(step.offsets for step in told)

    def stop(progress: ScanProgress) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        list(begun(progress=stop))


@pytest.mark.parametrize("size", [{"rows": 4}, {"rows": 7}, {"rows": 1_000}, {"bytes": 200}, {"bytes": 10_000}])
def test_splits_together_are_the_scan(world: World, size: dict[str, int]) -> None:
    parts = begun(start={0: 1}, keys=["a", None], timestamps=("-8h1m", None)).splits(**size)
    world.append("t", [b"100"], 0, key=b"a")
    found = [read(part) for part in parts]
    for partition, expected in ((0, [2, 4, 6, 8]), (1, ALL[1:])):
        assert [value for part in found for value in part.get(partition, [])] == expected
    assert (len(parts) > 1) == (size not in ({"rows": 1_000}, {"bytes": 10_000}))


def test_a_split_is_a_plan_that_can_be_pickled(world: World, simulation: Simulation) -> None:
    first, *_ = begun(start="-3h1m", on_data_loss="skip", value_deserializer=int).splits(rows=2)
    copied = pickle.loads(pickle.dumps(first._request))
    again: Scan[Any, Any] = Scan(copied, simulation._connector)
    assert [record.value for record in again] == [6, 7]


def test_splits_by_bytes_know_large_records_from_small_ones(world: World) -> None:
    world.append_raw("t", batch(0, [b"x" * 10_000] * 20), 2)
    parts = begun(start={0: "latest"}).splits(bytes=50_000)
    per_part = [sum(1 for _ in part) for part in parts]
    assert sum(per_part) == 30
    assert 4 <= len(parts) <= 6


def test_splits_want_one_size(world: World) -> None:
    for wrong in ({}, {"rows": 1, "bytes": 1}):
        with pytest.raises(ValueError, match="either rows or bytes"):
            begun().splits(**wrong)
    with pytest.raises(ValueError, match="rows must be at least 1"):
        begun().splits(rows=0)


RANGES = st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=5)


@given(ranges=RANGES, weights=st.lists(st.floats(0, 20), min_size=6, max_size=6), limit=st.integers(1, 100))
def test_any_ranges_are_cut_without_gap_or_overlap(ranges: dict[int, tuple[int, int]], weights: list[float], limit: int) -> None:
    whole = {TopicPartition("t", number): Range(*pair) for number, pair in ranges.items()}
    weight = {tp: weights[tp.partition] for tp in whole}
    parts = split_ranges(whole, weight, limit)
    for tp, (start, end) in whole.items():
        pieces = [part[tp] for part in parts if tp in part]
        offsets = [offset for piece in pieces for offset in range(*piece)]
        assert offsets == list(range(start, end))
    for part in parts:
        loads = [weight[tp] for tp, piece in part.items() for _ in range(*piece)]
        assert loads
        assert len(loads) == 1 or sum(loads) <= limit + 1e-6
