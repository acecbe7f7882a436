"""What Spark tells of micro-batches becomes a table and the bars of a chart."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from demo_kit import load

figures, broker, chart = load("figures"), load("broker"), load("chart")


def report(second: int, records: int, duration_ms: int, dropped: int = 0, **phases: int) -> dict[str, Any]:
    return {
        "timestamp": f"2026-11-22T07:00:{second:02}.500Z",
        "numInputRows": records,
        "batchDuration": duration_ms,
        "durationMs": {"triggerExecution": duration_ms, **phases},
        "stateOperators": [{"numRowsDroppedByWatermark": dropped}],
    }


REPORTS = [
    report(0, 1_000, 4_000, addBatch=3_000, queryPlanning=500, latestOffset=100),
    report(4, 1_000, 1_000, addBatch=800, queryPlanning=50, walCommit=50, commitOffsets=20, dropped=2),
    report(5, 500, 1_000, addBatch=700, queryPlanning=50),
    report(6, 0, 500, addBatch=400),
    report(7, 0, 5, latestOffset=5),
]


def run(**changes: Any) -> Any:
    known = {"job": "arrivals", "system": "levada", "seconds": 8.0, "batches": figures.batches(REPORTS), "broker_bytes": 123_456_789}
    return figures.Run(**{**known, **changes})


def test_triggers_without_a_micro_batch_are_left_out() -> None:
    assert [batch.records for batch in figures.batches(REPORTS)] == [1_000, 1_000, 500, 0]


def test_the_warm_rate_leaves_the_first_micro_batch_out() -> None:
    assert run().warm_rate == 1_500 / 2.0
    assert run(batches=figures.batches(REPORTS[:1])).warm_rate is None


def test_the_table_has_a_column_for_each_run_and_a_line_for_each_phase() -> None:
    heads, rows = figures.table([run(), run(system="connector", seconds=16.0, broker_bytes=None)])
    assert heads == ["", "arrivals, levada", "arrivals, connector"]
    lines = {name: cells for name, *cells in rows}
    assert lines["records"] == ["2,500", "2,500"]
    assert lines["micro-batches"] == ["4", "4"]
    assert lines["records/s, start to end"] == ["312", "156"]
    assert lines["records/s, once warm"] == ["750", "750"]
    assert lines["addBatch: read, compute, write, s"] == ["4.90", "4.90"]
    assert lines["queryPlanning: plan, s"] == ["0.60", "0.60"]
    assert lines["records dropped as too late"] == ["2", "2"]
    assert lines["start of the query and the rest, s"] == [f"{8 - 5.67:.2f}", f"{16 - 5.67:.2f}"]
    assert lines["broker's memory afterwards, MB"] == ["123", "-"]


def test_the_phases_are_those_that_spark_measures() -> None:
    assert set(figures.PHASES) == {"latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets"}


def test_bars_stand_where_their_micro_batches_were() -> None:
    first, second = run(), run(batches=figures.batches([report(20, 300, 2_000, addBatch=1)]))
    assert figures.bars(first, [first, second])[:2] == [(0.0, 4.0, 250.0), (4.0, 1.0, 1_000.0)]
    assert figures.bars(second, [first, second]) == [(20.0, 2.0, 150.0)]


def day(name: str, date: str, flights: int, cancelled: int, delay_sum: int | None) -> dict[str, Any]:
    mean = None if delay_sum is None else delay_sum / (flights - cancelled)
    return {
        "name": name,
        "day": date,
        "flights": flights,
        "cancelled": cancelled,
        "dep_delay_sum": delay_sum,
        "dep_delay_mean": mean,
    }


def test_the_chart_has_the_least_punctual_carrier_first_and_gaps_where_nobody_departed() -> None:
    names, means = chart.mean_delays(
        [
            day("early", "2013-01-01", 1_000, 0, -2_000),
            day("late", "2013-01-02", 100, 50, 1_000),
            day("late", "2013-12-31", 10, 10, None),
            day("rare", "2013-01-01", 1, 0, 500),
        ]
    )
    assert names == ["late", "early"]
    assert (means[1, 0], means[0, 1]) == (-2.0, 20.0)
    assert np.isnan(means[0, [0, 364]]).all()


def test_the_small_chart_is_the_same_each_time_and_follows_the_mode_of_its_page(tmp_path: Path) -> None:
    rows = pa.Table.from_pylist([day("Slow Inc.", "2013-01-01", 100, 0, 500), day("Slow Inc.", "2014-01-01", 100, 0, 500)])
    drawn = [chart.draw_small(rows, tmp_path / name).read_text() for name in ("once.svg", "twice.svg")]
    assert drawn[0] == drawn[1]
    assert ">Slow</text>" in drawn[0]
    assert "prefers-color-scheme:dark" in drawn[0]
    assert chart.INK not in drawn[0].partition("<defs>")[2]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_the_memory_of_a_process_is_read(tmp_path: Path) -> None:
    assert 10e6 < broker.resident_bytes(Path(f"/proc/{os.getpid()}/status")) < 100e9
    assert broker.resident_bytes(tmp_path / "absent") is None
