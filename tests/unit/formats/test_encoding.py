"""The columns of send_arrow() in the types that formats write."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra arrow is not installed")

import pyarrow as pa

from levada.formats.encoding import plain
from levada.formats.writing import as_numbers, cast

NOON = dt.datetime(2024, 1, 2, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.null(), [None, None, None]),
        (pa.list_view(pa.int32()), [[1, 2], None, [3]]),
        (pa.large_list_view(pa.large_string()), [[], ["a", None], ["b"]]),
        (pa.list_(pa.timestamp("s", "UTC"), 2), [[NOON, None], None, [None, NOON]]),
        (pa.list_(pa.time64("ns")), [[dt.time(1, 2, 3, 4)], None, [None]]),
        (pa.time32("s"), [dt.time(1, 2, 3), None, None]),
        (pa.map_(pa.large_string(), pa.large_list(pa.null())), [[("a", [None]), ("b", None)], None, [("c", [None, None])]]),
        (pa.struct({"n": pa.null(), "d": pa.uint8()}), [{"n": None, "d": 1}, None, {"n": None, "d": 2}]),
    ],
    ids=str,
)
def test_values_stay_the_same_in_slices_and_in_structs(kind: Any, values: list[Any]) -> None:
    rows = [{"v": value, "t": NOON} for value in values]
    whole = pa.array([None, *rows, None], pa.struct({"v": kind, "t": pa.timestamp("ms", "UTC")}))
    for part, expected in ((whole, [None, *rows, None]), (whole.slice(2), [*rows[1:], None]), (whole.slice(1, 1), rows[:1])):
        found = cast(part, plain(part.type))
        found.validate(full=True)
        assert (found.type, found.to_pylist()) == (plain(part.type), expected)
        numbers = cast(found, as_numbers(found.type))
        numbers.validate(full=True)
        assert numbers.is_valid().to_pylist() == found.is_valid().to_pylist()
