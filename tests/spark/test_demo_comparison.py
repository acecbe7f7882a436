"""The demo's verdict is worth something: it sees one value that differs among millions, and then the demo fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import kafka_jars
import levada as lv
from demo_kit import load, small_year
from levada.testing import EmbeddedKafka

data, verify, demo = load("data"), load("verify"), load("__main__")
Run = load("figures").Run
DELAYS, ARRIVALS = verify.DELAYS, verify.ARRIVALS


def groups(**changes: Any) -> Any:
    rows: list[dict[str, Any]] = [
        {"carrier": carrier, "day": f"2013-01-0{day}", **dict.fromkeys(DELAYS.values, 10 * day), "name": carrier}
        for carrier in ("AA", "UA")
        for day in (1, 2)
    ]
    rows[1] |= {"dep_delay_mean": None, "dep_delay_max": None}
    rows[3] |= changes
    return pa.Table.from_pylist(rows, schema=DELAYS.columns)


def compare(expected: Any, found: Any) -> Any:
    return verify.compare("delays, levada", DELAYS, expected, back(found))


def back(rows: Any) -> Any:
    """Return a ReadBack in which each row comes from one record with the right key."""
    return verify.ReadBack(rows, rows.num_rows, [])


def test_the_same_is_equal_in_any_order() -> None:
    comparison = compare(groups(), groups().take([3, 1, 0, 2]))
    assert comparison.equal
    assert comparison.sentence == "delays, levada: all 4 groups of carrier and day equal, 36 values compared, none differs"


@pytest.mark.parametrize("name", [name for name in DELAYS.values if name != "name"])
def test_one_figure_that_differs_is_found(name: Any) -> None:
    found = compare(groups(), groups(**{name: 21}))
    values = ("21.0", "20.0") if name.endswith("mean") else ("21", "20")
    assert found.examples == [f"carrier UA, day 2013-01-02: {name} is {values[0]}, expected {values[1]}"]
    assert found.sentence == "delays, levada: differences found: 1, among 4 groups of carrier and day"
    assert not compare(groups(), groups(**{name: None})).equal
    assert not compare(groups(**{name: None}), groups()).equal


def test_a_name_that_differs_is_found() -> None:
    assert compare(groups(), groups(name="XX")).examples == ["carrier UA, day 2013-01-02: name is XX, expected UA"]


def test_a_mean_differs_by_its_last_bit() -> None:
    assert not compare(groups(dep_delay_mean=0.3), groups(dep_delay_mean=0.1 + 0.2)).equal


def test_missing_and_surplus_groups_are_found() -> None:
    all_groups = groups()
    assert compare(all_groups, all_groups.slice(1)).examples == ["carrier AA, day 2013-01-01 is missing"]
    assert compare(all_groups.slice(1), all_groups).examples == ["carrier AA, day 2013-01-01 is not expected"]


def test_a_difference_beside_a_missing_group_is_found() -> None:
    assert compare(groups(), groups(late=21).slice(1)).examples == [
        "carrier AA, day 2013-01-01 is missing",
        "carrier UA, day 2013-01-02: late is 21, expected 20",
    ]


def test_of_many_differences_all_are_counted_and_a_few_shown() -> None:
    expected = pa.table({"id": range(100), "carrier": ["AA"] * 100, "late": [False] * 100, "made_up": range(100)})
    found = expected.set_column(3, "made_up", pa.array(range(1, 101)))
    comparison = verify.compare("arrivals", ARRIVALS, expected, back(found))
    assert comparison.sentence == "arrivals: differences found: 100, among 100 arrivals"
    assert comparison.examples == [f"id {number}: made_up is {number + 1}, expected {number}" for number in range(verify.SHOWN)]


def test_nothing_came_back() -> None:
    assert not compare(groups(), DELAYS.columns.empty_table()).equal


def test_one_value_that_differs_fails_the_demo() -> None:
    shown = Shown()
    good, bad = compare(groups(), groups()), compare(groups(), groups(late=21))
    assert demo.conclude([good, good], shown) == 0
    assert demo.conclude([good, bad], shown) == 1
    assert shown.lines[-2:] == ["  differs: carrier UA, day 2013-01-02: late is 21, expected 20", f"False {bad.sentence}"]


def test_every_run_is_compared_with_what_its_own_job_should_write() -> None:
    shown = Shown()
    year = small_year()
    arrivals, delays = data.expected_arrivals(year, 5), data.expected_delays(year, 5)
    runs = [Run("arrivals", "levada", 1.0, []), Run("delays", "connector", 1.0, []), Run("delays", "levada", 1.0, [])]
    comparisons = demo.verify(year, 5, runs, [back(arrivals), back(delays), back(delays.slice(1))], shown)
    assert [comparison.equal for comparison in comparisons] == [True, True, False]
    assert demo.conclude(comparisons, shown) == 1
    assert "1, among" in shown.lines[-1]


def test_without_maven_only_levada_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable() -> None:
        raise kafka_jars.KafkaUnavailable("no Maven: `mvn` is not on PATH")

    monkeypatch.setattr(kafka_jars, "spark_connector", unavailable)
    shown = Shown()
    assert demo.connector_jars(shown) == []
    assert shown.lines == ["not compared: no Maven: `mvn` is not on PATH"]


class Shown:
    """A console that stores the lines that it shows."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextmanager
    def stage(self, title: str) -> Iterator[Any]:
        yield SimpleNamespace(done=self.lines.append)

    def say(self, text: str) -> None:
        self.lines.append(text)

    def verdict(self, good: bool, text: str) -> None:
        self.lines.append(f"{good} {text}")


