"""A topic of Avro or Protobuf as a polars frame: levada's scan, and confluent-kafka with a deserializer for each record.

    python bench/typed_columns.py [--format avro|protobuf] [--records 1000000] [--turns 3]

Values are in Confluent's wire format. Broker and registry are embedded, so their time is counted for both. Where the packages that
confluent-kafka's deserializers need are missing, fastavro or protobuf reads each value behind its header instead, which is what they do in
the end. confluent-kafka's records stay dicts or messages in a list: making a frame of them would take more time.
"""

from __future__ import annotations

import argparse
import json
import struct
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from statistics import median
from typing import Any

import fastavro
import polars as pl
import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

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
FIELDS = {
    "item": "string",
    "id": "int64",
    "price": "double",
    "count": "int32",
    "paid": "bool",
    "note": "string",
    "at": "message",
    "state": "enum",
}
TYPE_NAMES = {"at": ".google.protobuf.Timestamp", "state": ".shop.State"}


def message_class() -> Any:
    """Return a Protobuf message of the same fields."""
    pool, of_time = DescriptorPool(), FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(of_time)
    pool.Add(of_time)
    order = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3", dependency=[of_time.name])
    state = order.enum_type.add(name="State")
    for number, name in enumerate(STATES):
        state.value.add(name=name, number=number)
    fields = [
        FieldDescriptorProto(
            name=name,
            number=number,
            type=getattr(FieldDescriptorProto, f"TYPE_{kind.upper()}"),
            type_name=TYPE_NAMES.get(name),
            label=FieldDescriptorProto.LABEL_OPTIONAL,
        )
        for number, (name, kind) in enumerate(FIELDS.items(), 1)
    ]
    order.message_type.append(DescriptorProto(name="Order", field=fields))
    pool.Add(order)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def orders(records: int) -> Iterator[dict[str, Any]]:
    """Yield the same orders in every run."""
    for number in range(records):
        yield {
            "item": f"item-{number % 1000}",
            "id": number * 7919,
            "price": number / 4,
            "count": number % 100,
            "paid": number % 3 == 0,
            "note": None if number % 4 else f"note of {number}",
            "at": 1_700_000_000_000 + number,
            "state": STATES[number % len(STATES)],
        }


class Avro:
    """Avro, whose schema the registry has."""

    def __init__(self, url: str) -> None:
        with SchemaRegistryClient(schema_registry_url=url) as client:
            self._schema_id = client.register_schema(f"{TOPIC}-value", Schema(json.dumps(SCHEMA)))
        self._url = url
        self.asked = {"value_format": "confluent-avro", "schema_registry_url": url}

    def values(self, records: int) -> list[bytes]:
        parsed, head = fastavro.parse_schema(SCHEMA), struct.pack(">bI", 0, self._schema_id)
        found = []
        for order in orders(records):
            out = BytesIO()
            fastavro.schemaless_writer(out, parsed, order)
            found.append(head + out.getvalue())
        return found

    def deserializer(self) -> tuple[str, Callable[[bytes], Any]]:
        """Return what reads a value in the way of confluent-kafka, and its name."""
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient as Client
            from confluent_kafka.schema_registry.avro import AvroDeserializer
        except ImportError:
            parsed = fastavro.parse_schema(SCHEMA)
            return "fastavro", lambda data: fastavro.schemaless_reader(BytesIO(data[5:]), parsed, None)
        return "AvroDeserializer", in_context(AvroDeserializer(Client({"url": self._url})))


class Protobuf:
    """Protobuf, whose class the programs have."""

    def __init__(self, url: str) -> None:
        self._class = message_class()
        self.asked = {"value_format": "confluent-protobuf", "value_schema": self._class}

    def values(self, records: int) -> list[bytes]:
        # The last byte says that the message is the first one of its file.
        head, found = struct.pack(">bIb", 0, 1, 0), []
        for order in orders(records):
            moment = timestamp_pb2.Timestamp()
            moment.FromMilliseconds(order["at"])
            found.append(head + self._class(**{**order, "at": {"seconds": moment.seconds, "nanos": moment.nanos}}).SerializeToString())
        return found

    def deserializer(self) -> tuple[str, Callable[[bytes], Any]]:
        """Return what reads a value in the way of confluent-kafka, and its name."""
        try:
            from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
        except ImportError:
            return "protobuf", lambda data: {field.name: value for field, value in self._class.FromString(data[6:]).ListFields()}
        return "ProtobufDeserializer", in_context(ProtobufDeserializer(self._class, {"use.deprecated.format": False}))


def in_context(read: Callable[..., Any]) -> Callable[[bytes], Any]:
    from confluent_kafka.serialization import MessageField, SerializationContext

    context = SerializationContext(TOPIC, MessageField.VALUE)
    return lambda data: read(data, context)


def by_levada(brokers: str, asked: dict[str, Any]) -> int:
    return len(pl.DataFrame(lv.scan(TOPIC, bootstrap_servers=brokers, columns=["value"], **asked)))


def by_confluent(brokers: str, read: Callable[[bytes], Any], records: int) -> int:
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    rows: list[Any] = []
    while len(rows) < records:
        rows += [read(message.value()) for message in consumer.consume(1000, 1.0)]
    consumer.close()
    return len(rows)


FORMATS: dict[str, Callable[[str], Avro | Protobuf]] = {"avro": Avro, "protobuf": Protobuf}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--format", choices=list(FORMATS), default="avro")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    with EmbeddedKafka() as kafka, EmbeddedRegistry() as server:
        case = FORMATS[given.format](server.url)
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            producer.send_arrow(TOPIC, pa.table({"value": case.values(given.records)}), value="value")
        by, read = case.deserializer()
        name = f"confluent-kafka, {by}"
        ways: dict[str, Callable[[], int]] = {
            "levada scan": lambda: by_levada(kafka.bootstrap_servers, case.asked),
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
