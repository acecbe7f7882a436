"""Columns of structs written as JSON and Avro."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.functions import col, struct, to_json
from pyspark.sql.types import ArrayType, StringType, StructField, StructType, VariantType, YearMonthIntervalType

import levada as lv
from levada.errors import ConfigError, SerializationError
from levada.formats.json import JsonWriter, json_texts
from levada.registry import IncompatibleSchemaError, Schema, SchemaRegistryClient
from levada.spark.ddl import parse_schema
from levada.spark.options.options import sink_options, source_options
from levada.spark.sink.writing import as_records, sink_columns
from levada.spark.types import arrow_type
from levada.testing import EmbeddedRegistry

KAFKA = {"kafka.bootstrap.servers": "h:1"}
NOON = dt.datetime(2024, 1, 2, 12, 0, 0, 123_456, tzinfo=dt.UTC)
ALL = (
    "n int, s string, f double, b binary, d date, t timestamp, z timestamp_ntz, x decimal(20,10), o boolean, st struct<y: byte>, "
    "l array<struct<w: string>>, ll array<array<int>>"
)
FULL: dict[str, Any] = {
    "n": 1,
    "s": 'a"b\\\n\u0001é',
    "f": 1.5,
    "b": b"\xff",
    "d": dt.date(2024, 1, 2),
    "t": NOON,
    "z": NOON.replace(tzinfo=None),
    "x": Decimal("0.0000000001"),
    "o": True,
    "st": {"y": 5},
    "l": [None, {"w": "q"}, {}],
    "ll": [[1, None], None, []],
}


def rows_of(ddl: str, rows: list[Any]) -> Any:
    return pa.array(rows, arrow_type(parse_schema(ddl, "value.schema")))


def columns_of(value: Any, **given: str) -> Any:
    """Check a column's type as the writer does, and return what encodes batches in a task."""
    kind = parse_schema(value, "value.schema") if isinstance(value, str) else value
    options = sink_options({**KAFKA, "topic": "orders", **given})
    formats = {side: chosen.pinned() for side, chosen in options.formats.items()}
    sink_columns(StructType([StructField("value", kind)]), options.__class__(**{**vars(options), "formats": formats}))
    # A task has a pickled copy.
    return pickle.loads(pickle.dumps(formats["value"])).encoder("value")


@pytest.mark.parametrize("kind", [VariantType(), ArrayType(YearMonthIntervalType()), StructType([StructField("v", VariantType())])])
def test_types_of_spark_alone_are_refused(kind: Any) -> None:
    with pytest.raises(ConfigError, match=r"column 'value\.f(\.v)?' is (variant|interval year to month), which no format writes; cast it"):
        columns_of(StructType([StructField("f", kind)]), **{"value.format": "json"})


# JSON


@pytest.mark.parametrize("begin", [0, 1, 2])
def test_json_is_what_to_json_writes_but_for_microseconds(begin: int) -> None:
    rows = rows_of(ALL, [None, {}, FULL, {"s": "plain", "l": [], "st": {}}])
    texts = [
        None,
        "{}",
        '{"n":1,"s":"a\\"b\\\\\\n\\u0001é","f":1.5,"b":"/w==","d":"2024-01-02","t":"2024-01-02T12:00:00.123456Z",'
        '"z":"2024-01-02T12:00:00.123456","x":1E-10,"o":true,"st":{"y":5},"l":[null,{"w":"q"},{}],"ll":[[1,null],null,[]]}',
        '{"s":"plain","st":{},"l":[]}',
    ]
    assert json_texts(rows.slice(begin)).to_pylist() == texts[begin:]


def test_json_of_maps_keeps_nulls() -> None:
    maps = pa.array([None, [("a", 1), ('"', None)], [], [("b", 2)]], pa.map_(pa.string(), pa.int32()))
    texts = [None, '{"a":1,"\\"":null}', "{}", '{"b":2}']
    for begin in range(4):
        assert json_texts(maps.slice(begin)).to_pylist() == texts[begin:]
    assert json_texts(maps.slice(0, 0)).to_pylist() == []


def test_json_has_no_numbers_that_are_none() -> None:
    for kind in (pa.float32(), pa.float64()):
        texts = json_texts(pa.array([1.5, float("nan"), float("inf"), float("-inf"), None], kind)).to_pylist()
        assert texts == ["1.5", '"NaN"', '"Infinity"', '"-Infinity"', None]


