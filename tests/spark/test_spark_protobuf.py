"""Protobuf messages as columns, and columns as messages."""

from __future__ import annotations

import base64
import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DayTimeIntervalType, StringType, StructField, StructType

from levada.errors import ConfigError, SerializationError
from levada.registry import SchemaRegistryClient
from levada.spark.ddl import parse_schema
from levada.spark.options.options import sink_options, source_options
from levada.spark.types import arrow_type, name_of, spark_type, written_type
from levada.testing import EmbeddedRegistry

pytest.importorskip("google.protobuf", reason="the extra protobuf is not installed")

from protobuf_columns import descriptor_set, message_class

KAFKA = {"kafka.bootstrap.servers": "h:1"}
ALL = message_class("types.All")
NOON = dt.datetime(2024, 1, 2, 12, 0, 0, 123_456, tzinfo=dt.UTC)
POINT = "struct<x:int,big:decimal(20,0)>"
TYPES = (
    "struct<a_bool:boolean,a_int32:int,a_sint32:int,a_sfixed32:int,a_uint32:bigint,a_fixed32:bigint,a_int64:bigint,a_sint64:bigint,"
    "a_sfixed64:bigint,a_uint64:decimal(20,0),a_fixed64:decimal(20,0),a_float:float,a_double:double,a_string:string,a_bytes:binary,"
    f"size:string,sizes:array<string>,point:{POINT},points:array<{POINT}>,names:array<string>,counts:map<string,bigint>,"
    f"places:map<string,{POINT}>,at:timestamp,took:interval day to second,left:int,right:string,maybe:int>"
)
FULL: dict[str, Any] = {
    "a_bool": True,
    "a_int32": -1,
    "a_sint32": -2,
    "a_sfixed32": -3,
    "a_uint32": 2**32 - 1,
    "a_fixed32": 2**32 - 2,
    "a_int64": -(2**63),
    "a_sint64": -5,
    "a_sfixed64": -6,
    "a_uint64": 2**64 - 1,
    "a_fixed64": 2**64 - 2,
    "a_float": 1.5,
    "a_double": 2.5,
    "a_string": "é",
    "a_bytes": b"\xff",
    "size": "LARGE",
    "sizes": ["SMALL", "LARGE"],
    "point": {"x": 1, "big": 2**64 - 1},
    "points": [{"x": 2}, {}],
    "names": ["a", ""],
    "counts": {"k": 5},
    "places": {"p": {"x": 3}},
    "at": NOON,
    "took": dt.timedelta(days=1, microseconds=7),
    "right": "r",
    "maybe": 0,
}
ROW: dict[str, Any] = {
    **FULL,
    "a_uint64": Decimal(2**64 - 1),
    "a_fixed64": Decimal(2**64 - 2),
    "point": {"x": 1, "big": Decimal(2**64 - 1)},
    "points": [{"x": 2, "big": None}, {"x": None, "big": None}],
    "counts": [("k", 5)],
    "places": [("p", {"x": 3, "big": None})],
    "left": None,
}


def options(name: str = "types.All", form: str = "protobuf", **given: str) -> dict[str, str]:
    text = base64.b64encode(descriptor_set()).decode()
    return {**KAFKA, "value.format": form, "value.protobuf.descriptor": text, "value.protobuf.message": name, **given}


def chosen(name: str = "types.All", form: str = "protobuf", **given: str) -> Any:
    typed = source_options({"subscribe": "t", **options(name, form, **given)}, streaming=False).typed
    # A task has a pickled copy.
    return pickle.loads(pickle.dumps(typed.pinned().formats["value"]))


def decoded(form: Any, *values: bytes | None) -> Any:
    found = form.decoder(arrow_type(spark_type(form.kind))).decode(pa.array(values, pa.binary()))
    assert found.rows.type == arrow_type(spark_type(form.kind))
    return found


def test_types_are_those_of_from_protobuf_with_room_for_unsigned_numbers() -> None:
    assert spark_type(chosen().kind).simpleString() == TYPES


def test_a_message_with_every_field() -> None:
    assert decoded(chosen(), ALL(**FULL).SerializeToString(), None).rows.to_pylist() == [ROW, None]


