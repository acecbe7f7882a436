"""The digest of rows: the same for the same rows in any order and division, another one for any other row."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from levada.record.columnar.digest import rows_digest

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ROWS: list[dict[str, Any]] = [
    {"key": b"a", "value": b"1", "timestamp": 5, "partition": 0, "headers": [{"key": "h", "value": b"x"}]},
    {"key": None, "value": b"1", "timestamp": 5, "partition": None, "headers": None},
    {"key": b"", "value": None, "timestamp": None, "partition": 1, "headers": []},
    {
        "key": b"b",
        "value": b"22" * 50,
        "timestamp": -7,
        "partition": 3,
        "headers": [{"key": "h", "value": None}, {"key": "i", "value": b""}],
    },
]
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("partition", pa.int32()),
        ("headers", HEADERS),
    ]
)


def digest(rows: list[dict[str, Any]], topic: str = "t") -> int:
    return rows_digest(pa.RecordBatch.from_pylist(rows, schema=SCHEMA), topic)


def test_neither_order_nor_division_matters() -> None:
    rows = ROWS * 20
    expected = digest(rows)
    random.Random(1).shuffle(rows)
    assert digest(rows) == expected
    assert (digest(rows[:7]) + digest(rows[7:])) % 2**64 == expected
    whole = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    assert (rows_digest(whole.slice(0, 13), "t") + rows_digest(whole.slice(13), "t")) % 2**64 == expected
    assert digest([]) == 0


@pytest.mark.parametrize("row", range(len(ROWS)))
@pytest.mark.parametrize("column", SCHEMA.names)
def test_every_value_counts(row: int, column: str) -> None:
    others: dict[str, list[Any]] = {
        "key": [b"c", b"", None],
        "value": [b"2", b"", None],
        "timestamp": [6, 0, None],
        "partition": [2, 7, None],
        "headers": [None, [], [{"key": "h", "value": b"y"}], [{"key": "j", "value": b"x"}], [{"key": "h", "value": b"x"}] * 2],
    }
    seen = {digest(ROWS)}
    for other in others[column]:
        if other != ROWS[row][column]:
            changed = [dict(each) for each in ROWS]
            changed[row][column] = other
            seen.add(digest(changed))
    assert len(seen) == 1 + sum(other != ROWS[row][column] for other in others[column])


def test_values_do_not_count_for_one_another() -> None:
    swapped = [ROWS[0] | {"key": b"1", "value": b"a"}, *ROWS[1:]]
    exchanged = [ROWS[0] | {"key": b"b"}, *ROWS[1:3], ROWS[3] | {"key": b"a"}]
    assert len({digest(ROWS), digest(swapped), digest(exchanged), digest(ROWS, "u"), digest(ROWS * 2), digest(ROWS[1:])}) == 6


def test_text_counts_as_its_bytes() -> None:
    assert rows_digest(pa.record_batch({"value": ["ü", None]}), "t") == rows_digest(pa.record_batch({"value": ["ü".encode(), None]}), "t")
