"""Serializers and deserializers that use a registry: alone, and in a producer and a consumer."""

from __future__ import annotations

import json
import logging
import pickle
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import levada as lv
from levada.errors import ConfigError, RecordDeserializationError, SerializationError
from levada.registry import (
    IncompatibleSchemaError,
    JSONDeserializer,
    JSONSerializer,
    RegistryNotFoundError,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from levada.registry.json_bounds import MOST_STEPS
from levada.registry.wire_format import header, schema_id_of
from levada.testing import EmbeddedKafka, EmbeddedRegistry
from log_lines import said


def record(*fields: Any, name: str = "Order") -> str:
    return json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": list(fields)})


ID = {"name": "id", "type": "string"}
PRICE = {"name": "price", "type": "int"}
ORDER = record(ID, PRICE)
APPLE = {"id": "apple", "price": 3}
APPLE_BYTES = b"\x00\x00\x00\x00\x01\x0aapple\x06"


@dataclass
class Order:
    id: str
    price: int


@pytest.fixture
def avro() -> Any:
    pytest.importorskip("fastavro", reason="the extra avro is not installed")
    from levada.registry import avro

    return avro


@pytest.mark.parametrize("kind", ["avro", "json", "checked json"])
def test_serializers_can_be_pickled_before_and_after_use(registry: SchemaRegistryClient, kind: str) -> None:
    pair: tuple[Any, Any] = JSONSerializer(registry, '{"title":"Order"}', topic=kind), JSONDeserializer()
    if kind == "checked json":
        pytest.importorskip("jsonschema", reason="the extra jsonschema is not installed")
        pair = (
            JSONSerializer(registry, '{"title":"Order"}', topic=kind, json_fail_invalid_schema=True),
            JSONDeserializer(registry, validate=True),
        )
    if kind == "avro":
        pytest.importorskip("fastavro", reason="the extra avro is not installed")
        from levada.registry import AvroDeserializer, AvroSerializer

        pair = AvroSerializer(registry, ORDER, topic=kind), AvroDeserializer(registry, ORDER)
    for _ in range(2):
        write, read = pickle.loads(pickle.dumps(pair))
        assert read(write(APPLE)) == APPLE
        write._registry.close()
        assert pair[1](pair[0](APPLE)) == APPLE


class TestAvro:
    def test_a_value_is_a_zero_its_schemas_id_and_avro(self, registry: SchemaRegistryClient, avro: Any) -> None:
        serializer = avro.AvroSerializer(registry, ORDER, topic="orders")
        assert serializer(APPLE) == APPLE_BYTES
        assert serializer(None) is None
        assert registry.get_subjects() == ["orders-value"]
        assert avro.AvroDeserializer(registry)(APPLE_BYTES) == APPLE

    def test_making_one_asks_nothing_and_writing_asks_once(
        self, server: EmbeddedRegistry, registry: SchemaRegistryClient, avro: Any
    ) -> None:
        serializer, deserializer = avro.AvroSerializer(registry, ORDER, topic="orders"), avro.AvroDeserializer(registry)
        assert server.requests == []
        for _ in range(3):
            deserializer(serializer(APPLE))
        assert server.requests == ["POST /subjects/orders-value/versions", "GET /schemas/ids/1"]

    def test_objects_of_a_class(self, registry: SchemaRegistryClient, avro: Any) -> None:
        serializer = avro.AvroSerializer(registry, ORDER, topic="orders", to_dict=asdict)
        deserializer = avro.AvroDeserializer(registry, from_dict=lambda found: Order(**found))
        assert deserializer(serializer(Order("apple", 3))) == Order("apple", 3)

    def test_writers_schemas_are_resolved_to_the_readers(self, registry: SchemaRegistryClient, avro: Any) -> None:
        newer = record(ID, {**PRICE, "type": "long"}, {"name": "note", "type": "string", "default": "none"})
        old, new = (avro.AvroSerializer(registry, schema, topic="orders") for schema in (ORDER, newer))
        written = [old(APPLE), new({**APPLE, "note": "ripe"})]
        read_new, read_old = avro.AvroDeserializer(registry, newer), avro.AvroDeserializer(registry, ORDER)
        assert [read_new(data)["note"] for data in written] == ["none", "ripe"]
        assert read_old(written[0]) == APPLE
        with pytest.raises(SerializationError, match="cannot be read with the Avro schema of id 2"):
            read_old(written[1])
        text = record(ID, {**PRICE, "type": "string"})
        with pytest.raises(IncompatibleSchemaError):
            avro.AvroSerializer(registry, text, topic="orders")({**APPLE, "price": "3"})

    def test_logical_types(self, registry: SchemaRegistryClient, avro: Any) -> None:
        schema = record(
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "sum", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        )
        row = {"at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "sum": Decimal("12.34")}
        assert avro.AvroDeserializer(registry)(avro.AvroSerializer(registry, schema, topic="t")(row)) == row

    @pytest.mark.parametrize(
        ("schema", "value", "data"),
        [('"string"', "hi", b"\x04hi"), ('{"type": "bytes"}', b"hi", b"hi"), ('"bytes"', b"", b""), ('["null", "int"]', 1, b"\x02\x02")],
    )
    def test_schemas_that_are_no_records(self, registry: SchemaRegistryClient, avro: Any, schema: str, value: Any, data: bytes) -> None:
        """Bytes stand as they are, without Avro's length before them, as Confluent's serializers write them."""
        written = avro.AvroSerializer(registry, schema, topic="t")(value)
        assert written == b"\x00\x00\x00\x00\x01" + data
        assert avro.AvroDeserializer(registry)(written) == value

    def test_plain_bytes_may_be_read_as_something_else(self, registry: SchemaRegistryClient, avro: Any) -> None:
        written = avro.AvroSerializer(registry, '"bytes"', topic="t")(b"\x04ab")
        assert avro.AvroDeserializer(registry, '["null", "bytes"]')(written) == b"\x04ab"
        assert avro.AvroDeserializer(registry, '"string"')(written) == "\x04ab"

    def test_a_schema_that_is_nested_without_end(self, registry: SchemaRegistryClient, avro: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry, "get_schema", lambda schema_id: Schema("[" * 100_000))
        with pytest.raises(SerializationError, match="RecursionError"):
            avro.AvroDeserializer(registry)(APPLE_BYTES)

    @pytest.mark.parametrize(
        "schema",
        [record({"name": "x", "type": "shop.Order"}), f'{{"type": "array", "items": {record({"name": "x", "type": "shop.Order"})}}}'],
        ids=["alone", "in an array"],
    )
    def test_a_record_that_ends_nowhere_has_no_values(
        self, registry: SchemaRegistryClient, avro: Any, monkeypatch: pytest.MonkeyPatch, schema: str
    ) -> None:
        monkeypatch.setattr(registry, "get_schema", lambda schema_id: Schema(schema))
        with pytest.raises(SerializationError, match="RecursionError"):
            avro.AvroDeserializer(registry)(header(1) + b"\x02\x00")

    @pytest.mark.parametrize("of_reader", [False, True], ids=["the writer's", "the reader's"])
    def test_a_schema_of_any_depth_is_read_or_refused(
        self, registry: SchemaRegistryClient, avro: Any, monkeypatch: pytest.MonkeyPatch, of_reader: bool
    ) -> None:
        """One depth is too deep for json, another for fastavro, another for what looks at the parsed schema."""
        for depth in range(100, 1000, 10):
            deep = '["null",{"type":"array","items":' * depth + '"int"' + "}]" * depth
            monkeypatch.setattr(registry, "get_schema", lambda schema_id, text=deep: Schema('"null"' if of_reader else text))
            with suppress(SerializationError, ConfigError):
                assert avro.AvroDeserializer(registry, deep if of_reader else None)(header(1) + b"\x00"[of_reader:]) is None

    def test_schemas_that_use_others(self, registry: SchemaRegistryClient, avro: Any) -> None:
        money = record({"name": "cents", "type": "long"}, name="Money")
        registry.register_schema("shop.Money", Schema(money))
        order = Schema(record(ID, {"name": "price", "type": "shop.Money"}), references=[SchemaReference("shop.Money", "shop.Money", 1)])
        row = {"id": "apple", "price": {"cents": 5}}
        written = avro.AvroSerializer(registry, order, topic="t")(row)
        assert avro.AvroDeserializer(registry)(written) == row
        assert avro.AvroDeserializer(registry, order)(written) == row

    def test_a_union_of_types_that_other_subjects_have(self, registry: SchemaRegistryClient, avro: Any) -> None:
        registry.register_schema("shop.Money", Schema(record({"name": "cents", "type": "long"}, name="Money")))
        money = SchemaReference("shop.Money", "shop.Money", 1)
        registry.register_schema("shop.Order", Schema(record(ID, {"name": "price", "type": "Money"}), references=[money]))
        either = Schema('["shop.Order", "shop.Money"]', references=[SchemaReference("shop.Order", "shop.Order", 1), money])
        serializer = avro.AvroSerializer(registry, either, topic="t")
        for row in ({"id": "apple", "price": {"cents": 5}}, {"cents": 6}):
            assert avro.AvroDeserializer(registry)(serializer(row)) == row

    @pytest.mark.parametrize(
        ("settings", "subject"),
        [
            ({"topic": "orders"}, "orders-value"),
            ({"topic": "orders", "field": "key"}, "orders-key"),
            ({"subject_name_strategy": "RecordName"}, "shop.Order"),
            ({"topic": "orders", "subject_name_strategy": "TopicRecordName"}, "orders-shop.Order"),
            ({"topic": "orders", "subject_name_strategy": lambda topic, field, name: f"{topic}/{field}/{name}"}, "orders/value/shop.Order"),
        ],
    )
    def test_subjects(self, registry: SchemaRegistryClient, avro: Any, settings: dict[str, Any], subject: str) -> None:
        avro.AvroSerializer(registry, ORDER, **settings)(APPLE)
        assert registry.get_subjects() == [subject]

    def test_without_registering_the_schema_has_to_be_there(self, registry: SchemaRegistryClient, avro: Any) -> None:
        serializer = avro.AvroSerializer(registry, ORDER, topic="orders", auto_register_schemas=False)
        with pytest.raises(RegistryNotFoundError) as caught:
            serializer(APPLE)
        assert "auto.register.schemas=true" in caught.value.__notes__[0]
        registry.register_schema("orders-value", Schema(ORDER))
        assert serializer(APPLE) == APPLE_BYTES

    def test_the_latest_version_writes(self, server: EmbeddedRegistry, avro: Any) -> None:
        with SchemaRegistryClient(schema_registry_url=server.url, cache_latest_ttl_sec=0) as registry:
            registry.register_schema("orders-value", Schema(ORDER))
            serializer = avro.AvroSerializer(registry, topic="orders", use_latest_version=True)
            assert serializer({**APPLE, "note": "ripe"}) == APPLE_BYTES
            registry.register_schema("orders-value", Schema(record(ID, PRICE, {"name": "note", "type": "string", "default": ""})))
            assert serializer({**APPLE, "note": "ripe"}) == b"\x00\x00\x00\x00\x02\x0aapple\x06\x08ripe"

    def test_a_schema_by_its_id_writes(self, registry: SchemaRegistryClient, avro: Any) -> None:
        schema_id = registry.register_schema("elsewhere", Schema(ORDER))
        assert avro.AvroSerializer(registry, use_schema_id=schema_id)(APPLE) == APPLE_BYTES

    @pytest.mark.parametrize("value", [{"id": "apple"}, {"id": 5, "price": 3}, {"id": "apple", "price": "3"}, 7])
    def test_a_value_that_does_not_fit_is_refused(self, registry: SchemaRegistryClient, avro: Any, value: Any) -> None:
        with pytest.raises(SerializationError, match="does not fit the Avro schema of id 1"):
            avro.AvroSerializer(registry, ORDER, topic="orders")(value)

    @pytest.mark.parametrize("data", [b"", b"plain text", APPLE_BYTES[:-1], APPLE_BYTES + b"x", APPLE_BYTES[:5] + b"\x01"])
    def test_damaged_data_are_refused(self, registry: SchemaRegistryClient, avro: Any, data: bytes) -> None:
        registry.register_schema("orders-value", Schema(ORDER))
        with pytest.raises(SerializationError):
            avro.AvroDeserializer(registry)(data)

    def test_a_value_that_is_nested_too_deep_is_refused(self, registry: SchemaRegistryClient, avro: Any) -> None:
        """fastavro's reader in C would end the process."""
        node = record({"name": "next", "type": ["null", "shop.Node"]}, name="Node")
        nodes = avro.AvroSerializer(registry, node, topic="nodes")
        read = avro.AvroDeserializer(registry)
        assert read(nodes({"next": {"next": None}})) == {"next": {"next": None}}
        with pytest.raises(SerializationError, match="RecursionError"):
            read(nodes({"next": None})[:5] + b"\x02" * 100_000 + b"\x00")

    def test_whatever_follows_the_id_is_read_or_refused(self, registry: SchemaRegistryClient, avro: Any) -> None:
        registry.register_schema("orders-value", Schema(record(ID, PRICE, {"name": "tags", "type": {"type": "map", "values": "bytes"}})))
        read = avro.AvroDeserializer(registry)

        @given(st.binary(max_size=60))
        def check(data: bytes) -> None:
            with suppress(SerializationError):
                assert set(read(APPLE_BYTES[:5] + data)) == {"id", "price", "tags"}

        check()

    def test_an_id_of_another_format_is_refused(self, registry: SchemaRegistryClient, avro: Any) -> None:
        registry.register_schema("t-value", Schema("{}", "JSON"))
        with pytest.raises(SerializationError, match="schema id 1 is of type JSON, not AVRO"):
            avro.AvroDeserializer(registry)(APPLE_BYTES)

    @pytest.mark.parametrize(
        ("schema", "settings", "says"),
        [
            ("{", {"topic": "t"}, "cannot be read"),
            ('{"type": "record"}', {"topic": "t"}, "cannot be read"),
            ('"shop.Money"', {"topic": "t"}, "UnknownType: shop.Money, which neither the schema nor its references define"),
            (Schema("{}", "JSON"), {"topic": "t"}, "of type JSON, not AVRO"),
            (None, {"topic": "t"}, "give a schema, or set use.latest.version"),
            (ORDER, {}, "give topic="),
            ('"int"', {"subject_name_strategy": "RecordName"}, "has no name"),
            (ORDER, {"topic": "t", "auto_register": False}, "did you mean 'auto_register_schemas'"),
        ],
    )
    def test_mistakes_are_found_at_construction(
        self, registry: SchemaRegistryClient, avro: Any, schema: Any, settings: dict[str, Any], says: str
    ) -> None:
        with pytest.raises(ConfigError, match=says):
            avro.AvroSerializer(registry, schema, **settings)

    def test_spark_can_ship_them_to_its_workers(self, registry: SchemaRegistryClient, avro: Any) -> None:
        cloudpickle = pytest.importorskip("pyspark.cloudpickle", reason="the extra spark is not installed")
        serializer, deserializer = avro.AvroSerializer(registry, ORDER, topic="orders"), avro.AvroDeserializer(registry)
        deserializer(serializer(APPLE))
        write, read = cloudpickle.loads(cloudpickle.dumps((serializer, deserializer)))
        assert read(write(APPLE)) == APPLE
        write._registry.close()

    def test_through_kafka(self, registry: SchemaRegistryClient, avro: Any) -> None:
        key = avro.AvroSerializer(registry, '"string"', topic="orders", field="key")
        value = avro.AvroSerializer(registry, ORDER, topic="orders", to_dict=asdict)
        read = avro.AvroDeserializer(registry, from_dict=lambda found: Order(**found))
        with EmbeddedKafka() as kafka:
            with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, key_serializer=key, value_serializer=value) as producer:
                producer.send("orders", key="apple", value=Order("apple", 3))
                producer.send("orders", key="pear", value=None).result(timeout=10)
                with pytest.raises(SerializationError, match=r"value: the serializer failed on Order: .*does not fit"):
                    producer.send("orders", value=Order("apple", "three"))  # type: ignore[arg-type]
            with lv.KafkaConsumer(
                bootstrap_servers=kafka.bootstrap_servers,
                auto_offset_reset="earliest",
                key_deserializer=avro.AvroDeserializer(registry),
                value_deserializer=read,
            ) as consumer:
                consumer.assign(consumer.partitions_for("orders"))
                found = {one.key: one.value for one in consumer.poll(timeout=10)}
                assert found == {"apple": Order("apple", 3), "pear": None}

    def test_the_registry_comes_first(self, registry: SchemaRegistryClient, avro: Any) -> None:
        with pytest.raises(TypeError, match=r"^AvroSerializer\(\) takes the SchemaRegistryClient first, got a str$"):
            avro.AvroSerializer(ORDER, registry, topic="t")
        with pytest.raises(TypeError, match=r"^AvroDeserializer\(\) takes the SchemaRegistryClient first, got a str$"):
            avro.AvroDeserializer(ORDER)

    def test_a_record_that_cannot_be_read_can_be_skipped(self, registry: SchemaRegistryClient, avro: Any) -> None:
        with EmbeddedKafka() as kafka:
            with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
                producer.send("orders", value=b"plain text").result(timeout=10)
            with lv.KafkaConsumer(
                bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest", value_deserializer=avro.AvroDeserializer(registry)
            ) as consumer:
                consumer.assign(consumer.partitions_for("orders"))
                with pytest.raises(RecordDeserializationError, match="was it written by a serializer of a schema registry") as caught:
                    consumer.poll(timeout=10)
                assert caught.value.record.value == b"plain text"


MONEY = record({"name": "cents", "type": "int"}, {"name": "unit", "type": "string", "default": "EUR"}, name="Money")
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
DAY = {"type": "int", "logicalType": "date"}


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("bytes", "\u00ff", b"\xff"),
        ("double", 1, 1.0),
        (["null", "string"], None, None),
        (["string", "null"], "a", "a"),
        (DECIMAL, "\u0001\u0000", Decimal("2.56")),
        (DAY, 0, date(1970, 1, 1)),
        (json.loads(MONEY), {"cents": 1}, {"cents": 1, "unit": "EUR"}),
        (["null", json.loads(MONEY)], None, None),
        ({"type": "array", "items": "string"}, [], []),
        ({"type": "map", "values": "bytes"}, {"a": "\u00ff"}, {"a": b"\xff"}),
        ("bytes", "\u0100", "\u0100"),
    ],
)
def test_a_default_is_a_value_of_its_own(registry: SchemaRegistryClient, avro: Any, kind: Any, default: Any, value: Any) -> None:
    """fastavro returns the default of the schema's JSON, and the same object with each value."""
    reader = json.dumps(
        {
            "type": "record",
            "name": "All",
            "fields": [
                {"name": "one", "type": json.loads(record(ID, {"name": "more", "type": kind, "default": default}))},
                {"name": "list", "type": {"type": "array", "items": "shop.Order"}},
                {"name": "map", "type": {"type": "map", "values": ["null", "shop.Order"]}},
                {"name": "inner", "type": ["null", "All"], "default": None},
            ],
        }
    )
    orders = [{"name": "one", "type": json.loads(record(ID))}, *json.loads(reader)["fields"][1:]]
    writer = avro.AvroSerializer(registry, json.dumps({"type": "record", "name": "All", "fields": orders}), topic="t")
    apple: dict[str, Any] = {"id": "apple"}
    written = writer({"one": apple, "list": [apple], "map": {"a": apple, "b": None}, "inner": {"one": apple, "list": [], "map": {}}})
    read = avro.AvroDeserializer(registry, reader)
    for _ in range(2):
        found = read(written)
        full = {"id": "apple", "more": value}
        inner: dict[str, Any] = {"one": full, "list": [], "map": {}, "inner": None}
        assert found == {"one": full, "list": [full], "map": {"a": full, "b": None}, "inner": inner}
        assert type(found["one"]["more"]) is type(value)
        with suppress(AttributeError):
            found["one"]["more"].clear()