def test_what_a_message_lacks_is_null_or_empty() -> None:
    (row,) = decoded(chosen(), b"").rows.to_pylist()
    repeated = {"sizes", "points", "names", "counts", "places"}
    assert row == {name: [] if name in repeated else None for name in ROW}


def test_a_number_of_no_name_in_an_enum() -> None:
    (row,) = decoded(chosen(), ALL(size=7, sizes=[7]).SerializeToString()).rows.to_pylist()
    assert (row["size"], row["sizes"]) == ("UNKNOWN_ENUM_VALUE_Size_7", ["UNKNOWN_ENUM_VALUE_Size_7"])


def test_proto2_has_defaults_and_required_fields() -> None:
    old = message_class("types.Old")
    found = decoded(chosen("types.Old"), old(id=1).SerializeToString(), b"", old(id=0, size="TINY", note="").SerializeToString())
    assert found.rows.to_pylist() == [
        {"id": 1, "size": "BIG", "note": None, "notes": []},
        {"id": None, "size": None, "note": None, "notes": None},
        {"id": 0, "size": "TINY", "note": "", "notes": []},
    ]
    assert found.fault.reason == "no types.Old: it lacks id"


@pytest.mark.parametrize("entry", [b"\x0a\x01\xff\x12\x01a", b"\x0a\x01a\x12\x01\xff"], ids=["key", "value"])
def test_text_of_proto2_that_is_not_utf_8_is_malformed_in_maps_too(entry: bytes) -> None:
    found = decoded(chosen("types.Old"), b"\x08\x01\x22" + bytes([len(entry)]) + entry, b"\x08\x02")
    assert [row["id"] for row in found.rows.to_pylist()] == [None, 2]
    assert found.malformed.to_pylist() == [True, False]


def test_what_is_no_message_is_malformed_and_leaves_the_rest_alone() -> None:
    found = decoded(chosen("types.All.Point"), b"\x08\x01", b"\xff", None, b"\x08\x02")
    assert found.rows.to_pylist() == [{"x": 1, "big": None}, {"x": None, "big": None}, None, {"x": 2, "big": None}]
    assert (found.fault.row, found.malformed.to_pylist()) == (1, [False, True, False, False])
    assert "no types.All.Point: " in found.fault.reason


def test_a_time_beyond_spark_is_malformed() -> None:
    values = [ALL(at={"seconds": seconds}).SerializeToString() for seconds in (1, 2**62)]
    found = decoded(chosen(), *values)
    assert found.malformed.to_pylist() == [False, True]
    assert found.fault.reason.startswith("beyond what its column can hold: ")


def test_confluents_header_tells_the_message() -> None:
    form = chosen(form="confluent-protobuf")
    header = b"\0\0\0\0\x07"
    # The message is the second of its file: one index, and that is 1.
    found = decoded(form, header + b"\x02\x02" + b"\x10\x05", header + b"\x00" + b"\x10\x05", b"\x10\x05", None)
    assert [row and row["a_int32"] for row in found.rows.to_pylist()] == [5, None, None, None]
    assert found.fault.reason == "message [0] of its file, and types.All is message [1]"
    assert found.malformed.to_pylist() == [False, True, True, False]
    point = chosen("types.All.Point", "confluent-protobuf")
    assert decoded(point, header + b"\x04\x02\x00" + b"\x08\x05").rows.to_pylist() == [{"x": 5, "big": None}]


