"""Confluent's own Python serializers beside ours: the same bytes, the same schemas in the registry, and each reads what the other wrote.

They need packages that `make setup` does not install; `pip install 'confluent-kafka[avro,json,protobuf]'` does.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from itertools import count
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("confluent_kafka.schema_registry", reason="packages of Confluent's registry client are missing", exc_type=ImportError)

from confluent_kafka.schema_registry import Schema as TheirSchema
from confluent_kafka.schema_registry import SchemaReference as TheirReference
from confluent_kafka.schema_registry import SchemaRegistryClient as TheirClient
from confluent_kafka.schema_registry import (
    header_schema_id_serializer,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer as TheirAvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as TheirAvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer as TheirJSONDeserializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer as TheirJSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer as TheirProtobufDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer as TheirProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from levada.registry import (
    AvroDeserializer,
    AvroSerializer,
    JSONDeserializer,
    JSONSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from levada.registry.wire_format import schema_id_of
from levada.serialization import BytesWithHeaders
from levada.testing import EmbeddedRegistry
from protobuf_columns import message_class
from protobuf_kit import STRING, field, shop


@pytest.fixture(params=["embedded", pytest.param("apicurio", marks=pytest.mark.kafka)])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "apicurio":
        yield request.getfixturevalue("apicurio")
    else:
        with EmbeddedRegistry(user_info="me:p@ss") as running:
            yield running.url


@pytest.fixture
def ours(url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient(schema_registry_url=url, basic_auth_user_info="me:p@ss") as client:
        yield client


@pytest.fixture
def theirs(url: str) -> Iterator[Any]:
    with TheirClient({"url": url, "basic.auth.user.info": "me:p@ss"}) as client:
        yield client


_numbers = count(1)


@pytest.fixture
def topic() -> str:
    """A topic whose subjects no other test has: tests share the real registry."""
    return f"topic-{next(_numbers)}"


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "shop", "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


def logical(kind: Any, meaning: str, **more: Any) -> dict[str, Any]:
    return {**(kind if isinstance(kind, dict) else {"type": kind}), "logicalType": meaning, **more}


ORDER = record(
    "Order",
    id="string",
    price=["null", "double"],
    tags={"type": "array", "items": "string"},
    at=logical("long", "timestamp-micros"),
)
LOGICAL = record(
    "Logical",
    day=logical("int", "date"),
    of_day=logical("int", "time-millis"),
    at=logical("long", "timestamp-millis"),
    amount=logical("bytes", "decimal", precision=10, scale=2),
    fixed=logical({"type": "fixed", "name": "Fixed", "size": 6}, "decimal", precision=10, scale=2),
    key=logical("string", "uuid"),
)
LOGICAL_VALUE = {
    "day": dt.date(2024, 2, 29),
    "of_day": dt.time(23, 59, 59, 999_000),
    "at": dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC),
    "amount": Decimal("-12345678.90"),
    "fixed": Decimal("0.01"),
    "key": UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
}
CHOICE = [record("Cash", cents="long"), record("Card", number="string", cents="long")]
AVRO_CASES = [
    (ORDER, {"id": "apple", "price": 2.5, "tags": ["a", "é"], "at": 1_700_000_000_000_000}),
    (ORDER, {"id": "", "price": None, "tags": [], "at": 0}),
    (LOGICAL, LOGICAL_VALUE),
    (record("Paid", by=CHOICE), {"by": {"number": "1", "cents": 5}}),
    ({"type": "record", "name": "D", "fields": [{"name": "x", "type": "int", "default": 7}]}, {}),
    ({"type": "string"}, "text"),
    ({"type": "bytes"}, b"\x00\x01\x02"),
    (["null", "long"], -5),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
    ({"type": "fixed", "name": "F", "size": 2}, b"ab"),
    ({"type": "map", "values": "int"}, {"k": 1}),
]


@pytest.mark.parametrize(("schema", "value"), AVRO_CASES)
def test_avro(ours: SchemaRegistryClient, theirs: Any, topic: str, schema: Any, value: Any) -> None:
    text = json.dumps(schema)
    written = AvroSerializer[Any](ours, text, topic=topic)(value)
    assert written == TheirAvroSerializer(theirs, text)(value, value_of(topic))
    assert written is not None
    assert AvroDeserializer[Any](ours)(written) == TheirAvroDeserializer(theirs)(written, value_of(topic))
    assert ours.get_versions(f"{topic}-value") == [1]


def test_avro_with_references_and_a_readers_schema(ours: SchemaRegistryClient, theirs: Any, topic: str) -> None:
    leaf, twig = f"{topic} leaf", f"{topic} twig"
    ours.register_schema(leaf, Schema(json.dumps(record("Leaf", size="int"))))
    ours.register_schema(twig, Schema(json.dumps(record("Twig", leaf="shop.Leaf")), references=[SchemaReference("shop.Leaf", leaf, 1)]))
    text, used = json.dumps(record("Tree", twig="shop.Twig")), ("shop.Twig", twig, 1)
    value = {"twig": {"leaf": {"size": 3}}}
    written = AvroSerializer[Any](ours, Schema(text, references=[SchemaReference(*used)]), topic=topic)(value)
    their_schema = TheirSchema(text, "AVRO", [TheirReference(*used)])
    assert written == TheirAvroSerializer(theirs, their_schema)(value, value_of(topic))
    assert written is not None
    assert ours.get_versions(f"{topic}-value") == [1]
    assert AvroDeserializer[Any](ours)(written) == TheirAvroDeserializer(theirs)(written, value_of(topic)) == value

    tree = record("Tree", twig=record("Twig", leaf=record("Leaf", size="long")))
    tree["fields"].append({"name": "age", "type": "int", "default": 1})
    newer = json.dumps(tree)
    read = AvroDeserializer[Any](ours, newer)(written)
    assert read == TheirAvroDeserializer(theirs, newer)(written, value_of(topic)) == {**value, "age": 1}


STRATEGIES = [
    ("TopicName", topic_subject_name_strategy, "{topic}-{field}"),
    ("RecordName", record_subject_name_strategy, "shop.Order"),
    ("TopicRecordName", topic_record_subject_name_strategy, "{topic}-shop.Order"),
]


@pytest.mark.parametrize("field", ["key", "value"])
@pytest.mark.parametrize(("name", "strategy", "subject"), STRATEGIES, ids=[name for name, *_ in STRATEGIES])
@pytest.mark.parametrize("format", ["avro", "json", "protobuf"])
def test_subjects(
    ours: SchemaRegistryClient, theirs: Any, topic: str, format: str, name: str, strategy: Any, subject: str, field: str
) -> None:
    settings: dict[str, Any] = {"topic": topic, "field": field, "subject_name_strategy": name}
    conf = {"subject.name.strategy": strategy}
    context = SerializationContext(topic, MessageField(field))
    if format == "avro":
        avro, row = json.dumps(ORDER), AVRO_CASES[0][1]
        written = AvroSerializer[Any](ours, avro, **settings)(row)
        expected = TheirAvroSerializer(theirs, avro, conf=conf)(row, context)
    elif format == "json":
        written = JSONSerializer[Any](ours, JSON_ORDER, **settings)({})
        expected = TheirJSONSerializer(JSON_ORDER, theirs, conf=conf)({}, context)
    else:
        kind = shop()["Order"]
        written = ProtobufSerializer[Any](ours, kind, **settings)(kind(id="a"))
        expected = TheirProtobufSerializer(kind, theirs, conf=conf)(kind(id="a"), context)
    assert written == expected
    found = ours.get_schema_versions(schema_id_of(expected))
    assert subject.format(topic=topic, field=field) in {name for name, _ in found}


JSON_ORDER = json.dumps({"title": "shop.Order", "type": "object", "properties": {"price": {"type": "integer"}}})


def test_json(ours: SchemaRegistryClient, theirs: Any, topic: str) -> None:
    """Java's serializer and ours write JSON without blanks and in UTF-8; theirs does not, unless it is told to."""
    value = {"price": 3, "name": "é"}
    by_us = JSONSerializer[Any](ours, JSON_ORDER, topic=topic)(value)
    by_them = TheirJSONSerializer(JSON_ORDER, theirs)(value, value_of(topic))
    compact = TheirJSONSerializer(JSON_ORDER, theirs, json_encode=lambda data: json.dumps(data, ensure_ascii=False, separators=(",", ":")))
    assert by_us is not None
    assert by_us == compact(value, value_of(topic))
    assert by_us[:5] == by_them[:5]
    their_deserializer = TheirJSONDeserializer(JSON_ORDER, schema_registry_client=theirs)
    assert JSONDeserializer[Any](ours)(by_them) == their_deserializer(by_us, value_of(topic)) == value
    assert ours.get_versions(f"{topic}-value") == [1]


