"""A topic of Avro with a schema registry as a polars frame: levada's scan, and confluent-kafka with a deserializer for each record.

    python bench/typed_columns.py [--records 1000000] [--turns 3]

Broker and registry are embedded, so their time is counted for both. Where the packages that AvroDeserializer needs are missing, fastavro
reads each value behind its header instead, which is what AvroDeserializer does in the end. confluent-kafka's records stay dicts in a list:
making a frame of them would take more time.
"""

from __future__ import annotations

import argparse
import json
import struct
import time
from collections.abc import Callable
from io import BytesIO
from statistics import median
from typing import Any

import fastavro
import polars as pl
import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

import levada as lv
from levada.registry import Schema, SchemaRegistryClient
from levada.testing import EmbeddedKafka, EmbeddedRegistry

TOPIC = "orders"
STATES = ("NEW", "PAID", "SENT", "LOST")
SCHEMA = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "item", "type": "string"},
        {"name": "id", "type": "long"},
        {"name": "price", "type": "double"},
        {"name": "count", "type": "int"},
        {"name": "paid", "type": "boolean"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": list(STATES)}},
    ],
}


def values(records: int, schema_id: int) -> list[bytes]:
    """Return values in Confluent's wire format, the same in every run."""
    parsed, head = fastavro.parse_schema(SCHEMA), struct.pack(">bI", 0, schema_id)
    found = []
    for number in range(records):
        out = BytesIO(head)
        out.seek(len(head))
        order = {
            "item": f"item-{number % 1000}",
            "id": number * 7919,
            "price": number / 4,
            "count": number % 100,
            "paid": number % 3 == 0,
            "note": None if number % 4 else f"note of {number}",
            "at": 1_700_000_000_000 + number,
            "state": STATES[number % len(STATES)],
        }
        fastavro.schemaless_writer(out, parsed, order)
        found.append(out.getvalue())
    return found


def deserializer(url: str) -> tuple[str, Callable[[bytes], Any]]:
    """Return what reads a value in the way of confluent-kafka, and its name."""
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient as Client
        from confluent_kafka.schema_registry.avro import AvroDeserializer
    except ImportError:
        parsed = fastavro.parse_schema(SCHEMA)
        return "confluent-kafka, fastavro", lambda data: fastavro.schemaless_reader(BytesIO(data[5:]), parsed, None)
    from confluent_kafka.serialization import MessageField, SerializationContext

    read, context = AvroDeserializer(Client({"url": url})), SerializationContext(TOPIC, MessageField.VALUE)
    return "confluent-kafka, AvroDeserializer", lambda data: read(data, context)


def by_levada(brokers: str, url: str) -> int:
    whole = lv.scan(TOPIC, bootstrap_servers=brokers, columns=["value"], value_format="confluent-avro", schema_registry_url=url)
    return len(pl.DataFrame(whole))


def by_confluent(brokers: str, read: Callable[[bytes], Any], records: int) -> int:
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    rows: list[Any] = []
    while len(rows) < records:
        rows += [read(message.value()) for message in consumer.consume(1000, 1.0)]
    consumer.close()
    return len(rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    with EmbeddedKafka() as kafka, EmbeddedRegistry() as server:
        with SchemaRegistryClient(schema_registry_url=server.url) as client:
            schema_id = client.register_schema(f"{TOPIC}-value", Schema(json.dumps(SCHEMA)))
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            producer.send_arrow(TOPIC, pa.table({"value": values(given.records, schema_id)}), value="value")
        name, read = deserializer(server.url)
        ways: dict[str, Callable[[], int]] = {
            "levada scan": lambda: by_levada(kafka.bootstrap_servers, server.url),
            name: lambda: by_confluent(kafka.bootstrap_servers, read, given.records),
        }
        took: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(given.turns):
            for way, run in ways.items():
                began = time.perf_counter()
                assert run() == given.records
                took[way].append(time.perf_counter() - began)
        for way, seconds in took.items():
            print(f"{way}: {median(seconds):.2f} s, {given.records / median(seconds) / 1000:,.0f} k records/s")
        print(f"{median(took[name]) / median(took['levada scan']):.1f} times as fast")


if __name__ == "__main__":
    main()
