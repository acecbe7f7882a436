"""Schema ids as GUIDs in headers of records (Confluent Platform 8): written by a setting, and read without one."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import levada as lv
from levada import aio
from levada.errors import RecordDeserializationError, SerializationError
from levada.registry import JSONDeserializer, JSONSerializer, RegistryNotFoundError, SchemaRegistryClient
from levada.registry.wire_format import guid_header, header
from levada.serialization import BytesWithHeaders
from levada.testing import EmbeddedKafka, EmbeddedRegistry
from levada.testing.registry_state import Stored

KEY_ID, VALUE_ID = "__key_schema_id", "__value_schema_id"
JAVA_CLASS = "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer"
SCHEMA = '{"title":"Order","type":"object"}'
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "string"}, {"name": "price", "type": "int"}],
    }
)
# Headers that Confluent's Python serializers 2.16.1 write with header_schema_id_serializer and this registry.
AVRO_ID = b"\x01~\x82.+9L \xe0\x08\xd8\xb2\xe7\xf5\xee\x01\x1e"
JSON_ID = b"\x01\xf2){\xee\x85OW\x8bdg9\x90.\x17\x92E"
PROTOBUF_ID = b"\x01\xdelC\x9c\xec\xf2\x82\xc9\x08$\x88\xc2z\x0b\x95\xd3"
MONEY_ID = b"\x01q\xa9X\xbc]\xb1g\xaa\xb3\x89\xc6B\xf4,?\x9c"


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        running.create_topic("orders")
        yield running


def in_header(registry: SchemaRegistryClient, field: str = "value", **more: Any) -> JSONSerializer[Any]:
    return JSONSerializer(registry, SCHEMA, topic="orders", field=field, schema_id_serializer="Header", **more)


def written(kafka: EmbeddedKafka, **deserializers: Any) -> list[Any]:
    return list(lv.scan("orders", bootstrap_servers=kafka.bootstrap_servers, **deserializers))


@pytest.mark.parametrize("field", ["key", "value"])
def test_avro_and_json_as_confluents_serializers_write_them(registry: SchemaRegistryClient, field: str) -> None:
    pytest.importorskip("fastavro", reason="the extra avro is not installed")
    from levada.registry import AvroDeserializer, AvroSerializer

    order = AvroSerializer[Any](registry, ORDER, topic="t", field=field, schema_id_serializer="Header")({"id": "apple", "price": 3})
    assert isinstance(order, BytesWithHeaders)
    assert (bytes(order), order.headers) == (b"\napple\x06", [(f"__{field}_schema_id", AVRO_ID)])
    assert AvroDeserializer[Any](registry)(order, AVRO_ID) == {"id": "apple", "price": 3}
    plain = in_header(registry, field)({"price": 3})
    assert isinstance(plain, BytesWithHeaders)
    assert (bytes(plain), plain.headers) == (b'{"price":3}', [(f"__{field}_schema_id", JSON_ID)])
    assert JSONDeserializer[Any](registry, validate=True)(plain, JSON_ID) == {"price": 3}


@pytest.mark.parametrize(
    ("name", "data", "schema_id"),
    [
        ("Money", b"\x08\x05", MONEY_ID + b"\x00"),
        ("Order", b"\n\x01a", PROTOBUF_ID + b"\x00"),
        ("Order.Line", b"\n\x01a", PROTOBUF_ID + b"\x04\x00\x02"),
        ("Note", b"\n\x01a", PROTOBUF_ID + b"\x02\x02"),
    ],
)
def test_protobuf_has_the_path_of_the_message_in_the_header(
    registry: SchemaRegistryClient, name: str, data: bytes, schema_id: bytes
) -> None:
    pytest.importorskip("google.protobuf", reason="the extra protobuf is not installed")
    from levada.registry import ProtobufDeserializer, ProtobufSerializer
    from protobuf_kit import shop

    kind = shop()[name]
    message = kind.FromString(data)
    found = ProtobufSerializer[Any](registry, kind, {"schema.id.serializer": JAVA_CLASS}, topic="p")(message)
    assert isinstance(found, BytesWithHeaders)
    assert (bytes(found), found.headers) == (data, [(VALUE_ID, schema_id)])
    assert ProtobufDeserializer(kind)(data, schema_id) == message


def test_a_producer_writes_headers_and_a_consumer_reads_them(kafka: EmbeddedKafka, registry: SchemaRegistryClient) -> None:
    headers: list[tuple[str, bytes | str | None]] = [("trace", "7"), (VALUE_ID, b"of another record")]
    given = list(headers)
    with lv.KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, key_serializer=in_header(registry, "key"), value_serializer=in_header(registry)
    ) as producer:
        producer.send("orders", {"n": 1}, {"k": 1}, headers=headers)
        producer.send("orders", None, {"k": 2})
        producer.send_many("orders", [({"k": 3}, {"n": 3}, {"trace": "8"})])
    assert headers == given
    raw = written(kafka)
    assert [(record.key, record.value) for record in raw] == [(b'{"k":1}', b'{"n":1}'), (b'{"k":2}', None), (b'{"k":3}', b'{"n":3}')]
    assert [list(record.headers) for record in raw] == [
        [("trace", b"7"), (VALUE_ID, JSON_ID), (KEY_ID, JSON_ID)],
        [(KEY_ID, JSON_ID)],
        [("trace", b"8"), (VALUE_ID, JSON_ID), (KEY_ID, JSON_ID)],
    ]
    reads = JSONDeserializer[Any](registry, validate=True)
    records = written(kafka, key_deserializer=reads, value_deserializer=reads)
    assert [(record.key, record.value) for record in records] == [({"k": 1}, {"n": 1}), ({"k": 2}, None), ({"k": 3}, {"n": 3})]


def test_one_topic_may_have_ids_of_all_kinds(kafka: EmbeddedKafka, registry: SchemaRegistryClient) -> None:
    before = JSONSerializer[Any](registry, SCHEMA, topic="orders")({"n": 0})
    guid = registry.get_latest_version("orders-value").guid
    assert before is not None and guid is not None
    assert registry.get_schema_by_guid(guid).schema_str == SCHEMA
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send("orders", before, headers={"trace": "7"})
        producer.send("orders", b'{"n":1}', headers={VALUE_ID: guid_header(guid)})
        producer.send("orders", b'{"n":2}', headers={VALUE_ID: header(1)})
        producer.send("orders", guid_header(guid) + b'{"n":3}')
        # Of several headers Java takes the last; one without a value counts as none.
        producer.send("orders", b'{"n":4}', headers=[(VALUE_ID, b"old"), (VALUE_ID, guid_header(guid))])
        producer.send("orders", header(1) + b'{"n":5}', headers={VALUE_ID: None})
        # What a serializer has returned can be sent without it.
        producer.send("orders", in_header(registry)({"n": 6}))
    reads = JSONDeserializer[Any](registry, validate=True)
    assert [record.value["n"] for record in written(kafka, value_deserializer=reads)] == list(range(7))


class OfNumbers(JSONSerializer[Any]):
    """A serializer of a program, with a call of its own."""

    def __call__(self, value: Any) -> bytes | None:
        return super().__call__(value)


@pytest.mark.parametrize("kind", [JSONSerializer, OfNumbers])
def test_a_serializer_of_prefixes_leaves_out_the_id_of_the_record_that_was_read(
    kafka: EmbeddedKafka, registry: SchemaRegistryClient, kind: type[JSONSerializer[Any]]
) -> None:
    serializer = kind(registry, SCHEMA, topic="orders")
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, value_serializer=serializer) as producer:
        producer.send("orders", {"n": 1}, headers=[(VALUE_ID, JSON_ID), (KEY_ID, JSON_ID), ("trace", b"7")])
    (record,) = written(kafka, value_deserializer=JSONDeserializer(registry, validate=True))
    assert record.value == {"n": 1}
    assert list(record.headers) == [(KEY_ID, JSON_ID), ("trace", b"7")]


def test_an_id_for_the_other_side_is_refused(kafka: EmbeddedKafka, registry: SchemaRegistryClient) -> None:
    """The key's id would take the place of the value's: the value would be read with the schema of the key."""
    settings: dict[str, Any] = {"subject_name_strategy": lambda *_: "others", "schema_id_serializer": "Header"}
    for_key = JSONSerializer[Any](registry, '{"title":"Key","type":"object"}', **settings)
    with (
        lv.KafkaProducer(
            bootstrap_servers=kafka.bootstrap_servers, key_serializer=for_key, value_serializer=in_header(registry)
        ) as producer,
        pytest.raises(SerializationError, match=r"key: .*__value_schema_id; make its serializer with field='key'"),
    ):
        producer.send("orders", {"n": 1}, {"k": 1})
    with (
        lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, value_serializer=in_header(registry, "key")) as producer,
        pytest.raises(SerializationError, match=r"value: .*__key_schema_id; make its serializer with field='value'"),
    ):
        producer.send("orders", {"n": 1})


def test_a_function_around_a_serializer_passes_the_headers_on(kafka: EmbeddedKafka, registry: SchemaRegistryClient) -> None:
    serializer = in_header(registry)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, value_serializer=lambda n: serializer({"n": n})) as producer:
        producer.send("orders", 1)
    assert [list(record.headers) for record in written(kafka)] == [[(VALUE_ID, JSON_ID)]]
    reads = JSONDeserializer[Any](registry)
    with pytest.raises(RecordDeserializationError, match="with the id before the data"):
        written(kafka, value_deserializer=lambda data: reads(data))


def test_headers_of_a_transaction_that_is_sent_again(kafka: EmbeddedKafka, registry: SchemaRegistryClient) -> None:
    with lv.KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id="t", value_serializer=in_header(registry), retry_backoff_ms=1
    ) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", {"n": 0}).result(timeout=20)
            kafka.faults.disconnect("Produce", applied=True)
            producer.send("orders", {"n": 1})
    assert [list(record.headers) for record in written(kafka, isolation_level="read_committed")] == [[(VALUE_ID, JSON_ID)]] * 2


def test_asyncio_clients(kafka: EmbeddedKafka, server: EmbeddedRegistry, registry: SchemaRegistryClient) -> None:
    async def main() -> list[Any]:
        servers = kafka.bootstrap_servers
        async with aio.KafkaProducer(bootstrap_servers=servers, value_serializer=in_header(registry)) as producer:
            await (await producer.send("orders", {"n": 1}, headers={"trace": "7"}))
            await (await producer.send("orders", {"n": 2}))
        reads = JSONDeserializer[Any](registry, validate=True)
        return [record async for record in aio.scan("orders", bootstrap_servers=servers, value_deserializer=reads)]

    records = asyncio.run(main())
    assert [record.value for record in records] == [{"n": 1}, {"n": 2}]
    assert [list(record.headers) for record in records] == [[("trace", b"7"), (VALUE_ID, JSON_ID)], [(VALUE_ID, JSON_ID)]]
    guid = registry.get_latest_version("orders-value").guid
    assert server.requests[:2] == ["POST /subjects/orders-value/versions", f"GET /schemas/guids/{guid}"]


@pytest.mark.parametrize("settings", [{}, {"auto_register_schemas": False}, {"use_latest_version": True}, {"use_schema_id": 1}])
def test_each_way_to_find_the_schema_finds_its_guid(registry: SchemaRegistryClient, settings: dict[str, Any]) -> None:
    in_header(registry)({})
    found = in_header(registry, **settings)({})
    assert isinstance(found, BytesWithHeaders)
    assert found.headers == [(VALUE_ID, JSON_ID)]


def test_a_registry_without_guids_is_told(registry: SchemaRegistryClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stored, "guid", None)
    with pytest.raises(SerializationError, match=r"has no GUID for schema id 1.*leave schema.id.serializer=Header out"):
        in_header(registry)({})


def test_bad_headers_are_errors_of_their_record(kafka: EmbeddedKafka, registry: SchemaRegistryClient) -> None:
    unknown = b"\x01" + bytes(16)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for bad in (b"", b"\x01short", b"\x02" + bytes(16), unknown):
            producer.send("orders", b"{}", headers={VALUE_ID: bad})
    reads = JSONDeserializer[Any](registry, validate=True)
    errors = [record.decode_error for record in written(kafka, value_deserializer=reads, on_decode_error="null")]
    assert [type(error.__cause__) for error in errors] == [*[SerializationError] * 3, RegistryNotFoundError]


def test_messages_without_their_class_are_read_by_the_header(registry: SchemaRegistryClient) -> None:
    pytest.importorskip("google.protobuf", reason="the extra protobuf is not installed")
    from levada.registry import ProtobufSerializer
    from levada.registry.protobuf_json import MessageReader
    from protobuf_kit import shop

    line = shop()["Order.Line"](item="apple")
    found = ProtobufSerializer[Any](registry, type(line), topic="p", schema_id_serializer="Header")(line)
    assert isinstance(found, BytesWithHeaders)
    assert MessageReader(registry)(found, found.headers[0][1]) == {"item": "apple"}


def test_bytes_are_pickled_with_their_headers(registry: SchemaRegistryClient) -> None:
    copy = pickle.loads(pickle.dumps(in_header(registry)({"n": 1})))
    assert (copy, copy.headers) == (b'{"n":1}', [(VALUE_ID, JSON_ID)])


def test_columns_are_not_written_by_a_serializer(kafka: EmbeddedKafka, registry: SchemaRegistryClient) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    with (
        lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, value_serializer=in_header(registry)) as producer,
        pytest.raises(lv.errors.IllegalStateError, match="has a value_serializer, which is not applied to columns"),
    ):
        producer.send_arrow("orders", pyarrow.table({"v": [b"{}"]}), value="v")


class TestColumns:
    """Typed columns of values whose id is in a header, before the data, or a GUID before the data."""

    @pytest.fixture
    def arrow(self) -> Any:
        return pytest.importorskip("pyarrow", reason="the extra arrow is not installed")

    def send(self, kafka: EmbeddedKafka, prefixed: Any, headed: Any, values: list[Any]) -> None:
        """Send values with ids of all kinds in turn. prefixed, headed: serializers."""
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for number, value in enumerate(values):
                data, found = prefixed(value), headed(value)
                ((name, guid),) = found.headers
                ways: list[tuple[Any, Any]] = [
                    (data, None),
                    (bytes(found), {"a": b"1", name: guid}),
                    (guid + bytes(found), {"b": b"2"}),
                    (bytes(found), [(name, b"old"), (name, guid), ("c", None)]),
                    (data, {name: None}),
                ]
                producer.send("orders", ways[number % 5][0], headers=ways[number % 5][1])
            producer.send("orders", None, headers=[(name, guid)])

    def test_avro(self, kafka: EmbeddedKafka, registry: SchemaRegistryClient, arrow: Any) -> None:
        pytest.importorskip("fastavro", reason="the extra avro is not installed")
        from levada.registry import AvroSerializer

        headed = AvroSerializer[Any](registry, ORDER, topic="orders", schema_id_serializer="Header")
        # A price of 0 and an empty id: the data alone would begin as an id before data does.
        rows = [{"id": "apple" * (number % 2), "price": number % 3} for number in range(20)]
        self.send(kafka, AvroSerializer[Any](registry, ORDER, topic="orders"), headed, rows)
        read: dict[str, Any] = {"value_format": "confluent-avro", "registry": registry}
        scan = lv.scan("orders", bootstrap_servers=kafka.bootstrap_servers, **read)
        assert scan.to_table()["value"].to_pylist() == [*rows, None]
        scan = lv.scan("orders", bootstrap_servers=kafka.bootstrap_servers, columns=["headers", "value", "raw"], value_raw="raw", **read)
        table = scan.to_table()
        assert table["value"].to_pylist() == [*rows, None]
        assert table["headers"].to_pylist()[1] == [{"key": "a", "value": b"1"}, {"key": VALUE_ID, "value": AVRO_ID}]
        assert table["raw"].to_pylist()[1] == b"\napple\x02"
        with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([lv.TopicPartition("orders", 0)])
            batches: list[Any] = []
            while sum(batch.num_rows for batch in batches) < 21:
                batches.append(consumer.poll_arrow(timeout=10, columns=["value"], **read))
        assert [row["value"] for batch in batches for row in batch.to_pylist()] == [*rows, None]

    def test_a_column_that_is_decoded_value_by_value(self, kafka: EmbeddedKafka, registry: SchemaRegistryClient, arrow: Any) -> None:
        pytest.importorskip("fastavro", reason="the extra avro is not installed")
        from levada.registry import AvroSerializer

        data = AvroSerializer[Any](registry, '{"type": "bytes"}', topic="orders")
        self.send(
            kafka,
            data,
            AvroSerializer[Any](registry, '{"type": "bytes"}', topic="orders", schema_id_serializer="Header"),
            [b"", b"\x01"] * 5,
        )
        scan = lv.scan("orders", bootstrap_servers=kafka.bootstrap_servers, value_format="confluent-avro", registry=registry)
        assert scan.to_table()["value"].to_pylist() == [*[b"", b"\x01"] * 5, None]

    def test_json(self, kafka: EmbeddedKafka, registry: SchemaRegistryClient, arrow: Any) -> None:
        rows = [{"n": number} for number in range(10)]
        self.send(kafka, JSONSerializer[Any](registry, SCHEMA, topic="orders"), in_header(registry), rows)
        schema = arrow.schema([("n", arrow.int64())])
        scan = lv.scan("orders", bootstrap_servers=kafka.bootstrap_servers, value_format="json-schema", value_schema=schema)
        assert scan.to_table()["value"].to_pylist() == [*rows, None]

    def test_protobuf(self, kafka: EmbeddedKafka, registry: SchemaRegistryClient, arrow: Any) -> None:
        pytest.importorskip("google.protobuf", reason="the extra protobuf is not installed")
        from levada.registry import ProtobufSerializer
        from protobuf_kit import shop

        line = shop()["Order.Line"]
        headed = ProtobufSerializer[Any](registry, line, topic="orders", schema_id_serializer="Header")
        lines = [line(item=f"apple {number}") for number in range(10)]
        self.send(kafka, ProtobufSerializer[Any](registry, line, topic="orders"), headed, lines)
        scan = lv.scan("orders", bootstrap_servers=kafka.bootstrap_servers, value_format="confluent-protobuf", value_schema=line)
        assert scan.to_table()["value"].to_pylist() == [*({"item": one.item} for one in lines), None]

    def test_bad_ids_are_malformed_and_an_unknown_guid_is_named(
        self, kafka: EmbeddedKafka, registry: SchemaRegistryClient, arrow: Any
    ) -> None:
        pytest.importorskip("fastavro", reason="the extra avro is not installed")
        from levada.registry import AvroSerializer

        good = AvroSerializer[Any](registry, ORDER, topic="orders", schema_id_serializer="Header")({"id": "apple", "price": 3})
        unknown = b"\x01" + bytes(15) + b"\x07"
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for schema_id in (unknown, b"\x01short", AVRO_ID, b""):
                producer.send("orders", b"\napple\x06", headers={VALUE_ID: schema_id})
            producer.send("orders", good)
            # Too short for an id, and together with the value none either: the deserializers refuse them, too.
            for short in (b"", b"\0", header(1)[:4]):
                producer.send("orders", header(1)[len(short) :] + b"\napple\x06", headers={VALUE_ID: short})
        read: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap_servers, "value_format": "confluent-avro", "registry": registry}
        permissive = lv.scan("orders", mode="PERMISSIVE", column_name_of_corrupt_record="bad", **read).to_table()
        apple, nothing = {"id": "apple", "price": 3}, {"id": None, "price": None}
        assert permissive["value"].to_pylist() == [nothing, nothing, apple, nothing, apple, nothing, nothing, nothing]
        assert permissive["bad"].to_pylist()[:5] == ["CmFwcGxlBg==", "CmFwcGxlBg==", None, "CmFwcGxlBg==", None]
        with pytest.raises(RecordDeserializationError, match="written with schema GUID 00000000-0000-0000-0000-000000000007, which"):
            lv.scan("orders", **read).to_table()
