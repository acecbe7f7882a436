"""Avro values as columns, with and without a schema registry."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from collections.abc import Iterator, Sequence
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import levada as lv
from levada.errors import ConfigError
from levada.formats.reading import SchemaLookupError
from levada.registry import RegistryAnswerError, Schema, SchemaReference, SchemaRegistryClient
from levada.spark.options.options import source_options
from levada.spark.types import arrow_type, spark_type
from levada.testing import EmbeddedRegistry

fastavro = pytest.importorskip("fastavro", reason="the extra avro is not installed")

PRICE = Decimal("1.25")
NOON = dt.datetime(2024, 1, 2, 12, 0, 0, 123_000, tzinfo=dt.UTC)


def record(**fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "shop.Order",
        "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
    }


def logical(kind: str, meaning: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": meaning, **more}


def written(schema: Any, *values: Any, schema_id: int | None = None) -> list[bytes]:
    parsed = fastavro.parse_schema(schema)
    found = []
    for value in values:
        out = BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        found.append((b"" if schema_id is None else b"\0" + schema_id.to_bytes(4, "big")) + out.getvalue())
    return found


def chosen(**given: str) -> Any:
    options = source_options({"kafka.bootstrap.servers": "h:1", "subscribe": "orders", **given}, streaming=False)
    # A task has a pickled copy.
    return pickle.loads(pickle.dumps(options.typed.pinned().formats["value"]))


def avro(schema: Any) -> Any:
    return chosen(**{"value.format": "avro", "value.avro.schema": json.dumps(schema)})


def decoded(form: Any, values: Sequence[bytes | None]) -> Any:
    found = form.decoder(arrow_type(spark_type(form.kind))).decode(pa.array(values, pa.binary()))
    assert found.rows.type == arrow_type(spark_type(form.kind))
    return found


def one_field(kind: Any, *values: Any) -> tuple[str, list[Any]]:
    schema = record(f=kind)
    form = avro(schema)
    rows = decoded(form, list(written(schema, *({"f": value} for value in values)))).rows
    found: Any = spark_type(form.kind)
    return found["f"].dataType.simpleString(), [row["f"] for row in rows.to_pylist()]


@pytest.mark.parametrize(
    ("kind", "value", "spark_type", "found"),
    [
        ("boolean", True, "boolean", True),
        ("int", -1, "int", -1),
        ("long", 2**40, "bigint", 2**40),
        ("float", 1.5, "float", 1.5),
        ("double", 1.5, "double", 1.5),
        ("string", "é", "string", "é"),
        ("bytes", b"\xff", "binary", b"\xff"),
        ("null", None, "void", None),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", "binary", b"ab"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "string", "B"),
        ({"type": "array", "items": ["null", "int"]}, [1, None], "array<int>", [1, None]),
        ({"type": "map", "values": "int"}, {"a": 1}, "map<string,int>", [("a", 1)]),
        ({"type": "array", "items": {"type": "map", "values": "int"}}, [{"a": 1}], "array<map<string,int>>", [[("a", 1)]]),
        (["null", {"type": "map", "values": {"type": "map", "values": "int"}}], None, "map<string,map<string,int>>", None),
        (["null", "string"], None, "string", None),
        (["int", "long"], 5, "bigint", 5),
        (["null", "float", "double"], 1.5, "double", 1.5),
        (logical("int", "date"), dt.date(2024, 1, 2), "date", dt.date(2024, 1, 2)),
        (logical("long", "timestamp-millis"), NOON, "timestamp", NOON),
        (logical("long", "timestamp-micros"), NOON, "timestamp", NOON),
        (logical("long", "local-timestamp-millis"), NOON.replace(tzinfo=None), "timestamp_ntz", NOON.replace(tzinfo=None)),
        (logical("long", "local-timestamp-micros"), NOON.replace(tzinfo=None), "timestamp_ntz", NOON.replace(tzinfo=None)),
        (logical("bytes", "decimal", precision=9, scale=2), Decimal("-1.25"), "decimal(9,2)", Decimal("-1.25")),
        (logical("fixed", "decimal", name="D", size=4, precision=5), Decimal("12"), "decimal(5,0)", Decimal("12")),
        (logical("string", "uuid"), "not even one", "string", "not even one"),
        (logical("int", "time-millis"), dt.time(0, 0, 1), "int", 1000),
    ],
)
def test_types_are_those_of_from_avro(kind: Any, value: Any, spark_type: str, found: Any) -> None:
    assert one_field(kind, value) == (spark_type, [found])


def test_a_union_of_several_types_is_a_struct() -> None:
    line = {"type": "record", "name": "Line", "fields": [{"name": "x", "type": ["null", {"type": "map", "values": "int"}]}]}
    size = {"type": "enum", "name": "Size", "symbols": ["S", "L"]}
    values = [5, None, "s", ("shop.Line", {"x": {"a": 1}}), ("shop.Size", "L"), {"k": 1}]
    kind, found = one_field(["int", "null", "string", line, size, {"type": "map", "values": "int"}], *values)
    assert kind == "struct<member0:int,member1:string,member2:struct<x:map<string,int>>,member3:string,member4:map<string,int>>"
    held = [row and {name: value for name, value in row.items() if value is not None} for row in found]
    assert held == [
        {"member0": 5},
        None,
        {"member1": "s"},
        {"member2": {"x": [("a", 1)]}},
        {"member3": "L"},
        {"member4": [("k", 1)]},
    ]


def test_years_that_python_does_not_know_are_read() -> None:
    form = avro(record(d=logical("int", "date"), t=logical("long", "timestamp-micros")))
    plain = record(d="int", t="long")
    rows = decoded(form, list(written(plain, {"d": 10_000_000, "t": 2**62}))).rows
    assert (rows.field("d").cast(pa.int32())[0].as_py(), rows.field("t").cast(pa.int64())[0].as_py()) == (10_000_000, 2**62)


def test_a_value_need_not_be_a_record() -> None:
    form = avro("string")
    assert spark_type(form.kind).simpleString() == "string"
    assert decoded(form, [*written("string", "a"), None, b""]).rows.to_pylist() == ["a", None, None]


def test_what_is_no_such_avro_is_malformed_and_leaves_the_rest_alone() -> None:
    schema = record(n="int", p=logical("bytes", "decimal", precision=3, scale=0))
    (good,) = written(schema, {"n": 1, "p": Decimal(5)})
    (too_long,) = written(record(n="int", p="bytes"), {"n": 1, "p": (10**6).to_bytes(4, "big")})
    (beyond,) = written(record(t="long"), {"t": 2**62})

    found = decoded(avro(schema), [good, b"", None, good + b"x", too_long, good])
    assert found.malformed.to_pylist() == [False, True, False, True, True, False]
    assert found.rows.to_pylist() == [
        {"n": 1, "p": 5},
        {"n": None, "p": None},
        None,
        {"n": None, "p": None},
        {"n": None, "p": None},
        {"n": 1, "p": 5},
    ]
    assert (found.fault.row, found.fault.reason) == (1, "not of its Avro schema: EOFError: the data end within the value")
    assert decoded(avro(schema), [good + b"x"]).fault.reason == "not of its Avro schema: 1 bytes are left over"
    found = decoded(avro(record(t=logical("long", "timestamp-millis"))), [beyond] + [b"\0"] * 5 + [beyond])
    assert found.malformed.to_pylist() == [True, False, False, False, False, False, True]
    assert found.fault.reason.startswith("beyond what its column can hold: Casting from timestamp[ms, tz=UTC] to timestamp[us, tz=UTC]")


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("{", "option 'value.avro.schema': the Avro schema cannot be read: .*Expecting"),
        (json.dumps(record(f="price")), "option 'value.avro.schema': the Avro schema cannot be read: UnknownType: shop.price"),
        (
            json.dumps(record(next=["null", "shop.Order"])),
            "option 'value.avro.schema': record 'shop.Order' contains itself, which a column cannot",
        ),
        (json.dumps(record(f=logical("bytes", "decimal", precision=39))), "decimals of up to 38 digits are supported, not of 39"),
        (json.dumps(record(f=["int", "long", "string"])), "a union of both long and another type that Python reads as int"),
    ],
)
def test_schemas_that_cannot_be_columns_are_refused(schema: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        chosen(**{"value.format": "avro", "value.avro.schema": schema})


# With a registry


@pytest.fixture
def server() -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry() as started:
        yield started


@pytest.fixture
def client(server: EmbeddedRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient(schema_registry_url=server.url) as made:
        yield made


def confluent(server: EmbeddedRegistry, **given: str) -> Any:
    quick = {"schema.registry.url": server.url, "schema.registry.max.retries": "0"}
    return chosen(**{"value.format": "confluent-avro", **quick, **given})


def register(client: SchemaRegistryClient, schema: Any, subject: str = "orders-value") -> int:
    return client.register_schema(subject, Schema(json.dumps(schema)))


OLD = record(n="int", t=logical("long", "timestamp-millis"))
NEW = record(n="long", t=logical("long", "timestamp-micros"))
NEW["fields"].append({"name": "more", "type": ["null", "string"], "default": None})
NEW["fields"].append({"name": "blob", "type": "bytes", "default": "\u00ff"})
NEW["fields"].append({"name": "p", "type": logical("bytes", "decimal", precision=4, scale=2), "default": "\u0001\u0000"})


def test_writers_schemas_are_resolved_to_the_latest_when_the_query_starts(server: EmbeddedRegistry, client: Any) -> None:
    old_id, new_id = register(client, OLD), register(client, NEW)
    form = confluent(server)
    newest_id = register(client, {**NEW, "fields": [*NEW["fields"], {"name": "newest", "type": "int", "default": 0}]})
    assert spark_type(form.kind).simpleString() == "struct<n:bigint,t:timestamp,more:string,blob:binary,p:decimal(4,2)>"

    values = written(OLD, {"n": 1, "t": NOON}, schema_id=old_id)
    values += written(NEW, {"n": 2, "t": NOON, "more": "x", "blob": b"y", "p": PRICE}, schema_id=new_id)
    newest = {**NEW, "fields": [*NEW["fields"], {"name": "newest", "type": "int"}]}
    values += written(newest, {"n": 3, "t": NOON, "more": None, "blob": b"", "p": PRICE, "newest": 9}, schema_id=newest_id)
    assert decoded(form, values).rows.to_pylist() == [
        {"n": 1, "t": NOON, "more": None, "blob": b"\xff", "p": Decimal("2.56")},
        {"n": 2, "t": NOON, "more": "x", "blob": b"y", "p": PRICE},
        {"n": 3, "t": NOON, "more": None, "blob": b"", "p": PRICE},
    ]


def test_a_reader_may_bring_its_own_schema(server: EmbeddedRegistry, client: Any) -> None:
    old_id = register(client, OLD)
    schema = json.dumps(record(t=logical("long", "timestamp-micros")))
    form = confluent(server, **{"value.avro.schema": schema, "subscribe": "a,b"})
    assert decoded(form, list(written(OLD, {"n": 1, "t": NOON}, schema_id=old_id))).rows.to_pylist() == [{"t": NOON}]


def test_a_plain_long_is_in_the_unit_of_the_readers_timestamp(server: EmbeddedRegistry, client: Any) -> None:
    plain = record(t="long")
    plain_id = register(client, plain)
    form = confluent(server, **{"value.avro.schema": json.dumps(record(t=logical("long", "timestamp-millis")))})
    (value,) = written(plain, {"t": int(NOON.timestamp() * 1000)}, schema_id=plain_id)
    assert decoded(form, [value]).rows.to_pylist() == [{"t": NOON}]


def test_branches_are_found_whatever_the_writer_had(server: EmbeddedRegistry, client: Any) -> None:
    line = {"type": "record", "name": "Line", "fields": [{"name": "x", "type": "int"}]}
    bare, wide = record(f=line), record(f=["string", line])
    bare_id, wide_id = register(client, bare, "a"), register(client, wide, "b")
    values = written(bare, {"f": {"x": 1}}, schema_id=bare_id) + written(wide, {"f": ("shop.Line", {"x": 2})}, schema_id=wide_id)
    rows = decoded(confluent(server, **{"value.subject": "b"}), values).rows.to_pylist()
    assert [row["f"]["member1"] for row in rows] == [{"x": 1}, {"x": 2}]
    rows = decoded(confluent(server, **{"value.subject": "a"}), values).rows.to_pylist()
    assert rows == [{"f": {"x": 1}}, {"f": {"x": 2}}]


def test_schemas_may_use_others(server: EmbeddedRegistry, client: Any) -> None:
    money = {"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "long"}]}
    register(client, money, "money")
    schema = Schema(json.dumps(record(price="shop.Money")), references=[SchemaReference("shop.Money", "money", 1)])
    schema_id = client.register_schema("orders-value", schema)
    form = confluent(server)
    assert spark_type(form.kind).simpleString() == "struct<price:struct<cents:bigint>>"
    (value,) = written(record(price=money), {"price": {"cents": 5}}, schema_id=schema_id)
    assert decoded(form, [value]).rows.to_pylist() == [{"price": {"cents": 5}}]


def test_several_types_of_events_in_one_topic(server: EmbeddedRegistry, client: Any) -> None:
    events = [{"type": "record", "name": name, "fields": [{"name": "id", "type": "long"}]} for name in ("shop.Paid", "shop.Sent")]
    references = []
    for event in events:
        subject = str(event["name"])
        register(client, event, subject)
        references.append(SchemaReference(subject, subject, 1))
    schema_id = client.register_schema("orders-value", Schema('["shop.Paid", "shop.Sent"]', references=references))
    form = confluent(server)
    values = written(events, ("shop.Sent", {"id": 1}), ("shop.Paid", {"id": 2}), schema_id=schema_id)
    rows = decoded(form, values).rows.to_pylist()
    assert rows == [{"member0": None, "member1": {"id": 1}}, {"member0": {"id": 2}, "member1": None}]


def test_confluents_plain_bytes_have_no_length(server: EmbeddedRegistry, client: Any) -> None:
    schema_id = client.register_schema("orders-value", Schema('"bytes"'))
    value = b"\0" + schema_id.to_bytes(4, "big") + b"\x08abc"
    assert decoded(confluent(server), [value]).rows.to_pylist() == [b"\x08abc"]


def test_values_of_other_writers_are_malformed(server: EmbeddedRegistry, client: Any) -> None:
    schema_id = register(client, OLD)
    json_id = client.register_schema("other", Schema('{"type": "object"}', "JSON"))
    wrong = {"type": "record", "name": "W", "fields": [{"name": "n", "type": "int", "default": "x"}]}
    wrong_id = register(client, wrong, "wrong")
    form = confluent(server)
    (good,) = written(OLD, {"n": 1, "t": NOON}, schema_id=schema_id)
    unreadable = b"\0" + wrong_id.to_bytes(4, "big") + b"\2"
    unknown, of_json = b"\0\0\0\0\x63", b"\0" + json_id.to_bytes(4, "big") + b"{}"
    asked = len(server.requests)

    found = decoded(form, [b"{}", b"plain text", unknown, unknown, of_json, good[:6], good])

    assert found.malformed.to_pylist() == [True, True, True, True, True, True, False]
    assert found.fault.reason == "not of Confluent's wire format: 2 bytes that begin with b'{}'"
    assert "written with schema id 99, which the registry does not know (http" in decoded(form, [unknown]).fault.reason
    assert decoded(form, [of_json]).fault.reason == f"written with schema id {json_id}, which is of type JSON, not AVRO"
    assert "the Avro schema cannot be read: SchemaParseException: Default value <x>" in decoded(form, [unreadable]).fault.reason
    assert decoded(form, [good[:6]]).fault.reason == f"not of the Avro schema of id {schema_id}: EOFError: the data end within the value"
    # What is known is known to all, what is not is asked for once by each.
    assert sum("/schemas/ids/99" in str(request) for request in server.requests[asked:]) == 2


def test_a_registry_that_does_not_answer_fails_the_task(server: EmbeddedRegistry, client: Any) -> None:
    schema_id = register(client, OLD)
    form = confluent(server)
    server.faults.answer(503)
    (value,) = written(OLD, {"n": 1, "t": NOON}, schema_id=schema_id)
    with pytest.raises(SchemaLookupError, match=f"schema id {schema_id} cannot be looked up") as failed:
        decoded(form, [value])
    assert isinstance(failed.value.__cause__, RegistryAnswerError)
    assert decoded(form, [value]).malformed.to_pylist() == [False]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"schema.registry.url": ""}, r"among the schema.registry.\* options: .*names no registry"),
        (
            {"schema.registry.max.retry": "1"},
            r"among the schema.registry.\* options: unknown option 'max.retry'; did you mean 'max.retries'",
        ),
        ({"subscribe": "a,b"}, "option 'value.subject' is needed, because the topics are a, b; name the subject"),
        ({"value.subject": "x", "value.avro.schema": '"int"'}, "options 'value.avro.schema' and 'value.subject' exclude each other"),
        ({"value.subject": "nobody"}, "option 'value.subject': the registry has no subject 'nobody'"),
        ({"value.subject": "other"}, "option 'value.subject': the schema of 'other' is of type JSON, not AVRO"),
        ({"basic.auth.user.info": "u:p"}, "unknown option 'basic.auth.user.info'; did you mean 'schema.registry.basic.auth.user.info'"),
        (
            {"value.format": "json", "value.schema": "a int"},
            r"option 'schema.registry.*' has no effect here: a registry is asked only for json-schema and confluent-avro;",
        ),
        (
            {"value.schema": "a int"},
            "option 'value.schema' is for the option 'value.format'=json or json-schema or csv, but the format is confluent-avro",
        ),
    ],
)
def test_mistakes_about_a_registry_are_said(server: EmbeddedRegistry, client: Any, given: Any, text: str) -> None:
    client.register_schema("other", Schema('{"type": "object"}', "JSON"))
    with pytest.raises(ConfigError, match=text):
        confluent(server, **given)


def test_the_address_of_the_registry_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"option 'value.format'=confluent-avro needs the option 'schema.registry.url', such as http"):
        chosen(**{"value.format": "confluent-avro"})


def test_credentials_go_to_the_registry() -> None:
    with (
        EmbeddedRegistry(user_info="u:p") as server,
        SchemaRegistryClient(schema_registry_url=server.url, basic_auth_user_info="u:p") as client,
    ):
        register(client, OLD)
        form = confluent(server, **{"schema.registry.basic.auth.user.info": "u:p"})
        assert spark_type(form.kind).simpleString() == "struct<n:int,t:timestamp>"
        assert "u:p" not in repr(form)


@pytest.mark.spark
def test_spark_reads_with_the_schema_that_load_saw(spark: Any, embedded: Any, new_topic: Any, server: Any, client: Any) -> None:
    topic = new_topic(embedded)
    later = record(n="int", t=logical("long", "timestamp-micros"))
    later["fields"].append({"name": "more", "type": "string", "default": ""})
    old_id = register(client, OLD, f"{topic}-value")
    given = {
        "kafka.bootstrap.servers": embedded.bootstrap_servers,
        "subscribe": topic,
        "value.format": "confluent-avro",
        "schema.registry.url": server.url,
        "key.format": "string",
        "columnNameOfCorruptRecord": "bad",
        "value.raw": "bytes",
    }
    frame = spark.read.format("levada").options(**given).load()
    new_id = register(client, later, f"{topic}-value")
    values = written(OLD, {"n": 1, "t": NOON}, schema_id=old_id)
    values += written(later, {"n": 2, "t": NOON, "more": "x"}, schema_id=new_id)
    values += [b"\xff"]
    guid = client.get_latest_version(f"{topic}-value").guid
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value, key=b"k")
        producer.send(topic, values[1][5:], key=b"k", headers={"__value_schema_id": b"\x01" + UUID(guid).bytes})
    rows = frame.orderBy("offset").selectExpr("key", "value.n", "unix_micros(value.t)", "bytes", "bad").collect()
    micros = int(NOON.timestamp() * 1000) * 1000
    assert frame.schema["value"].dataType.simpleString() == "struct<n:int,t:timestamp>"
    assert [tuple(row) for row in rows] == [
        ("k", 1, micros, bytearray(values[0]), None),
        ("k", 2, micros, bytearray(values[1]), None),
        ("k", None, None, bytearray(b"\xff"), "/w=="),
        ("k", 2, micros, bytearray(values[1][5:]), None),
    ]
