"""value.format=json-schema: JSON in Confluent's wire format, read and written by Spark."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import levada as lv
from levada.errors import ConfigError
from levada.registry import JSONDeserializer, JSONSerializer, Schema, SchemaRegistryClient
from levada.spark.options.options import source_options
from levada.spark.types import spark_type
from levada.testing import EmbeddedRegistry

ORDER = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}, "item": {"type": "string"}}})


def chosen(**given: str) -> Any:
    options = source_options(
        {"kafka.bootstrap.servers": "h:1", "subscribe": "orders", "value.format": "json-schema", **given}, streaming=False
    )
    return options.typed.pinned().formats["value"]


def test_fields_that_are_given_need_no_registry() -> None:
    form = chosen(**{"value.schema": "id short"})
    assert form.decoder().decode(pa.array([b'\0\0\0\0\1{"id":1}'])).rows.to_pylist() == [{"id": 1}]
    with pytest.raises(ConfigError, match=r"option 'value.format'=json-schema needs the option 'schema.registry.url', such as http"):
        chosen()
    with pytest.raises(ConfigError, match=r"options 'value.schema' and 'value.subject' exclude each other"):
        chosen(**{"value.schema": "id short", "value.subject": "orders-value"})


def test_a_schema_without_fields_is_refused() -> None:
    with EmbeddedRegistry() as server, SchemaRegistryClient(schema_registry_url=server.url) as client:
        client.register_schema("orders-value", Schema('{"type": "object"}', "JSON"))
        text = "subject 'orders-value' version 1: the JSON schema describes no object with properties; give the fields with 'value.schema'"
        with pytest.raises(ConfigError, match=text):
            chosen(**{"schema.registry.url": server.url})


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
