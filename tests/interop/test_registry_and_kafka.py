"""Serializers, typed columns and the command line with a registry: the embedded one and broker, then Apicurio and Kafka 4.4.

What one way writes, every other way has to read. Subjects are new in each test, since all share one registry.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import levada as lv
from cli_kit import Ran, run
from levada import aio
from levada.errors import ConfigError
from levada.registry import (
    AvroDeserializer,
    AvroSerializer,
    JSONDeserializer,
    JSONSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    RegistryNotFoundError,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from levada.testing import EmbeddedRegistry
from protobuf_kit import shop

NewTopic = Callable[..., str]

MONEY = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}
VALUES: list[dict[str, Any] | None] = [{"id": "apple", "price": {"cents": 3}}, None, {"id": "pear", "price": {"cents": 2**40}}]
COLUMN = pa.struct({"id": pa.string(), "price": pa.struct({"cents": pa.int64()})})


class Place(NamedTuple):
    """A broker and the address of a registry."""

    kafka: Any
    url: str

    @property
    def client(self) -> dict[str, Any]:
        return {"bootstrap_servers": self.kafka.bootstrap_servers}


@pytest.fixture(scope="module", params=["embedded", pytest.param("apicurio", id="kafka-4.4.0", marks=pytest.mark.kafka)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "apicurio":
        yield Place(request.getfixturevalue("kafka44"), request.getfixturevalue("apicurio"))
    else:
        with EmbeddedRegistry() as server:
            yield Place(request.getfixturevalue("embedded"), server.url)


@pytest.fixture
def registry(place: Place) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient(schema_registry_url=place.url) as client:
        yield client


@pytest.fixture
def levada(place: Place) -> Callable[..., Ran]:
    """Run a command, whose exit status has to be `code`."""

    def run_it(*words: str, code: int = 0, stdin: bytes = b"") -> Ran:
        ran = run(
            "-b",
            place.kafka.bootstrap_servers,
            "-X",
            f"schema.registry.url={place.url}",
            *words,
            stdin=stdin,
            env={"LEVADA_OUTPUT": "json"},
        )
        assert ran.code == code, ran.err
        return ran

    return run_it


class Way(NamedTuple):
    """How a format is written and read. to_value: converts what the deserializer returns to a value of VALUES."""

    format: str
    serializer: Any
    deserializer: Any
    column: dict[str, Any]
    to_value: Callable[[Any], Any]


def avro_with_reference(registry: SchemaRegistryClient, topic: str) -> Schema:
    """Return the schema of an order, which uses another subject's; that one is registered."""
    registry.register_schema(f"{topic} money", Schema(json.dumps(MONEY)))
    fields = [{"name": "id", "type": "string"}, {"name": "price", "type": "shop.Money"}]
    order = {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}
    return Schema(json.dumps(order), references=[SchemaReference("shop.Money", f"{topic} money", 1)])


JSON_SCHEMA = {
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "string"}, "price": {"type": "object", "properties": {"cents": {"type": "integer"}}}},
}


def way(name: str, registry: SchemaRegistryClient, topic: str) -> Way:
    if name == "confluent-avro":
        schema = avro_with_reference(registry, topic)
        return Way(name, AvroSerializer(registry, schema, topic=topic), AvroDeserializer(registry), {}, lambda value: value)
    if name == "json-schema":
        written = Schema(json.dumps(JSON_SCHEMA), "JSON")
        return Way(name, JSONSerializer(registry, written, topic=topic), JSONDeserializer(), {}, lambda value: value)
    order = shop()["Order"]

    def write(value: Any) -> Any:
        return to_bytes(None if value is None else order(**value))

    to_bytes = ProtobufSerializer(registry, order, topic=topic)
    to_value = lambda found: {"id": found.id, "price": {"cents": found.price.cents}}  # noqa: E731
    return Way(name, write, ProtobufDeserializer(order), {"value_schema": order}, to_value)


