"""Keys and values as typed columns: scan() and poll_arrow() with value_format."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import pickle
import re
import struct
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from io import BytesIO
from typing import Any, ClassVar

import pytest

import levada as lv
from levada import aio
from levada.errors import ConfigError, Persisted, RecordDeserializationError, SerializationError
from levada.formats.json_schema import arrow_schema
from levada.formats.json_schema_writing import JsonSchemaWriter
from levada.registry import RegistryAnswerError, RegistryUnavailableError, Schema, SchemaRegistryClient
from levada.testing import EmbeddedKafka, EmbeddedRegistry

pytest.importorskip("google.protobuf", reason="the extra protobuf is not installed")

from protobuf_columns import message_class

pa = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
fastavro = pytest.importorskip("fastavro", reason="the extra avro is not installed")

NOON = dt.datetime(2024, 1, 2, 12, 0, 0, 123_000, tzinfo=dt.UTC)
Put = Callable[..., str]


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "shop.Order", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def logical(kind: str, meaning: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": meaning, **more}


def encoded(schema: Any, value: Any, schema_id: int | None = None) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return (b"" if schema_id is None else struct.pack(">bI", 0, schema_id)) + out.getvalue()


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        yield kafka


@pytest.fixture
def registry() -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry() as server:
        yield server


@pytest.fixture
def register(registry: EmbeddedRegistry) -> Callable[..., int]:
    """Return what registers a schema under <topic>-value, whatever was registered before, and returns its id."""

    def register(topic: str, schema: Any, schema_type: str = "AVRO") -> int:
        with SchemaRegistryClient(schema_registry_url=registry.url) as client:
            client.set_compatibility(f"{topic}-value", "NONE")
            return client.register_schema(f"{topic}-value", Schema(json.dumps(schema), schema_type))

    return register


@pytest.fixture
def put(kafka: EmbeddedKafka) -> Put:
    """Return what writes values, or (key, value) pairs, to a new topic, and returns its name."""

    def put(*values: Any, topic: str | None = None) -> str:
        name = topic or f"t{next(NUMBERS)}"
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for value in values:
                key, data = value if isinstance(value, tuple) else (None, value)
                producer.send(name, data, key=key)
            producer.flush(10)
        return name

    return put


NUMBERS = iter(range(1_000))


@pytest.fixture
def read(kafka: EmbeddedKafka) -> Callable[..., list[Any]]:
    """Return what reads the column `value` of a topic with scan(), and compares it with poll_arrow()."""

    def read(topic: str, **formats: Any) -> list[Any]:
        table = lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers, **formats).to_table()
        with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
            consumer.assign([lv.TopicPartition(topic, 0)])
            consumer.seek_to_beginning()
            batch = consumer.poll_arrow(timeout=10, **formats)
        assert batch.schema == table.schema
        assert batch.to_pylist() == table.to_pylist()
        found: list[Any] = table.column("value").to_pylist()
        return found

    return read


class TestEachFormat:
    def test_json(self, put: Put, read: Any) -> None:
        topic = put(b'{"n":1,"l":["a"]}', None, b'{"n":2}')
        schema = pa.schema({"n": pa.int32(), "l": pa.list_(pa.string())})
        assert read(topic, value_format="json", value_schema=schema) == [{"n": 1, "l": ["a"]}, None, {"n": 2, "l": None}]

    def test_csv(self, put: Put, read: Any) -> None:
        topic = put(b"1;2024-01-02", None)
        schema = {"n": pa.int64(), "d": pa.date32()}
        assert read(topic, value_format="csv", value_schema=schema, value_csv_sep=";") == [{"n": 1, "d": dt.date(2024, 1, 2)}, None]

    def test_string(self, put: Put, read: Any) -> None:
        assert read(put("é".encode(), None), value_format="string") == ["é", None]

    def test_avro(self, put: Put, read: Any) -> None:
        schema = record(n="int", s=["null", "string"])
        topic = put(encoded(schema, {"n": 1, "s": "x"}), None)
        for given in (schema, json.dumps(schema)):
            assert read(topic, value_format="avro", value_schema=given) == [{"n": 1, "s": "x"}, None]

    @pytest.mark.parametrize("before", [b"", struct.pack(">bI", 0, 7) + b"\2\2"])
    def test_protobuf(self, put: Put, read: Any, before: bytes) -> None:
        kind = message_class("types.All")
        topic = put(before + kind(a_uint64=2**64 - 1, a_uint32=2**32 - 1, size="LARGE", at=NOON, names=["a"]).SerializeToString(), None)
        name = "confluent-protobuf" if before else "protobuf"
        for given in (kind, kind.DESCRIPTOR):
            (found, null) = read(topic, value_format=name, value_schema=given)
            assert null is None
            chosen = {name: found[name] for name in ("a_uint64", "a_uint32", "size", "at", "names", "point", "a_int32")}
            assert chosen == {
                "a_uint64": 2**64 - 1,
                "a_uint32": 2**32 - 1,
                "size": "LARGE",
                "at": NOON,
                "names": ["a"],
                "point": None,
                "a_int32": None,
            }

    def test_json_schema(self, put: Put, read: Any, registry: EmbeddedRegistry, register: Any) -> None:
        schema = {
            "type": "object",
            "definitions": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
            "properties": {
                "id": {"type": "integer"},
                "price": {"type": ["null", "number"]},
                "at": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date-time"}]},
                "to": {"$ref": "#/definitions/place"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "any": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
            },
        }
        topic = f"t{next(NUMBERS)}"
        head = struct.pack(">bI", 0, register(topic, schema, "JSON"))
        text = b'{"id":1,"price":1.5,"at":"2024-01-02T12:00:00.123Z","to":{"city":"X"},"tags":["a"],"any":[5]}'
        put(head + text, None, head + b"{}", topic=topic)
        nothing = dict.fromkeys(schema["properties"])
        whole = {"id": 1, "price": 1.5, "at": NOON, "to": {"city": "X"}, "tags": ["a"], "any": "[5]"}
        assert read(topic, value_format="json-schema", schema_registry_url=registry.url) == [whole, None, nothing]
        fields = pa.schema({"id": pa.int16()})
        assert read(topic, value_format="json-schema", value_schema=fields) == [{"id": 1}, None, {"id": None}]
        put(text, head, head + b" ", head + b"null", b"", topic=topic)
        with pytest.raises(
            RecordDeserializationError, match=r"the value is not JSON in Confluent's wire format: 93 bytes that begin with b'\{"
        ):
            read(topic, value_format="json-schema", value_schema=fields)
        # What has a header but no data is no tombstone, so it is not null.
        assert read(topic, value_format="json-schema", value_schema=fields, mode="DROPMALFORMED") == [{"id": 1}, None, {"id": None}]
        with pytest.raises(RecordDeserializationError, match=r"not JSON in Confluent's wire format: 5 bytes that begin with b'\\x00"):
            read(put(head), value_format="json-schema", value_schema=fields)

    def test_keys_and_values(self, put: Put, read: Any, kafka: EmbeddedKafka) -> None:
        topic = put((b"a", b'{"n":1}'), (None, None))
        formats: Any = {"key_format": "string", "value_format": "json", "value_schema": pa.schema({"n": pa.int8()}), "value_raw": "bytes"}
        columns = ["offset", "bytes", "value", "key"]
        table = lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers, columns=columns, **formats).to_table()
        assert table.to_pylist() == [
            {"offset": 0, "bytes": b'{"n":1}', "value": {"n": 1}, "key": "a"},
            {"offset": 1, "bytes": None, "value": None, "key": None},
        ]
        found = lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers, keys=["a"], columns=["value"], **formats).to_table()
        assert found.to_pylist() == [{"value": {"n": 1}}]
        assert read(topic, **formats) == [{"n": 1}, None]


class TestAvroTypes:
    def test_logical_and_nested_types(self, put: Put, read: Any) -> None:
        types: dict[str, tuple[Any, Any, Any]] = {
            "date": (logical("int", "date"), dt.date(2024, 1, 2), pa.date32()),
            "time_ms": (logical("int", "time-millis"), dt.time(1, 2, 3, 4_000), pa.time32("ms")),
            "time_us": (logical("long", "time-micros"), dt.time(1, 2, 3, 4), pa.time64("us")),
            "ms": (logical("long", "timestamp-millis"), NOON, pa.timestamp("ms", "UTC")),
            "us": (logical("long", "timestamp-micros"), NOON, pa.timestamp("us", "UTC")),
            "local": (logical("long", "local-timestamp-millis"), NOON.replace(tzinfo=None), pa.timestamp("ms")),
            "price": (logical("bytes", "decimal", precision=9, scale=2), Decimal("-1.25"), pa.decimal128(9, 2)),
            "uuid": (logical("string", "uuid"), "6ba7b810-9dad-11d1-80b4-00c04fd430c8", pa.string()),
            "fixed": ({"type": "fixed", "name": "F", "size": 2}, b"ab", pa.binary(2)),
            "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", pa.string()),
            "map": ({"type": "map", "values": "int"}, {"a": 1}, pa.map_(pa.string(), pa.int32())),
            "list": (
                {"type": "array", "items": {"type": "record", "name": "L", "fields": [{"name": "x", "type": ["null", "float"]}]}},
                [{"x": 1.5}, {"x": None}],
                pa.list_(pa.field("element", pa.struct({"x": pa.float32()}))),
            ),
            "union": (["int", "string", "null"], "a", pa.struct({"member0": pa.int32(), "member1": pa.string()})),
        }
        schema = record(**{name: kind for name, (kind, _, _) in types.items()})
        value = {name: value for name, (_, value, _) in types.items()}
        topic = put(encoded(schema, value))
        (found,) = read(topic, value_format="avro", value_schema=schema)
        assert found == value | {"map": [("a", 1)], "union": {"member0": None, "member1": "a"}}

    def test_column_types(self, put: Put, kafka: EmbeddedKafka) -> None:
        duration = logical("fixed", "duration", name="D", size=12)
        schema = record(t=logical("int", "time-millis"), n=logical("long", "timestamp-nanos"), d=duration)
        whole = lv.scan(put(None), bootstrap_servers=kafka.bootstrap_servers, value_format="avro", value_schema=schema, columns=["value"])
        kinds = {"t": pa.time32("ms"), "n": pa.timestamp("ns", "UTC"), "d": pa.binary(12)}
        assert whole.to_table().schema == pa.schema({"value": pa.struct(kinds)})


class TestEvolution:
    OLD: ClassVar[Any] = record(id="int", name="string", gone="string")
    NEW: ClassVar[Any] = {
        "type": "record",
        "name": "shop.Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "label", "type": "string", "aliases": ["name"]},
            {"name": "more", "type": "string", "default": "none"},
        ],
    }

    def test_values_are_resolved_to_the_newest_schema(self, put: Put, read: Any, registry: EmbeddedRegistry, register: Any) -> None:
        topic = f"t{next(NUMBERS)}"
        old, new = register(topic, self.OLD), register(topic, self.NEW)
        put(encoded(self.OLD, {"id": 1, "name": "a", "gone": "x"}, old), topic=topic)
        put(None, encoded(self.NEW, {"id": 2**40, "label": "b", "more": "m"}, new), topic=topic)
        rows = [{"id": 1, "label": "a", "more": "none"}, None, {"id": 2**40, "label": "b", "more": "m"}]
        for latest in ({}, {"value_schema": "latest"}, {"value_subject": f"{topic}-value"}, {"value_schema": self.NEW}):
            assert read(topic, value_format="confluent-avro", schema_registry_url=registry.url, **latest) == rows

    def test_a_reader_may_ask_for_less(self, put: Put, read: Any, registry: EmbeddedRegistry, register: Any) -> None:
        topic = f"t{next(NUMBERS)}"
        put(encoded(self.OLD, {"id": 1, "name": "a", "gone": "x"}, register(topic, self.OLD)), topic=topic)
        with SchemaRegistryClient(schema_registry_url=registry.url) as client:
            found = read(topic, value_format="confluent-avro", value_schema=record(gone="string"), registry=client)
        assert found == [{"gone": "x"}]

    def test_parts_of_a_scan_have_one_schema(self, put: Put, registry: EmbeddedRegistry, register: Any, kafka: EmbeddedKafka) -> None:
        topic = f"t{next(NUMBERS)}"
        old = register(topic, self.OLD)
        put(*[encoded(self.OLD, {"id": n, "name": "a", "gone": "x"}, old) for n in range(4)], topic=topic)
        formats: Any = {"value_format": "confluent-avro", "schema_registry_url": registry.url}
        whole = lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers, columns=["value"], **formats)
        parts = pickle.loads(pickle.dumps(whole.splits(rows=2)))
        register(topic, self.NEW)
        tables = [part.to_table() for part in parts]
        assert [row["value"]["gone"] for table in tables for row in table.to_pylist()] == ["x"] * 4

    def test_another_topic_has_its_own_newest_schema(
        self, put: Put, registry: EmbeddedRegistry, register: Any, kafka: EmbeddedKafka
    ) -> None:
        topics = [f"t{next(NUMBERS)}" for _ in range(2)]
        for topic, field in zip(topics, ("a", "b"), strict=True):
            schema = record(**{field: "int"})
            put(encoded(schema, {field: 1}, register(topic, schema)), topic=topic)
        found = []
        with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
            for topic in topics:
                consumer.assign([lv.TopicPartition(topic, 0)])
                consumer.seek_to_beginning()
                formats: Any = {"value_format": "confluent-avro", "schema_registry_url": registry.url}
                found += consumer.poll_arrow(timeout=10, columns=["value"], **formats).to_pylist()
        assert found == [{"value": {"a": 1}}, {"value": {"b": 1}}]


class TestBadValues:
    SCHEMA = pa.schema({"n": pa.int32(), "s": pa.string()})
    VALUES = (b'{"n":1,"s":"a"}', b'{"n":"x","s":"b"}', None, b"no json")

    def test_fail_by_default_and_the_error_has_the_record(self, put: Put, read: Any) -> None:
        topic = put(*self.VALUES)
        for mode in ({}, {"mode": "FAILFAST"}):
            with pytest.raises(RecordDeserializationError, match=rf"{topic}-0 at offset 1: the value is not of the type int32") as failed:
                read(topic, value_format="json", value_schema=self.SCHEMA, **mode)
            assert (failed.value.part, failed.value.record.offset, failed.value.record.value) == ("value", 1, b'{"n":"x","s":"b"}')

    def test_fail_even_if_their_column_is_not_wanted(self, put: Put, kafka: EmbeddedKafka) -> None:
        whole = lv.scan(
            put(*self.VALUES), bootstrap_servers=kafka.bootstrap_servers, columns=["offset"], value_format="json", value_schema=self.SCHEMA
        )
        with pytest.raises(RecordDeserializationError):
            whole.to_table()

    def test_can_be_returned_beside_what_was_read(self, put: Put, kafka: EmbeddedKafka) -> None:
        formats: Any = {"value_format": "json", "value_schema": self.SCHEMA, "mode": "permissive", "column_name_of_corrupt_record": "bad"}
        table = lv.scan(put(*self.VALUES), bootstrap_servers=kafka.bootstrap_servers, columns=["value", "bad"], **formats).to_table()
        assert table.to_pylist() == [
            {"value": {"n": 1, "s": "a"}, "bad": None},
            {"value": {"n": None, "s": "b"}, "bad": '{"n":"x","s":"b"}'},
            {"value": None, "bad": None},
            {"value": {"n": None, "s": None}, "bad": "no json"},
        ]

    def test_can_be_dropped(self, put: Put, read: Any) -> None:
        found = read(put(*self.VALUES), value_format="json", value_schema=self.SCHEMA, mode="DROPMALFORMED")
        assert found == [{"n": 1, "s": "a"}, None]

    def test_are_left_behind_by_seeking(self, put: Put, kafka: EmbeddedKafka) -> None:
        tp = lv.TopicPartition(put(*self.VALUES, b'{"n":5}'), 0)
        formats: Any = {"value_format": "json", "value_schema": self.SCHEMA}
        found: list[Any] = []
        with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
            consumer.assign([tp], ends={tp: 5})
            consumer.seek_to_beginning()
            while not consumer.finished():
                try:
                    found += consumer.poll_arrow(timeout=10, max_records=1, columns=["value"], **formats).to_pylist()
                except RecordDeserializationError as bad:
                    assert consumer.position(tp) == bad.record.offset
                    consumer.seek(tp, bad.record.offset + 1)
        assert found == [{"value": {"n": 1, "s": "a"}}, {"value": None}, {"value": {"n": 5, "s": None}}]


class TestRegistry:
    SCHEMA = record(n="int")

    def test_that_does_not_answer_is_an_error_of_the_record(self, put: Put, registry: EmbeddedRegistry, register: Any, read: Any) -> None:
        topic = f"t{next(NUMBERS)}"
        schema_id = register(topic, self.SCHEMA)
        put(encoded(self.SCHEMA, {"n": 1}, schema_id), topic=topic)
        with SchemaRegistryClient(schema_registry_url=registry.url, max_retries=0, default_api_timeout_ms=2_000) as client:
            formats = {"value_format": "confluent-avro", "value_schema": self.SCHEMA, "registry": client, "mode": "PERMISSIVE"}
            # A registry that does not know an id answers 404 with a code of its own.
            for status in (401, 404):
                registry.faults.answer(status)
                with pytest.raises(RecordDeserializationError, match=rf"{topic}-0 at offset 0: .* schema id {schema_id}, ") as failed:
                    read(topic, **formats)
                assert isinstance(failed.value.__cause__, RegistryAnswerError)
                assert not failed.value.retriable
            assert read(topic, **formats) == [{"n": 1}]

    def test_that_is_down_is_reported_before_anything_is_read(self, put: Put, read: Any) -> None:
        client = SchemaRegistryClient(schema_registry_url="http://127.0.0.1:1", max_retries=0, default_api_timeout_ms=1_000)
        with client, pytest.raises(RegistryUnavailableError):
            read(put(b"x"), value_format="confluent-avro", registry=client)

    def test_that_does_not_know_an_id_makes_the_value_malformed(self, put: Put, registry: EmbeddedRegistry, read: Any) -> None:
        topic = put(encoded(self.SCHEMA, {"n": 1}, 77))
        formats = {"value_format": "confluent-avro", "value_schema": self.SCHEMA, "schema_registry_url": registry.url}
        assert read(topic, mode="PERMISSIVE", **formats) == [{"n": None}]
        with pytest.raises(RecordDeserializationError, match="the value is written with schema id 77, which the registry does not know"):
            read(topic, **formats)

    def test_is_not_asked_on_the_event_loop(
        self, put: Put, registry: EmbeddedRegistry, register: Any, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        topic = f"t{next(NUMBERS)}"
        put(encoded(self.SCHEMA, {"n": 1}, register(topic, self.SCHEMA)), topic=topic)
        asked: list[int] = []
        call = SchemaRegistryClient._call

        def noted(self: Any, request: Any) -> Any:
            asked.append(threading.get_ident())
            return call(self, request)

        monkeypatch.setattr(SchemaRegistryClient, "_call", noted)

        async def main() -> list[Any]:
            whole: Any = {"value_format": "confluent-avro", "columns": ["value"]}
            with SchemaRegistryClient(schema_registry_url=registry.url) as client:
                table = await aio.scan(topic, bootstrap_servers=kafka.bootstrap_servers, registry=client, **whole).to_table()
            with SchemaRegistryClient(schema_registry_url=registry.url) as client:
                async with aio.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
                    consumer.assign([lv.TopicPartition(topic, 0)])
                    consumer.seek_to_beginning()
                    batch = await consumer.poll_arrow(timeout=10, registry=client, **whole)
            return [*table.to_pylist(), *batch.to_pylist()]

        assert asyncio.run(main()) == [{"value": {"n": 1}}] * 2
        assert len(asked) == 4
        assert threading.get_ident() not in asked


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"value_format": "avor"}, "value_format: there is no format 'avor'; did you mean 'avro'\\?; there are json, "),
        ({"value_fromat": "avro"}, "unknown option 'value_fromat'; did you mean 'value_format'\\?"),
        ({"value_format": "avro"}, "value_format='avro' needs value_schema, such as"),
        ({"value_schema": "{}"}, "'value_schema' is for value_format=json or json-schema or csv or .*, but the format is not given"),
        ({"value_format": "string", "value_schema": "{}"}, "but the format is string"),
        ({"mode": "FAILFAST"}, "'mode' has no effect without value_format or key_format"),
        ({"value_format": "string", "mode": "FAILSLOW"}, "mode must be one of PERMISSIVE, .* did you mean 'FAILFAST'"),
        ({"value_format": "string", "schema_registry_url": "http://h"}, "'schema_registry_url' has no effect here"),
        (
            {"value_format": "confluent-avro"},
            "needs either schema_registry_url or registry; such as schema_registry_url='http://host:8081'",
        ),
        ({"value_format": "confluent-avro", "registry": "http://h"}, "registry is a SchemaRegistryClient, got 'http://h'"),
        ({"value_format": "json", "value_schema": pa.schema({"d": pa.duration("s")})}, "value_schema: field 'd': JSON is not read as"),
        ({"value_format": "json", "value_schema": "n int"}, "value_schema: json has a pyarrow.Schema, got 'n int'"),
        (
            {"value_format": "protobuf", "value_schema": "Order"},
            "Protobuf has a class that protoc generated, or its descriptor, got 'Order'",
        ),
        ({"value_format": "avro", "value_schema": "{"}, "value_schema: the Avro schema cannot be read"),
        ({"value_format": "avro", "value_schema": 5}, "value_schema: Avro has a schema as JSON text or as a dict, got 5"),
        ({"value_format": "string", "column_name_of_corrupt_record": "offset"}, "cannot be called 'offset': another column has this name"),
        ({"value_format": "string", "text": ["key"]}, "text is for keys and values without a format"),
        (
            {"value_format": "confluent-avro", "value_schema": "{}", "value_subject": "s", "schema_registry_url": "http://h"},
            "value_schema and value_subject exclude each other",
        ),
    ],
)
def test_mistakes_are_said_at_once(given: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        lv.scan("orders", bootstrap_servers="127.0.0.1:1", **given)


def test_other_mistakes(put: Put, kafka: EmbeddedKafka) -> None:
    with pytest.raises(ValueError, match="unknown column 'bad'"):
        lv.scan("orders", bootstrap_servers="127.0.0.1:1", value_format="string", columns=["bad"])
    with pytest.raises(ConfigError, match="value_subject is needed, because the topics are a, b"):
        lv.scan(["a", "b"], bootstrap_servers="127.0.0.1:1", value_format="confluent-avro", schema_registry_url="http://127.0.0.1:1")
    text = r"KafkaConsumer.poll_arrow\(\) has no argument 'value_fromat'; did you mean 'value_format'\?"
    with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as consumer, pytest.raises(TypeError, match=text):
        consumer.poll_arrow(value_fromat="avro")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="value_format and key_format are for columns"):
        list(lv.scan(put(b"x"), bootstrap_servers=kafka.bootstrap_servers, value_format="string"))


class TestWriting:
    """send_arrow() with value_format writes what scan() with the same format reads."""

    ROWS: ClassVar[list[Any]] = [
        {"n": 1, "s": 'a"b\\c,d', "t": NOON, "x": Decimal("1.25")},
        {"n": None, "s": "", "t": None, "x": None},
        {"n": -5, "s": None, "t": NOON, "x": Decimal("-0.50")},
    ]
    KIND = pa.struct({"n": pa.int64(), "s": pa.string(), "t": pa.timestamp("us", "UTC"), "x": pa.decimal128(9, 2)})
    AVRO: ClassVar[Any] = record(
        n=["null", "long"],
        s=["null", "string"],
        t=["null", logical("long", "timestamp-micros")],
        x=["null", logical("bytes", "decimal", precision=9, scale=2)],
    )

    @pytest.fixture
    def send(self, kafka: EmbeddedKafka) -> Callable[..., str]:
        """Return what sends columns, with the blocking and the asyncio API, and returns the topic. Each row is there twice then."""

        def send(data: Any, *, topic: str | None = None, **given: Any) -> str:
            name = topic or f"t{next(NUMBERS)}"
            with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
                producer.send_arrow(name, data, **given).result(timeout=10)

            async def again() -> None:
                async with aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
                    await (await producer.send_arrow(name, data, **given)).result(timeout=10)

            asyncio.run(again())
            return name

        return send

    def test_what_is_written_is_read_again(self, send: Any, read: Any, registry: EmbeddedRegistry) -> None:
        data = pa.table({"o": pa.array([*self.ROWS, None], self.KIND)})
        asked = {"schema_registry_url": registry.url}
        fields = pa.schema(list(self.KIND))
        ways: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
            ({"value_format": "json"}, {"value_format": "json", "value_schema": fields}),
            ({"value_format": "csv"}, {"value_format": "csv", "value_schema": fields}),
            ({"value_format": "avro", "value_schema": self.AVRO}, {"value_format": "avro", "value_schema": self.AVRO}),
            ({"value_format": "confluent-avro", "value_schema": self.AVRO, **asked}, {"value_format": "confluent-avro", **asked}),
            (
                {"value_format": "json-schema", "value_schema": {"type": "object"}, **asked},
                {"value_format": "json-schema", "value_schema": fields},
            ),
        )
        for writing, reading in ways:
            assert read(send(data, value="o", **writing), **reading) == [*self.ROWS, None] * 2, writing["value_format"]

    def test_protobuf(self, send: Any, read: Any, registry: EmbeddedRegistry) -> None:
        kind = message_class("types.All")
        data = pa.table({"a_int32": pa.array([1, 2], pa.int32()), "names": [["a"], []], "a_uint32": pa.array([7, 8], pa.uint32())})
        for name, asked in (("protobuf", {}), ("confluent-protobuf", {"schema_registry_url": registry.url})):
            topic = send(data, value=["a_int32", "names", "a_uint32"], value_format=name, value_schema=kind, **asked)
            found = read(topic, value_format=name, value_schema=kind)
            assert [(row["a_int32"], row["names"], row["a_uint32"]) for row in found] == [(1, ["a"], 7), (2, [], 8)] * 2

    def test_several_columns_become_one_value_beside_a_key_and_a_time(self, send: Any, kafka: EmbeddedKafka) -> None:
        polars = pytest.importorskip("polars")
        frame = polars.DataFrame({"id": [1, 2], "item": ["a", "b"], "tags": [["x"], []], "at": [NOON, NOON], "who": ["k", "l"]})
        topic = send(frame, value=["id", "item", "tags"], value_format="json", key="who", key_format="string", timestamp="at")
        table = lv.scan(
            topic, bootstrap_servers=kafka.bootstrap_servers, columns=["key", "value", "timestamp"], text=["key", "value"]
        ).to_table()
        rows = [("k", '{"id":1,"item":"a","tags":["x"]}', NOON), ("l", '{"id":2,"item":"b","tags":[]}', NOON)]
        assert [tuple(row.values()) for row in table.to_pylist()] == rows * 2

    def test_all_kinds_of_text_lists_and_times_are_written(self, send: Any, read: Any) -> None:
        schema = record(
            s="string",
            e={"type": "enum", "name": "E", "symbols": ["A"]},
            l={"type": "array", "items": "long"},
            t=logical("int", "time-millis"),
            u=logical("long", "time-micros"),
        )
        data = pa.table(
            {
                "s": pa.array(["x"], pa.large_string()),
                "e": pa.array(["A"]).dictionary_encode(),
                "l": pa.array([[1]], pa.large_list(pa.uint16())),
                "t": pa.array([dt.time(1)], pa.time32("s")),
                "u": pa.array([dt.time(1)], pa.time64("ns")),
            }
        )
        topic = send(data, value=data.column_names, value_format="avro", value_schema=schema)
        row = {"s": "x", "e": "A", "l": [1], "t": dt.time(1), "u": dt.time(1)}
        assert read(topic, value_format="avro", value_schema=schema) == [row] * 2

    def test_the_newest_schema_is_asked_for_once(self, registry: EmbeddedRegistry, register: Any, kafka: EmbeddedKafka) -> None:
        topic = f"t{next(NUMBERS)}"
        register(topic, record(n="long"))
        before = len(registry.requests)
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for number in range(3):
                given: Any = {"value_format": "confluent-avro", "schema_registry_url": registry.url}
                producer.send_arrow(topic, pa.table({"n": [number]}), value=["n"], **given).result(timeout=10)
        assert len(registry.requests) == before + 1

    def test_each_call_has_its_own_format(self, kafka: EmbeddedKafka, read: Any) -> None:
        topic = f"t{next(NUMBERS)}"
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:

            class Threads(dict[str, Any]):
                """Another thread sends to the same topic as soon as the format of a call is known."""

                def __setitem__(self, name: str, given: Any) -> None:
                    producer._producing._writers = {}
                    producer.send_arrow(topic, pa.table({"s": ["other"]}), value="s", value_format="string").result(timeout=10)

            producer._producing._writers = Threads()
            producer.send_arrow(topic, pa.table({"s": ["mine"]}), value=["s"], value_format="json").result(timeout=10)
        assert read(topic, value_format="string") == ["other", '{"s":"mine"}']

    @pytest.mark.parametrize(
        ("given", "error", "text"),
        [
            ({"value_format": "avor"}, ConfigError, "there is no format 'avor'; did you mean 'avro'"),
            (
                {"value_fromat": "avro"},
                TypeError,
                r"send_arrow\(\) has no argument 'value_fromat'; did you mean 'value_format'",
            ),
            ({"value_format": "json", "value": "n"}, ConfigError, "column 'n' must be a struct to be written as JSON, but is int64"),
            ({"value_format": "json", "value": ["m"]}, SerializationError, "value: the data have no single column 'm'; there are n"),
            ({"key_format": "string"}, ConfigError, "key_format is for the column that key names; name one"),
            ({"value_format": "avro", "value_schema": '"long"', "mode": "FAILFAST"}, TypeError, "has no argument 'mode'"),
            (
                {"value_format": "avro", "value_schema": record(n="string")},
                ConfigError,
                "column 'value.n' is int64, but the Avro schema has string",
            ),
            (
                {"value_format": "avro", "value_schema": record(n="int")},
                ConfigError,
                "column 'value.n' is int64, but the Avro schema has int",
            ),
        ],
    )
    def test_mistakes_are_said_and_nothing_is_sent(self, kafka: EmbeddedKafka, given: Any, error: Any, text: str) -> None:
        topic = f"t{next(NUMBERS)}"
        kafka.create_topic(topic, 1)
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer, pytest.raises(error, match=text):
            producer.send_arrow(topic, pa.table({"n": [1]}), **{"value": ["n"], **given})
        assert lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers).to_table().num_rows == 0

    def test_a_schema_need_not_be_registered_by_the_producer(self, kafka: EmbeddedKafka, registry: EmbeddedRegistry) -> None:
        given: Any = {"value_format": "confluent-avro", "value_schema": record(n="long"), "schema_registry_url": registry.url}
        with (
            lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer,
            pytest.raises(ConfigError, match=r"the schema is not registered under 't\d+-value'; register it, or"),
        ):
            producer.send_arrow(f"t{next(NUMBERS)}", pa.table({"n": [1]}), value=["n"], auto_register_schemas=False, **given)

    def test_a_row_that_does_not_fit_is_named(self, kafka: EmbeddedKafka) -> None:
        topic, schema = f"t{next(NUMBERS)}", record(e={"type": "enum", "name": "E", "symbols": ["A"]})
        kafka.create_topic(topic, 1)
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            with pytest.raises(
                SerializationError, match=r"column 'value' does not fit the Avro schema of value_schema: .*row 1 of 2"
            ) as failed:
                producer.send_arrow(topic, pa.table({"e": ["A", "B"]}), value=["e"], value_format="avro", value_schema=schema)
            assert failed.value.persisted is Persisted.NO
        assert lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers).to_table().num_rows == 0


DEEP = 100_000


def two_of(number: int) -> dict[str, Any]:
    """Return the schema of an object with two fields, both of another property's schema."""
    return {"type": "object", "properties": {key: {"$ref": f"#/properties/{number}"} for key in "ab"}}