def test_a_descriptor_may_be_a_file(tmp_path: Any) -> None:
    path = tmp_path / "all.desc"
    path.write_bytes(descriptor_set())
    assert chosen(**{"value.protobuf.descriptor": str(path)}) == chosen()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"value.protobuf.descriptor": "/nowhere.desc"},
            r"option 'value\.protobuf\.descriptor': '/nowhere\.desc' is neither a file that can be read \(No such file or directory\)",
        ),
        # A folder, and a path that is not there: both are base64.
        ({"value.protobuf.descriptor": "/tmp"}, r"'/tmp' is neither a file that can be read \(Is a directory\) nor a FileDescriptorSet"),
        ({"value.protobuf.descriptor": "////"}, r"'////' is neither a file that can be read \(Is a directory\) nor a FileDescriptorSet"),
        (
            {"value.protobuf.descriptor": "/nowhere/abc"},
            r"'/nowhere/abc' is neither a file that can be read \(No such file or directory\)",
        ),
        ({"value.protobuf.descriptor": "x" * 4000}, r"'x{200}'\.\.\. is neither a file that can be read \(File name too long\) nor"),
        ({"value.protobuf.descriptor": " "}, r"option 'value\.protobuf\.descriptor' is empty; give a file that protoc"),
        (
            {"value.protobuf.descriptor": "/dev/null"},
            r"option 'value\.protobuf\.descriptor' holds no FileDescriptorSet: there is no file in it",
        ),
        (
            {"value.protobuf.message": "types.Nobody"},
            r"option 'value\.protobuf\.message': there is no message 'types\.Nobody'; there are .*types\.All",
        ),
        ({"value.protobuf.message": "types.Loop"}, r"option 'value\.protobuf\.message': message 'types\.Loop' contains itself"),
        ({"value.protobuf.message": "google.protobuf.Timestamp"}, "Timestamp alone is not a column"),
        (
            {"value.protobuf.descriptor": base64.b64encode(descriptor_set(leave_out="google/protobuf/duration.proto")).decode()},
            "does not hold all files that are imported: .*google/protobuf/duration.proto.*; make it with protoc --include_imports",
        ),
    ],
)
def test_mistakes_are_said(given: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        chosen(**given)


# Writing


def encoder(kind: Any, name: str = "types.All", form: str = "protobuf", **given: str) -> Any:
    """Check a column's type as the writer does, and return what encodes batches in a task."""
    made = sink_options({**options(name, form, **given), "topic": "orders"}).formats["value"].pinned()
    made.check("value", written_type("value", kind), name_of)
    return pickle.loads(pickle.dumps(made)).encoder("value")


def test_what_is_written_is_read_again() -> None:
    form = chosen()
    rows = decoded(form, ALL(**FULL).SerializeToString(), None, b"").rows
    assert encoder(spark_type(form.kind))(rows).to_pylist() == [ALL(**FULL).SerializeToString(), None, b""]
    assert encoder(spark_type(form.kind))(rows.slice(1)).to_pylist() == [None, b""]


TIMES = pa.struct([("at", pa.timestamp("us", "UTC")), ("took", pa.duration("us"))])


def encode_times(*rows: dict[str, int]) -> Any:
    kind = StructType([*parse_schema("at timestamp", "").fields, StructField("took", DayTimeIntervalType())])
    return encoder(kind)(pa.array(rows, TIMES))


@pytest.mark.parametrize("micros", [-1, -500_000, -1_500_000, -86_400_000_000, 1_500_000])
def test_times_before_1970_and_negative_durations_are_written(micros: int) -> None:
    (written,) = encode_times({"at": micros, "took": micros}).to_pylist()
    message = ALL.FromString(written)
    # They refuse what the files of the two messages do not allow, such as seconds and nanos of different signs.
    assert message.took.ToMicroseconds() == message.at.ToMicroseconds() == micros
    assert message.took.ToJsonString().endswith("s")
    (row,) = decoded(chosen(), written).rows.to_pylist()
    assert row["took"] == dt.timedelta(microseconds=micros)


def test_the_first_and_the_last_time_of_a_message() -> None:
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
    longest = 315_576_000_000 * 1_000_000
    written = encode_times({"at": first, "took": -longest}, {"at": last, "took": longest}).to_pylist()
    assert [ALL.FromString(value).at.ToMicroseconds() for value in written] == [first, last]
    for row, text in (
        (
            {"at": first - 1},
            rf"field 'at' is {first - 1} µs from 1970 on, but a Timestamp holds only the years 0001 to 9999; .* row 1 of 2",
        ),
        ({"at": last + 1}, rf"field 'at' is {last + 1} µs"),
        ({"took": longest + 1}, r"field 'took' is 315576000000000001 µs, but a Duration holds at most 315576000000 s; .* row 1 of 2"),
        ({"took": -longest - 1}, "field 'took'"),
    ):
        with pytest.raises(SerializationError, match=text):
            encode_times({}, row)


def test_a_number_of_no_name_in_an_enum_is_written_as_it_was() -> None:
    form, value = chosen(), ALL(size=7, sizes=[7, 1, -2]).SerializeToString()
    assert encoder(spark_type(form.kind))(decoded(form, value).rows).to_pylist() == [value]


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("a_int32 long", r"column 'value\.a_int32' is bigint, but the message has int there; cast it"),
        ("a_uint64 decimal(20,1)", r"column 'value\.a_uint64' is decimal\(20,1\), but the message has decimal\(20,0\) there"),
        ("size int", r"column 'value\.size' is int, but the message has string there"),
        ("names string", r"column 'value\.names' is string, but the message has array<string> there"),
        ("names array<int>", r"column 'value\.names\.element' is int, but the message has string there"),
        ("counts array<int>", r"column 'value\.counts' is array<int>, but the message has map<string,bigint> there"),
        ("point struct<z: int>", r"column 'value\.point' has a field 'z', and the message types\.All\.Point has only x, big"),
        ("point int", r"column 'value\.point' is int, but the message has struct<x:int,big:decimal\(20,0\)> there"),
        ("at long", r"column 'value\.at' is bigint, but the message has timestamp there"),
    ],
)
def test_columns_that_do_not_fit_are_refused_when_the_writer_is_made(ddl: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        encoder(parse_schema(ddl, "value.schema"))


def test_only_structs_are_messages() -> None:
    with pytest.raises(ConfigError, match=r"column 'value' must be a struct to be written as types\.All, but is string"):
        encoder(StringType())


@pytest.mark.parametrize(
    ("ddl", "row", "text"),
    [
        ("size string", {"size": "HUGE"}, "column 'value' does not fit the message types.All: .*HUGE.*; it is in row 1 of 2"),
        ("a_uint32 long", {"a_uint32": -1}, "row 1 of 2"),
        (
            "size string",
            {"size": "UNKNOWN_ENUM_VALUE_Size_x"},
            "column 'value' does not fit the message types.All: .*; it is in row 1 of 2",
        ),
        (
            "names array<string>",
            {"names": ["a", None]},
            "field 'names' has a null in its list, but a message .*; it is in row 1 of 2",
        ),
        ("points array<struct<x: int>>", {"points": [None]}, "field 'points' has a null in its list.*row 1 of 2"),
        ("sizes array<string>", {"sizes": [None]}, "field 'sizes' has a null in its list.*row 1 of 2"),
        ("left int, right string", {"left": 1, "right": "r"}, "of the oneof 'either' only one of left, right can be set"),
    ],
)
def test_rows_that_do_not_fit_name_the_column(ddl: str, row: Any, text: str) -> None:
    kind = parse_schema(ddl, "value.schema")
    with pytest.raises(SerializationError, match=text):
        encoder(kind)(pa.array([{}, row], arrow_type(kind)))


@pytest.mark.parametrize("name", ["counts", "places"])
def test_maps_cannot_hold_null(name: str) -> None:
    message: Any = spark_type(chosen().kind)
    kind = StructType([one for one in message.fields if one.name == name])
    with pytest.raises(SerializationError, match=f"types.All: field '{name}' has a null in its map, but a message .*; it is in row 1 of 2"):
        encoder(kind)(pa.array([{name: []}, {name: [("k", None)]}], arrow_type(kind)))


def test_a_registry_gets_the_file_and_gives_the_id() -> None:
    with EmbeddedRegistry() as server, SchemaRegistryClient(schema_registry_url=server.url) as client:
        given = {"schema.registry.url": server.url}
        kind = parse_schema("a_int32 int", "value.schema")
        (value,) = encoder(kind, form="confluent-protobuf", **given)(pa.array([{"a_int32": 5}], arrow_type(kind))).to_pylist()
        registered = client.get_latest_version("orders-value")
        assert value == b"\0" + registered.schema_id.to_bytes(4, "big") + b"\x02\x02" + b"\x10\x05"
        assert decoded(chosen(form="confluent-protobuf"), value).rows.to_pylist()[0]["a_int32"] == 5