def test_a_registry_that_cannot_be_reached_is_an_error_that_may_pass(server: EmbeddedRegistry) -> None:
    with (
        SchemaRegistryClient(schema_registry_url=server.url, max_retries=0) as registry,
        EmbeddedKafka() as kafka,
        lv.KafkaProducer(
            bootstrap_servers=kafka.bootstrap_servers, value_serializer=JSONSerializer[Any](registry, SHAPE, topic="orders")
        ) as producer,
    ):
        server.faults.answer(503)
        with pytest.raises(SerializationError) as caught:
            producer.send("orders", value={"price": 1})
        assert caught.value.retriable
        assert producer.send("orders", value={"price": 1}).result(timeout=10).offset == 0
        with pytest.raises(SerializationError) as caught:
            producer.send("orders", value={1, 2})
        assert not caught.value.retriable


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ({}, True),
        ({"subject_name_strategy": "TopicRecordName"}, True),
        ({"subject_name_strategy": "RecordName"}, False),
        ({"subject_name_strategy": lambda topic, field, record: "any"}, False),
    ],
)
def test_a_serializer_of_another_topic_is_warned_of_once(
    registry: SchemaRegistryClient, caplog: pytest.LogCaptureFixture, settings: dict[str, Any], warned: bool
) -> None:
    """Its schema is registered under the topic that it was made with. Readers find it by its id, but the other subject stays empty."""
    serializer = JSONSerializer[Any](registry, SHAPE, topic="orders", **settings)
    with EmbeddedKafka() as kafka, lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, value_serializer=serializer) as producer:
        for topic in ("orders", "bills", "bills", "orders"):
            producer.send(topic, value={"price": 1}).result(timeout=10)
    text = "topic 'bills': the value_serializer was made with topic='orders', whose subject its schema has; make a serializer for each"
    assert said(caplog.records, logging.WARNING) == [text] * warned


