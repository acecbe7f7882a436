"""AWS Glue Schema Registry: its client, serializers and deserializer, on a registry in memory, and on moto's where moto is installed."""

from __future__ import annotations

import asyncio
import pickle
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import levada as lv
from glue_service import URL, ClientError, GlueService
from levada import aio
from levada.errors import ConfigError, RecordDeserializationError, SerializationError
from levada.registry import (
    GlueDeserializer,
    GlueSchemaRegistry,
    GlueSerializer,
    IncompatibleSchemaError,
    InvalidSchemaError,
    JSONDeserializer,
    RegistryAnswerError,
    RegistryAuthenticationError,
    RegistryAuthorizationError,
    RegistryError,
    RegistryNotFoundError,
    RegistryUnavailableError,
    Schema,
    SchemaReference,
    objects,
)
from levada.registry.errors import RegistryProtocolError
from levada.registry.glue import client as glue_client
from levada.registry.glue.wire_format import HEADER_SIZE
from levada.registry.wire_format import header
from levada.testing import EmbeddedKafka

NO_AVRO, NO_PROTOBUF = "the extra avro is not installed", "the extra protobuf is not installed"
ID = UUID("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63")
ORDER = (
    '{"type":"record","name":"Order","namespace":"shop","fields":'
    '[{"name":"item","type":"string"},{"name":"price","type":"int"},{"name":"raw","type":"bytes"}]}'
)
APPLE = {"item": "äpple", "price": -3, "raw": b"\x01\x02"}
JSON_ORDER = Schema('{"title": "Order", "type": "object", "properties": {"item": {"type": "string"}}}', "JSON")
WIDER = Schema('{"title": "Order", "type": "object", "properties": {"item": {}}}', "JSON")
PROTO_ORDER = Schema('syntax = "proto3"; package shop; message Order { string id = 1; }', "PROTOBUF")
LONGEST_S = 20.0

# What Java's schema-registry-serde 1.1.24 writes with the schema version ID.
OF_JAVA = {
    "avro": bytes.fromhex("0300b7b4a7f09c964e4aa687fb5de9ef0c630cc3a470706c6505040102"),
    "avro, zlib": bytes.fromhex("0305b7b4a7f09c964e4aa687fb5de9ef0c63789ce339bca4a0202795958591090019260331"),
    "protobuf": bytes.fromhex("0300b7b4a7f09c964e4aa687fb5de9ef0c63030a06c3a470706c65"),
    "protobuf, zlib": bytes.fromhex("0305b7b4a7f09c964e4aa687fb5de9ef0c63789c63e6623bbca4a0202715000cb1032c"),
}
NUMBERS_OF_JAVA = {
    "Note": 0,
    "Order": 1,
    "Order.Address": 2,
    "Order.Line": 3,
    "Order.Line.Tax": 4,
    "Order.TagsEntry": 5,
    "OrderX": 6,
    "order": 7,
}
"""The number that Java writes for each message type of a file. Order has a map, for which Protobuf adds the type TagsEntry."""


def service_of_moto() -> Iterator[Any]:
    moto = pytest.importorskip("moto", reason="moto is not installed: docs/TESTING.md")
    from botocore.session import Session

    with pytest.MonkeyPatch.context() as patch, moto.mock_aws():
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        yield Session().create_client("glue", region_name="eu-west-1")


