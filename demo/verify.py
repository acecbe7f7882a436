"""Reads the results back from Kafka, and compares them with the expected ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

import levada as lv

SHOWN = 5


@dataclass(frozen=True)
class Result:
    """The result of a job. rows: name of its rows, in plural. keys: the columns that identify a row. key: the columns in a record's key."""

    rows: str
    keys: list[str]
    key: list[str]
    columns: pa.Schema

    @property
    def values(self) -> list[str]:
        """The columns that are compared."""
        return [name for name in self.columns.names if name not in self.keys]


ARRIVALS = Result(
    "arrivals",
    ["id"],
    ["carrier"],
    pa.schema([("id", pa.int64()), ("carrier", pa.string()), ("late", pa.bool_()), ("made_up", pa.int64())]),
)
SUMS = ["flights", "cancelled", "late", "in_rain", "arr_delay_sum", "dep_delay_sum"]
DELAYS = Result(
    "groups of carrier and day",
    ["carrier", "day"],
    ["carrier", "day"],
    pa.schema(
        [("carrier", pa.string()), ("day", pa.string()), ("name", pa.string())]
        + [(name, pa.int64()) for name in SUMS]
        + [("dep_delay_mean", pa.float64()), ("dep_delay_max", pa.int64())]
    ),
)


class Finding(NamedTuple):
    """A difference. places: number of places that differ. examples: a sentence for each of the first places."""

    places: int
    examples: list[str]


class ReadBack(NamedTuple):
    """The content of a topic. rows: the last row of each key. records: number of records. findings: faults of the records."""

    rows: pa.Table
    records: int
    findings: list[Finding]


@dataclass(frozen=True)
class Comparison:
    """The outcome of a comparison. what: title of the run. rows: expected number of rows."""

    what: str
    result: Result
    rows: int
    findings: list[Finding]

    @property
    def values(self) -> int:
        """Number of values that were compared."""
        return self.rows * len(self.result.values)

    @property
    def equal(self) -> bool:
        """Whether every value of every row is the same, to the last bit."""
        return not any(finding.places for finding in self.findings)

    @property
    def examples(self) -> list[str]:
        """Sentences about differences, a few of each kind."""
        return [example for finding in self.findings for example in finding.examples]

    @property
    def sentence(self) -> str:
        """The outcome as a sentence."""
        if self.equal:
            return f"{self.what}: all {self.rows:,} {self.result.rows} equal, {self.values:,} values compared, none differs"
        places = sum(finding.places for finding in self.findings)
        return f"{self.what}: differences found: {places:,}, among {self.rows:,} {self.result.rows}"


def read_back(servers: str, topic: str, result: Result) -> ReadBack:
    """Return the last row of each key as columns.

    A sink that writes at least once writes the rows of a micro-batch again if Spark repeats the batch.
    """
    parts, misfits = [result.columns.empty_table()], []
    for batch in lv.scan(topic, bootstrap_servers=servers, columns=["key", "value"], isolation_level="read_committed").arrow():
        rows = parsed(batch.column("value"), result.columns)
        misfits.append(misfit(batch.column("key"), rows, result))
        parts.append(rows)
    rows = pa.concat_tables(parts)
    last, repeated = last_of_each(rows, result.keys)
    return ReadBack(last, rows.num_rows, [_together(misfits), repeated])


def parsed(values: pa.Array, columns: pa.Schema) -> pa.Table:
    """Parse JSON objects with pyarrow's parser, which shares no code with levada's. A null value has no row."""
    lines = pc.binary_join_element_wise(values, b"", b"\n")
    options = json.ParseOptions(explicit_schema=columns, unexpected_field_behavior="error")
    return json.read_json(pa.BufferReader(lines.buffers()[2]), parse_options=options).select(columns.names)


def misfit(keys: pa.Array, rows: pa.Table, result: Result) -> Finding:
    """Find records whose key does not belong to their row, or that have no row."""
    if len(keys) != rows.num_rows:
        return Finding(abs(len(keys) - rows.num_rows), [f"{len(keys):,} records hold {rows.num_rows:,} {result.rows}"])
    wanted = pc.binary_join_element_wise(*(rows[name] for name in result.key), "|").cast(keys.type)
    wrong = pc.indices_nonzero(pc.invert(_same(pa.chunked_array([keys]), wanted)))
    first = wrong.slice(0, SHOWN).to_pylist()
    return Finding(len(wrong), [f"the record of {result.rows} with the key {keys[row]} should have {wanted[row]}" for row in first])


def _together(findings: Sequence[Finding]) -> Finding:
    examples = [example for finding in findings for example in finding.examples]
    return Finding(sum(finding.places for finding in findings), examples[:SHOWN])