def test_json_has_times_in_utc_whatever_the_zone_of_the_session() -> None:
    times = pa.array([0, None], pa.timestamp("us", "America/Los_Angeles"))
    assert json_texts(times).to_pylist() == ['"1970-01-01T00:00:00.000000Z"', None]


FIRST_DAY, LAST_DAY = (day.toordinal() - dt.date(1970, 1, 1).toordinal() for day in (dt.date.min, dt.date.max))
DAY = 86_400_000_000
FAR = [
    ("d date", pa.int32(), FIRST_DAY, LAST_DAY, "days"),
    ("t timestamp", pa.int64(), FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1, "µs"),
    ("z timestamp_ntz", pa.int64(), FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1, "µs"),
]


def times(ddl: str, numbers: list[int | None], stored: pa.DataType) -> Any:
    (field,) = arrow_type(parse_schema(ddl, ""))
    return pa.StructArray.from_arrays([pa.array(numbers, stored).cast(field.type)], fields=[field])


@pytest.mark.parametrize(("ddl", "stored", "first", "last", "unit"), FAR)
def test_json_has_the_years_0001_to_9999(ddl: str, stored: Any, first: int, last: int, unit: str) -> None:
    encode, name = columns_of(ddl, **{"value.format": "json"}), ddl.split()[0]
    texts = [json.loads(text)[name] for text in encode(times(ddl, [first, last], stored)).to_pylist()]
    assert [text[:10] for text in texts] == ["0001-01-01", "9999-12-31"]
    for far in (first - 1, last + 1):
        with pytest.raises(
            SerializationError,
            match=rf"column 'value\.{name}' is {far} {unit} from 1970 on, but JSON has only the years 0001 to 9999; it is in row 2 of 4 of",
        ):
            encode(times(ddl, [None, last, far, far], stored))


def test_json_looks_for_far_times_in_lists_and_maps_of_the_rows_that_it_writes() -> None:
    far = times("t timestamp", [0, 2**62], pa.int64()).field("t")
    lists = pa.StructArray.from_arrays([pa.ListArray.from_arrays([0, 1, 2], far)], ["l"])
    maps = pa.StructArray.from_arrays([pa.MapArray.from_arrays([0, 1, 2], ["a", "b"], far)], ["m"])
    for rows, path in ((lists, r"value\.l\.element"), (maps, r"value\.m\.value")):
        encode = JsonWriter().encoder("value")
        assert encode(rows.slice(0, 1)).to_pylist()[0].endswith((b'Z"]}', b'Z"}}'))
        with pytest.raises(SerializationError, match=rf"column '{path}' is {2**62} µs .* in row 1 of 2"):
            encode(rows)