SHAPE = json.dumps({"title": "Order", "type": "object", "properties": {"price": {"type": "integer"}}, "required": ["price"]})


class TestJSON:
    def test_the_registry_comes_first(self, registry: SchemaRegistryClient) -> None:
        with pytest.raises(TypeError, match=r"^JSONSerializer\(\) takes the SchemaRegistryClient first, got a str$"):
            JSONSerializer(SHAPE, registry, topic="t")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"^JSONDeserializer\(\) takes the SchemaRegistryClient first, got a str$"):
            JSONDeserializer(SHAPE)  # type: ignore[arg-type]

    def test_a_value_is_a_zero_its_schemas_id_and_json(self, registry: SchemaRegistryClient) -> None:
        serializer = JSONSerializer[Any](registry, SHAPE, topic="orders")
        assert serializer({"price": 3, "name": "é"}) == b'\x00\x00\x00\x00\x01{"price":3,"name":"\xc3\xa9"}'
        assert serializer(None) is None
        assert registry.get_latest_version("orders-value").schema == Schema(SHAPE.replace(" ", ""), "JSON")

    def test_reading_asks_nothing(self) -> None:
        assert JSONDeserializer[Any]()(b'\x00\x00\x00\x00\x01{"price": 3}') == {"price": 3}
        read = JSONDeserializer(from_dict=lambda found: Order(**found))
        assert read(b'\x00\x00\x00\x00\x01{"id": "a", "price": 3}') == Order("a", 3)

    def test_the_record_name_is_the_title(self, registry: SchemaRegistryClient) -> None:
        JSONSerializer[Any](registry, SHAPE, subject_name_strategy="RecordName")({"price": 1})
        assert registry.get_subjects() == ["Order"]

    def test_without_validation_anything_is_written(self, registry: SchemaRegistryClient) -> None:
        assert JSONSerializer[Any](registry, SHAPE, topic="orders")({"price": "three"})

    @pytest.mark.parametrize("value", [{1, 2}, float("nan"), object()])
    def test_what_is_not_json_is_refused(self, registry: SchemaRegistryClient, value: Any) -> None:
        with pytest.raises(SerializationError, match="cannot be written as JSON"):
            JSONSerializer[Any](registry, SHAPE, topic="orders")(value)

    @pytest.mark.parametrize("data", [b"{}", b"\x00\x00\x00\x00\x01{", b"\x00\x00\x00\x00\x01\xff"])
    def test_damaged_data_are_refused(self, data: bytes) -> None:
        with pytest.raises(SerializationError):
            JSONDeserializer[Any]()(data)

    def test_validation(self, registry: SchemaRegistryClient) -> None:
        pytest.importorskip("jsonschema", reason="the extra jsonschema is not installed")
        with pytest.raises(SerializationError, match=r"JSON schema of id 1: \$\.price: 'three' is not of type 'integer'"):
            JSONSerializer[Any](registry, SHAPE, topic="orders", json_fail_invalid_schema=True)({"price": "three"})
        written = JSONSerializer[Any](registry, SHAPE, topic="orders")({})
        assert written is not None
        with pytest.raises(SerializationError, match="'price' is a required property"):
            JSONDeserializer[Any](registry, validate=True)(written)
        assert JSONDeserializer[Any](registry, "{}", validate=True)(written) == {}

    @pytest.mark.parametrize("base", [None, "http://example.com/shop/order.json", "urn:shop:order"])
    @pytest.mark.parametrize("name", ["money.json", "http://example.com/shop/money.json"])
    def test_validation_with_schemas_that_use_others(self, registry: SchemaRegistryClient, base: str | None, name: str) -> None:
        """A name of a reference may be relative to the $id of the schema, as in Java."""
        pytest.importorskip("jsonschema", reason="the extra jsonschema is not installed")
        registry.register_schema("money", Schema('{"type": "integer", "minimum": 0}', "JSON"))
        text = json.dumps({**({} if base is None else {"$id": base}), "properties": {"price": {"$ref": name}}})
        order = Schema(text, "JSON", [SchemaReference(name, "money", 1)])
        serializer = JSONSerializer[Any](registry, order, {"validate": True}, topic="t")
        assert serializer({"price": 3})
        with pytest.raises(SerializationError, match="-3 is less than the minimum of 0"):
            serializer({"price": -3})

    @pytest.mark.parametrize(
        ("schema", "says"),
        [("{", "cannot be read"), ("3", "is an object"), (Schema('"int"'), "of type AVRO, not JSON"), (None, "give a schema")],
    )
    def test_mistakes_are_found_at_construction(self, registry: SchemaRegistryClient, schema: Any, says: str) -> None:
        with pytest.raises(ConfigError, match=says):
            JSONSerializer[Any](registry, schema, topic="t")

    def test_a_readers_schema_is_for_validation(self) -> None:
        with pytest.raises(ConfigError, match="set validate=True"):
            JSONDeserializer[Any](None, SHAPE)
        with pytest.raises(ConfigError, match="needs a registry"):
            JSONDeserializer[Any](None, SHAPE, validate=True)