def last_of_each(rows: pa.Table, keys: Sequence[str]) -> tuple[pa.Table, Finding]:
    """Return the last row of each key, sorted by key, and a finding about earlier rows of the same key that differ.

    A key is always in the same partition, so its rows are in the order of the log.
    """
    # Sorting is stable, and takes half the memory of grouping millions of keys.
    ordered = in_order(rows, keys)
    one, next_one = ordered.slice(0, max(len(rows) - 1, 0)), ordered.slice(1)
    # A row whose key is null counts as a different row.
    is_next_other = pc.fill_null(reduce(pc.or_, [pc.not_equal(one[name], next_one[name]) for name in keys]), True)
    is_last = pa.chunked_array([*is_next_other.chunks, pa.array([True] * min(len(rows), 1), pa.bool_())])
    last = ordered.filter(is_last)
    if len(last) == len(rows):
        return last, Finding(0, [])
    is_same = reduce(pc.and_, [_same(one[name], next_one[name]) for name in rows.column_names])
    differing = pc.indices_nonzero(pc.invert(pc.or_(is_next_other, is_same)))
    where = one.select(keys).take(differing.slice(0, SHOWN)).to_pylist()
    return last, Finding(len(differing), [f"{_name(key)} was written before with other values" for key in where])


def _same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return for each row whether two columns are equal or both null."""
    return pc.or_(pc.fill_null(pc.equal(one, other), False), pc.and_(pc.is_null(one), pc.is_null(other)))


def in_order(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the table sorted by keys. Rows with the same key keep their order."""
    return table.take(pc.sort_indices(table, [(name, "ascending") for name in keys]))


def compare(what: str, result: Result, expected: pa.Table, found: ReadBack) -> Comparison:
    """Compare every value of every row. Values must be exactly equal: sums and counts are whole numbers, and means are their quotients."""
    findings = list(found.findings)
    ours, theirs = in_order(expected, result.keys), in_order(found.rows, result.keys)
    if not ours.select(result.keys).equals(theirs.select(result.keys)):
        findings += [_only_in(ours, theirs, result, "missing"), _only_in(theirs, ours, result, "not expected")]
        ours, theirs = _shared(ours, theirs, result), _shared(theirs, ours, result)
    findings += [_differing(ours, theirs, result, name) for name in result.values]
    return Comparison(what, result, expected.num_rows, findings)


def _shared(one: pa.Table, other: pa.Table, result: Result) -> pa.Table:
    return in_order(one.join(other.select(result.keys), result.keys, join_type="inner"), result.keys)


def _only_in(one: pa.Table, other: pa.Table, result: Result, what: str) -> Finding:
    rows = in_order(one.select(result.keys).join(other.select(result.keys), result.keys, join_type="left anti"), result.keys)
    return Finding(rows.num_rows, [f"{_name(row)} is {what}" for row in rows.slice(0, SHOWN).to_pylist()])


def _differing(ours: pa.Table, theirs: pa.Table, result: Result, name: str) -> Finding:
    expected, found = ours[name], theirs[name]
    rows = pc.indices_nonzero(pc.invert(_same(expected, found)))
    first = rows.slice(0, SHOWN)
    where = ours.select(result.keys).take(first).to_pylist()
    examples = [
        f"{_name(key)}: {name} is {found[row].as_py()}, expected {expected[row].as_py()}"
        for row, key in zip(first.to_pylist(), where, strict=True)
    ]
    return Finding(len(rows), examples)


def _name(key: dict) -> str:
    return ", ".join(f"{name} {value}" for name, value in key.items())


def summary(delays: pa.Table) -> tuple[Sequence[str], list[list[str]]]:
    """Return a table with a row for each carrier over all years, sorted by mean delay, the longest first."""
    sums = [(name, "sum") for name in ("flights", "cancelled", "late", "dep_delay_sum", "in_rain")]
    carriers = delays.group_by(["carrier", "name"]).aggregate([*sums, ("dep_delay_max", "max")]).to_pylist()
    heads = ["carrier", "flights", "mean delay", "late", "cancelled", "in rain", "worst"]
    return heads, [_row(carrier) for carrier in sorted(carriers, key=_mean_delay, reverse=True)]


def _row(carrier: dict) -> list[str]:
    flights = carrier["flights_sum"]
    shares = [f"{carrier[name] / flights:.1%}" for name in ("late_sum", "cancelled_sum", "in_rain_sum")]
    name = re.sub(r" (Inc\.|Co\.|Corporation)$", "", carrier["name"])
    return [name, f"{flights:,}", f"{_mean_delay(carrier):.1f} min", *shares, f"{carrier['dep_delay_max_max'] / 60:.1f} h"]


def _mean_delay(carrier: dict) -> float:
    departed = carrier["flights_sum"] - carrier["cancelled_sum"]
    return carrier["dep_delay_sum_sum"] / departed if departed else 0.0
