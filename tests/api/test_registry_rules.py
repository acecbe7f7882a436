"""Metadata and rules of schemas, which are kept and not run, and the contexts of a registry."""

from __future__ import annotations

import json
from typing import Any

import pytest

import levada as lv
from levada.errors import ConfigError, RecordDeserializationError, SerializationError
from levada.registry import JSONDeserializer, JSONSerializer, RegistryNotFoundError, Schema, SchemaRegistryClient
from levada.testing import EmbeddedKafka, EmbeddedRegistry

TEXT = '{"title":"Order","type":"object"}'
AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]})
METADATA = {"properties": {"owner": "Jill", "major": "1"}, "tags": {"**.ssn": ["PII"]}, "sensitive": ["owner"]}
ENCRYPT = {"name": "hide", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "ENCRYPT", "tags": ["PII"], "onFailure": "ERROR,NONE"}
PAYLOAD = {"name": "whole", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "ENCRYPT_PAYLOAD"}
CHECK = {"name": "checkLen", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "size(message.id) == 3"}
CHECK_ON_READING = {**CHECK, "mode": "READ"}
DECRYPT = {**ENCRYPT, "mode": "READ"}
UPGRADE = {"name": "toNew", "kind": "TRANSFORM", "mode": "UPGRADE", "type": "JSONATA", "expr": "$"}


def domain(*rules: Any, **more: Any) -> dict[str, Any]:
    return {"domainRules": list(rules), **more}


def test_a_schema_that_is_read_and_registered_again_loses_nothing(registry: SchemaRegistryClient) -> None:
    schema = Schema(TEXT, "JSON", metadata=METADATA, rule_set=domain(ENCRYPT, migrationRules=[UPGRADE], enableAt="ALL"))
    schema_id = registry.register_schema("orders-value", schema)
    found = registry.get_schema(schema_id)
    assert found == schema
    assert registry.register_schema("copies-value", found) == schema_id
    assert registry.register_schema("orders-value", Schema(TEXT, "JSON")) != schema_id
    assert len({schema, found, Schema(TEXT, "JSON")}) == 2
    assert registry.lookup_schema("orders-value", schema).version == 1


WRITES_NOT = [domain(ENCRYPT), domain(CHECK), {"encodingRules": [PAYLOAD]}, domain({**CHECK, "disabled": True}, ENCRYPT)]
WRITES = [
    domain(CHECK_ON_READING),
    domain(DECRYPT),
    domain({**ENCRYPT, "disabled": True}),
    domain(ENCRYPT, enableAt="GATEWAY"),
    {"migrationRules": [UPGRADE], "domainRules": None},
    {},
]
READS_NOT = [domain(ENCRYPT), domain(DECRYPT), {"encodingRules": [PAYLOAD]}]
READS = [domain(CHECK), domain(CHECK_ON_READING), {"migrationRules": [UPGRADE]}, domain({**DECRYPT, "disabled": True})]


@pytest.mark.parametrize("rules", WRITES_NOT)
@pytest.mark.parametrize("settings", [{"use_latest_version": True}, {"use_schema_id": 1}, {"auto_register_schemas": False}, {}])
def test_nothing_is_written_without_its_rules(registry: SchemaRegistryClient, rules: Any, settings: dict[str, Any]) -> None:
    schema = Schema(TEXT, "JSON", rule_set=rules)
    registry.register_schema("orders-value", schema)
    serializer = JSONSerializer[Any](registry, schema, topic="orders", **settings)
    for _ in range(2):
        with pytest.raises(SerializationError, match=r"id 1 has rules that have to run when a value is written.*\((ENCRYPT|CEL)"):
            serializer({})


@pytest.mark.parametrize("rules", WRITES)
def test_other_rules_do_not_keep_values_from_being_written(registry: SchemaRegistryClient, rules: Any) -> None:
    assert JSONSerializer[Any](registry, Schema(TEXT, "JSON", rule_set=rules), topic="orders")({}) == b"\0\0\0\0\1{}"


