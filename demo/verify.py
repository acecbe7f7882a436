"""What came back, against what should have."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

import levada as lv

GROUP = ["carrier", "day"]
FIGURES = ["flights", "cancelled", "late", "in_rain", "arr_delay_sum", "dep_delay_sum", "dep_delay_mean", "dep_delay_max"]
COLUMNS = pa.schema(
    [(name, pa.string()) for name in ("carrier", "name", "day")]
    + [(figure, pa.float64() if figure.endswith("mean") else pa.int64()) for figure in FIGURES]
)


@dataclass(frozen=True)
class Result:
    """Outcome of the comparison."""

    groups: int
    differences: list[str]

    @property
    def equal(self) -> bool:
        """Whether every figure of every group is the same, to the last bit."""
        return not self.differences

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        if self.equal:
            return f"all {self.groups:,} groups equal: {self.groups * len(FIGURES):,} figures compared, none differs"
        return f"{len(self.differences):,} differences in {self.groups:,} groups"


def read_back(servers: str, topic: str) -> tuple[pa.Table, int]:
    """Return the last value of each key as columns, and how many records there were.

    The sink writes at least once: a micro-batch that Spark repeats is there twice, with the same values.
    """
    records = lv.scan(topic, bootstrap_servers=servers, columns=["key", "value", "partition", "offset"]).to_table()
    # A key is always in the same partition, so its last value is the one with the highest offset.
    in_order = records.sort_by([("partition", "ascending"), ("offset", "ascending")])
    last = in_order.group_by("key", use_threads=False).aggregate([("value", "last")])
    lines = b"\n".join(last["value_last"].to_pylist())
    return json.read_json(io.BytesIO(lines), parse_options=json.ParseOptions(explicit_schema=COLUMNS)), records.num_rows


def compare(expected: pa.Table, found: pa.Table) -> Result:
    """Compare every figure of every group. Sums and counts are whole numbers and means are quotients of such, so equal means equal."""
    differences = [*_only_in(expected, found, "missing"), *_only_in(found, expected, "not expected")]
    ours, theirs = _shared(expected, found), _shared(found, expected)
    for figure in ["name", *FIGURES]:
        differences += _differing(ours, theirs, figure)
    return Result(expected.num_rows, differences)


def _shared(one: pa.Table, other: pa.Table) -> pa.Table:
    return one.join(other.select(GROUP), GROUP, join_type="inner").sort_by([(name, "ascending") for name in GROUP])


def _only_in(one: pa.Table, other: pa.Table, what: str) -> list[str]:
    rows = one.select(GROUP).join(other.select(GROUP), GROUP, join_type="left anti").to_pylist()
    return [f"{row['carrier']} on {row['day']} is {what}" for row in rows]


def _differing(ours: pa.Table, theirs: pa.Table, figure: str) -> list[str]:
    expected, found = ours[figure], theirs[figure]
    same = pc.fill_null(pc.equal(expected, found), False)
    both_null = pc.and_(pc.is_null(expected), pc.is_null(found))
    rows = pc.indices_nonzero(pc.invert(pc.or_(same, both_null)))
    where = ours.select(GROUP).take(rows).to_pylist()
    return [
        f"{group['carrier']} on {group['day']}: {figure} is {found[row].as_py()}, expected {expected[row].as_py()}"
        for row, group in zip(rows.to_pylist(), where, strict=True)
    ]


def summary(delays: pa.Table) -> tuple[Sequence[str], list[list[str]]]:
    """Return a small table: the year of each carrier, the least punctual first."""
    sums = [(name, "sum") for name in ("flights", "cancelled", "late", "dep_delay_sum", "in_rain")]
    year = delays.group_by(["carrier", "name"]).aggregate([*sums, ("dep_delay_max", "max")]).to_pylist()
    heads = ["carrier", "flights", "mean delay", "late", "cancelled", "in rain", "worst"]
    return heads, [_row(carrier) for carrier in sorted(year, key=_mean_delay, reverse=True)]


def _row(year: dict) -> list[str]:
    flights = year["flights_sum"]
    shares = [f"{year[name] / flights:.1%}" for name in ("late_sum", "cancelled_sum", "in_rain_sum")]
    name = re.sub(r" (Inc\.|Co\.|Corporation)$", "", year["name"])
    return [name, f"{flights:,}", f"{_mean_delay(year):.1f} min", *shares, f"{year['dep_delay_max_max'] / 60:.1f} h"]


def _mean_delay(year: dict) -> float:
    return year["dep_delay_sum_sum"] / (year["flights_sum"] - year["cancelled_sum"])
