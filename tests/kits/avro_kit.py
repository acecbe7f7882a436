"""Avro for tests: a writer's and a reader's schema with every type that is read by columns, and what decodes their values."""

from __future__ import annotations

import json
from datetime import time
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro

from levada.formats.avro import AvroFormat, _reader_of
from levada.formats.avro_columns import AvroDecoder, steps_of
from levada.formats.avro_schema import AvroSchema
from levada.formats.reading import RowDecoder


def _record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields.items()]}


def _logical(kind: str, meaning: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": meaning, **more}


PLACE = _record("Place", city=["null", "string"], at={"type": "array", "items": "double"})
WRITER = _record(
    "Order",
    id="int",
    count="long",
    price="float",
    weight="double",
    paid="boolean",
    item="string",
    blob="bytes",
    state={"type": "enum", "name": "State", "symbols": ["NEW", "SENT"]},
    code={"type": "fixed", "name": "Code", "size": 3},
    total=_logical("bytes", "decimal", precision=9, scale=2),
    at=_logical("long", "timestamp-millis"),
    time=_logical("int", "time-millis"),
    note=["null", "string"],
    place=["null", PLACE],
    tags={"type": "map", "values": {"type": "array", "items": ["null", "int"]}},
    gone={"type": "array", "items": {"type": "map", "values": "bytes"}},
)
READER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        *(field for field in WRITER["fields"] if field["name"] not in ("id", "price", "gone")),
        {"name": "number", "type": "long", "aliases": ["id"]},
        {"name": "price", "type": ["null", "double"]},
        {"name": "more", "type": {"type": "map", "values": "int"}, "default": {"a": 1}},
    ],
}


def decoders() -> tuple[AvroDecoder, RowDecoder]:
    """Return the decoder by columns, and the one that reads value by value."""
    writer, reader = (AvroSchema((json.dumps(schema),), "it") for schema in (WRITER, READER))
    built = AvroFormat(reader).kind
    one_by_one = RowDecoder(_reader_of(reader, writer, 0, "its schema"), built)
    steps = steps_of(writer.parsed_with_names(), reader.parsed_with_names(), built)
    assert steps is not None
    return AvroDecoder(one_by_one, built, built, only=steps), one_by_one


def value(number: int) -> bytes:
    """Return a value of the writer, which depends on a number."""
    out = BytesIO()
    order = {
        "id": -number,
        "count": number * 2**40,
        "price": number / 2,
        "weight": 0.1,
        "paid": number % 2 == 0,
        "item": "é" * (number % 4),
        "blob": bytes(number % 3),
        "state": "SENT",
        "code": b"abc",
        "total": Decimal(number - 1),
        "at": 1_700_000_000_000 + number,
        "time": time(0, 0, number),
        "note": None if number % 2 else "n",
        "place": None if number % 3 else {"city": "x", "at": [1.5] * (number % 4)},
        "tags": {"k": [1, None]} if number % 2 else {},
        "gone": [{"a": b"b"}] * (number % 2),
    }
    fastavro.schemaless_writer(out, fastavro.parse_schema(WRITER), order)
    return out.getvalue()