@pytest.mark.parametrize(
    "inner",
    [
        '{"type": "string", "format": ["date"]}',
        '{"type": "array", "items": ' * DEEP + "1" + "}" * DEEP,
        json.dumps({"$ref": "#/properties/0"}) + "".join(f', "{n}": {json.dumps(two_of(n + 1))}' for n in range(40)),
    ],
    ids=["wrong type", "too deep", "too many"],
)
def test_a_schema_that_no_one_can_follow_is_a_typed_error(inner: str) -> None:
    text = f'{{"type": "object", "properties": {{"id": {inner}}}}}'
    with pytest.raises(ConfigError, match=r"^subject 'orders-value' version 1: the JSON schema cannot be read: "):
        arrow_schema(text, "subject 'orders-value' version 1", "value.schema")


ANY = pa.struct([("id", pa.int64())])
PLACE: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"], "additionalProperties": False}
SHOP: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": ["null", "string"], "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/place"}]},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "either": {"type": ["string", "integer"]},
    },
    "required": ["id"],
    "definitions": {"place": PLACE},
}


def check_column(kind: Any, schema: Any = SHOP) -> None:
    """Raise ConfigError if a column of this type does not fit the schema."""
    JsonSchemaWriter(SchemaRegistryClient(schema_registry_url="http://h"), "s", "value_schema", json.dumps(schema), True).check("o", kind)