def test_rules_that_the_registry_adds_count(
    server: EmbeddedRegistry, registry: SchemaRegistryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.state, "answer", lambda *request: (200, {"id": 1, "ruleSet": domain(ENCRYPT)}))
    with pytest.raises(SerializationError, match=r"'hide' \(ENCRYPT\)"):
        JSONSerializer[Any](registry, TEXT, topic="orders")({})


@pytest.mark.parametrize("registers", [True, False])
@pytest.mark.parametrize("answered", [None, {}, domain(CHECK_ON_READING)])
def test_rules_of_the_programs_schema_count_if_the_registry_keeps_others(
    server: EmbeddedRegistry, registry: SchemaRegistryClient, monkeypatch: pytest.MonkeyPatch, answered: Any, registers: bool
) -> None:
    answer = {"id": 1, "version": 1, "subject": "orders-value", "schema": TEXT, "schemaType": "JSON", "ruleSet": answered}
    monkeypatch.setattr(server.state, "answer", lambda *request: (200, answer))
    schema = Schema(TEXT, "JSON", rule_set=domain(ENCRYPT))
    with pytest.raises(SerializationError, match=r"'hide' \(ENCRYPT\)"):
        JSONSerializer[Any](registry, schema, topic="orders", auto_register_schemas=registers)({})


@pytest.mark.parametrize(("rules", "is_read"), [*((rules, False) for rules in READS_NOT), *((rules, True) for rules in READS)])
def test_values_are_not_read_without_the_rules_that_change_them(registry: SchemaRegistryClient, rules: Any, is_read: bool) -> None:
    registry.register_schema("orders-value", Schema(TEXT, "JSON", rule_set=rules))
    reads = JSONDeserializer[Any](registry, validate=True)
    if is_read:
        assert reads(b"\0\0\0\0\1{}") == {}
    else:
        with pytest.raises(SerializationError, match="id 1 has rules that have to run when a value is read"):
            reads(b"\0\0\0\0\1{}")


def test_avro_and_protobuf_obey_rules_too(registry: SchemaRegistryClient) -> None:
    pytest.importorskip("fastavro", reason="the extra avro is not installed")
    pytest.importorskip("google.protobuf", reason="the extra protobuf is not installed")
    from levada.registry import AvroDeserializer, AvroSerializer, ProtobufSerializer
    from levada.registry.protobuf_json import MessageReader, protobuf_serializer
    from protobuf_kit import shop

    registry.register_schema("orders-value", Schema(AVRO, rule_set=domain(ENCRYPT)))
    with pytest.raises(SerializationError, match="is written"):
        AvroSerializer[Any](registry, topic="orders", use_latest_version=True)({"id": "a"})
    with pytest.raises(SerializationError, match="is read"):
        AvroDeserializer[Any](registry)(b"\0\0\0\0\1\2a")
    with pytest.raises(SerializationError, match="the reader has rules"):
        AvroDeserializer[Any](registry, Schema(AVRO, rule_set=domain(ENCRYPT)))
    money = shop()["Money"]
    ProtobufSerializer[Any](registry, money, topic="plain")(money(cents=5))
    plain = registry.get_latest_version("plain-value").schema
    schema_id = registry.register_schema("money-value", Schema(plain.schema_str, plain.schema_type, rule_set=domain(ENCRYPT)))
    with pytest.raises(SerializationError, match="is written"):
        ProtobufSerializer[Any](registry, money, topic="money", use_latest_version=True)(money(cents=5))
    with pytest.raises(SerializationError, match="is written"):
        protobuf_serializer(registry, "money-value")
    with pytest.raises(SerializationError, match="is read"):
        MessageReader(registry)(b"\0" + schema_id.to_bytes(4, "big") + b"\0\x08\x05")


