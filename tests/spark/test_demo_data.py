"""A year of flights becomes as many records as are wanted, and so does what is expected of them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from demo_kit import load, small_year

data, settings, jobs = load("data"), load("settings"), load("jobs")


def test_years_follow_one_another_and_the_last_is_cut() -> None:
    parts = list(data.years(small_year(), 8))
    assert [part.num_rows for part in parts] == [3, 3, 2]
    table = pa.concat_tables(parts)
    assert table["id"].to_pylist() == list(range(8))
    assert table["scheduled"].to_pylist()[2:5] == ["2013-12-31T23:50", "2014-01-01T05:15", "2014-06-30T12:00"]
    assert table["carrier"].to_pylist() == ["UA", "AA", "UA"] * 2 + ["UA", "AA"]


def test_a_date_that_is_in_the_next_year_stays_there() -> None:
    assert data.years_later(small_year(), "hour_utc", 8)["hour_utc"].to_pylist() == ["2021-01-01T10", "2021-06-30T16", "2022-01-01T04"]


def test_less_than_a_year_is_its_beginning() -> None:
    assert [part.num_rows for part in data.years(small_year(), 2)] == [2]


def test_arrivals_are_expected_of_flights_that_arrived() -> None:
    assert data.expected_arrivals(small_year(), 4).to_pylist() == [
        {"id": 0, "carrier": "UA", "late": True, "made_up": -20},
        {"id": 2, "carrier": "UA", "late": False, "made_up": 10},
        {"id": 3, "carrier": "UA", "late": True, "made_up": -20},
    ]


@pytest.mark.parametrize("records", [1, 3, 5, 6])
def test_delays_are_expected_of_each_day_of_each_year(records: int) -> None:
    found = data.expected_delays(small_year(), records)
    days = {(row["carrier"], row["day"]): row for row in found.to_pylist()}
    flights = pa.concat_tables(data.years(small_year(), records)).to_pylist()
    assert set(days) == {(flight["carrier"], flight["scheduled"][:10]) for flight in flights}
    assert sum(row["flights"] for row in days.values()) == records
    assert days["UA", "2013-01-01"] == {
        "carrier": "UA", "day": "2013-01-01", "name": "United Air Lines Inc.", "flights": 1, "cancelled": 0, "late": 0, "in_rain": 0,
        "arr_delay_sum": 25, "dep_delay_sum": 5, "dep_delay_mean": 5.0, "dep_delay_max": 5,
    }  # fmt: skip


def test_all_years_have_the_weather_of_2013() -> None:
    assert data.hour_of_year(pa.chunked_array([["2013-01-31T23", "2021-01-31T23"]])).to_pylist() == ["01-31T23"] * 2


def test_columns_become_json() -> None:
    table = pa.table({"carrier": ["AA", 'a"b\\c', "ä"], "delay": pa.array([-3, None, 12])})
    assert [json.loads(line) for line in data.to_json(table).to_pylist()] == table.to_pylist()


def test_the_closing_record_is_later_than_all_others() -> None:
    assert [data.last_year(small_year(), records) for records in (1, 3, 4)] == [2013, 2013, 2014]
    assert json.loads(jobs.closing(2021)) == {"carrier": "--", "scheduled": "2022-03-01T00:00"}


def test_settings_come_from_the_environment() -> None:
    assert settings.settings({}) == settings.Settings(None, 3_000_000, False, False)
    asked = {"BOOTSTRAP": "host:9092", "DEMO_RECORDS": "20000000", "COMPARE": "1"}
    assert settings.settings(asked) == settings.Settings("host:9092", 20_000_000, True, False)
    assert settings.settings({"BOOTSTRAP": "", "DEMO_RECORDS": "", "COMPARE": "0", "KILL": "0"}) == settings.settings({})


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="KILL=1 looks for processes in /proc")
def test_kill_asks_for_a_driver_that_dies() -> None:
    assert settings.settings({"KILL": "1"}).is_killed


@pytest.mark.parametrize("text", ["many", "0", "-3", "1.5"])
def test_a_number_of_records_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SystemExit, match=f"DEMO_RECORDS={text}: give a whole number above 0"):
        settings.settings({"DEMO_RECORDS": text})
