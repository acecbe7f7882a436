"""Turns Spark's reports of micro-batches into a table of times and rates. This module needs neither Spark nor a clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

PHASES = {
    "latestOffset": "find the newest offsets",
    "queryPlanning": "plan",
    "walCommit": "write offsets down",
    "addBatch": "read, compute, write",
    "commitOffsets": "write the commit down",
}
"""The phases of a micro-batch, under their names in Spark's durationMs."""


@dataclass(frozen=True)
class Batch:
    """A micro-batch. began_at: in seconds since the epoch. phases: seconds by Spark's names. dropped: records later than the watermark."""

    began_at: float
    seconds: float
    records: int
    phases: Mapping[str, float]
    dropped: int = 0

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Run:
    """A completed run of a job through one system.

    seconds: from before the query's start to its end. broker_bytes: the broker's memory after the run, None if unknown.
    """

    job: str
    system: str
    seconds: float
    batches: Sequence[Batch]
    broker_bytes: int | None = None

    @property
    def title(self) -> str:
        """The title of the run, such as "arrivals, levada"."""
        return title(self.job, self.system)

    @property
    def records(self) -> int:
        """Number of records that were read."""
        return sum(batch.records for batch in self.batches)

    @property
    def warm_rate(self) -> float | None:
        """Records per second without the first micro-batch, in which Spark starts its Python processes. None if there was only one."""
        later = [batch for batch in self.batches if batch.records][1:]
        seconds = sum(batch.seconds for batch in later)
        return sum(batch.records for batch in later) / seconds if seconds else None

    def phase(self, name: str) -> float:
        """Return the total seconds of a phase in all micro-batches."""
        return sum(batch.phases.get(name, 0.0) for batch in self.batches)


def title(job: str, system: str) -> str:
    """Return the title of a job's run through one system."""
    return f"{job}, {system}"


def batches(progress: Iterable[Mapping[str, Any]]) -> list[Batch]:
    """Return the micro-batches in a query's progress reports. Reports of triggers without a micro-batch are left out."""
    return [_batch(report) for report in progress if "addBatch" in report["durationMs"]]


def _batch(report: Mapping[str, Any]) -> Batch:
    phases = {name: ms / 1000 for name, ms in report["durationMs"].items()}
    began = datetime.fromisoformat(report["timestamp"]).timestamp()
    dropped = sum(operator["numRowsDroppedByWatermark"] for operator in report["stateOperators"])
    return Batch(began, report["batchDuration"] / 1000, report["numInputRows"], phases, dropped)


def table(runs: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and rows of a table: a row for each number and phase, a column for each run."""
    lines = [
        ("records", [f"{run.records:,}" for run in runs]),
        ("micro-batches", [f"{len(run.batches)}" for run in runs]),
        ("seconds, start to end", [f"{run.seconds:.1f}" for run in runs]),
        ("records/s, start to end", [f"{run.records / run.seconds:,.0f}" for run in runs]),
        ("records/s, once warm", ["-" if run.warm_rate is None else f"{run.warm_rate:,.0f}" for run in runs]),
        *((f"{name}: {meaning}, s", [f"{run.phase(name):.2f}" for run in runs]) for name, meaning in PHASES.items()),
        ("records dropped as too late", [f"{sum(batch.dropped for batch in run.batches):,}" for run in runs]),
        ("start of the query and the rest, s", [f"{run.seconds - sum(map(run.phase, PHASES)):.2f}" for run in runs]),
        ("broker's memory afterwards, MB", ["-" if run.broker_bytes is None else f"{run.broker_bytes / 1e6:,.0f}" for run in runs]),
    ]
    return ["", *(run.title for run in runs)], [[name, *cells] for name, cells in lines]


def bars(run: Run, runs: Sequence[Run]) -> list[tuple[float, float, float]]:
    """Return a bar for each micro-batch: its start in seconds after the first batch of all runs, its duration, its records per second."""
    zero = min(batch.began_at for other in runs for batch in other.batches)
    return [(batch.began_at - zero, batch.seconds, batch.rate) for batch in run.batches]