def test_typed_columns_obey_rules_too(registry: SchemaRegistryClient) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    pytest.importorskip("fastavro", reason="the extra avro is not installed")
    registry.register_schema("orders-value", Schema(AVRO, rule_set=domain(ENCRYPT)))
    registry.register_schema("texts-value", Schema(TEXT, "JSON", rule_set=domain(CHECK)))
    rows = pyarrow.table({"id": ["a"]})
    with EmbeddedKafka() as kafka, lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        formats: dict[str, Any] = {"orders": "confluent-avro", "texts": "json-schema"}
        for topic, value_format in formats.items():
            with pytest.raises(SerializationError, match="is written"):
                producer.send_arrow(topic, rows, value=["id"], value_format=value_format, value_schema="latest", registry=registry)
        producer.send("orders", b"\0\0\0\0\1\2a").result(timeout=10)
        scan = lv.scan("orders", bootstrap_servers=kafka.bootstrap_servers, value_format="confluent-avro", registry=registry)
        with pytest.raises(RecordDeserializationError, match="has rules that have to run when a value is read"):
            scan.to_table()
        with pytest.raises(SerializationError, match="has rules that have to run when a value is read"):
            registry.register_schema("secrets-value", Schema(TEXT, "JSON", rule_set=domain(ENCRYPT)))
            lv.scan("secrets", bootstrap_servers=kafka.bootstrap_servers, value_format="json-schema", registry=registry).to_table()


def test_the_latest_schema_with_metadata(server: EmbeddedRegistry, registry: SchemaRegistryClient) -> None:
    for major, text in (("1", '{"title":"a"}'), ("2", '{"title":"b"}'), ("1", '{"title":"c"}'), ("2", '{"title":"d"}')):
        registry.register_schema("orders-value", Schema(text, "JSON", metadata={"properties": {"major": major}}))
    found = registry.get_latest_with_metadata("orders-value", {"major": "1"})
    assert (found.version, found.schema.metadata) == (3, {"properties": {"major": "1"}})
    serializer = JSONSerializer[Any](registry, topic="orders", use_latest_with_metadata={"major": "1"})
    assert [serializer({}) for _ in range(2)] == [b"\0\0\0\0\3{}"] * 2
    assert server.requests[4:] == ["GET /subjects/orders-value/metadata?key=major&value=1"]
    assert serializer._known({}) is not None
    registry.delete_version("orders-value", 3)
    assert registry.get_latest_with_metadata("orders-value", {"major": "1"}).version == 1
    assert registry.register_schema("orders-value", Schema('{"title":"e"}', "JSON", metadata={"properties": {"major": "1"}})) == 5
    assert registry.get_latest_with_metadata("orders-value", {"major": "1"}).version == 5, "what this client registers, it sees at once"
    registry.delete_version("orders-value", 5)
    assert registry.get_latest_with_metadata("orders-value", {"major": "1"}, deleted=True).version == 5
    assert serializer({}) == b"\0\0\0\0\1{}"
    with pytest.raises(RegistryNotFoundError):
        registry.get_latest_with_metadata("orders-value", {"major": "3"})
    with pytest.raises(ConfigError, match=r"'use\.latest\.version' and 'use\.latest\.with\.metadata' exclude each other"):
        JSONSerializer[Any](registry, topic="orders", use_latest_version=True, use_latest_with_metadata="major=1")


def test_a_client_of_a_context_and_qualified_subjects(server: EmbeddedRegistry, registry: SchemaRegistryClient) -> None:
    assert registry.get_contexts() == ["."]
    with SchemaRegistryClient(schema_registry_url=f"{server.url}/contexts/.sales") as sales:
        data = JSONSerializer[Any](sales, TEXT, topic="orders")({})
        assert data is not None
        assert JSONDeserializer[Any](sales, validate=True)(data) == {}
        assert sales.get_versions("orders-value") == [1]
        assert sales.test_compatibility("orders-value", Schema(TEXT, "JSON"))
    assert registry.get_contexts() == [".", ".sales"]
    assert registry.get_subjects() == [":.sales:orders-value"]
    assert registry.get_latest_version(":.sales:orders-value").schema.schema_str == TEXT

    def in_sales(topic: str | None, field: str, record: str | None) -> str:
        return f":.sales:{topic}-{field}"

    assert JSONSerializer[Any](registry, TEXT, topic="orders", subject_name_strategy=in_sales, auto_register_schemas=False)({}) == data