def test_json_with_references(ours: SchemaRegistryClient, theirs: Any, topic: str) -> None:
    money = '{"type": "object", "properties": {"cents": {"type": "integer"}}}'
    ours.register_schema(f"{topic} money", Schema(money, "JSON"))
    text = '{"title": "Order", "type": "object", "properties": {"price": {"$ref": "money.json"}}}'
    used, value = ("money.json", f"{topic} money", 1), {"price": {"cents": 3}}
    validated: dict[str, Any] = {"topic": topic, "json_fail_invalid_schema": True}
    by_us = JSONSerializer[Any](ours, Schema(text, "JSON", [SchemaReference(*used)]), **validated)(value)
    their_schema = TheirSchema(text, "JSON", [TheirReference(*used)])
    by_them = TheirJSONSerializer(their_schema, theirs)(value, value_of(topic))
    assert by_us is not None
    assert by_us[:5] == by_them[:5]
    their_deserializer = TheirJSONDeserializer(their_schema, schema_registry_client=theirs)
    assert JSONDeserializer[Any](ours, validate=True)(by_them) == their_deserializer(by_us, value_of(topic)) == value
    assert ours.get_versions(f"{topic}-value") == [1]


def messages() -> dict[str, Any]:
    """Return message types by name: of files with and without a package, at all depths, with imports and built-in types."""
    deep = DescriptorProto(name="Deep", nested_type=[DescriptorProto(name="First"), DescriptorProto(name="Second", field=[TEXT])])
    outer = DescriptorProto(name="Outer", field=[TEXT], nested_type=[DescriptorProto(name="Empty"), deep])
    pool = DescriptorPool()
    files = [DescriptorProto(name="Alone", field=[TEXT]), *[DescriptorProto(name=f"Other{n}") for n in range(70)], outer]
    pool.Add(FileDescriptorProto(name="deep.proto", syntax="proto3", message_type=files))
    names = ["Alone", "Other69", "Outer", "Outer.Empty", "Outer.Deep", "Outer.Deep.First", "Outer.Deep.Second"]
    return {
        **{f"shop.{name}": kind for name, kind in shop().items()},
        **{name: GetMessageClass(pool.FindMessageTypeByName(name)) for name in names},
        "types.All": message_class("types.All"),
        "types.Old": message_class("types.Old"),
    }