@pytest.fixture
def protobuf() -> Any:
    pytest.importorskip("google.protobuf", reason="the extra protobuf is not installed")
    from levada.registry import protobuf

    return protobuf


@pytest.fixture
def shop(protobuf: Any) -> Any:
    import protobuf_kit

    return protobuf_kit.shop


class TestProtobuf:
    def test_a_value_is_a_zero_its_schemas_id_its_place_and_the_message(
        self, registry: SchemaRegistryClient, protobuf: Any, shop: Any
    ) -> None:
        types = shop()
        order = types["Order"](id="a", price={"cents": 5})
        written = protobuf.ProtobufSerializer(registry, types["Order"], topic="orders")(order)
        assert written == b"\x00\x00\x00\x00\x02\x00\x0a\x01a\x12\x02\x08\x05"
        assert protobuf.ProtobufDeserializer(types["Order"])(written) == order
        assert protobuf.ProtobufSerializer(registry, types["Order"], topic="orders")(None) is None

    @pytest.mark.parametrize(("name", "path"), [("Order", b"\x00"), ("Note", b"\x02\x02"), ("Order.Line", b"\x04\x00\x02")])
    def test_the_place_of_a_message_in_its_file(
        self, registry: SchemaRegistryClient, protobuf: Any, shop: Any, name: str, path: bytes
    ) -> None:
        kind = shop()[name]
        assert protobuf.ProtobufSerializer(registry, kind, topic="t")(kind()) == b"\x00\x00\x00\x00\x02" + path
        assert protobuf.ProtobufDeserializer(kind)(b"\x00\x00\x00\x00\x02" + path) == kind()

    def test_the_registry_comes_first(self, registry: SchemaRegistryClient, protobuf: Any, shop: Any) -> None:
        with pytest.raises(TypeError, match=r"^ProtobufSerializer\(\) takes the SchemaRegistryClient first, got a class$"):
            protobuf.ProtobufSerializer(shop()["Order"], registry, topic="t")

    def test_imported_files_are_registered_first(self, registry: SchemaRegistryClient, protobuf: Any, shop: Any) -> None:
        kind = shop()["Order"]
        protobuf.ProtobufSerializer(registry, kind, topic="orders")(kind())
        assert registry.get_subjects() == ["orders-value", "shop/money.proto"]
        found = registry.get_latest_version("orders-value").schema
        assert found.schema_type == "PROTOBUF"
        assert found.references == (SchemaReference("shop/money.proto", "shop/money.proto", 1),)

    def test_without_registering_the_files_have_to_be_there(self, registry: SchemaRegistryClient, protobuf: Any, shop: Any) -> None:
        kind = shop()["Order"]
        serializer = protobuf.ProtobufSerializer(registry, kind, topic="orders", auto_register_schemas=False)
        with pytest.raises(RegistryNotFoundError):
            serializer(kind())
        first = protobuf.ProtobufSerializer(registry, kind, topic="orders")(kind())
        assert serializer(kind()) == first

    def test_the_latest_version_and_an_id(self, registry: SchemaRegistryClient, protobuf: Any, shop: Any) -> None:
        kind = shop()["Note"]
        first = protobuf.ProtobufSerializer(registry, kind, subject_name_strategy="RecordName")(kind())
        assert registry.get_subjects() == ["shop.Note", "shop/money.proto"]
        for settings in ({"use_latest_version": True, "subject_name_strategy": "RecordName"}, {"use_schema_id": 2}):
            assert protobuf.ProtobufSerializer(registry, kind, **settings)(kind()) == first

    def test_the_place_of_a_message_is_that_in_the_schema_that_is_written(
        self, registry: SchemaRegistryClient, protobuf: Any, shop: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A newer version of a file may have the message at another place. Java takes the place from the schema, too."""
        from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

        types = shop()
        kind = types["Order.Line"]
        file = FileDescriptorProto.FromString(kind.DESCRIPTOR.file.serialized_pb)
        newer = FileDescriptorProto(package="shop", message_type=[DescriptorProto(name="Added"), file.message_type[0]])
        newer.message_type[1].ClearField("field")
        stored = Schema(b64encode(newer.SerializeToString()).decode(), "PROTOBUF")
        registry.register_schema("t-value", stored)
        latest = {"topic": "t", "use_latest_version": True}
        assert protobuf.ProtobufSerializer(registry, kind, **latest)(kind()) == header(1) + b"\x04\x02\x02"
        with pytest.raises(SerializationError, match=r"^schema id 1 has no message shop\.Note$"):
            protobuf.ProtobufSerializer(registry, types["Note"], **latest)(types["Note"]())

        asked = []

        def get_schema(schema_id: int, fmt: str) -> Schema:
            asked.append((schema_id, fmt))
            return texts.pop(0)

        text = Schema('syntax = "proto3"; package shop;', "PROTOBUF")
        texts = [stored, text]
        monkeypatch.setattr(registry, "get_schema", get_schema)
        monkeypatch.setattr(registry, "_identified", lambda schema_id: (text, None))
        for path in (b"\x04\x02\x02", b"\x04\x00\x02"):
            assert protobuf.ProtobufSerializer(registry, kind, use_schema_id=1)(kind()) == header(1) + path
        assert asked == [(1, "serialized")] * 2

    def test_a_schema_is_a_descriptor_or_the_registry_makes_one_of_its_text(
        self, server: EmbeddedRegistry, registry: SchemaRegistryClient, protobuf: Any, shop: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Apicurio Registry 3 answers with an error if a descriptor is to be made of a descriptor."""
        from levada.registry.protobuf_json import MessageReader

        kind = shop()["Note"]
        written = protobuf.ProtobufSerializer(registry, kind, topic="notes")(kind(text="ripe"))
        assert MessageReader(registry)(written) == {"text": "ripe"}
        assert not [target for target in server.requests if "format" in target]

        stored = registry.get_schema(schema_id_of(written))
        texts = {None: Schema('syntax = "proto3";', "PROTOBUF", stored.references), "serialized": stored}
        get_schema = registry.get_schema
        monkeypatch.setattr(
            registry,
            "get_schema",
            lambda schema_id, fmt=None: texts[fmt] if schema_id == schema_id_of(written) else get_schema(schema_id, fmt),
        )
        assert MessageReader(registry)(written) == {"text": "ripe"}
        texts["serialized"] = texts[None]
        with pytest.raises(SerializationError, match="the registry cannot return schema id 2 in the form 'serialized'"):
            MessageReader(registry)(written)

    def test_required_fields_that_a_message_lacks_are_named(self, registry: SchemaRegistryClient, protobuf: Any) -> None:
        """SerializeToString() of protobuf 7 ends the process if there is a map of numbers, too."""
        import protobuf_kit
        from levada.registry.protobuf_json import protobuf_serializer

        kind = protobuf_kit.old()
        write = protobuf.ProtobufSerializer(registry, kind, topic="t")
        with pytest.raises(SerializationError, match=r"it cannot be written: it lacks part\.needed$"):
            write(kind(part={}, counts={"a": 1}))
        good = write(kind(part={"needed": 0}, counts={"a": 1}))
        to_message = protobuf_serializer(registry, "t-value")
        with pytest.raises(SerializationError, match=r"it is no Old of schema id 1: it lacks part\.needed$"):
            to_message({"part": {}, "counts": {"a": 1}})
        assert to_message({"part": {"needed": 0}, "counts": {"a": 1}}) == good

    @pytest.mark.parametrize(
        ("imported", "says"),
        [
            ("google/protobuf/no_such.proto", r"schema id 1 imports a file .* No module named 'google\.protobuf\.no_such_pb2'"),
            ("confluent/meta.proto", r"schema id 1 imports a file that the registry does not have"),
            ("google/protobuf/timestamp.proto", "a message index of -1 is not possible"),
        ],
    )
    def test_what_no_message_can_be_made_of_is_told(self, registry: SchemaRegistryClient, protobuf: Any, imported: str, says: str) -> None:
        from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

        from levada.registry.protobuf_json import MessageReader

        file = FileDescriptorProto(name="a.proto", dependency=[imported], message_type=[DescriptorProto(name="A")])
        registry.register_schema("a", Schema(b64encode(file.SerializeToString()).decode(), "PROTOBUF"))
        path = b"\x02\x01" if imported.endswith("timestamp.proto") else b"\x00"
        with pytest.raises(SerializationError, match=says):
            MessageReader(registry)(header(1) + path)

    def test_another_version_of_the_message_reads(self, registry: SchemaRegistryClient, protobuf: Any, shop: Any) -> None:
        import protobuf_kit

        old, new = shop()["Order"], shop(protobuf_kit.field("note", 3, protobuf_kit.STRING))["Order"]
        written = protobuf.ProtobufSerializer(registry, new, topic="orders")(new(id="a", note="ripe"))
        assert protobuf.ProtobufDeserializer(old)(written).id == "a"
        written = protobuf.ProtobufSerializer(registry, old, topic="orders")(old(id="a"))
        assert protobuf.ProtobufDeserializer(new)(written).note == ""

    def test_another_type_of_message_is_refused(self, registry: SchemaRegistryClient, protobuf: Any, shop: Any) -> None:
        types = shop()
        with pytest.raises(SerializationError, match="expected Order, got Note"):
            protobuf.ProtobufSerializer(registry, types["Order"], topic="t")(types["Note"]())
        with pytest.raises(ConfigError, match="expected a class that protoc generated"):
            protobuf.ProtobufDeserializer(dict)

    @pytest.mark.parametrize("data", [b"", b"\x00\x00\x00\x00\x01", b"\x00\x00\x00\x00\x01\x00\x0a\x05a"])
    def test_damaged_data_are_refused(self, protobuf: Any, shop: Any, data: bytes) -> None:
        with pytest.raises(SerializationError):
            protobuf.ProtobufDeserializer(shop()["Order"])(data)


@pytest.mark.parametrize(
    ("package", "call", "says"),
    [
        ("fastavro", "levada.registry.AvroSerializer", "Avro needs fastavro: pip install 'levada[avro]'"),
        ("google", "levada.registry.ProtobufSerializer", "Protobuf needs protobuf: pip install 'levada[protobuf]'"),
        (
            "jsonschema",
            "levada.registry.JSONSerializer(levada.registry.SchemaRegistryClient(schema_registry_url='http://h'), '{}', topic='t', "
            "validate=True)",
            "validating JSON needs jsonschema: pip install 'levada[jsonschema]'",
        ),
    ],
)
def test_a_missing_extra_is_named(package: str, call: str, says: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None\nimport levada.registry\ntry: {call}\nexcept ImportError as error: print(error)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert run.stdout == f"{says}\n", run.stderr


def test_a_schema_of_another_type_is_not_written(registry: SchemaRegistryClient, avro: Any, protobuf: Any, shop: Any) -> None:
    note = shop()["Note"]
    registry.register_schema("t-value", Schema('"int"'))
    for settings in ({"use_schema_id": 1}, {"use_latest_version": True}):
        with pytest.raises(SerializationError, match=r"^schema id 1 is of type AVRO, not JSON$"):
            JSONSerializer[Any](registry, topic="t", **settings)({})
        with pytest.raises(SerializationError, match=r"^schema id 1 is of type AVRO, not PROTOBUF$"):
            protobuf.ProtobufSerializer(registry, note, topic="t", **settings)(note())
    registry.set_compatibility("t-value", "NONE")
    registry.register_schema("t-value", Schema(SHAPE, "JSON"))
    with pytest.raises(SerializationError, match=r"^schema id 2 is of type JSON, not AVRO$"):
        avro.AvroSerializer(registry, topic="t", use_latest_version=True)({})


def test_json_that_is_nested_without_end_is_no_value() -> None:
    with pytest.raises(SerializationError, match="the data of schema id 7 are not JSON"):
        JSONDeserializer[Any]()(header(7) + b"[" * 100_000)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("no JSON", "cannot be used: JSONDecodeError"),
        ("[" * 100_000, "cannot be used: RecursionError"),
        ('{"$ref": "#"}', "cannot be applied: RecursionError"),
        ('{"$ref": "other.json"}', "cannot be applied"),
        ('{"type": "wrong"}', "cannot be applied: UnknownType"),
    ],
    ids=["no JSON", "deep", "refers to itself", "refers to nothing", "unknown type"],
)
def test_a_json_schema_that_is_none_is_told(registry: SchemaRegistryClient, monkeypatch: pytest.MonkeyPatch, text: str, error: str) -> None:
    monkeypatch.setattr(registry, "get_schema", lambda schema_id: Schema(text, "JSON"))
    with pytest.raises(SerializationError, match=f"the JSON schema of id 7 {error}"):
        JSONDeserializer[Any](registry, validate=True)(header(7) + b'{"a": 1}')