@pytest.fixture(params=["in memory", "moto"])
def service(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "moto":
        yield from service_of_moto()
    else:
        yield GlueService()


@pytest.fixture
def glue() -> GlueService:
    return GlueService()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that the client makes, which take no time."""
    made: list[float] = []
    monkeypatch.setattr(glue_client, "sleep", made.append)
    return made


@dataclass
class Order:
    item: str


def messages() -> dict[str, Any]:
    """The classes of a file with nested message types, by their names in the package."""
    pytest.importorskip("google.protobuf", reason=NO_PROTOBUF)
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, MessageOptions
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    from protobuf_kit import MESSAGE, STRING, field

    def message(name: str, *nested: Any) -> Any:
        return DescriptorProto(name=name, field=[field("id", 1, STRING)], nested_type=nested)

    pairs = [field("key", 1, STRING), field("value", 2, STRING)]
    entry = DescriptorProto(name="TagsEntry", field=pairs, options=MessageOptions(map_entry=True))
    order = message("Order", message("Line", message("Tax")), entry, message("Address"))
    tags = field("tags", 2, MESSAGE, ".shop.Order.TagsEntry")
    tags.label = FieldDescriptorProto.LABEL_REPEATED
    order.field.append(tags)
    pool = DescriptorPool()
    types = [order, message("OrderX"), message("Note"), message("order")]
    pool.Add(FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3", message_type=types))
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in NUMBERS_OF_JAVA}


def known(schema: Schema) -> GlueSchemaRegistry:
    """A registry that has one schema version, with ID."""
    glue = GlueService()
    glue._versions[str(ID)] = schema.schema_str, schema.schema_type, ["AVAILABLE"]
    return GlueSchemaRegistry(glue)


# Values.


def test_avro_is_written_and_read(service: Any) -> None:
    pytest.importorskip("fastavro", reason=NO_AVRO)
    registry = GlueSchemaRegistry(service)
    written = GlueSerializer(registry, ORDER, schema_name="orders-value")(APPLE)
    assert written is not None
    assert written[HEADER_SIZE:] == OF_JAVA["avro"][HEADER_SIZE:]
    assert GlueDeserializer(registry)(written) == APPLE
    assert GlueDeserializer(GlueSchemaRegistry(service))(written) == APPLE, "with the schema from Glue"


def test_json_is_written_and_read(service: Any) -> None:
    registry = GlueSchemaRegistry(service)
    to_json: GlueSerializer[Order] = GlueSerializer(registry, JSON_ORDER, schema_name="orders-value", to_dict=asdict, compression="zlib")
    written = to_json(Order("äpple"))
    assert written is not None
    assert zlib.decompress(written[HEADER_SIZE:]) == '{"item":"äpple"}'.encode()
    assert GlueDeserializer(registry)(written) == {"item": "äpple"}
    assert GlueDeserializer(registry, from_dict=lambda found: Order(**found))(written) == Order("äpple")


def test_protobuf_is_written_and_read(service: Any) -> None:
    kind, registry = messages()["Order"], GlueSchemaRegistry(service)
    written = GlueSerializer(registry, PROTO_ORDER, schema_name="orders", message_type=kind)(kind(id="äpple"))
    assert written is not None
    assert written[HEADER_SIZE:] == b"\x01" + kind(id="äpple").SerializeToString()
    assert GlueDeserializer(registry, message_type=kind)(written) == kind(id="äpple")


@pytest.mark.parametrize("name", ["avro", "avro, zlib"])
def test_avro_of_java_is_read(name: str) -> None:
    pytest.importorskip("fastavro", reason=NO_AVRO)
    assert GlueDeserializer(known(Schema(ORDER)))(OF_JAVA[name]) == APPLE


@pytest.mark.parametrize("name", ["protobuf", "protobuf, zlib"])
def test_protobuf_of_java_is_read(name: str) -> None:
    line = messages()["Order.Line"]
    assert GlueDeserializer(known(PROTO_ORDER), message_type=line)(OF_JAVA[name]) == line(id="äpple")


def test_message_types_have_the_numbers_of_java() -> None:
    registry = GlueSchemaRegistry(GlueService())
    written = {
        name: GlueSerializer(registry, PROTO_ORDER, schema_name="orders", message_type=kind)(kind()) for name, kind in messages().items()
    }
    assert {name: data and data[HEADER_SIZE] for name, data in written.items()} == NUMBERS_OF_JAVA


def test_a_readers_schema_gives_every_value_its_fields() -> None:
    pytest.importorskip("fastavro", reason=NO_AVRO)
    newer = ORDER.replace('{"name":"raw","type":"bytes"}', '{"name":"shop","type":"bytes","default":"here"}')
    assert GlueDeserializer(known(Schema(ORDER)), newer)(OF_JAVA["avro"]) == {"item": "äpple", "price": -3, "shop": b"here"}


def test_null_stays_null_and_asks_nothing(glue: GlueService) -> None:
    assert GlueSerializer(GlueSchemaRegistry(glue), JSON_ORDER, schema_name="orders")(None) is None
    assert glue.calls == []


def test_what_cannot_be_written_raises(glue: GlueService) -> None:
    pytest.importorskip("fastavro", reason=NO_AVRO)
    registry = GlueSchemaRegistry(glue)
    with pytest.raises(SerializationError, match="it does not fit the Avro schema"):
        GlueSerializer(registry, ORDER, schema_name="orders")({"item": 3})
    for wrong in (float("nan"), object()):
        with pytest.raises(SerializationError, match="it cannot be written as JSON"):
            GlueSerializer(registry, JSON_ORDER, schema_name="json")(wrong)
    kinds = messages()
    with pytest.raises(SerializationError, match="expected a Order, got Note"):
        GlueSerializer(registry, PROTO_ORDER, schema_name="proto", message_type=kinds["Order"])(kinds["Note"]())


def test_what_cannot_be_read_raises() -> None:
    pytest.importorskip("fastavro", reason=NO_AVRO)
    kind, apple = messages()["Order"], OF_JAVA["avro"]
    with pytest.raises(SerializationError, match=f"it cannot be read with AVRO schema version {ID}"):
        GlueDeserializer(known(Schema(ORDER)))(apple[:-1])
    with pytest.raises(SerializationError, match="1 bytes are left over after AVRO schema version"):
        GlueDeserializer(known(Schema(ORDER)))(apple + b"x")
    with pytest.raises(SerializationError, match="fastavro cannot read AVRO schema version"):
        GlueDeserializer(known(Schema('{"type": "unknown"}')))(apple)
    with pytest.raises(SerializationError, match=r"the data after JSON schema version .* are not JSON"):
        GlueDeserializer(known(JSON_ORDER))(apple)
    with pytest.raises(SerializationError, match="it is no Order, written with PROTOBUF schema version"):
        GlueDeserializer(known(PROTO_ORDER), message_type=kind)(OF_JAVA["protobuf"][:-1])
    with pytest.raises(SerializationError, match="do not begin with the number of a message type"):
        GlueDeserializer(known(PROTO_ORDER), message_type=kind)(apple[:HEADER_SIZE])


@given(data=st.binary(max_size=40), schema=st.sampled_from([Schema(ORDER), JSON_ORDER, PROTO_ORDER]), compression=st.sampled_from([0, 5]))
def test_any_bytes_are_read_or_raise_a_serialization_error(data: bytes, schema: Schema, compression: int) -> None:
    pytest.importorskip("fastavro", reason=NO_AVRO)
    read = GlueDeserializer(known(schema), message_type=messages()["Order"] if schema is PROTO_ORDER else None)
    with suppress(SerializationError):
        read(bytes((3, compression)) + ID.bytes + data)
    with suppress(SerializationError):
        read(data)


def test_another_format_than_the_expected_is_named() -> None:
    pytest.importorskip("fastavro", reason=NO_AVRO)
    kind, apple = messages()["Order"], OF_JAVA["avro"]
    with pytest.raises(
        SerializationError, match=f"written with AVRO schema version {ID}, not with PROTOBUF as the deserializer's arguments say"
    ):
        GlueDeserializer(known(Schema(ORDER)), message_type=kind)(apple)
    with pytest.raises(SerializationError, match=r"written with JSON schema version .*, not with AVRO"):
        GlueDeserializer(known(JSON_ORDER), ORDER)(apple)
    with pytest.raises(SerializationError, match=r"written with PROTOBUF schema version .*: give message_type"):
        GlueDeserializer(known(PROTO_ORDER))(apple)


def test_what_confluents_serializers_wrote_goes_to_the_secondary_deserializer() -> None:
    old = header(7) + b'{"item":"apple"}'
    with pytest.raises(SerializationError, match="was it written by Confluent's serializer"):
        GlueDeserializer(known(JSON_ORDER))(old)
    both = GlueDeserializer(known(JSON_ORDER), secondary_deserializer=JSONDeserializer())
    assert both(old) == {"item": "apple"}
    new = OF_JAVA["avro"][:HEADER_SIZE] + b'{"item":"pear"}'
    assert both(new) == {"item": "pear"}
    assert GlueDeserializer(known(JSON_ORDER), secondary_deserializer=bytes.decode)(b"plain") == "plain"


def test_the_secondary_deserializer_gets_the_header_with_the_schemas_id() -> None:
    both = GlueDeserializer(known(JSON_ORDER), secondary_deserializer=JSONDeserializer())
    assert both(b'{"item":"apple"}', header(7)) == {"item": "apple"}
    with pytest.raises(SerializationError, match="data of schema id 7 are not JSON"):
        both(OF_JAVA["avro"][:HEADER_SIZE], header(7))
    new = OF_JAVA["avro"][:HEADER_SIZE] + b'{"item":"pear"}'
    assert both(new) == {"item": "pear"}
    plain: GlueDeserializer[Any] = GlueDeserializer(known(JSON_ORDER), secondary_deserializer=bytes.decode)
    assert plain(new, header(7)) == {"item": "pear"}


@pytest.mark.parametrize("answer", [{}, [], {"SchemaVersionId": "7", "Status": "AVAILABLE"}, {"SchemaVersionId": None, "Status": None}])
def test_what_is_not_glues_answer_is_told(answer: Any) -> None:
    glue: Any = SimpleNamespace(meta=SimpleNamespace(endpoint_url="http://proxy"))
    glue.get_schema_by_definition = glue.get_schema_version = lambda **_: answer
    registry = GlueSchemaRegistry(glue)
    for call in (lambda: registry.get_schema(UUID(int=7)), lambda: registry.lookup_schema("orders", JSON_ORDER)):
        with pytest.raises(RegistryProtocolError, match="http://proxy did not answer as Glue does"):
            call()


def test_wrong_arguments_are_named(glue: GlueService) -> None:
    pytest.importorskip("fastavro", reason=NO_AVRO)
    registry, kind = GlueSchemaRegistry(glue), messages()["Order"]
    wrong: Any = "gzip"
    with pytest.raises(ConfigError, match="compression must be 'none' or 'zlib'; got 'gzip'"):
        GlueSerializer(registry, ORDER, schema_name="orders", compression=wrong)
    with pytest.raises(ConfigError, match="the Avro schema cannot be read"):
        GlueSerializer(registry, "{", schema_name="orders")
    with pytest.raises(ConfigError, match="a schema of type PROTOBUF needs message_type"):
        GlueSerializer(registry, PROTO_ORDER, schema_name="orders")
    with pytest.raises(ConfigError, match="others have none; this one is of type AVRO"):
        GlueSerializer(registry, ORDER, schema_name="orders", message_type=kind)
    with pytest.raises(ConfigError, match="expected a class that protoc generated"):
        GlueDeserializer(registry, message_type=dict)
    with pytest.raises(ConfigError, match="the schema is of type JSON, not AVRO"):
        GlueDeserializer(registry, JSON_ORDER)
    with pytest.raises(ConfigError, match="give one of them"):
        GlueDeserializer(registry, ORDER, message_type=kind)
    with pytest.raises(TypeError, match=r"GlueDeserializer\(\) takes the GlueSchemaRegistry first, got a GlueService"):
        GlueDeserializer(glue)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"compatibility must be one of NONE, .*; got 'backward'"):
        GlueSchemaRegistry(glue, compatibility="backward")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="give either them or a client"):
        GlueSchemaRegistry(glue, region="eu-west-1")
    with pytest.raises(ConfigError, match="have no references to others"):
        registry.register_schema("orders", Schema(ORDER, references=[SchemaReference("a", "a", 1)]))


# The registry.


def test_a_schema_is_created_once_and_then_has_versions(service: Any) -> None:
    registry = GlueSchemaRegistry(service)
    with pytest.raises(RegistryNotFoundError, match="schema 'orders' in 'default-registry': EntityNotFoundException"):
        registry.lookup_schema("orders", JSON_ORDER)
    first = registry.register_schema("orders", JSON_ORDER)
    second = registry.register_schema("orders", WIDER)
    assert first != second
    assert GlueSchemaRegistry(service).register_schema("orders", JSON_ORDER) == first, "the version that is there"
    assert GlueSchemaRegistry(service).lookup_schema("orders", WIDER) == second
    assert registry.get_schema(second) == WIDER


def test_each_question_is_asked_once(glue: GlueService) -> None:
    registry = GlueSchemaRegistry(glue, registry_name="shop", compatibility="FULL_ALL")
    serializer = GlueSerializer(registry, JSON_ORDER, schema_name="orders")
    written = [serializer({}) for _ in range(3)]
    GlueSerializer(registry, JSON_ORDER, schema_name="orders")({})
    assert glue.calls == ["get_schema_by_definition", "register_schema_version", "create_schema"]
    assert glue.created == [{"name": "orders", "registry": "shop", "compatibility": "FULL_ALL"}]
    for deserializer in (GlueDeserializer(registry), GlueDeserializer(registry)):
        assert [deserializer(data) for data in written if data is not None] == [{}, {}, {}]
    assert glue.calls[3:] == ["get_schema_version"]


def test_what_is_kept_is_bounded(glue: GlueService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glue_client, "MOST_KEPT", 2)
    monkeypatch.setattr(objects, "MOST_KEPT", 2)
    registry = GlueSchemaRegistry(glue)
    read = GlueDeserializer(registry)
    for name in ("a", "b", "c"):
        written = GlueSerializer(registry, JSON_ORDER, schema_name=name)({})
        assert written is not None
        assert read(written) == {}
    assert (len(registry._schemas), len(registry._ids), len(read._read._known)) == (2, 2, 1)


def test_without_registering_the_schema_must_be_there(glue: GlueService) -> None:
    registry = GlueSchemaRegistry(glue)
    serializer = GlueSerializer(registry, JSON_ORDER, schema_name="orders", auto_register_schemas=False)
    with pytest.raises(RegistryNotFoundError) as caught:
        serializer({})
    assert caught.value.__notes__ == ["register it, or set auto_register_schemas=True"]
    version_id = registry.register_schema("orders", JSON_ORDER)
    written = serializer({})
    assert written is not None
    assert written[2:HEADER_SIZE] == version_id.bytes


def test_two_programs_may_create_the_same_schema(glue: GlueService) -> None:
    """The second one is told that the schema exists, and registers its version."""
    first = GlueSchemaRegistry(glue).register_schema("orders", JSON_ORDER)
    missing = ClientError("EntityNotFoundException", "Schema is not found.")
    glue.fails = {"get_schema_by_definition": [missing], "register_schema_version": [missing]}
    assert GlueSchemaRegistry(glue).register_schema("orders", JSON_ORDER) == first
    assert glue.calls[-2:] == ["create_schema", "register_schema_version"]


def test_a_version_that_glue_is_still_checking_is_waited_for(glue: GlueService, pauses: list[float]) -> None:
    registry = GlueSchemaRegistry(glue)
    registry.register_schema("orders", JSON_ORDER)
    glue.statuses = ["PENDING", "PENDING", "AVAILABLE"]
    registry.register_schema("orders", WIDER)
    assert pauses == [0.1, 0.2]


def test_a_version_that_glue_checks_for_too_long_may_be_there_later(glue: GlueService, pauses: list[float]) -> None:
    glue.statuses = ["PENDING"]
    with pytest.raises(RegistryUnavailableError, match="Glue is still checking it") as caught:
        GlueSchemaRegistry(glue).register_schema("orders", JSON_ORDER)
    assert caught.value.retriable
    assert caught.value.causes == {URL: f"version {UUID(int=1)} is PENDING"}
    assert 30 < sum(pauses) < 40


def test_a_version_that_glue_refuses_is_not_compatible(glue: GlueService, pauses: list[float]) -> None:
    registry = GlueSchemaRegistry(glue)
    registry.register_schema("orders", JSON_ORDER)
    glue.statuses = ["PENDING", "FAILURE"]
    for call in (registry.register_schema, registry.lookup_schema):
        with pytest.raises(IncompatibleSchemaError, match="is in status FAILURE") as caught:
            call("orders", WIDER)
        assert not caught.value.retriable
    glue._versions[str(UUID(int=1))][2][:] = ["DELETING"]
    with pytest.raises(RegistryAnswerError, match="is in status DELETING") as deleting:
        GlueSchemaRegistry(glue).lookup_schema("orders", JSON_ORDER)
    assert not isinstance(deleting.value, IncompatibleSchemaError)


def test_a_schema_version_that_is_not_there_is_named(service: Any) -> None:
    with pytest.raises(RegistryNotFoundError, match=f"schema version {ID}: EntityNotFoundException: Schema version is not found."):
        GlueDeserializer(GlueSchemaRegistry(service))(OF_JAVA["avro"])


def test_a_schema_that_glue_cannot_read_is_refused(service: Any) -> None:
    with pytest.raises(InvalidSchemaError, match="InvalidInputException"):
        GlueSchemaRegistry(service).register_schema("orders", Schema("{", "JSON"))


@pytest.mark.parametrize(
    ("code", "status", "kind", "retriable"),
    [
        ("AccessDeniedException", 400, RegistryAuthorizationError, False),
        ("UnrecognizedClientException", 400, RegistryAuthenticationError, False),
        ("ExpiredTokenException", 400, RegistryAuthenticationError, False),
        ("ThrottlingException", 400, RegistryUnavailableError, True),
        ("InternalServiceException", 500, RegistryUnavailableError, True),
        ("ServiceUnavailable", 503, RegistryUnavailableError, True),
        ("ResourceNumberLimitExceededException", 400, RegistryAnswerError, False),
    ],
)
def test_an_error_of_glue_has_a_class_and_the_code(
    glue: GlueService, code: str, status: int, kind: type[RegistryError], retriable: bool
) -> None:
    glue.fails = {"get_schema_version": [ClientError(code, "because", status)]}
    with pytest.raises(kind, match=f"schema version {ID}: .*(.|\n)*{code}: because") as caught:
        GlueSchemaRegistry(glue).get_schema(ID)
    assert type(caught.value) is kind
    assert caught.value.retriable == retriable
    assert isinstance(caught.value.__cause__, ClientError)


def test_an_error_without_an_answer(glue: GlueService) -> None:
    class HTTPClientError(Exception):
        """As the base class in botocore."""

    class ConnectTimeoutError(HTTPClientError): ...

    glue.fails = {"get_schema_version": [ConnectTimeoutError("no answer"), LookupError("no credentials")]}
    registry = GlueSchemaRegistry(glue)
    with pytest.raises(RegistryUnavailableError, match=r"Glue did not answer\n .* ConnectTimeoutError: no answer"):
        registry.get_schema(ID)
    with pytest.raises(RegistryError, match="LookupError: no credentials") as caught:
        registry.get_schema(ID)
    assert not caught.value.retriable


def test_errors_of_the_real_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("botocore", reason="the extra aws is not installed")
    from botocore.config import Config
    from botocore.session import Session

    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ConfigError, match="botocore cannot make a client for Glue: You must specify a region"):
        GlueSchemaRegistry()
    registry = GlueSchemaRegistry(region="eu-west-1", registry_name="shop")
    with pytest.raises(RegistryError, match="NoCredentialsError"):
        registry.get_schema(ID)
    copy = pickle.loads(pickle.dumps(registry))
    assert (copy._registry_name, copy._url) == ("shop", URL)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    nowhere = {"region_name": "eu-west-1", "endpoint_url": "http://127.0.0.1:1", "config": Config(retries={"total_max_attempts": 1})}
    with pytest.raises(RegistryUnavailableError, match=r"(?s)http://127\.0\.0\.1:1 +EndpointConnectionError"):
        GlueSchemaRegistry(Session().create_client("glue", **nowhere)).get_schema(ID)


def test_a_client_of_the_programs_own_cannot_be_pickled(glue: GlueService) -> None:
    with pytest.raises(TypeError, match="give it region and profile instead"):
        pickle.dumps(GlueSchemaRegistry(glue))


def test_without_botocore_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.config", None)
    with pytest.raises(ImportError, match=r"needs botocore: pip install 'levada\[aws\]', or give it a client"):
        GlueSchemaRegistry(region="eu-west-1")


# In clients.


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders")
        yield kafka


def test_a_producer_and_a_consumer(kafka: EmbeddedKafka, service: Any) -> None:
    registry = GlueSchemaRegistry(service)
    to_json: GlueSerializer[Any] = GlueSerializer(registry, JSON_ORDER, schema_name="orders")
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, value_serializer=to_json, key_serializer=to_json) as producer:
        producer.send("orders", key=1, value={"item": "apple"}).result(timeout=LONGEST_S)
    read = lv.scan(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        key_deserializer=GlueDeserializer(registry),
        value_deserializer=GlueDeserializer(registry),
    )
    assert [(record.key, record.value) for record in read] == [(1, {"item": "apple"})]


def test_a_foreign_record_is_raised_with_the_way_out(kafka: EmbeddedKafka) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send("orders", value=header(7) + b"{}").result(timeout=LONGEST_S)
    read = lv.scan("orders", bootstrap_servers=kafka.bootstrap_servers, value_deserializer=GlueDeserializer(known(JSON_ORDER)))
    with pytest.raises(RecordDeserializationError, match="secondary_deserializer"):
        list(read)


class HeldGlue(GlueService):
    """Answers only after the event loop has run on. A loop that waits for the answer never lets it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.threads: set[int] = set()

    def _begin(self, operation: str) -> None:
        self.threads.add(threading.get_ident())
        ran = threading.Event()
        self._loop.call_soon_threadsafe(ran.set)
        assert ran.wait(LONGEST_S)
        super()._begin(operation)


def test_an_event_loop_goes_on_while_glue_is_asked(kafka: EmbeddedKafka) -> None:
    async def main() -> None:
        glue = HeldGlue(asyncio.get_running_loop())
        to_json: GlueSerializer[Any] = GlueSerializer(GlueSchemaRegistry(glue), JSON_ORDER, schema_name="orders")
        async with aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, value_serializer=to_json) as producer:
            await (await producer.send("orders", value={"item": "apple"}))
            await (await producer.send("orders", value=None))
        from_json: GlueDeserializer[Any] = GlueDeserializer(GlueSchemaRegistry(glue), secondary_deserializer=JSONDeserializer())
        found = [
            record.value async for record in aio.scan("orders", bootstrap_servers=kafka.bootstrap_servers, value_deserializer=from_json)
        ]
        assert found == [{"item": "apple"}, None]
        assert len(glue.calls) == 4
        assert threading.get_ident() not in glue.threads

    asyncio.run(main())
