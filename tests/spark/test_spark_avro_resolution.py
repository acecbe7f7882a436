"""Avro values whose writer's schema is another one than the reader's: branches of unions, defaults, and what does not go together."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
import pytest

from levada.registry import Schema, SchemaRegistryClient
from levada.spark.options.options import source_options
from levada.spark.types import arrow_type, spark_type
from levada.testing import EmbeddedRegistry

fastavro = pytest.importorskip("fastavro", reason="the extra avro is not installed")

Resolve = Callable[..., Any]


def record(record_name: str = "shop.Order", /, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": record_name, "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def array_of(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def map_of(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def encoded(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@pytest.fixture
def resolve() -> Iterator[Resolve]:
    """Return what reads values (bytes as they are, anything else by the writer's schema) with another schema."""
    with EmbeddedRegistry() as server, SchemaRegistryClient(schema_registry_url=server.url) as client:

        def read(writer: Any, reader: Any, *values: Any) -> Any:
            schema_id = client.register_schema("written-value", Schema(json.dumps(writer)))
            client.delete_subject("written-value")
            options = source_options(
                {
                    "kafka.bootstrap.servers": "h:1",
                    "subscribe": "orders",
                    "value.format": "confluent-avro",
                    "schema.registry.url": server.url,
                    "value.avro.schema": json.dumps(reader),
                },
                streaming=False,
            )
            form = pickle.loads(pickle.dumps(options.typed.pinned().formats["value"]))
            before = b"\0" + schema_id.to_bytes(4, "big")
            data = [before + (value if isinstance(value, bytes) else encoded(writer, value)) for value in values]
            return form.decoder(arrow_type(spark_type(form.kind))).decode(pa.array(data, pa.binary()))

        yield read


def only(rows: pa.Array) -> list[Any]:
    """Return rows of a union with the members that are not null."""
    return [row and {name: value for name, value in row.items() if value is not None} for row in rows.to_pylist()]


CREATED = record("Created", id="long", item=["null", "string"])
CREATED["fields"][1]["default"] = None
DELETED = record("Deleted", id="long", why="string")
GONE = {**DELETED, "name": "Gone"}
SIZE, COLOUR = ({"type": "enum", "name": name, "symbols": ["A"]} for name in ("Size", "Colour"))
HASH, SALT = ({"type": "fixed", "name": name, "size": 1} for name in ("Hash", "Salt"))


class TestUnions:
    @pytest.mark.parametrize(
        ("writer", "reader", "value", "found"),
        [
            (DELETED, [CREATED, DELETED], {"id": 7, "why": "old"}, {"member1": {"id": 7, "why": "old"}}),
            (DELETED, [map_of("string"), DELETED], {"id": 7, "why": "old"}, {"member1": {"id": 7, "why": "old"}}),
            (map_of("string"), [DELETED, map_of("string")], {"a": "b"}, {"member1": [("a", "b")]}),
            (COLOUR, [SIZE, COLOUR], "A", {"member1": "A"}),
            (COLOUR, ["string", COLOUR], "A", {"member1": "A"}),
            ("string", [COLOUR, "string"], "A", {"member1": "A"}),
            ("int", ["string", "double"], 5, {"member1": 5.0}),
            (GONE, [CREATED, {**DELETED, "aliases": ["Gone"]}], {"id": 7, "why": ""}, {"member1": {"id": 7, "why": ""}}),
        ],
    )
    def test_a_writer_without_a_union_is_found_in_the_readers(
        self, resolve: Resolve, writer: Any, reader: Any, value: Any, found: Any
    ) -> None:
        assert only(resolve(writer, reader, value).rows) == [found]
        (row,) = resolve(record(f=array_of(writer)), record(f=array_of(["null", *reader])), {"f": [value]}).rows
        assert only(row["f"].values) == [found]

    def test_so_is_a_fixed(self, resolve: Resolve) -> None:
        for reader in ([HASH, SALT], ["bytes", SALT], [{**SALT, "name": "Other"}, SALT]):
            assert only(resolve(record(f=SALT), record(f=reader), {"f": b"x"}).rows.field("f")) == [{"member1": b"x"}]

    def test_the_branches_of_the_writers_union_are_told_apart_within(self, resolve: Resolve) -> None:
        """Both of the writer's records become the reader's one, which cannot be known from the value."""
        inner = [CREATED, DELETED]
        writer = [record("Old", e=CREATED), record("New", e="Deleted")]
        writer[0]["fields"].append({"name": "unused", "type": ["null", DELETED]})
        reader = ["string", {**record("Event", e=inner), "aliases": ["Old", "New"]}]
        found = resolve(writer, reader, ("Old", {"e": {"id": 7, "item": "x"}, "unused": None}))
        assert found.malformed.to_pylist() == [True]
        assert found.fault.reason == "of a branch that cannot be distinguished from the other branches of its union"


def with_default(kind: Any, default: Any) -> dict[str, Any]:
    schema = record(x="int", f=kind)
    schema["fields"][1]["default"] = default
    return schema


INNER = record("Inner", m=map_of("int"), b="bytes", d=decimal(4, 2))


class TestDefaults:
    @pytest.mark.parametrize(
        ("kind", "default", "found"),
        [
            (INNER, {"m": {"a": 1}, "b": "\u00ff", "d": "\u0001"}, {"m": [("a", 1)], "b": b"\xff", "d": Decimal("0.01")}),
            (array_of(record("Inner", m=map_of("int"))), [{"m": {}}], [{"m": []}]),
            (array_of("bytes"), ["\u00ff"], [b"\xff"]),
            (map_of(decimal(4, 2)), {"k": "\u0001"}, [("k", Decimal("0.01"))]),
            (decimal(38, 0), (10**37 + 1).to_bytes(16).decode("latin-1"), Decimal(10**37 + 1)),
            (["bytes", "null"], "\u00ff", b"\xff"),
            ("double", 1.0, 1.0),
        ],
    )
    def test_are_the_same_in_every_row_and_task(self, resolve: Resolve, kind: Any, default: Any, found: Any) -> None:
        for _task in range(2):
            decoded = resolve(record(x="int"), with_default(kind, default), {"x": 1}, {"x": 2})
            assert decoded.rows.to_pylist() == [{"x": 1, "f": found}, {"x": 2, "f": found}]
            assert decoded.fault is None

    @pytest.mark.parametrize(
        ("kind", "default", "found"),
        [
            (["bytes", "string"], "\u00ff", {"member0": b"\xff"}),
            ([COLOUR, "string"], "A", {"member0": "A"}),
            (["double", "string"], 1.0, {"member0": 1.0}),
            (["null", "int", "string"], None, None),
            ([INNER, "string"], {"m": {"a": 1}, "b": "", "d": "\u0001"}, {"member0": {"m": [("a", 1)], "b": b"", "d": Decimal("0.01")}}),
        ],
    )
    def test_of_unions_belong_to_the_first_branch(self, resolve: Resolve, kind: Any, default: Any, found: Any) -> None:
        decoded = resolve(record(x="int"), with_default(kind, default), {"x": 1}, {"x": 2})
        assert only(decoded.rows.field("f")) == [found, found]

    def test_that_do_not_fit_are_named_where_they_are_needed(self, resolve: Resolve) -> None:
        reader = with_default(record("Inner", n="int"), {"n": "five"})
        assert resolve(record(x="int", f=record("Inner", n="int")), reader, {"x": 1, "f": {"n": 2}}).fault is None
        decoded = resolve(record(x="int"), reader, {"x": 1})
        assert decoded.rows.to_pylist() == [{"x": None, "f": None}]
        assert decoded.fault.reason.endswith(
            "which is not read: the reader's schema has a wrong default for the field 'f' of 'shop.Order': 'five' is no default for int"
        )


class TestDecimals:
    def test_and_bytes_are_read_as_each_other(self, resolve: Resolve) -> None:
        plain, meant = record(p="bytes"), record(p=decimal(4, 2))
        assert resolve(plain, meant, {"p": b"\x04\xd2"}).rows.to_pylist() == [{"p": Decimal("12.34")}]
        assert resolve(meant, plain, {"p": Decimal("-12.34")}).rows.to_pylist() == [{"p": b"\xfb\x2e"}]

    def test_of_a_union_too(self, resolve: Resolve) -> None:
        plain, meant = record(p=["bytes", "int"]), record(p=["int", decimal(4, 2)])
        found = resolve(plain, meant, {"p": b"\x04\xd2"}, {"p": 5}).rows.field("p")
        assert only(found) == [{"member1": Decimal("12.34")}, {"member0": 5}]
        assert only(resolve(meant, plain, {"p": Decimal("12.34")}).rows.field("p")) == [{"member0": b"\x04\xd2"}]

    @pytest.mark.parametrize("reader", [decimal(4, 2), [decimal(4, 2), "string"]])
    @pytest.mark.parametrize("writer", ["string", ["bytes", "string"]])
    def test_are_not_made_of_text(self, resolve: Resolve, writer: Any, reader: Any) -> None:
        assert resolve(record(p=writer), record(p=reader), {"p": "x"}).malformed.to_pylist() == [True]


@pytest.mark.parametrize(
    ("reader", "found"),
    [
        ("bytes", [b"hello", b"\x04ab"]),
        (["null", "bytes"], [b"hello", b"\x04ab"]),
        ("string", ["hello", "\x04ab"]),
        (["int", "bytes"], [{"member0": None, "member1": b"hello"}, {"member0": None, "member1": b"\x04ab"}]),
    ],
)
def test_plain_bytes_have_no_length_whatever_reads_them(resolve: Resolve, reader: Any, found: list[Any]) -> None:
    assert resolve("bytes", reader, b"hello", b"\x04ab").rows.to_pylist() == found


class TestWritersThatContainThemselves:
    LIST = record("List", next=["null", "List"])
    MUTUAL = record("A", b=array_of(record("B", a=map_of("A"))))

    def test_are_read_without_what_recurs(self, resolve: Resolve) -> None:
        for recurs, value in ((self.LIST, {"next": {"next": None}}), (self.MUTUAL, {"b": [{"a": {"k": {"b": []}}}]})):
            assert resolve(record(l=recurs, x="int"), record(x="int"), {"l": value, "x": 5}).rows.to_pylist() == [{"x": 5}]

    def test_have_values_too_deep_to_read(self, resolve: Resolve) -> None:
        """The reader in C would end the process."""
        writer = record(l=self.LIST, x="int")
        found = resolve(writer, record(x="int"), b"\x02" * 100_000 + b"\0\x0a", {"l": {"next": {"next": None}}, "x": 5})
        assert found.rows.to_pylist() == [{"x": None}, {"x": 5}]
        assert "RecursionError" in found.fault.reason

    def test_that_end_nowhere_have_no_values(self, resolve: Resolve) -> None:
        writer = record(l=record("List", next="List"), x="int")
        assert resolve(writer, record(x="int"), b"\0").malformed.to_pylist() == [True]

    def test_are_told_from_those_that_name_a_record_twice(self) -> None:
        from levada.formats.avro_schema import AvroSchema
        from levada.registry.avro_codec import contains_itself

        twice = AvroSchema((json.dumps(record(a=CREATED, b="Created", c=array_of("Created"))),), "x")
        assert not contains_itself(*twice.parsed_with_names())
        for recurs in (self.LIST, self.MUTUAL):
            assert contains_itself(*AvroSchema((json.dumps(record(a="int", l=recurs)),), "x").parsed_with_names())


class TestWhatDoesNotResolve:
    @pytest.mark.parametrize(
        ("writer", "reader", "value", "reason"),
        [
            (record("Other", x="int"), record(x="int"), {"x": 1}, "Schema mismatch: record Other is not record shop.Order"),
            (record(x="int"), record(x="int", y="int"), {"x": 1}, "No default value for field y in shop.Order"),
        ],
    )
    def test_is_said_without_whole_schemas(self, resolve: Resolve, writer: Any, reader: Any, value: Any, reason: str) -> None:
        found = resolve(writer, reader, value)
        assert found.malformed.to_pylist() == [True]
        assert found.fault.reason.endswith(f": SchemaResolutionError: {reason}")

    def test_is_a_schema_that_is_nested_without_end(self, resolve: Resolve, monkeypatch: pytest.MonkeyPatch) -> None:
        deep = Schema("[" * 100_000)
        monkeypatch.setattr(SchemaRegistryClient, "get_schema", lambda client, schema_id: deep)
        found = resolve(record(x="int"), record(x="int"), {"x": 1})
        assert found.malformed.to_pylist() == [True]
        assert "the Avro schema cannot be read: RecursionError" in found.fault.reason