DRAFT_7, DRAFT_2020 = "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"


def doubling(applied: Callable[[Any], Any], **of_each: Any) -> str:
    """A schema of few bytes that applies its last part 2**40 times."""
    parts = {f"a{number}": of_each | applied({"$ref": f"#/$defs/a{number - 1}"}) for number in range(1, 41)}
    return json.dumps({"$ref": "#/$defs/a40", "$defs": {"a0": {"minimum": 0}} | parts})


@pytest.mark.parametrize(
    "schema",
    [
        doubling(lambda part: {"allOf": [part, part]}),
        doubling(lambda part: {"anyOf": [{"not": part}, part]}),
        doubling(lambda part: {"allOf": [part, part]}, **{"$schema": DRAFT_2020}),
        doubling(lambda part: {"allOf": [part, {"$schema": DRAFT_7, "allOf": [part]}]}, **{"$schema": DRAFT_2020}),
        doubling(lambda part: {"unevaluatedProperties": {"minimum": 1}, "allOf": [part]}, **{"$schema": DRAFT_2020}),
    ],
    ids=["allOf", "anyOf", "parts name their draft", "parts name other drafts", "unevaluatedProperties"],
)
def test_a_json_schema_that_doubles_with_each_part_is_not_applied_without_end(
    registry: SchemaRegistryClient, monkeypatch: pytest.MonkeyPatch, schema: str
) -> None:
    monkeypatch.setattr(registry, "get_schema", lambda schema_id: Schema(schema, "JSON"))
    with pytest.raises(SerializationError, match="cannot be applied: ValueError: it takes too many steps for a value of this size"):
        JSONDeserializer[Any](registry, validate=True)(header(7) + b'{"a": 1}')