def test_of_repeated_records_the_last_counts_and_those_before_have_to_be_the_same() -> None:
    rows = pa.table({"id": [1, 2, 1, 3, 3, 2], "made_up": [10, None, 30, 40, 40, None]})
    last, differing = verify.last_of_each(rows, ["id"])
    assert last.to_pylist() == [{"id": 1, "made_up": 30}, {"id": 2, "made_up": None}, {"id": 3, "made_up": 40}]
    assert differing == verify.Finding(1, ["id 1 was written before with other values"])


def test_repeated_groups_are_told_apart_by_all_their_keys() -> None:
    rows = pa.table({"carrier": ["UA", "AA", "UA", "UA"], "day": ["1", "1", "2", "1"], "late": [1, 2, 3, 4]})
    last, differing = verify.last_of_each(rows, ["carrier", "day"])
    assert last["late"].to_pylist() == [2, 4, 3]
    assert differing.examples == ["carrier UA, day 1 was written before with other values"]


def test_rows_without_a_key_are_not_taken_for_repetitions() -> None:
    rows = pa.table({"id": pa.array([None, 1, None], pa.int64()), "late": [True, True, True]})
    assert verify.last_of_each(rows, ["id"]) == (verify.in_order(rows, ["id"]), verify.Finding(0, []))


@pytest.mark.parametrize("rows", [0, 1])
def test_so_few_rows_are_not_repeated(rows: int) -> None:
    last, differing = verify.last_of_each(groups().slice(0, rows), DELAYS.keys)
    assert (last.num_rows, differing.places) == (rows, 0)


@pytest.mark.parametrize(
    ("key", "value", "example"),
    [
        (b"AA", b'{"id": 1, "carrier": "AA", "late": true, "made_up": 1}', None),
        (b"UA", b'{"id": 1, "carrier": "AA", "late": true, "made_up": 1}', "the record of arrivals with the key b'UA' should have b'AA'"),
        (None, b'{"id": 1, "carrier": "AA", "late": true, "made_up": 1}', "the record of arrivals with the key None should have b'AA'"),
        (b"\xff", b'{"late": true}', r"the record of arrivals with the key b'\xff' should have None"),
        (b"AA", None, "2 records hold 1 arrivals"),
    ],
)
def test_the_key_of_a_record_is_compared_with_its_value(key: Any, value: Any, example: Any) -> None:
    good = b'{"id": 2, "carrier": "UA", "late": false, "made_up": 2}'
    rows = verify.parsed(pa.array([good, value], pa.binary()), ARRIVALS.columns)
    assert verify.misfit(pa.array([b"UA", key], pa.binary()), rows, ARRIVALS).examples == ([] if example is None else [example])
    delays = groups().slice(2, 2)
    assert verify.misfit(pa.array([b"UA|2013-01-01", b"UA|2013-01-02"], pa.binary()), delays, DELAYS).places == 0


def test_what_is_wrong_with_keys_and_repetitions_fails_the_demo() -> None:
    with EmbeddedKafka() as broker, lv.KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for key, made_up in ((b"AA", 1), (b"AA", 2), (b"UA", 2)):
            value = json.dumps({"id": 1, "carrier": "AA", "late": True, "made_up": made_up}).encode()
            producer.send("arrivals", value, key=key, partition=0)
        producer.flush()
        found = verify.read_back(broker.bootstrap_servers, "arrivals", ARRIVALS)
    assert found.records == 3
    comparison = verify.compare("arrivals", ARRIVALS, found.rows, found)
    assert comparison.examples == [
        "the record of arrivals with the key b'UA' should have b'AA'",
        "id 1 was written before with other values",
    ]
    assert not comparison.equal


def test_values_are_parsed_by_the_columns_that_a_job_writes() -> None:
    rows = [{"id": 1, "carrier": "AA", "late": True, "made_up": -3}, {"id": 2, "carrier": "UA", "late": False, "made_up": 4}]
    values = pa.array([json.dumps(row).encode() for row in rows], pa.binary())
    assert verify.parsed(values.slice(1), ARRIVALS.columns).to_pylist() == rows[1:]


def test_a_value_with_a_field_that_nobody_expects_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid):
        verify.parsed(pa.array([b'{"id": 1, "surplus": 2}']), ARRIVALS.columns)


def test_systems_take_turns_in_going_first() -> None:
    assert list(demo.in_turns(["arrivals", "delays"], ["levada", "connector"])) == [
        ("arrivals", "levada"),
        ("arrivals", "connector"),
        ("delays", "connector"),
        ("delays", "levada"),
    ]