TEXT = field("text", 1, STRING)
# A field 1 of each type, as Protobuf writes it.
DATA = {"shop.Money": b"\x08\x05", "types.All": b"\x08\x01\xda\x01\x02\x08\x05", "types.Old": b"\x08\x05\x10\x01"}


@pytest.mark.parametrize("name", list(messages()))
def test_protobuf(ours: SchemaRegistryClient, theirs: Any, topic: str, name: str) -> None:
    kind = messages()[name]
    message = kind.FromString(DATA.get(name, b"\x0a\x01a"))
    written = ProtobufSerializer[Any](ours, kind, topic=topic)(message)
    assert written == TheirProtobufSerializer(kind, theirs)(message, value_of(topic))
    assert written is not None
    assert ours.get_versions(f"{topic}-value") == [1]
    read = TheirProtobufDeserializer(kind, {}, theirs)(written, value_of(topic))
    assert ProtobufDeserializer(kind)(written) == read == message
    assert ours.get_latest_version(f"{topic}-value").schema.references == tuple(
        SchemaReference("shop/money.proto", "shop/money.proto", 1) for _ in range(name in ("shop.Order", "shop.Order.Line", "shop.Note"))
    )


@pytest.mark.parametrize("setting", ["use.latest.version", "normalize.schemas", "use.schema.id"])
@pytest.mark.parametrize("format", ["avro", "protobuf"])
def test_which_schema_writes(ours: SchemaRegistryClient, theirs: Any, topic: str, format: str, setting: str) -> None:
    kind = shop()["Order"]
    serializer = AvroSerializer[Any](ours, '"int"', topic=topic) if format == "avro" else ProtobufSerializer[Any](ours, kind, topic=topic)
    value = 5 if format == "avro" else kind(id="a")
    schema_id = schema_id_of(serializer(value) or b"")
    chosen: dict[str, Any] = {setting: schema_id if setting == "use.schema.id" else True}
    conf = chosen if setting == "normalize.schemas" else {"auto.register.schemas": False, **chosen}
    if format == "avro":
        written = AvroSerializer[Any](ours, '"int"', conf, topic=topic)(5)
        assert written == TheirAvroSerializer(theirs, '"int"', conf=conf)(5, value_of(topic))
    else:
        written = ProtobufSerializer[Any](ours, kind, conf, topic=topic)(value)
        assert written == TheirProtobufSerializer(kind, theirs, conf=conf)(value, value_of(topic))
    assert schema_id_of(written or b"") == schema_id


