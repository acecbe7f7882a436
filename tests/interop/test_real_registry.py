"""The registry client and the serializers on a real registry, Apicurio, and on the embedded one: what both have to agree on.

Subjects are new in each test, since all share one registry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from levada.errors import SerializationError
from levada.registry import (
    AvroDeserializer,
    AvroSerializer,
    IncompatibleSchemaError,
    InvalidSchemaError,
    JSONDeserializer,
    JSONSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    RegistryAnswerError,
    RegistryNotFoundError,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from levada.registry.protobuf_json import MessageReader
from levada.registry.wire_format import header, schema_id_of
from levada.testing import EmbeddedRegistry
from protobuf_kit import shop

INT = Schema('"int"')
LONG = Schema('"long"')


def order(*more: dict[str, Any]) -> str:
    fields = [{"name": "item", "type": "string"}, {"name": "price", "type": "int"}, *more]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


@pytest.fixture(scope="module", params=["embedded", pytest.param("apicurio", marks=pytest.mark.kafka)])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "apicurio":
        yield request.getfixturevalue("apicurio")
    else:
        with EmbeddedRegistry() as embedded:
            yield embedded.url


@pytest.fixture
def registry(url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient(schema_registry_url=url) as client:
        yield client


_numbers = count(1)


@pytest.fixture
def name() -> str:
    """A topic whose subjects nobody else has."""
    return f"topic {next(_numbers)}/new"


def test_subjects_versions_and_ids(registry: SchemaRegistryClient, name: str) -> None:
    first, second = registry.register_schema(name, INT), registry.register_schema(name, LONG)
    assert first != second
    assert registry.register_schema(f"{name}-2", INT) == first
    # Apicurio does not know the prefix and answers with all subjects.
    assert {name, f"{name}-2"} <= set(registry.get_subjects(name))
    assert registry.get_versions(name) == [1, 2]
    assert registry.get_schema(second) == LONG
    assert {(name, 1), (f"{name}-2", 1)} <= set(registry.get_schema_versions(first))
    assert registry.lookup_schema(name, LONG) == registry.get_latest_version(name) == registry.get_version(name, 2)
    assert {"AVRO", "JSON", "PROTOBUF"} <= set(registry.get_schema_types())


def test_what_is_not_there(registry: SchemaRegistryClient, name: str) -> None:
    with pytest.raises(RegistryNotFoundError, match="40401"):
        registry.get_latest_version(name)
    registry.register_schema(name, INT)
    with pytest.raises(RegistryNotFoundError, match="40402"):
        registry.get_version(name, 99)
    with pytest.raises(RegistryNotFoundError, match="40403"):
        registry.get_schema(99_999)

    with pytest.raises(RegistryNotFoundError, match="40403"):
        registry.get_schema_versions(99_999)
    with pytest.raises(RegistryNotFoundError, match="40403"):
        registry.lookup_schema(name, LONG)
    with pytest.raises(RegistryNotFoundError, match="40401"):
        registry.get_versions(f"{name} none")
    with pytest.raises(RegistryNotFoundError, match="40401"):
        registry.delete_subject(f"{name} none")


def test_deleting_softly_and_for_good(registry: SchemaRegistryClient, name: str) -> None:
    registry.register_schema(name, INT)
    registry.register_schema(name, LONG)
    with pytest.raises(RegistryNotFoundError, match=r"40407.*delete it without permanent=True first"):
        registry.delete_version(name, 1, permanent=True)
    with pytest.raises(RegistryNotFoundError, match=r"40405.*delete it without permanent=True first"):
        registry.delete_subject(name, permanent=True)
    assert registry.delete_version(name, 1) == 1
    with pytest.raises(RegistryNotFoundError, match=r"40406.*register it again, or delete it with permanent=True"):
        registry.delete_version(name, 1)
    with pytest.raises(RegistryNotFoundError, match="40402"):
        registry.get_version(name, 1)
    assert registry.get_version(name, 1, deleted=True).schema == INT
    assert (registry.get_versions(name), registry.get_versions(name, deleted=True)) == ([2], [1, 2])
    with pytest.raises(RegistryNotFoundError, match="40403"):
        registry.lookup_schema(name, INT)
    assert registry.lookup_schema(name, INT, deleted=True).version == 1
    assert registry.delete_subject(name) == [2]
    with pytest.raises(RegistryNotFoundError, match="40404"):
        registry.delete_subject(name)
    assert name not in registry.get_subjects()
    assert name in registry.get_subjects(deleted=True)
    assert registry.delete_subject(name, permanent=True) == [1, 2]
    assert name not in registry.get_subjects(deleted=True)
    registry.register_schema(name, INT)
    assert registry.delete_version(name, "latest") == 1


def test_compatibility_levels(registry: SchemaRegistryClient, name: str) -> None:
    of_all = registry.get_compatibility()
    registry.register_schema(name, LONG)
    assert registry.get_compatibility(name) == of_all
    for level in ("FORWARD", "FULL_TRANSITIVE", "NONE"):
        assert registry.set_compatibility(name, level) == registry.get_compatibility(name) == level
    registry.delete_compatibility(name)
    assert registry.get_compatibility(name) == of_all
    with pytest.raises(RegistryAnswerError, match="set the compatibility level"):
        registry.set_compatibility(name, "SOME")


def test_a_schema_that_readers_could_not_read_is_refused(registry: SchemaRegistryClient, name: str) -> None:
    registry.register_schema(name, LONG)
    assert registry.set_compatibility(name, "BACKWARD") == registry.get_compatibility(name) == "BACKWARD"
    assert not registry.test_compatibility(name, INT)
    with pytest.raises(IncompatibleSchemaError):
        registry.register_schema(name, INT)
    for version in (1, "latest", None):
        assert registry.test_compatibility(name, Schema('"double"'), version)
        assert not registry.test_compatibility(name, INT, version)


UNKNOWN = SchemaReference("Leaf", "no such subject", 1)


@pytest.mark.parametrize(
    "schema",
    [Schema('{"type": "nope"}'), Schema("{"), Schema("{", "JSON"), Schema('{"type": "array", "items": "Leaf"}', references=[UNKNOWN])],
    ids=["unknown type", "no JSON", "no JSON Schema", "unknown reference"],
)
def test_what_is_no_schema_is_refused(registry: SchemaRegistryClient, name: str, schema: Schema) -> None:
    with pytest.raises(InvalidSchemaError):
        registry.register_schema(name, schema)


def test_references(registry: SchemaRegistryClient, name: str) -> None:
    registry.register_schema(f"{name} leaf", Schema('{"type": "record", "name": "Leaf", "fields": []}'))
    to_leaf = SchemaReference("Leaf", f"{name} leaf", 1)
    twig = Schema('{"type": "record", "name": "Twig", "fields": [{"name": "l", "type": "Leaf"}]}', references=[to_leaf])
    twig_id = registry.register_schema(f"{name} twig", twig)
    assert registry.get_latest_version(f"{name} twig").schema.references == (to_leaf,)
    assert registry.get_referenced_by(f"{name} leaf", 1) == [twig_id]
    assert [reference.name for reference in registry.get_referenced_schemas(twig)] == ["Leaf"]
    assert registry.get_schema(twig_id) == registry.lookup_schema(f"{name} twig", twig).schema
    assert registry.get_schema(twig_id).references == (to_leaf,)
    for delete in (lambda: registry.delete_version(f"{name} leaf", 1), lambda: registry.delete_subject(f"{name} leaf")):
        with pytest.raises(RegistryAnswerError, match=r"42206.*delete the schemas that refer to it first"):
            delete()


def test_avro_is_written_and_read_with_another_version(registry: SchemaRegistryClient, name: str) -> None:
    data = AvroSerializer(registry, order(), topic=name)({"item": "apple", "price": 3})
    assert data is not None
    newer = order({"name": "currency", "type": "string", "default": "EUR"})
    assert AvroDeserializer(registry)(data) == {"item": "apple", "price": 3}
    assert AvroDeserializer(registry, newer)(data) == {"item": "apple", "price": 3, "currency": "EUR"}
    registry.register_schema(f"{name}-value", Schema(newer))
    assert registry.get_versions(f"{name}-value") == [1, 2]


def test_avro_with_references(registry: SchemaRegistryClient, name: str) -> None:
    money = '{"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}'
    registry.register_schema(f"{name} money", Schema(money))
    whole = order({"name": "paid", "type": "shop.Money"})
    schema = Schema(whole, references=[SchemaReference("shop.Money", f"{name} money", 1)])
    value = {"item": "apple", "price": 3, "paid": {"cents": 5}}
    data = AvroSerializer(registry, schema, topic=name)(value)
    assert data is not None
    assert AvroDeserializer(registry)(data) == AvroDeserializer(registry, schema)(data) == value


def test_which_schema_writes(registry: SchemaRegistryClient, name: str) -> None:
    value, subject = {"item": "apple", "price": 3}, f"{name}-value"
    with pytest.raises(RegistryNotFoundError) as missing:
        AvroSerializer(registry, order(), topic=name, auto_register_schemas=False)(value)
    assert "auto.register.schemas=true" in missing.value.__notes__[0]
    first = registry.register_schema(subject, Schema(order()))
    latest = registry.register_schema(subject, Schema(order({"name": "currency", "type": "string", "default": "EUR"})))
    by_lookup = AvroSerializer(registry, order(), topic=name, auto_register_schemas=False)
    by_latest = AvroSerializer(registry, topic=name, use_latest_version=True)
    by_id = AvroSerializer(registry, use_schema_id=first)
    ids = [schema_id_of(write(value) or b"") for write in (by_lookup, by_latest, by_id)]
    assert ids == [first, latest, first]
    normalized = AvroSerializer(registry, order(), topic=f"{name} normalized", normalize_schemas=True)
    assert AvroDeserializer(registry)(normalized(value) or b"") == value


def test_json_is_written_and_read(registry: SchemaRegistryClient, name: str) -> None:
    schema = '{"title": "Order", "type": "object", "properties": {"item": {"type": "string"}}}'
    data = JSONSerializer(registry, schema, topic=name)({"item": "apple"})
    assert data is not None
    assert JSONDeserializer()(data) == {"item": "apple"}
    assert registry.get_latest_version(f"{name}-value").schema.schema_type == "JSON"


def test_json_with_references_is_validated(registry: SchemaRegistryClient, name: str) -> None:
    money = '{"type": "object", "properties": {"cents": {"type": "integer", "minimum": 0}}}'
    registry.register_schema(f"{name} money", Schema(money, "JSON"))
    text = '{"title": "Order", "type": "object", "properties": {"price": {"$ref": "money.json"}}}'
    schema = Schema(text, "JSON", [SchemaReference("money.json", f"{name} money", 1)])
    serializer = JSONSerializer[Any](registry, schema, topic=name, json_fail_invalid_schema=True)
    data = serializer({"price": {"cents": 3}})
    assert data is not None
    assert JSONDeserializer[Any](registry, validate=True)(data) == {"price": {"cents": 3}}
    with pytest.raises(SerializationError, match="-3 is less than the minimum of 0"):
        serializer({"price": {"cents": -3}})


def test_protobuf_is_written_and_read(registry: SchemaRegistryClient, name: str) -> None:
    message = shop()["Order"]
    data = ProtobufSerializer(registry, message, topic=name)(message(id="a", price={"cents": 5}))
    assert data is not None
    assert ProtobufDeserializer(message)(data).price.cents == 5
    registered = registry.get_latest_version(f"{name}-value")
    assert registered.schema.schema_type == "PROTOBUF"
    assert registered.schema.references == (SchemaReference("shop/money.proto", "shop/money.proto", 1),)
    settings: tuple[dict[str, Any], ...] = ({"auto_register_schemas": False}, {"use_latest_version": True})
    for setting in settings:
        assert ProtobufSerializer(registry, message, topic=name, **setting)(message(id="a", price={"cents": 5})) == data
    assert MessageReader(registry)(data) == {"id": "a", "price": {"cents": "5"}}
    line = shop()["Order.Line"]
    nested = ProtobufSerializer(registry, line, topic=name)(line(item="apple"))
    assert nested == header(registered.schema_id) + b"\x04\x00\x02\x0a\x05apple"
    assert MessageReader(registry)(nested) == {"item": "apple"}
