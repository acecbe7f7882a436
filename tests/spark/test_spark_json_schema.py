"""value.format=json-schema: JSON in Confluent's wire format, read and written by Spark."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import levada as lv
from levada.errors import ConfigError
from levada.registry import JSONDeserializer, JSONSerializer, Schema, SchemaRegistryClient
from levada.spark.options.options import sink_options, source_options
from levada.spark.types import spark_type
from levada.testing import EmbeddedRegistry

ORDER = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}, "item": {"type": "string"}}})
SOURCE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders", "value.format": "json-schema"}
SINK = {"kafka.bootstrap.servers": "localhost:9092", "topic": "orders", "value.format": "json-schema"}


def test_with_the_fields_given_no_registry_is_needed() -> None:
    for given in ({}, {"schema.registry.url": "http://localhost:8081"}):
        made = source_options({**SOURCE, "value.schema": "id long", **given}, streaming=False).typed.formats["value"].pinned()
        assert made.kind.field(0).name == "id"
        assert made.decoder().decode(pa.array([b'\0\0\0\0\x07{"id":1}'])).rows.to_pylist() == [{"id": 1}]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "option 'value.format'=json-schema needs the option 'schema.registry.url'"),
        ({"value.format": "json_schema"}, "got 'json_schema'; did you mean 'json-schema'?"),
        ({"value.schema": "id long", "value.subject": "orders-value"}, "'value.schema' and 'value.subject' exclude each other"),
        (
            {"value.schema": "id long", "schema.registry.url": "http://h", "schema.registry.cache.capcity": "1"},
            "did you mean 'cache.capacity'",
        ),
        ({"value.json.schema": ORDER}, "option 'value.json.schema' belongs to a levada sink"),
    ],
)
def test_mistakes_of_the_source_are_said(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        source_options({**SOURCE, **given}, streaming=False)


def test_the_name_of_a_file_is_not_a_schema() -> None:
    given = {**SINK, "schema.registry.url": "http://localhost:1", "value.json.schema": "/schemas/order.json"}
    with pytest.raises(
        ConfigError, match=r"'value\.json\.schema' takes the JSON text of a JSON Schema; what begins with '/schemas/order\.json'"
    ):
        sink_options(given)


def test_what_to_do_without_a_usable_schema_is_said() -> None:
    with EmbeddedRegistry() as server, SchemaRegistryClient(schema_registry_url=server.url) as client:
        given = {"schema.registry.url": server.url}
        with pytest.raises(ConfigError, match=r"no subject 'orders-value'; .*, or give the schema to read with"):
            source_options({**SOURCE, **given}, streaming=False).typed.formats["value"].pinned()
        with pytest.raises(ConfigError, match=r"no subject 'orders-value'; .*, or give the schema to write"):
            sink_options({**SINK, **given}).formats["value"].pinned()
        client.register_schema("orders-value", Schema('{"type": "object"}', "JSON"))
        text = "subject 'orders-value' version 1: the JSON schema describes no object with properties; give the fields with 'value.schema'"
        with pytest.raises(ConfigError, match=text):
            source_options({**SOURCE, **given}, streaming=False).typed.formats["value"].pinned()


@pytest.mark.spark
def test_values_are_read_by_the_latest_schema_and_written_with_its_id(spark: Any, embedded: Any, new_topic: Any) -> None:
    topic, copy = new_topic(embedded), new_topic(embedded)
    with EmbeddedRegistry() as server, SchemaRegistryClient(schema_registry_url=server.url) as client:
        to_json = JSONSerializer(client, ORDER, topic=topic)
        client.register_schema(f"{copy}-value", Schema(ORDER, "JSON"))
        with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
            producer.send(topic, to_json({"id": 1, "item": "apple"}))
            producer.send(topic, b"not of the wire format")
            guid = UUID(client.get_latest_version(f"{topic}-value").guid)
            producer.send(topic, b'{"id": 2}', headers={"__value_schema_id": b"\1" + guid.bytes})
            producer.send(topic, None)
        options = {"kafka.bootstrap.servers": embedded.bootstrap_servers, "schema.registry.url": server.url, "value.format": "json-schema"}
        frame = spark.read.format("levada").options(**options).option("subscribe", topic).load()
        assert frame.schema["value"].dataType.simpleString() == "struct<id:bigint,item:string>"
        scan = lv.scan(
            topic,
            bootstrap_servers=embedded.bootstrap_servers,
            value_format="json-schema",
            schema_registry_url=server.url,
            mode="PERMISSIVE",
        )
        assert frame.schema["value"].dataType == spark_type(scan.to_table().schema.field("value").type)
        asked = len(server.requests)
        rows = frame.orderBy("offset").select("value").collect()
        assert [row.value and tuple(row.value) for row in rows] == [(1, "apple"), (None, None), (2, None), None]
        # Fields are found by name, so tasks do not depend on the registry.
        assert len(server.requests) == asked

        frame.where("value.id = 1").select("value").write.format("levada").options(**options).option("topic", copy).mode("append").save()
        (record,) = lv.scan(copy, bootstrap_servers=embedded.bootstrap_servers)
        data = record.value or b""
        assert JSONDeserializer()(data) == {"id": 1, "item": "apple"}
        assert data[:5] == b"\0" + client.get_latest_version(f"{copy}-value").schema_id.to_bytes(4)