# Apicurio has no GUIDs.
@pytest.mark.parametrize("url", ["embedded"], indirect=True)
def test_ids_in_headers(ours: SchemaRegistryClient, theirs: Any, topic: str) -> None:
    context, schema = SerializationContext(topic, MessageField.VALUE, []), json.dumps(ORDER)
    by_them = TheirAvroSerializer(theirs, schema, conf={"schema.id.serializer": header_schema_id_serializer})(AVRO_CASES[0][1], context)
    by_us = AvroSerializer[Any](ours, schema, topic=topic, schema_id_serializer="Header")(AVRO_CASES[0][1])
    assert isinstance(by_us, BytesWithHeaders)
    assert (bytes(by_us), by_us.headers) == (by_them, context.headers)
    ((_, schema_id),) = by_us.headers
    assert AvroDeserializer[Any](ours)(by_them, schema_id) == TheirAvroDeserializer(theirs)(bytes(by_us), context)


@pytest.mark.parametrize("url", ["embedded"], indirect=True)
@pytest.mark.parametrize("name", ["Order", "Order.Line", "Note"])
def test_ids_of_messages_in_headers(ours: SchemaRegistryClient, theirs: Any, topic: str, name: str) -> None:
    kind, context = shop()[name], SerializationContext(topic, MessageField.VALUE, [])
    message = kind.FromString(b"\x0a\x01a")
    by_them = TheirProtobufSerializer(kind, theirs, {"schema.id.serializer": header_schema_id_serializer})(message, context)
    by_us = ProtobufSerializer[Any](ours, kind, topic=topic, schema_id_serializer="Header")(message)
    assert isinstance(by_us, BytesWithHeaders)
    assert (bytes(by_us), by_us.headers) == (by_them, context.headers)
    assert (
        ProtobufDeserializer(kind)(by_us, by_us.headers[0][1]) == TheirProtobufDeserializer(kind, {}, theirs)(by_them, context) == message
    )


def test_what_a_registry_is_asked_means_the_same_to_both(ours: SchemaRegistryClient, theirs: Any, topic: str) -> None:
    subject = f"{topic}/a"
    schema_id = ours.register_schema(subject, Schema('"int"'))
    found = theirs.get_latest_version(subject)
    assert (found.schema_id, found.version, found.schema.schema_str) == (schema_id, 1, '"int"')
    assert sorted(theirs.get_subjects()) == sorted(ours.get_subjects())
    assert theirs.set_compatibility(subject, "FULL")
    assert ours.get_compatibility(subject) == theirs.get_compatibility(subject) == "FULL"
    assert theirs.test_compatibility(subject, TheirSchema('"string"', "AVRO")) is False
    assert not ours.test_compatibility(subject, Schema('"string"'))
    assert theirs.delete_subject(subject) == [1]
    assert theirs.delete_subject(subject, permanent=True) == [1]