def test_what_is_written_as_json_is_read_again() -> None:
    rows = rows_of(ALL, [None, {}, FULL, {"s": "plain", "l": [], "st": {}}])
    given = {**KAFKA, "subscribe": "t", "value.format": "json", "value.schema": ALL}
    decoder = source_options(given, streaming=False).typed.formats["value"].decoder()
    found = decoder.decode(columns_of(ALL, **{"value.format": "json"})(rows))
    assert found.rows.to_pylist() == rows.to_pylist()
    assert found.fault is None


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (StringType(), "column 'value' must be a struct to be written as JSON, but is string; use struct"),
        (StructType(), "column 'value' is a struct without fields; leave it out"),
    ],
)
def test_json_is_made_of_structs(kind: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        columns_of(kind, **{"value.format": "json"})


def test_a_struct_without_a_format_is_told_of_it() -> None:
    with pytest.raises(
        ConfigError, match=r"column 'value' must be string or binary, but is struct<n:int>; cast it, or set the option value\.format"
    ):
        sink_columns(StructType([StructField("value", parse_schema("n int", ""))]), sink_options({**KAFKA, "topic": "t"}))


def test_only_the_column_with_a_format_is_encoded() -> None:
    options = sink_options({**KAFKA, "topic": "t", "key.format": "json"})
    batch = pa.RecordBatch.from_pydict({"key": pa.array([{"n": 1}]), "value": ["v"]})
    records = as_records(batch, ("key", "value"), {"key": options.formats["key"].encoder("key")})
    assert records.to_pydict() == {"key": [b'{"n":1}'], "value": [b"v"]}


# Avro


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "shop.Order", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def logical(kind: str, meaning: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": meaning, **more}


SAME = record(
    n=["null", "int"],
    s=["null", "string"],
    f="double",
    b=["null", "bytes"],
    d=["null", logical("int", "date")],
    t=["null", logical("long", "timestamp-micros")],
    z=["null", logical("long", "local-timestamp-micros")],
    x=["null", logical("bytes", "decimal", precision=20, scale=10)],
    o=["boolean", "null"],
    st=["null", {"type": "record", "name": "St", "fields": [{"name": "y", "type": "int"}]}],
    l=[
        "null",
        {"type": "array", "items": ["null", {"type": "record", "name": "L", "fields": [{"name": "w", "type": ["null", "string"]}]}]},
    ],
    ll=["null", {"type": "array", "items": ["null", {"type": "array", "items": ["null", "int"]}]}],
)


def read_back(encoded: Any, schema: Any) -> list[Any]:
    given = {**KAFKA, "subscribe": "t", "value.format": "avro", "value.avro.schema": json.dumps(schema)}
    found = source_options(given, streaming=False).typed.formats["value"].decoder().decode(encoded)
    assert found.fault is None
    return list(found.rows.to_pylist())


@pytest.fixture
def avro() -> None:
    pytest.importorskip("fastavro", reason="the extra avro is not installed")


@pytest.mark.usefixtures("avro")
class TestAvro:
    def test_what_is_written_as_avro_is_read_again(self) -> None:
        rows = rows_of(ALL, [None, {"f": 2.5}, FULL])
        encode = columns_of(ALL, **{"value.format": "avro", "value.avro.schema": json.dumps(SAME)})
        assert read_back(encode(rows), SAME) == rows.to_pylist()
        assert read_back(encode(rows.slice(2)), SAME) == rows.slice(2).to_pylist()

    def test_types_that_are_wider_in_avro_take_narrower_columns(self) -> None:
        schema = record(a="long", b="double", t=logical("long", "timestamp-millis"), e={"type": "enum", "name": "E", "symbols": ["S", "L"]})
        schema["fields"].append({"name": "more", "type": "string", "default": "x"})
        encode = columns_of("a byte, b float, t timestamp, e string", **{"value.format": "avro", "value.avro.schema": json.dumps(schema)})
        encoded = encode(rows_of("a byte, b float, t timestamp, e string", [{"a": 1, "b": 1.5, "t": NOON, "e": "L"}]))
        (found,) = read_back(encoded, schema)
        assert found == {"a": 1, "b": 1.5, "t": NOON.replace(microsecond=123_000), "e": "L", "more": "x"}

    @pytest.mark.parametrize(
        ("kind", "default", "found"),
        [
            ("bytes", "\u00ff", b"\xff"),
            (["bytes", "null"], "\u00ff", b"\xff"),
            (logical("bytes", "decimal", precision=4, scale=2), "\u0001", Decimal("0.01")),
            ({"type": "fixed", "name": "F", "size": 1}, "\u00ff", b"\xff"),
            ({"type": "map", "values": "bytes"}, {"k": "\u00ff"}, [("k", b"\xff")]),
            (record(b="bytes"), {"b": "\u00ff"}, {"b": b"\xff"}),
            (["null", "bytes"], None, None),
            (logical("long", "timestamp-millis"), 5, dt.datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=dt.UTC)),
            (["int", "string", "null"], 5, {"member0": 5, "member1": None}),
        ],
    )
    def test_fields_that_the_column_lacks_have_their_defaults(self, kind: Any, default: Any, found: Any) -> None:
        schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}, {"name": "f", "type": kind, "default": default}]}
        encode = columns_of("n int", **{"value.format": "avro", "value.avro.schema": json.dumps(schema)})
        assert read_back(encode(rows_of("n int", [{"n": 1}, None, {"n": 2}])), schema) == [{"n": 1, "f": found}, None, {"n": 2, "f": found}]

    def test_a_default_that_does_not_fit_is_refused_where_it_is_needed(self) -> None:
        schema = record(n="int")
        schema["fields"].append({"name": "g", "type": {"type": "array", "items": "int"}, "default": ["five"]})
        given = {"value.format": "avro", "value.avro.schema": json.dumps(schema)}
        with pytest.raises(ConfigError, match=r"column 'value' has no field 'g', whose default in .* does not fit: 'five' is no"):
            columns_of("n int", **given)

    def test_maps_and_times_within_them(self) -> None:
        schema = record(m={"type": "map", "values": ["null", logical("long", "timestamp-millis")]})
        encode = columns_of_any(pa.map_(pa.string(), pa.timestamp("us", "UTC")), schema)
        whole = NOON.replace(microsecond=0)
        rows = pa.array([{"m": [("a", whole), ("b", None)]}], pa.struct([("m", pa.map_(pa.string(), pa.timestamp("us", "UTC")))]))
        assert read_back(encode(rows), schema) == [{"m": [("a", whole), ("b", None)]}]

    @pytest.mark.parametrize(
        ("schema", "text"),
        [
            (record(n="long"), "column 'value' has a field 's', and the Avro record 'shop.Order' has only n"),
            (record(n="int", s="string", z="int"), "column 'value' has no field 'z', and the Avro schema of 'shop.Order' has no default"),
            (record(n="string", s="string"), r"column 'value\.n' is int, but the Avro schema has string there; cast it"),
            (record(n=logical("int", "date"), s="string"), r"column 'value\.n' is int, but the Avro schema has int \(date\) there"),
            (record(n=["int", "string"], s="string"), r"column 'value\.n': the Avro schema has a union of 2 types there"),
            ("string", "column 'value' is struct<n:int,s:string>, but the Avro schema has string there"),
        ],
    )
    def test_columns_that_do_not_fit_are_refused_when_the_writer_is_made(self, schema: Any, text: str) -> None:
        with pytest.raises(ConfigError, match=text):
            columns_of("n int, s string", **{"value.format": "avro", "value.avro.schema": json.dumps(schema)})

    def test_decimals_have_to_fit(self) -> None:
        schema = record(x=logical("bytes", "decimal", precision=5, scale=2))
        given = {"value.format": "avro", "value.avro.schema": json.dumps(schema)}
        columns_of("x decimal(4,1)", **given)
        for kind in ("decimal(5,3)", "decimal(5,1)"):
            with pytest.raises(ConfigError, match=r"column 'value\.x' is decimal\(5,.\), but the Avro schema has bytes \(decimal\)"):
                columns_of(f"x {kind}", **given)

    def test_a_null_where_the_schema_has_none_names_the_column(self) -> None:
        encode = columns_of("n int", **{"value.format": "avro", "value.avro.schema": json.dumps(record(n="int"))})
        with pytest.raises(
            SerializationError, match=r"column 'value' does not fit the Avro schema of option 'value\.avro\.schema': .*row 1 of 2"
        ):
            encode(rows_of("n int", [{"n": 1}, {"n": None}]))

    def test_a_column_need_not_be_a_struct(self) -> None:
        encode = columns_of(StringType(), **{"value.format": "avro", "value.avro.schema": '"string"'})
        assert encode(pa.array(["a", None])).to_pylist() == [b"\x02a", None]


