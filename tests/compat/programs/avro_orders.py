"""Arguments: bootstrap servers, a name, and the URL of a registry. Writes objects as Avro and reads them back."""

import sys
from dataclasses import asdict, dataclass
from typing import Any

from confluent_kafka import DeserializingConsumer, SerializingProducer
from confluent_kafka.error import ValueSerializationError
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import IntegerDeserializer, IntegerSerializer, MessageField, SerializationContext, StringSerializer

servers, name, url = sys.argv[1:4]
SCHEMA = """
{"type": "record", "name": "Order", "namespace": "shop",
 "fields": [{"name": "fruit", "type": "string"}, {"name": "pieces", "type": "int"}]}
"""


@dataclass
class Order:
    fruit: str
    pieces: int


def to_dict(order: Any, context: SerializationContext) -> dict[str, Any]:
    assert context.topic == name
    return asdict(order)


def main() -> None:
    registry = SchemaRegistryClient({"url": url})
    settings = {"subject.name.strategy": topic_subject_name_strategy}
    producer = SerializingProducer(
        {
            "bootstrap.servers": servers,
            "key.serializer": IntegerSerializer(),
            "value.serializer": AvroSerializer(registry, SCHEMA, to_dict, settings),
        }
    )
    reports = []
    for number, fruit in enumerate(["pears", "apples", "plums"]):
        order = Order(fruit, number)
        producer.produce(name, key=number, value=order, partition=0, on_delivery=lambda error, message: reports.append(message.offset()))
    producer.produce(name, key=9, value=None, partition=0)
    try:
        producer.produce(name, key=1, value=Order("figs", None))  # type: ignore[arg-type]
    except ValueSerializationError as error:
        print("refused:", error.name)
    producer.flush()
    print("offsets:", reports)
    latest = registry.get_latest_version(name + "-value")
    print("registered:", latest.version, latest.schema.schema_type if latest.schema else None)
    print("subjects:", [subject for subject in registry.get_subjects() if subject.startswith(name)] == [name + "-value"])
    wider = Schema(SCHEMA.replace('"int"', '"long"'), "AVRO")
    print("compatible:", registry.test_compatibility(name + "-value", wider))
    try:
        registry.get_latest_version("nothing")
    except SchemaRegistryError as missing:
        print("missing:", missing.http_status_code, missing.error_code)

    consumer = DeserializingConsumer(
        {
            "bootstrap.servers": servers,
            "group.id": name,
            "auto.offset.reset": "earliest",
            "key.deserializer": IntegerDeserializer(),
            "value.deserializer": AvroDeserializer(registry, from_dict=lambda found, context: Order(**found)),
        }
    )
    consumer.subscribe([name])
    seen = 0
    while seen < 4:
        message = consumer.poll(1.0)
        if message is not None:
            print("read:", message.key(), message.value())
            seen += 1
    consumer.close()
    print("text:", StringSerializer()("Öl", SerializationContext(name, MessageField.KEY)))


main()
