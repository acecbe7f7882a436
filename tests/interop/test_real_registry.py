"""The registry client and the serializers on a real registry, Apicurio, and on the embedded one: what both have to agree on.

Subjects are new in each test, since all share one registry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from levada.registry import (
    AvroDeserializer,
    AvroSerializer,
    IncompatibleSchemaError,
    InvalidSchemaError,
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
from real_registry import RealRegistry

INT = Schema('"int"')
LONG = Schema('"long"')


def order(*more: dict[str, Any]) -> str:
    fields = [{"name": "item", "type": "string"}, {"name": "price", "type": "int"}, *more]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


@pytest.fixture(scope="module", params=["embedded", pytest.param("apicurio-2.6.13", marks=pytest.mark.kafka)])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "embedded":
        with EmbeddedRegistry() as embedded:
            yield embedded.url
    else:
        with request.getfixturevalue("skipped_if_unavailable")():
            registry = RealRegistry()
        with registry as running:
            yield running.url


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


def test_deleting_softly_and_for_good(registry: SchemaRegistryClient, name: str) -> None:
    registry.register_schema(name, INT)
    registry.register_schema(name, LONG)
    assert registry.delete_version(name, 1) == 1
    with pytest.raises(RegistryNotFoundError, match="40402"):
        registry.get_version(name, 1)
    assert registry.get_version(name, 1, deleted=True).schema == INT
    assert registry.delete_subject(name) == [2]
    assert name not in registry.get_subjects()
    assert registry.delete_subject(name, permanent=True) == [1, 2]


def test_a_schema_that_readers_could_not_read_is_refused(registry: SchemaRegistryClient, name: str) -> None:
    registry.register_schema(name, LONG)
    assert registry.set_compatibility(name, "BACKWARD") == registry.get_compatibility(name) == "BACKWARD"
    assert not registry.test_compatibility(name, INT)
    with pytest.raises(IncompatibleSchemaError):
        registry.register_schema(name, INT)
    assert registry.test_compatibility(name, Schema('"double"'))


def test_what_is_no_schema_is_refused(registry: SchemaRegistryClient, name: str) -> None:
    with pytest.raises(InvalidSchemaError):
        registry.register_schema(name, Schema('{"type": "nope"}'))


def test_references(registry: SchemaRegistryClient, name: str) -> None:
    registry.register_schema(f"{name} leaf", Schema('{"type": "record", "name": "Leaf", "fields": []}'))
    to_leaf = SchemaReference("Leaf", f"{name} leaf", 1)
    twig = Schema('{"type": "record", "name": "Twig", "fields": [{"name": "l", "type": "Leaf"}]}', references=[to_leaf])
    twig_id = registry.register_schema(f"{name} twig", twig)
    assert registry.get_latest_version(f"{name} twig").schema.references == (to_leaf,)
    assert registry.get_referenced_by(f"{name} leaf", 1) == [twig_id]
    assert [reference.name for reference in registry.get_referenced_schemas(twig)] == ["Leaf"]


def test_avro_is_written_and_read_with_another_version(registry: SchemaRegistryClient, name: str) -> None:
    data = AvroSerializer(registry, order(), topic=name)({"item": "apple", "price": 3})
    assert data is not None
    newer = order({"name": "currency", "type": "string", "default": "EUR"})
    assert AvroDeserializer(registry)(data) == {"item": "apple", "price": 3}
    assert AvroDeserializer(registry, newer)(data) == {"item": "apple", "price": 3, "currency": "EUR"}
    registry.register_schema(f"{name}-value", Schema(newer))
    assert registry.get_versions(f"{name}-value") == [1, 2]


def test_json_is_written_and_read(registry: SchemaRegistryClient, name: str) -> None:
    schema = '{"title": "Order", "type": "object", "properties": {"item": {"type": "string"}}}'
    data = JSONSerializer(registry, schema, topic=name)({"item": "apple"})
    assert data is not None
    assert JSONDeserializer()(data) == {"item": "apple"}
    assert registry.get_latest_version(f"{name}-value").schema.schema_type == "JSON"


def test_protobuf_is_written_and_read(registry: SchemaRegistryClient, name: str) -> None:
    message = shop()["Order"]
    data = ProtobufSerializer(registry, message, topic=name)(message(id="a", price={"cents": 5}))
    assert data is not None
    assert ProtobufDeserializer(message)(data).price.cents == 5
    assert registry.get_latest_version(f"{name}-value").schema.schema_type == "PROTOBUF"
