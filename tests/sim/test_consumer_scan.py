"""Bounded reads: they end, they read what they were asked for, and they say what is missing. In virtual time."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from consumer_kit import batch, emptied
from consumer_sim import World
from levada.errors import ConfigError, DataLossError, TimeoutError, UnknownTopicOrPartitionError
from levada.sync.scan import Loss, Scan, scan
from levada.testing.simulation import Simulation
from levada.types import TopicPartition
from log_lines import said

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulation]:
    with Simulation(seed=3) as simulation:
        monkeypatch.setitem(globals(), "scan", simulation.scan)
        yield simulation


@pytest.fixture
def world(simulation: Simulation) -> World:
    """Ten records in each of two partitions, in batches of five, a second apart."""
    world = World(simulation)
    world.topic("t", 2)
    for partition in (0, 1):
        for first in (0, 5):
            world.append("t", [b"%d" % n for n in range(first, first + 5)], partition, timestamp=1_000 * first)
    return world


def read(topics: Any = "t", **bounds: Any) -> dict[int, list[int]]:
    """The offsets a scan reads, by partition."""
    found: dict[int, list[int]] = {}
    for record in begun(topics, **bounds):
        found.setdefault(record.partition, []).append(record.offset)
    return found


def begun(topics: Any = "t", **bounds: Any) -> Scan:
    return scan(topics, bootstrap_servers="b1:9092", **bounds)


def at_ms(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def test_everything_there_is_by_default(world: World) -> None:
    assert read() == {0: list(range(10)), 1: list(range(10))}


def test_an_empty_topic_and_an_empty_range_have_no_records(world: World) -> None:
    world.topic("empty")
    assert read("empty") == {}
    assert read(start="latest") == {}
    assert read(start={0: 7, 1: 3}, end={0: 7, 1: 3}) == {}


def test_a_range_that_the_log_turns_round_is_empty_and_a_warning_says_so(world: World, caplog: pytest.LogCaptureFixture) -> None:
    assert read(start={0: 7}, end=at_ms(5_000)) == {1: [0, 1, 2, 3, 4]}
    (warning,) = said(caplog.records, logging.WARNING)
    assert warning == "t-0: nothing is read, as the range begins at offset 7 and ends at 5"
    with pytest.raises(DataLossError, match="t-0: asked for records from offset 50, but the log ends at 10"):
        read(start={0: 50}, end=at_ms(5_000))


def test_the_end_is_exclusive_and_may_lie_within_a_batch(world: World) -> None:
    assert read(start={0: 2, 1: "latest"}, end={0: 8}) == {0: [2, 3, 4, 5, 6, 7]}
    assert read(start={T0: 9}, end={T1: 1}) == {0: [9], 1: [0]}


def test_times_are_the_first_record_at_or_after_them(world: World) -> None:
    assert read(start=at_ms(4_999)) == {0: [5, 6, 7, 8, 9], 1: [5, 6, 7, 8, 9]}
    assert read(start={0: at_ms(5_000), 1: "latest"}, end=at_ms(5_001)) == {0: [5, 6, 7, 8, 9]}
    assert read(start=at_ms(9_999_999)) == {}


def test_named_partitions_alone(world: World) -> None:
    assert read(None, assignments={T1: (3, 6)}) == {1: [3, 4, 5]}


def test_what_is_written_meanwhile_is_not_read(world: World) -> None:
    seen = 0
    for _ in begun():
        seen += 1
        world.append("t", [b"more"])
    assert seen == 20


def test_reading_again_reads_the_same(world: World) -> None:
    whole = begun()
    first = list(whole)
    world.append("t", [b"more"])
    assert list(whole) == first


def test_TR11_an_end_that_compaction_removed_is_reached_all_the_same(world: World) -> None:
    world.topic("c")
    world.append_raw("c", batch(0, [b"a", b"b"], last_offset=9))
    world.append_raw("c", emptied(batch(10, last_offset=19)))
    assert read("c", end={0: 5}) == {0: [0, 1]}
    assert read("c", start={0: 5}, end={0: 8}) == {}
    assert read("c") == {0: [0, 1]}


def test_a_start_before_the_log_is_a_loss_that_says_how_much(world: World) -> None:
    world.partition("t").log.advance_start(5)
    with pytest.raises(DataLossError, match=r"t-0: records \[2, 5\) are gone: asked for offset 2, the log now starts at 5"):
        read(start={0: 2})
    with pytest.raises(DataLossError, match=r"t-0: records \[2, 4\) are gone"):
        read(start={0: 2}, end={0: 4})


def test_a_loss_may_be_skipped_and_is_noted(world: World) -> None:
    world.partition("t").log.advance_start(5)
    whole = begun(start={0: 2}, on_data_loss="skip")
    assert [record.offset for record in whole if record.partition == 0] == [5, 6, 7, 8, 9]
    assert whole.losses == [Loss(T0, 2, 5)]
    part = begun(start={0: 2}, end={0: 4, 1: 0}, on_data_loss="skip")
    assert list(part) == []
    assert part.losses == [Loss(T0, 2, 4)]


def test_a_log_start_that_passes_the_reader_is_a_loss(world: World) -> None:
    reading = iter(begun(max_partition_fetch_bytes=1))
    next(reading)
    for _ in range(20):
        world.append("t", [b"more"])
    world.partition("t").log.advance_start(30)
    world.partition("t", 1).log.advance_start(10)
    with pytest.raises(DataLossError, match=r"t-[01]: records \[\d+, 10\) are gone"):
        list(reading)


def test_a_start_after_the_log_is_a_loss(world: World) -> None:
    with pytest.raises(DataLossError, match="t-0: asked for records from offset 50, but the log ends at 10"):
        read(start={0: 50})
    with pytest.raises(DataLossError, match=r"t-0: records \[50, 60\) are gone: .*the log ends before that"):
        read(start={0: 50}, end={0: 60})


def test_an_end_that_never_comes_ends_in_time(world: World, simulation: Simulation) -> None:
    started = simulation.now_ms
    with pytest.raises(TimeoutError, match=r"no partition moved for 5.0 s\n  t-0: at offset 10 of 20; readable up to 10"):
        read(start={1: "latest"}, end={0: 20}, default_api_timeout_ms=5_000)
    assert 5_000 <= simulation.now_ms - started <= 8_000


def test_a_scan_whose_broker_dies_says_why_it_stands_still(world: World) -> None:
    reading = iter(begun(default_api_timeout_ms=5_000, max_partition_fetch_bytes=1))
    next(reading)
    world.network.stop("b1", 9092)
    with pytest.raises(TimeoutError) as caught:
        list(reading)
    lines = str(caught.value).splitlines()
    assert lines[0] == "no partition moved for 5.0 s"
    assert re.match(r"  t-[01]: at offset \d+ of 10; (readable up to 10; )?.*b1:9092.*(no answer|refused)", lines[1])
    assert lines[-1].startswith("  b1:9092  connection refused")
    assert "-1" not in str(caught.value).replace("t-1", "")


def test_a_scan_whose_broker_falls_silent_says_since_when(world: World) -> None:
    reading = iter(begun(default_api_timeout_ms=5_000, max_partition_fetch_bytes=1))
    next(reading)
    world.network.blackhole("b1", 9092)
    with pytest.raises(TimeoutError, match=r"t-[01]: at offset .*its leader, node 1 at b1:9092, last answered [5-6]\.\d s ago"):
        list(reading)


def test_a_slow_reader_is_not_timed_out(world: World, simulation: Simulation) -> None:
    seen = 0
    for _ in begun(default_api_timeout_ms=2_000, max_partition_fetch_bytes=1):
        seen += 1
        simulation.advance(5_000)
    assert seen == 20


def test_columns_are_the_same_records(world: World) -> None:
    pytest.importorskip("pyarrow")
    table = begun(columns=["partition", "offset", "value"]).to_table()
    assert sorted(zip(*(table[name].to_pylist() for name in ("partition", "offset", "value")), strict=True)) == [
        (partition, n, b"%d" % n) for partition in (0, 1) for n in range(10)
    ]
    assert [batch.num_rows for batch in begun(batch_rows=8).arrow()] == [8, 8, 4]
    assert begun(start="latest").to_table().column_names == ["key", "value", "topic", "partition", "offset", "timestamp"]


def test_a_range_as_columns_stops_within_a_batch(world: World) -> None:
    pytest.importorskip("pyarrow")
    table = begun(None, assignments={T0: (3, 7)}, columns=["offset"]).to_table()
    assert table["offset"].to_pylist() == [3, 4, 5, 6]


def test_columns_before_a_loss_come_out_before_it(world: World) -> None:
    pytest.importorskip("pyarrow")
    world.partition("t", 1).log.advance_start(5)
    rows = 0
    with pytest.raises(DataLossError):
        for found in begun(start={0: 0, 1: 0}).arrow():
            rows += found.num_rows
    assert rows in (0, 10)


# Wrong use


def test_an_unknown_topic_or_partition_is_named(world: World) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="topic 'nowhere' does not exist"):
        read("nowhere")
    assert "nowhere" not in world.cluster.topics, "reading creates nothing"
    with pytest.raises(ConfigError, match="t-7 is not among the partitions"):
        read(start={7: 0})
    with pytest.raises(UnknownTopicOrPartitionError, match="t-7 does not exist"):
        read(None, assignments={TopicPartition("t", 7): (0, 5)})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"start": 5}, "start=5 is ambiguous"),
        ({"start": "newest"}, "start must be 'earliest', 'latest', an offset, an aware datetime, text such as .*; got 'newest'"),
        ({"start": "2026-01-31"}, "start='2026-01-31' has no time zone; write 2026-01-31T00:00Z for UTC"),
        ({"end": "2026-01-31T12:00"}, "end='2026-01-31T12:00' has no time zone; write 2026-01-31T12:00Z"),
        ({"start": "1h"}, "start must be"),
        ({"start": {"0": 1}}, "start: a partition is a number or a TopicPartition, got '0'"),
        ({"partitions": ["0"]}, "partitions: a partition is a number or a TopicPartition"),
        ({"topics": None, "assignments": {T0: (0, 1)}, "partitions": [0]}, "assignments name the partitions"),
        ({"keys": "k"}, r"for one write keys=\['k'\]"),
        ({"keys": [1]}, "keys are looked for as bytes"),
        ({"timestamps": 5}, "timestamps are a pair"),
        ({"timestamps": ("soon", None)}, "timestamps must be an aware datetime, milliseconds"),
        ({"progress": 1}, "progress is called with a ScanProgress"),
        ({"stop_at_end": True}, "'stop.at.end' does not apply to a scan: it ends by itself"),
        ({"consumer_timeout_ms": 1}, "'consumer.timeout.ms' does not apply to a scan"),
        ({"end": {0: -1}}, "end of 0 must be"),
        ({"start": {0: 7}, "end": {0: 6}}, "end of 0 is before start of 0, so there is nothing to read"),
        ({"start": "latest", "end": "earliest"}, "end is before start"),
        ({"start": "-1h", "end": {1: "-2h"}}, "end of 1 is before start of 1"),
        ({"topics": None, "assignments": {T0: (5, 3)}}, "end of t-0 is before start of t-0"),
        ({"timestamps": ("-1h", "-2h")}, "timestamps end before they begin"),
        ({"topics": ["t", "u"], "start": {0: 5}}, "partition 0 of which topic"),
        ({"topics": []}, "at least one topic"),
        ({"topics": None}, "either topics or assignments"),
        ({"on_data_loss": "ignore"}, "'raise' or 'skip'"),
        ({"auto_offset_reset": "latest"}, "does not apply to a scan"),
        ({"group_id": "g"}, "does not apply to a scan"),
    ],
)
def test_wrong_bounds_are_refused_at_once(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        begun(arguments.pop("topics", "t"), **arguments)


def test_a_naive_datetime_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        begun(start=datetime(2020, 1, 1))