def test_a_long_value_may_take_many_steps(registry: SchemaRegistryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    items = {"allOf": [{"type": "integer"}] * 10}
    monkeypatch.setattr(registry, "get_schema", lambda schema_id: Schema(json.dumps({"items": items}), "JSON"))
    value = list(range(2 * MOST_STEPS // 10))
    assert JSONDeserializer[Any](registry, validate=True)(header(7) + json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("items", "are_unique"),
    [
        ([1, True, "1", None, [1], {"a": 1}, 1.5, [[1]], "[1]", "null"], True),
        ([{"a": 1, "b": [2]}, {"a": 1, "b": [3]}, {"a": 1}], True),
        ([1, 1.0], False),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False),
        ([[None], [None]], False),
        (["é", "\u00e9"], False),
        ([{"a": number} for number in range(20_000)], True),
    ],
    ids=lambda given: str(given)[:30],
)
def test_items_are_unique_as_json_has_it(
    registry: SchemaRegistryClient, monkeypatch: pytest.MonkeyPatch, items: list[Any], are_unique: bool
) -> None:
    monkeypatch.setattr(registry, "get_schema", lambda schema_id: Schema('{"uniqueItems": true}', "JSON"))
    read, data = JSONDeserializer[Any](registry, validate=True), header(7) + json.dumps(items).encode()
    if are_unique:
        assert read(data) == items
    else:
        with pytest.raises(SerializationError, match="has non-unique elements"):
            read(data)


def test_a_short_avro_value_does_not_become_millions_of_items(registry: SchemaRegistryClient, avro: Any) -> None:
    schema_id = registry.register_schema("nulls", Schema('{"type": "array", "items": "null"}'))
    with pytest.raises(SerializationError, match="parts that take no bytes"):
        avro.AvroDeserializer(registry)(header(schema_id) + b"\x80\x80\x80\x80\x80\x40\x00")
