"""JSON to Arrow columns: levada's decoder, pyarrow's reader and Python's json (and orjson, if installed), on one core.

    python bench/json_columns.py [--rows 200000] [--rounds 7]

Values are objects of five flat fields and about 100 bytes, as json.dumps writes them and without white space. In `damaged` one value in a
hundred is incomplete, which pyarrow's reader cannot read at all.
"""

from __future__ import annotations

import argparse
import io
import json
import random
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
import pyarrow.json as pa_json

from codec_timing import Case, measure, pin_to_one_core
from levada.record.columnar.json import JsonDecoder

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("active", pa.bool_()),
        ("seen_at", pa.timestamp("us", tz="UTC")),
    ]
)


def documents(rows: int, separators: tuple[str, str]) -> list[bytes]:
    """Return JSON objects with the fields of SCHEMA, the same objects in every run."""
    chance = random.Random(1)
    return [
        json.dumps(
            {
                "id": chance.randrange(10**9),
                "name": f"customer-{chance.randrange(10**6)}",
                "price": chance.randrange(10**6) / 100,
                "active": chance.random() < 0.5,
                "seen_at": f"2024-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}T{chance.randrange(24):02}:15:30.123Z",
            },
            separators=separators,
        ).encode()
        for _ in range(rows)
    ]


def by_levada(values: list[bytes]) -> Callable[[], int]:
    decoder = JsonDecoder(SCHEMA)
    array = pa.array(values, pa.binary())
    return lambda: len(decoder.decode(array).rows)


def by_pyarrow(values: list[bytes]) -> Callable[[], int]:
    lines = b"\n".join(values)
    parse = pa_json.ParseOptions(explicit_schema=SCHEMA)
    read = pa_json.ReadOptions(use_threads=False)
    return lambda: len(pa_json.read_json(io.BytesIO(lines), read_options=read, parse_options=parse))


def by_objects(values: list[bytes], loads: Callable[[bytes], Any]) -> Callable[[], int]:
    # Times stay strings: converting them would take more time.
    schema = pa.schema([field if field.name != "seen_at" else field.with_type(pa.string()) for field in SCHEMA])
    return lambda: len(pa.Table.from_pylist([loads(value) for value in values], schema=schema))


def cases(rows: int) -> list[Case]:
    """Return a case for every way to read every kind of values."""
    spaced, tight = documents(rows, (", ", ": ")), documents(rows, (",", ":"))
    damaged = [value if row % 100 else value[:-10] for row, value in enumerate(tight)]
    found = []
    for subject, values in (("spaces", spaced), ("tight", tight), ("damaged", damaged)):
        ways = {"levada": by_levada(values)}
        if subject != "damaged":
            ways |= {"pyarrow.json": by_pyarrow(values), "json": by_objects(values, json.loads)}
            if find_spec("orjson"):
                import orjson

                ways["orjson"] = by_objects(values, orjson.loads)
        found += [Case(subject, name, run, rows, sum(map(len, values))) for name, run in ways.items()]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="JSON to Arrow columns, in CPU time of one core")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    pin_to_one_core()
    found = cases(options.rows)
    measure(found, options.rounds)
    for case in found:
        levada = next(other.seconds for other in found if other.subject == case.subject and other.name == "levada")
        per_row = case.seconds / case.units * 1e6
        size = case.value_bytes / case.units
        print(f"{case.subject:8} {case.name:13} {size:4.0f} B  {per_row:6.3f} us/row  {case.seconds / levada:5.1f} times levada's")


if __name__ == "__main__":
    main()