def columns_of_any(of_field: pa.DataType, schema: Any) -> Any:
    """Return what encodes a struct of one field whose type has no DDL here."""
    from pyspark.sql.pandas.types import from_arrow_type

    kind = StructType([StructField(schema["fields"][0]["name"], from_arrow_type(of_field))])
    return columns_of(kind, **{"value.format": "avro", "value.avro.schema": json.dumps(schema)})


@pytest.fixture
def server() -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry() as started:
        yield started


@pytest.mark.usefixtures("avro")
class TestRegistry:
    SCHEMA = record(n="int")

    def given(self, server: EmbeddedRegistry, **more: str) -> dict[str, str]:
        return {"value.format": "confluent-avro", "schema.registry.url": server.url, **more}

    def test_a_schema_is_registered_when_the_writer_is_made(self, server: EmbeddedRegistry) -> None:
        encode = columns_of("n int", **self.given(server, **{"value.avro.schema": json.dumps(self.SCHEMA)}))
        assert encode(rows_of("n int", [{"n": 1}, None])).to_pylist() == [b"\0\0\0\0\x01\x02", None]
        with SchemaRegistryClient(schema_registry_url=server.url) as client:
            assert json.loads(client.get_latest_version("orders-value").schema.schema_str) == self.SCHEMA

    def test_or_only_looked_up(self, server: EmbeddedRegistry) -> None:
        given = self.given(server, **{"value.avro.schema": json.dumps(self.SCHEMA), "schema.registry.auto.register.schemas": "false"})
        with pytest.raises(ConfigError, match=r"option 'value.avro.schema': the schema is not registered under 'orders-value'"):
            columns_of("n int", **given)

    def test_or_the_latest_of_the_subject_is_written(self, server: EmbeddedRegistry) -> None:
        with SchemaRegistryClient(schema_registry_url=server.url) as client:
            client.register_schema("other", Schema('"string"'))
            client.register_schema("mine", Schema(json.dumps(self.SCHEMA)))
        encode = columns_of("n int", **self.given(server, **{"value.subject": "mine"}))
        assert encode(rows_of("n int", [{"n": 1}])).to_pylist() == [b"\0\0\0\0\x02\x02"]
        with pytest.raises(ConfigError, match=r"column 'value\.n' is string, but the Avro schema has int there"):
            columns_of("n string", **self.given(server, **{"value.subject": "mine"}))
        with pytest.raises(ConfigError, match=r"option 'value.subject': the registry has no subject 'orders-value'"):
            columns_of("n int", **self.given(server))

    def test_an_incompatible_schema_names_the_option(self, server: EmbeddedRegistry) -> None:
        with SchemaRegistryClient(schema_registry_url=server.url) as client:
            client.register_schema("orders-value", Schema('"string"'))
        with pytest.raises(IncompatibleSchemaError) as raised:
            columns_of("n int", **self.given(server, **{"value.avro.schema": json.dumps(self.SCHEMA)}))
        assert raised.value.__notes__ == ["option 'value.avro.schema': the schema was to be registered under 'orders-value'"]

    def test_plain_bytes_have_no_length(self, server: EmbeddedRegistry) -> None:
        from pyspark.sql.types import BinaryType

        encode = columns_of(BinaryType(), **self.given(server, **{"value.avro.schema": '"bytes"'}))
        assert encode(pa.array([b"abc", None], pa.binary())).to_pylist() == [b"\0\0\0\0\x01abc", None]

    def test_a_topic_of_each_row_needs_a_subject(self, server: EmbeddedRegistry) -> None:
        with pytest.raises(ConfigError, match=r"option 'value.subject' is needed, because no option names the topic"):
            sink_options({**KAFKA, **self.given(server)})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"value.format": "csv"},
            "option 'value.format': expected binary or json or json-schema or avro or confluent-avro or protobuf or .*, got 'csv'",
        ),
        (
            {"value.avro.schema": "{}"},
            "option 'value.avro.schema' is for the option 'value.format'=avro or confluent-avro, but the format is binary",
        ),
        (
            {"schema.registry.url": "http://h"},
            r"option 'schema.registry.url' has no effect here: a registry is asked only for json-schema and .* and confluent-protobuf",
        ),
        ({"value.schema": "n int"}, "option 'value.schema' belongs to a levada source"),
    ],
)
def test_mistakes_are_said(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        sink_options({**KAFKA, "topic": "t", **given})


@pytest.mark.spark
@pytest.mark.usefixtures("avro")
def test_spark_writes_typed_columns(spark: Any, embedded: Any, new_topic: Any, server: EmbeddedRegistry) -> None:
    topic = new_topic(embedded)
    frame = spark.range(1).selectExpr(
        "cast(id as int) n", "'a\"b' s", "cast(null as string) missing", "map('k', 1.5D) m", "array(1, null) l"
    )
    whole = struct(*frame.columns)
    given = {
        "kafka.bootstrap.servers": embedded.bootstrap_servers,
        "topic": topic,
        "value.format": "json",
        "key.format": "confluent-avro",
        "key.avro.schema": json.dumps(record(n="int")),
        "schema.registry.url": server.url,
    }
    frame.select(whole.alias("value"), struct("n").alias("key")).write.format("levada").options(**given).mode("append").save()

    (found,) = lv.scan(topic, bootstrap_servers=embedded.bootstrap_servers)
    assert found.key == b"\0\0\0\0\x01\x00"
    (expected,) = frame.select(to_json(whole)).first()
    assert (found.value or b"").decode() == expected
    with pytest.raises(Exception, match="column 'value' must be a struct to be written as JSON, but is int"):
        frame.select(col("n").alias("value")).write.format("levada").options(**given).mode("append").save()