def test_columns_that_fit_a_json_schema() -> None:
    place = pa.struct([("x", pa.decimal128(9, 2))])
    counts = pa.map_(pa.string(), pa.int8())
    check_column(
        pa.struct(
            {
                "id": pa.uint8(),
                "at": pa.timestamp("us", "UTC"),
                "tags": pa.list_(pa.string()),
                "place": place,
                "counts": counts,
                "either": pa.float64(),
                "more": ANY,
            }
        )
    )
    check_column(pa.struct([("id", pa.null()), ("counts", pa.struct([("a", pa.int64())]))]))
    check_column(ANY, True)
    inner = {"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": {"type": "string"}}
    check_column(pa.struct([("counts", counts)]), {"type": "object", "properties": {"counts": inner}})
    pair = {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}
    check_column(pa.struct([("pair", pa.list_(pa.string()))]), {"type": "object", "properties": {"pair": pair}})
    check_column(ANY, {"type": "object", "patternProperties": {"^i": {"type": "integer"}}, "additionalProperties": {"type": "string"}})
    check_column(ANY, {"type": "object", "properties": {"id": {"$ref": "#number"}}, "$defs": {"n": {"$anchor": "number"}}})


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"id": pa.string()}, "column 'o.id' is string, but the JSON schema has integer there; cast it"),
        ({"at": pa.int64()}, "column 'o.at' is int64, but the JSON schema has string there; cast it"),
        ({"tags": pa.list_(pa.int64())}, "column 'o.tags.element' is int64, but the JSON schema has string there; cast it"),
        ({"place": pa.string()}, "column 'o.place' is string, but the JSON schema has object there; make it a struct, map or list first"),
        ({"place": ANY}, "column 'o.place' has no field 'x', which the JSON schema requires"),
        (
            {"place": pa.struct([("x", pa.float32()), ("y", pa.float32())])},
            "column 'o.place' has a field 'y', and the JSON schema allows only x",
        ),
        (
            {"counts": pa.map_(pa.string(), pa.string())},
            "column 'o.counts.value' is string, but the JSON schema has integer there; cast it",
        ),
    ],
)
def test_columns_that_do_not_fit_a_json_schema_are_named(more: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}$"):
        check_column(pa.struct({"id": pa.int64(), **more}))


def test_the_fields_of_a_json_schema() -> None:
    nullable = {"oneOf": [{"type": "null", "title": "Not included"}, {"type": "integer"}]}
    pair = {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}
    found = arrow_schema(json.dumps({"properties": {"id": nullable, "pair": pair}}), "it", "value.schema")
    assert found == pa.schema([("id", pa.int64()), ("pair", pa.list_(pa.field("element", pa.string())))])


@pytest.mark.parametrize("wrong", [{"type": "object", "properties": 1}, {"type": "object", "required": [[]]}])
def test_a_json_schema_that_no_one_can_follow_is_not_written(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"^option 'value_schema': the JSON schema of 's' cannot be read: "):
        check_column(ANY, wrong)
