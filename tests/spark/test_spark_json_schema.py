"""value.format=json-schema: JSON in Confluent's wire format, read and written by Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest

import levada as lv
from levada.registry import JSONDeserializer, JSONSerializer, Schema, SchemaRegistryClient
from levada.testing import EmbeddedRegistry

ORDER = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}, "item": {"type": "string"}}})

pytestmark = pytest.mark.spark


def test_values_are_read_by_the_latest_schema_and_written_with_its_id(spark: Any, embedded: Any, new_topic: Any) -> None:
    topic, copy = new_topic(embedded), new_topic(embedded)
    with EmbeddedRegistry() as server, SchemaRegistryClient(schema_registry_url=server.url) as client:
        to_json = JSONSerializer(client, ORDER, topic=topic)
        client.register_schema(f"{copy}-value", Schema(ORDER, "JSON"))
        with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
            producer.send(topic, to_json({"id": 1, "item": "apple"}))
            producer.send(topic, b"not of the wire format")
        options = {"kafka.bootstrap.servers": embedded.bootstrap_servers, "schema.registry.url": server.url, "value.format": "json-schema"}
        frame = spark.read.format("levada").options(**options).option("subscribe", topic).load()
        assert frame.schema["value"].dataType.simpleString() == "struct<id:bigint,item:string>"
        rows = frame.orderBy("offset").select("value.*").collect()
        assert [tuple(row) for row in rows] == [(1, "apple"), (None, None)]

        frame.where("value.id = 1").select("value").write.format("levada").options(**options).option("topic", copy).mode("append").save()
        (record,) = lv.scan(copy, bootstrap_servers=embedded.bootstrap_servers)
        data = record.value or b""
        assert JSONDeserializer()(data) == {"id": 1, "item": "apple"}
        assert data[:5] == b"\0" + client.get_latest_version(f"{copy}-value").schema_id.to_bytes(4)
