"""-s of produce, consume and scan: JSON, and Avro, JSON Schema and Protobuf of a schema registry."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest

import levada as lv
from cli_kit import Ran, done, run
from levada.cli.exits import Exit
from levada.registry import Schema, SchemaRegistryClient
from levada.registry.schema import AVRO, JSON
from levada.testing import EmbeddedRegistry

NewTopic = Callable[..., str]
Levada = Callable[..., Ran]

FIELDS = [{"name": "id", "type": "string"}, {"name": "price", "type": "int"}]
SCHEMAS = {
    "avro": Schema(json.dumps({"type": "record", "name": "Order", "fields": FIELDS}), AVRO),
    "json-schema": Schema(json.dumps({"type": "object", "properties": {"id": {"type": "string"}, "price": {"type": "integer"}}}), JSON),
}
ORDERS: list[dict[str, Any]] = [{"id": "apple", "price": 3}, {"id": "pear", "price": 5}]
LINES = "".join(f"{json.dumps(order)}\n" for order in ORDERS).encode()


@pytest.fixture(params=["embedded", pytest.param("kafka44", id="kafka-4.4.0", marks=pytest.mark.kafka)])
def kafka(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def registry_url(request: pytest.FixtureRequest, kafka: Any, embedded: Any) -> Iterator[str]:
    """The address of a registry: the embedded one beside the embedded broker, a real one beside Kafka."""
    if kafka is embedded:
        with EmbeddedRegistry() as server:
            yield server.url
    else:
        yield request.getfixturevalue("apicurio")


@pytest.fixture
def registry(registry_url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient(schema_registry_url=registry_url) as registry:
        yield registry


@pytest.fixture
def levada(kafka: Any, registry_url: str) -> Levada:
    return lambda *words, **more: done("-b", kafka.bootstrap_servers, "-X", f"schema.registry.url={registry_url}", *words, **more)


@pytest.fixture
def failing(kafka: Any, registry_url: str) -> Levada:
    return lambda *words, **more: run("-b", kafka.bootstrap_servers, "-X", f"schema.registry.url={registry_url}", *words, **more)


@cache
def order_class() -> Any:
    """Return the class of a message with the fields of ORDERS, a time, a message of another file, and a nested message."""
    pytest.importorskip("google.protobuf", reason="the extra protobuf is not installed")
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass
    from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMES

    from protobuf_kit import INT64, MESSAGE, STRING, field

    pool = DescriptorPool()
    pool.Add(FileDescriptorProto.FromString(TIMES.serialized_pb))
    shop = DescriptorProto(name="Shop", field=[field("name", 1, STRING)])
    pool.Add(FileDescriptorProto(name="cli/shop.proto", package="cli", syntax="proto3", message_type=[shop]))
    order = DescriptorProto(
        name="Order",
        field=[
            field("id", 1, STRING),
            field("price", 2, FieldDescriptorProto.TYPE_INT32),
            field("placed_at", 3, MESSAGE, ".google.protobuf.Timestamp"),
            field("shop", 4, MESSAGE, ".cli.Shop"),
            field("number", 5, INT64),
        ],
        nested_type=[DescriptorProto(name="Line", field=[field("sku", 1, STRING)])],
    )
    imports = ["google/protobuf/timestamp.proto", "cli/shop.proto"]
    pool.Add(FileDescriptorProto(name="cli/order.proto", package="cli", syntax="proto3", dependency=imports, message_type=[order]))
    return GetMessageClass(pool.FindMessageTypeByName("cli.Order"))


def register(registry: SchemaRegistryClient, kind: str, topic: str, field: str = "value") -> None:
    if kind == "protobuf":
        order = order_class()
        from levada.registry import ProtobufSerializer

        ProtobufSerializer(registry, order, topic=topic, field=field)(order())
    else:
        if kind == "avro":
            pytest.importorskip("fastavro", reason="the extra avro is not installed")
        registry.register_schema(f"{topic}-{field}", SCHEMAS[kind])


KINDS = pytest.mark.parametrize("kind", ["avro", "json-schema", "protobuf"])


@KINDS
def test_what_produce_writes_consume_and_scan_read(
    kind: str, kafka: Any, new_topic: NewTopic, registry: SchemaRegistryClient, levada: Levada
) -> None:
    topic = new_topic(kafka)
    register(registry, kind, topic)
    # A Kafka that has only now started may have made it wait, which a warning says.
    assert levada("produce", topic, "-s", f"value={kind}", stdin=LINES).err.endswith("levada: 2 records acknowledged\n")
    raw = list(lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers))
    assert all(record.value is not None and record.value[:1] == b"\0" for record in raw)

    printed = levada("consume", topic, "-e", "-s", f"value={kind}", "-J").json_lines()
    assert [one["value"] for one in printed] == ORDERS
    table = pq.read_table(io.BytesIO(levada("scan", topic, "--to", "-", "-f", "parquet", "-s", f"value={kind}").out))
    assert [{name: row[name] for name in ("id", "price")} for row in table["value"].to_pylist()] == ORDERS
    lines = levada("scan", topic, "--to", "-", "-f", "jsonl", "-s", f"value={kind}", "--columns", "value").json_lines()
    assert [line["value"]["price"] for line in lines] == [3, 5]


@KINDS
def test_what_consume_prints_produce_reads(
    kind: str, kafka: Any, new_topic: NewTopic, registry: SchemaRegistryClient, levada: Levada
) -> None:
    first, second = new_topic(kafka), new_topic(kafka)
    for topic in (first, second):
        register(registry, kind, topic)
        register(registry, kind, topic, "key")
    levada("produce", first, "-s", kind, "-K", "|", stdin=b"".join(b"%s|%s\n" % (line, line) for line in LINES.splitlines()))
    printed = levada("consume", first, "-e", "-s", kind, "-J").out
    levada("produce", second, "-f", "json", "-s", kind, stdin=printed)
    again = levada("consume", second, "-e", "-s", kind, "-J").json_lines()
    assert [(one["key"], one["value"]) for one in again] == [(order, order) for order in ORDERS]


def test_what_consume_prints_of_avros_types_produce_reads(
    kafka: Any, new_topic: NewTopic, registry: SchemaRegistryClient, levada: Levada, failing: Levada
) -> None:
    pytest.importorskip("fastavro", reason="the extra avro is not installed")
    from levada.registry import AvroSerializer

    logical = {
        "price": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("1.20")),
        "at": ({"type": "long", "logicalType": "timestamp-micros"}, datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
        "local": ({"type": "long", "logicalType": "local-timestamp-millis"}, datetime(2026, 1, 2, 3, 4, 5)),
        "day": ({"type": "int", "logicalType": "date"}, date(2026, 1, 2)),
        "hour": ({"type": "int", "logicalType": "time-millis"}, time(3, 4, 5)),
        "id": ({"type": "string", "logicalType": "uuid"}, UUID(int=7)),
        "text": ("bytes", b"text"),
        "raw": ("bytes", b"\xff\x00"),
        "ratio": ("double", float("inf")),
        "maybe": (["null", {"type": "int", "logicalType": "date"}], date(2026, 1, 2)),
        "either": (["null", {"type": "long", "logicalType": "timestamp-millis"}, "string"], "2026"),
        "items": ({"type": "array", "items": {"type": "map", "values": "bytes"}}, [{"a": b"\xfe"}]),
    }
    fields = [{"name": name, "type": kind} for name, (kind, _) in logical.items()]
    schema = json.dumps({"type": "record", "name": "All", "fields": [*fields, {"name": "next", "type": ["null", "All"], "default": None}]})
    first, second = new_topic(kafka), new_topic(kafka)
    value = {name: found for name, (_, found) in logical.items()}
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(first, AvroSerializer[Any](registry, schema, topic=first)({**value, "next": {**value, "next": None}}))
    registry.register_schema(f"{second}-value", Schema(schema, AVRO))

    printed = levada("consume", first, "-e", "-s", "value=avro", "-J").out
    levada("produce", second, "-f", "json", "-s", "value=avro", stdin=printed)
    (before,), (after,) = (lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers) for topic in (first, second))
    assert after.value == before.value

    wrong = failing("produce", second, "-s", "value=avro", stdin=json.dumps({**json.loads(printed)["value"], "day": "today"}).encode())
    assert (wrong.code, "day: 'today' is no date" in wrong.err) == (Exit.FAILED, True), wrong.err


def test_messages_of_protobuf_as_others_write_them(kafka: Any, new_topic: NewTopic, registry: SchemaRegistryClient, levada: Levada) -> None:
    order = order_class()
    from google.protobuf.message_factory import GetMessageClass

    from levada.registry import ProtobufSerializer

    topic = new_topic(kafka)
    line = GetMessageClass(order.DESCRIPTOR.nested_types_by_name["Line"])
    placed = order(id="a", shop={"name": "corner"})
    placed.placed_at.seconds = 1_700_000_000
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(topic, ProtobufSerializer(registry, order, topic=topic)(placed))
        producer.send(topic, ProtobufSerializer(registry, line, topic=topic)(line(sku="s")))
        producer.send(topic, None, key=b"deleted")
    printed = levada("consume", topic, "-e", "-s", "value=protobuf", "-J").json_lines()
    assert [one["value"] for one in printed] == [
        {"id": "a", "placed_at": "2023-11-14T22:13:20Z", "shop": {"name": "corner"}},
        {"sku": "s"},
        None,
    ]


@KINDS
def test_a_value_that_does_not_fit_is_named_by_its_line(
    kind: str, kafka: Any, new_topic: NewTopic, registry: SchemaRegistryClient, failing: Levada
) -> None:
    topic = new_topic(kafka)
    register(registry, kind, topic)
    ran = failing("produce", topic, "-s", f"value={kind}", stdin=LINES + b"no JSON\n")
    assert ran.code == Exit.PARTLY
    assert "levada: line 3: with --schema, keys and values are JSON, and this is not: " in ran.err
    if kind != "json-schema":
        wrong = failing("produce", topic, "-s", f"value={kind}", stdin=b'{"price": "dear"}\n')
        assert (wrong.code, "levada: line 1: it " in wrong.err) == (Exit.FAILED, True), wrong.err


def test_records_of_another_schema_are_found_by_its_id(
    embedded: Any, new_topic: NewTopic, registry: SchemaRegistryClient, levada: Levada
) -> None:
    topic, other = new_topic(embedded), new_topic(embedded)
    register(registry, "avro", topic)
    registry.register_schema(f"{other}-value", Schema('"string"', AVRO))
    levada("produce", topic, "-s", "value=avro", stdin=LINES)
    levada("produce", other, "-s", "value=avro", stdin=b'"a refund"\n')
    levada("copy", other, topic)
    assert levada("consume", topic, "-e", "-s", "value=avro", "--on-decode-error", "only").lines == []
    (known,) = levada("registry", "versions", f"{topic}-value", "-o", "json").json()
    page = (Path(__file__).parents[2] / "docs" / "howto" / "command-line.md").read_text()
    [pattern] = re.findall(r"--value '(/.*?/)'", page)
    ran = levada("consume", topic, "-e", "--value", pattern.replace(r"\x07", f"\\x{known['schema_id']:02x}"), "-f", "%o")
    assert ran.text == "2"


def test_values_of_another_format_in_a_scan(
    kafka: Any, new_topic: NewTopic, registry: SchemaRegistryClient, levada: Levada, failing: Levada
) -> None:
    topic = new_topic(kafka)
    register(registry, "avro", topic)
    levada("produce", topic, stdin=b"no Avro\n")
    levada("produce", topic, "-s", "value=avro", stdin=LINES)
    scan = ("scan", topic, "--to", "-", "-f", "jsonl", "-s", "value=avro", "--columns", "value")
    ran = failing(*scan)
    assert (ran.code, f"{topic}-0" in ran.err) == (Exit.FAILED, True)
    assert ran.err.endswith("levada: --on-decode-error skip leaves such records out, and null keeps them without what cannot be decoded\n")
    assert len(levada(*scan, "--on-decode-error", "skip").lines) == 2
    assert len(levada(*scan, "--on-decode-error", "null").lines) == 3


def test_mistakes_about_schemas(kafka: Any, new_topic: NewTopic, failing: Levada, tmp_path: Path) -> None:
    topic, other = new_topic(kafka), new_topic(kafka)
    for words, text in (
        (["consume", topic, "-s", "protobuff"], "did you mean 'protobuf'"),
        (["scan", topic, "--to", "x.parquet", "-s", "json"], "expected avro, json-schema, protobuf"),
        (["scan", topic, "--to", "x.csv", "-s", "avro"], "which CSV does not have"),
        (["scan", topic, "--to", "x.parquet", "-s", "avro", "--on-decode-error", "skipp"], "did you mean 'skip'"),
        (["scan", topic, other, "--to", str(tmp_path / "x.parquet"), "-s", "avro"], "a scan reads one topic"),
        (["produce", topic, "x.parquet", "-s", "avro"], "not for columns"),
    ):
        ran = failing(*words)
        assert (ran.code, text in ran.err) == (Exit.WRONG_USE, True), ran.err
    unknown = failing("produce", topic, "-s", "value=json-schema", stdin=LINES)
    assert (unknown.code, f"{topic}-value" in unknown.err) == (Exit.FAILED, True), unknown.err
    assert len(unknown.err.splitlines()) == 1
