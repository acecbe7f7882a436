"""Serializers of schemas with confluent-kafka's signatures: subjects, options, errors, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from levada.compat.confluent_kafka.schema_registry import (
    Schema,
    SchemaRegistryClient,
    SchemaRegistryError,
    dual_schema_id_deserializer,
    header_schema_id_serializer,
    prefix_schema_id_deserializer,
    prefix_schema_id_serializer,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
)
from levada.compat.confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from levada.compat.confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from levada.compat.confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from levada.compat.confluent_kafka.serialization import (
    DoubleDeserializer,
    DoubleSerializer,
    IntegerDeserializer,
    IntegerSerializer,
    MessageField,
    SerializationContext,
    SerializationError,
    StringDeserializer,
    StringSerializer,
)
from levada.testing import EmbeddedRegistry
from protobuf_kit import shop

AVRO = '{"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "pieces", "type": "int"}]}'
JSON = '{"title": "Order", "type": "object", "properties": {"pieces": {"type": "integer"}}, "required": ["pieces"]}'
CONTEXT = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture
def client() -> Iterator[SchemaRegistryClient]:
    with EmbeddedRegistry() as registry, SchemaRegistryClient({"url": registry.url, "timeout": 5}) as client:
        yield client


def test_json_is_validated_both_ways(client: SchemaRegistryClient) -> None:
    write = JSONSerializer(JSON, client, to_dict=lambda order, context: {"pieces": order})
    read = JSONDeserializer(JSON, from_dict=lambda found, context: found["pieces"], schema_registry_client=client)
    data = write(7, CONTEXT)
    assert read(data, CONTEXT) == 7
    assert (write(None, CONTEXT), read(None, CONTEXT)) == (None, None)
    with pytest.raises(SerializationError):
        write("seven", CONTEXT)
    assert JSONDeserializer(None, conf={"validate": False})(data, CONTEXT) == {"pieces": 7}
    with pytest.raises(ValueError, match="schema_registry_client"):
        JSONDeserializer(JSON)


def test_protobuf_messages_come_back(client: SchemaRegistryClient) -> None:
    order_type = shop()["Order"]
    write = ProtobufSerializer(order_type, client, {"use.deprecated.format": False})
    order = order_type()
    assert ProtobufDeserializer(order_type, {"use.deprecated.format": False})(write(order, CONTEXT), CONTEXT) == order
    with pytest.raises(ValueError, match=r"use\.deprecated\.format"):
        ProtobufSerializer(order_type, client, {"use.deprecated.format": True})


@pytest.mark.parametrize(
    ("conf", "subject"),
    [
        ({}, "orders-value"),
        ({"subject.name.strategy": record_subject_name_strategy}, "shop.Order"),
        ({"subject.name.strategy": topic_record_subject_name_strategy}, "orders-shop.Order"),
        ({"subject.name.strategy.type": "RECORD"}, "shop.Order"),
        ({"subject.name.strategy": lambda context, name: f"mine-{context.topic}-{context.field}-{name}"}, "mine-orders-value-shop.Order"),
    ],
    ids=["default", "record", "topic and record", "type", "function"],
)
def test_subjects_are_named_as_the_strategy_says(client: SchemaRegistryClient, conf: dict[str, Any], subject: str) -> None:
    data = AvroSerializer(client, AVRO, conf=conf)({"pieces": 3}, CONTEXT)
    assert client.get_subjects() == [subject]
    assert AvroDeserializer(client, AVRO)(data, CONTEXT) == {"pieces": 3}


def test_schemas_may_have_to_be_registered_before(client: SchemaRegistryClient) -> None:
    conf = {"auto.register.schemas": False}
    with pytest.raises(SchemaRegistryError) as missing:
        AvroSerializer(client, AVRO, conf=conf)({"pieces": 3}, CONTEXT)
    assert (missing.value.http_status_code, missing.value.error_code) == (404, 40401)
    schema_id = client.register_schema("orders-value", Schema(AVRO, "AVRO"))
    assert AvroSerializer(client, AVRO, conf=conf)({"pieces": 3}, CONTEXT)
    assert AvroSerializer(client, conf={**conf, "use.latest.version": True})({"pieces": 3}, CONTEXT)
    assert client.get_schema(schema_id).schema_str
    assert client.lookup_schema("orders-value", Schema(AVRO, "AVRO")).version == 1
    assert [(found.subject, found.version) for found in client.get_schema_versions(schema_id)] == [("orders-value", 1)]
    assert (client.get_versions("orders-value"), client.delete_subject("orders-value")) == ([1], [1])


@pytest.mark.parametrize("headers", [[("trace", b"7")], {"trace": b"7"}])
def test_ids_are_written_into_headers_and_read_from_them(client: SchemaRegistryClient, headers: Any) -> None:
    context = SerializationContext("orders", MessageField.KEY, headers)
    data = AvroSerializer(client, AVRO, conf={"schema.id.serializer": header_schema_id_serializer})({"pieces": 3}, context)
    assert type(data) is bytes
    assert [*dict(headers)] == ["trace", "__key_schema_id"]
    assert AvroDeserializer(client)(data, context) == {"pieces": 3}
    with pytest.raises(SerializationError):
        AvroDeserializer(client, conf={"schema.id.deserializer": prefix_schema_id_deserializer})(data, context)
    guid = client.get_latest_version("orders-key").guid
    assert guid is not None
    assert client.get_schema_by_guid(guid) == client.get_schema(1)


@pytest.mark.parametrize("conf", [{}, {"schema.id.serializer": prefix_schema_id_serializer}])
def test_ids_are_written_before_the_data_otherwise(client: SchemaRegistryClient, conf: dict[str, Any]) -> None:
    data = AvroSerializer(client, AVRO, conf=conf)({"pieces": 3}, CONTEXT)
    assert data == b"\x00\x00\x00\x00\x01\x06"
    assert AvroDeserializer(client, conf={"schema.id.deserializer": dual_schema_id_deserializer})(data, CONTEXT) == {"pieces": 3}


def test_metadata_choose_the_schema(client: SchemaRegistryClient) -> None:
    client.register_schema("orders-value", Schema(AVRO, metadata={"properties": {"major": "1"}}))
    client.register_schema("orders-value", Schema(AVRO, metadata={"properties": {"major": "2"}}))
    assert client.get_latest_with_metadata("orders-value", {"major": "1"}).version == 1
    conf = {"use.latest.with.metadata": {"major": "1"}, "auto.register.schemas": False}
    assert AvroSerializer(client, conf=conf)({"pieces": 3}, CONTEXT) == b"\x00\x00\x00\x00\x01\x06"
    assert client.get_contexts() == ["."]


def test_ids_need_headers_to_be_written_into(client: SchemaRegistryClient) -> None:
    serializer = JSONSerializer(JSON, client, conf={"schema.id.serializer": header_schema_id_serializer})
    with pytest.raises(SerializationError, match="a list or a dict"):
        serializer({"pieces": 3}, CONTEXT)
    for function in (header_schema_id_serializer, dual_schema_id_deserializer):
        with pytest.raises(TypeError, match="is not called"):
            function(b"", CONTEXT, None)
    with pytest.raises(ValueError, match=r"schema\.id\.deserializer"):
        AvroDeserializer(client, conf={"schema.id.deserializer": print})


def test_what_cannot_be_honoured_is_refused(client: SchemaRegistryClient) -> None:
    for conf in ({"schema.id.serializer": print}, {"validate.strict": True}, {"typo": 1}):
        with pytest.raises(ValueError, match=next(iter(conf))):
            AvroSerializer(client, AVRO, conf=conf)
    with pytest.raises(ValueError, match="return_record_name"):
        AvroDeserializer(client, return_record_name=True)
    with pytest.raises(ValueError, match="SerializationContext"):
        AvroSerializer(client, AVRO)({"pieces": 3})
    with pytest.raises(ValueError):
        SchemaRegistryClient({"url": "ftp://nowhere"})


def test_a_registry_that_does_not_answer_is_an_error() -> None:
    client = SchemaRegistryClient({"url": "http://127.0.0.1:1", "max.retries": 0})
    with pytest.raises(SchemaRegistryError) as unreachable:
        client.get_subjects()
    assert unreachable.value.http_status_code == -1


@pytest.mark.parametrize(
    ("serializer", "deserializer", "value", "data"),
    [
        (IntegerSerializer(), IntegerDeserializer(), 258, b"\x00\x00\x01\x02"),
        (DoubleSerializer(), DoubleDeserializer(), 0.5, b"\x3f\xe0" + bytes(6)),
        (StringSerializer("latin-1"), StringDeserializer("latin-1"), "Öl", b"\xd6l"),
    ],
    ids=["integer", "double", "string"],
)
def test_simple_types(serializer: Any, deserializer: Any, value: Any, data: bytes) -> None:
    assert (serializer(value), deserializer(data), serializer(None), deserializer(None)) == (data, value, None, None)


def test_simple_types_that_do_not_fit() -> None:
    for call in (
        lambda: IntegerSerializer()(1 << 40),
        lambda: IntegerDeserializer()(b"1"),
        lambda: DoubleDeserializer()(b"1"),
        lambda: StringDeserializer()(b"\xff"),
    ):
        with pytest.raises(SerializationError):
            call()