FORMATS = pytest.mark.parametrize("format", ["confluent-avro", "json-schema", "confluent-protobuf"])


def of_registry(way: Way, registry: SchemaRegistryClient) -> dict[str, Any]:
    return {} if way.format == "confluent-protobuf" else {"registry": registry}


def columns(place: Place, topic: str, **formats: Any) -> list[Any]:
    """Return the column `value` of a topic with scan(), after a comparison with poll_arrow()."""
    table = lv.scan(topic, columns=["value"], **place.client, **formats).to_table()
    with lv.KafkaConsumer(**place.client) as consumer:
        consumer.assign([lv.TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        batch = consumer.poll_arrow(timeout=10, columns=["value"], **formats)
    assert (batch.schema, batch.to_pylist()) == (table.schema, table.to_pylist())
    found: list[Any] = table.column("value").to_pylist()
    return found


def records(place: Place, topic: str, way: Way) -> list[Any]:
    """Return the values that a consumer with the deserializer returns."""
    with lv.KafkaConsumer(value_deserializer=way.deserializer, **place.client) as consumer:
        partition = lv.TopicPartition(topic, 0)
        consumer.assign([partition], ends=consumer.end_offsets([partition]))
        consumer.seek_to_beginning()
        return [None if record.value is None else way.to_value(record.value) for record in consumer]


@FORMATS
def test_what_a_serializer_writes(place: Place, registry: SchemaRegistryClient, new_topic: NewTopic, format: str) -> None:
    topic = new_topic(place.kafka)
    used = way(format, registry, topic)
    with lv.KafkaProducer(value_serializer=used.serializer, **place.client) as producer:
        for value in VALUES:
            producer.send(topic, value).result(timeout=10)
    assert records(place, topic, used) == VALUES
    assert columns(place, topic, value_format=format, **used.column, **of_registry(used, registry)) == VALUES


@FORMATS
@pytest.mark.parametrize("latest", [False, True], ids=["own schema", "latest schema"])
def test_what_columns_write(place: Place, registry: SchemaRegistryClient, new_topic: NewTopic, format: str, latest: bool) -> None:
    topic = new_topic(place.kafka)
    used = way(format, registry, topic)
    given: dict[str, Any] = {"value_format": format, "registry": registry, **used.column}
    if latest:
        # Registers the schema.
        used.serializer(VALUES[0])
        given["auto_register_schemas"] = False
    elif format == "confluent-avro":
        fields = [{"name": "id", "type": "string"}, {"name": "price", "type": MONEY}]
        given["value_schema"] = {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}
    elif format == "json-schema":
        given["value_schema"] = JSON_SCHEMA
    column = pa.table({"value": pa.array(VALUES, COLUMN)})
    with lv.KafkaProducer(**place.client) as producer:
        producer.send_arrow(topic, column, value="value", **given).result(timeout=10)
    assert records(place, topic, used) == VALUES
    assert columns(place, topic, value_format=format, **used.column, **of_registry(used, registry)) == VALUES
    assert registry.get_versions(f"{topic}-value") == [1]


@FORMATS
def test_columns_with_a_schema_that_nobody_registered(
    place: Place, registry: SchemaRegistryClient, new_topic: NewTopic, format: str
) -> None:
    topic = new_topic(place.kafka)
    given: dict[str, Any] = {"value_format": format, "registry": registry, "auto_register_schemas": False}
    if format == "confluent-protobuf":
        given["value_schema"] = shop()["Order"]
    column = pa.table({"value": pa.array(VALUES, COLUMN)})
    with lv.KafkaProducer(**place.client) as producer, pytest.raises((ConfigError, RegistryNotFoundError), match=f"{topic}-value"):
        producer.send_arrow(topic, column, value="value", **given)
    assert f"{topic}-value" not in registry.get_subjects()


def test_columns_of_values_with_several_schemas(place: Place, registry: SchemaRegistryClient, new_topic: NewTopic) -> None:
    topic = new_topic(place.kafka)
    fields: list[dict[str, Any]] = [{"name": "id", "type": "string"}]
    old = {"type": "record", "name": "Order", "fields": fields}
    new = {**old, "fields": [*fields, {"name": "currency", "type": "string", "default": "EUR"}]}
    with lv.KafkaProducer(**place.client) as producer:
        for schema, value in ((old, {"id": "a"}), (new, {"id": "b", "currency": "USD"})):
            serialize = AvroSerializer[Any](registry, json.dumps(schema), topic=topic)
            producer.send(topic, serialize(value)).result(timeout=10)
    assert registry.get_versions(f"{topic}-value") == [1, 2]
    newest = [{"id": "a", "currency": "EUR"}, {"id": "b", "currency": "USD"}]
    given: dict[str, Any] = {"value_format": "confluent-avro", "registry": registry}
    assert columns(place, topic, **given) == newest
    assert columns(place, topic, value_schema=old, **given) == [{"id": "a"}, {"id": "b"}]


def test_keys_and_values_on_an_event_loop(place: Place, registry: SchemaRegistryClient, new_topic: NewTopic) -> None:
    topic = new_topic(place.kafka)
    schema = avro_with_reference(registry, topic)

    async def main() -> list[Any]:
        write: dict[str, Any] = {
            "key_serializer": AvroSerializer(registry, '"string"', topic=topic, field="key"),
            "value_serializer": AvroSerializer(registry, schema, topic=topic),
        }
        async with aio.KafkaProducer(**write, **place.client) as producer:
            await asyncio.gather(*[await producer.send(topic, value, key=str(n)) for n, value in enumerate(VALUES)])
        read: dict[str, Any] = dict.fromkeys(("key_deserializer", "value_deserializer"), AvroDeserializer(registry))
        async with aio.KafkaConsumer(auto_offset_reset="earliest", **read, **place.client) as consumer:
            consumer.assign([lv.TopicPartition(topic, 0)])
            found: list[Any] = []
            while len(found) < len(VALUES):
                found += [(record.key, record.value) for record in await consumer.poll(timeout=10)]
        return found

    assert asyncio.run(asyncio.wait_for(main(), 60)) == [(str(n), value) for n, value in enumerate(VALUES)]


def test_commands(registry: SchemaRegistryClient, new_topic: NewTopic, place: Place, levada: Callable[..., Ran]) -> None:
    subject = f"{new_topic(place.kafka)}-value"
    (made,) = levada("registry", "register", subject, "-", stdin=b'"int"').json()
    assert made == {"subject": subject, "version": 1, "schema_id": registry.get_latest_version(subject).schema_id, "type": "AVRO"}
    assert {"subject": subject} in levada("registry", "subjects").json()
    assert levada("registry", "versions", subject).json() == [made]
    (by_subject,) = levada("registry", "schema", subject).json()
    assert by_subject in levada("registry", "schema", "--id", str(made["schema_id"])).json()
    assert by_subject["schema"] == '"int"'
    levada("registry", "compatibility", subject, "--set", "backward")
    assert not levada("registry", "test", subject, "-", stdin=b'"string"', code=1).json()[0]["compatible"]
    assert levada("registry", "test", subject, "-", stdin=b'"long"').json()[0]["compatible"]
    assert "409" in levada("registry", "register", subject, "-", stdin=b'"string"', code=1).err
    assert levada("registry", "compatibility", subject, "--set", "none").json()[0]["level"] == "NONE"
    assert levada("registry", "compatibility", subject, "--unset").json()[0]["level"] == registry.get_compatibility()
    assert levada("registry", "delete", subject, "--yes").json()[0]["outcome"] == "deleted softly: versions 1"
    assert levada("registry", "delete", subject, "--permanent", "--yes").json()[0]["outcome"] == "deleted for good: versions 1"
    assert "40401" in levada("registry", "versions", subject, code=1).err
