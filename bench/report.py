"""Rows of results: medians, ratios, a table for people and JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from measure import Sample

RESULTS = Path(__file__).parent / "results"
OURS = "levada"


@dataclass
class Row:
    """One system on one case. ratio: records/s of levada's best way to those of this system's best way on the same case."""

    case: str
    system: str
    value_bytes: int
    codec: str
    records_per_s: int
    bytes_per_s: int
    client_cpu_us: float
    ratio: float = 0.0

    @property
    def family(self) -> str:
        return self.system.split()[0]

    @property
    def subject(self) -> tuple[str, int, str]:
        return self.case, self.value_bytes, self.codec


def row(case: str, system: str, value_bytes: int, codec: str, samples: Sequence[Sample]) -> Row:
    """Sum up the runs of one system on one case by their medians."""
    rate = median(sample.records / sample.seconds for sample in samples)
    cpu_us = median(sample.cpu_seconds / sample.records for sample in samples) * 1e6
    return Row(case, system, value_bytes, codec, round(rate), round(rate * value_bytes), round(cpu_us, 3))


def fill_in_ratios(rows: Sequence[Row]) -> None:
    """Relate levada's best to each system's best, case by case."""
    for one in rows:
        ours, theirs = _best(rows, one, OURS), _best(rows, one, one.family)
        one.ratio = round(ours / theirs, 3) if ours and theirs else 0.0


def _best(rows: Sequence[Row], like: Row, family: str) -> int:
    return max((other.records_per_s for other in rows if other.subject == like.subject and other.family == family), default=0)


def write(name: str, rows: Sequence[Any]) -> Path:
    """Save rows, which are dataclasses, as bench/results/<name>.json."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps([asdict(one) for one in rows], indent=1) + "\n")
    return path


def table(rows: Sequence[Row]) -> str:
    """Lay the rows out as a Markdown table."""
    lines = [
        "| case | value | codec | system | k records/s | MB/s | client CPU us | levada's best / this one's best |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in rows:
        ratio = "" if one.family == OURS or not one.ratio else f"{one.ratio:.2f}"
        rate, volume = f"{one.records_per_s / 1e3:.0f}", f"{one.bytes_per_s / 1e6:.0f}"
        lines.append(
            f"| {one.case} | {one.value_bytes} B | {one.codec} | {one.system} | {rate} | {volume} | {one.client_cpu_us:.2f} | {ratio} |"
        )
    return "\n".join(lines)
