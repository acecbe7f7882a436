"""Confluent's own Python serializers beside ours: the same bytes, the same schemas in the registry, and each reads what the other wrote.

They need packages that `make setup` does not install; `pip install 'confluent-kafka[avro,json,protobuf]'` does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("confluent_kafka.schema_registry", reason="packages of Confluent's registry client are missing", exc_type=ImportError)

from confluent_kafka.schema_registry import SchemaRegistryClient as TheirClient
from confluent_kafka.schema_registry.avro import AvroDeserializer as TheirAvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as TheirAvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer as TheirJSONDeserializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer as TheirJSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer as TheirProtobufDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer as TheirProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from levada.registry import (
    AvroDeserializer,
    AvroSerializer,
    JSONDeserializer,
    JSONSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Schema,
    SchemaRegistryClient,
)
from levada.testing import EmbeddedRegistry
from protobuf_kit import shop

CONTEXT = SerializationContext("t", MessageField.VALUE)


@pytest.fixture
def server() -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry(user_info="me:p@ss") as running:
        yield running


@pytest.fixture
def ours(server: EmbeddedRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient(schema_registry_url=server.url, basic_auth_user_info="me:p@ss") as client:
        yield client


@pytest.fixture
def theirs(server: EmbeddedRegistry) -> Iterator[Any]:
    with TheirClient({"url": server.url, "basic.auth.user.info": "me:p@ss"}) as client:
        yield client


ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "price", "type": ["null", "double"]},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
)
AVRO_CASES = [
    (ORDER, {"id": "apple", "price": 2.5, "tags": ["a", "é"], "at": 1_700_000_000_000_000}),
    (ORDER, {"id": "", "price": None, "tags": [], "at": 0}),
    ('"string"', "text"),
    ('{"type": "bytes"}', b"\x00\x01\x02"),
    ('["null", "long"]', -5),
    ('{"type": "enum", "name": "E", "symbols": ["A", "B"]}', "B"),
    ('{"type": "map", "values": "int"}', {"k": 1}),
]


@pytest.mark.parametrize(("schema", "value"), AVRO_CASES)
def test_avro(server: EmbeddedRegistry, ours: SchemaRegistryClient, theirs: Any, schema: str, value: Any) -> None:
    written = AvroSerializer[Any](ours, schema, topic="t")(value)
    assert written == TheirAvroSerializer(theirs, schema)(value, CONTEXT)
    assert written is not None
    assert AvroDeserializer[Any](ours)(written) == TheirAvroDeserializer(theirs)(written, CONTEXT)
    assert list(server.state.subjects) == ["t-value"]


def test_json(server: EmbeddedRegistry, ours: SchemaRegistryClient, theirs: Any) -> None:
    schema = json.dumps({"title": "Order", "type": "object", "properties": {"price": {"type": "integer"}}})
    value = {"price": 3, "name": "é"}
    by_us = JSONSerializer[Any](ours, schema, topic="t")(value)
    by_them = TheirJSONSerializer(schema, theirs)(value, CONTEXT)
    assert by_us is not None
    assert by_us[:5] == by_them[:5]
    assert JSONDeserializer[Any](ours)(by_them) == TheirJSONDeserializer(schema, schema_registry_client=theirs)(by_us, CONTEXT) == value
    assert len(server.state.ids) == 1


@pytest.mark.parametrize("name", ["Money", "Order", "Order.Line", "Note"])
def test_protobuf(server: EmbeddedRegistry, ours: SchemaRegistryClient, theirs: Any, name: str) -> None:
    kind = shop()[name]
    message = kind.FromString(b"\x0a\x01a" if name != "Money" else b"\x08\x05")
    written = ProtobufSerializer[Any](ours, kind, topic="t")(message)
    before = len(server.state.ids)
    assert written == TheirProtobufSerializer(kind, theirs)(message, CONTEXT)
    assert len(server.state.ids) == before
    assert written is not None
    assert ProtobufDeserializer(kind)(written) == TheirProtobufDeserializer(kind, {}, theirs)(written, CONTEXT) == message


def test_what_a_registry_is_asked_means_the_same_to_both(ours: SchemaRegistryClient, theirs: Any) -> None:
    ours.register_schema("a/b", Schema('"int"'))
    found = theirs.get_latest_version("a/b")
    assert (found.schema_id, found.version, found.schema.schema_str) == (1, 1, '"int"')
    assert theirs.get_subjects() == ours.get_subjects() == ["a/b"]
    assert theirs.set_compatibility("a/b", "FULL")
    assert ours.get_compatibility("a/b") == theirs.get_compatibility("a/b") == "FULL"
    assert theirs.delete_subject("a/b") == [1]
    assert theirs.delete_subject("a/b", permanent=True) == [1]
