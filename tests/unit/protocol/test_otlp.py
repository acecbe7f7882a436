"""OTLP metrics as PushTelemetry carries them: read back by us, and by Google's library from declarations of its own."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.errors import ProtocolError
from levada.protocol.otlp import Payload, Point, Temporality, decode, encode

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")

# opentelemetry/proto/metrics/v1/metrics.proto, as far as it is used: message, then field name, number, type; a message's name is a type.
DECLARED: dict[str, list[tuple[str, int, str]]] = {
    "MetricsData": [("resource_metrics", 1, "*ResourceMetrics")],
    "ResourceMetrics": [("resource", 1, "Resource"), ("scope_metrics", 2, "*ScopeMetrics"), ("schema_url", 3, "string")],
    "Resource": [("attributes", 1, "*KeyValue"), ("dropped_attributes_count", 2, "uint32")],
    "ScopeMetrics": [("metrics", 2, "*Metric"), ("schema_url", 3, "string")],
    "Metric": [("name", 1, "string"), ("description", 2, "string"), ("unit", 3, "string"), ("gauge", 5, "Gauge"), ("sum", 7, "Sum")],
    "Gauge": [("data_points", 1, "*NumberDataPoint")],
    "Sum": [("data_points", 1, "*NumberDataPoint"), ("aggregation_temporality", 2, "int32"), ("is_monotonic", 3, "bool")],
    "NumberDataPoint": [
        ("start_time_unix_nano", 2, "fixed64"),
        ("time_unix_nano", 3, "fixed64"),
        ("as_double", 4, "double"),
        ("as_int", 6, "sfixed64"),
        ("attributes", 7, "*KeyValue"),
        ("flags", 8, "uint32"),
    ],
    "KeyValue": [("key", 1, "string"), ("value", 2, "AnyValue")],
    "AnyValue": [("string_value", 1, "string"), ("int_value", 3, "int64")],
}

TEN_OCLOCK_MS = 1_700_000_000_000
PAYLOAD = Payload(
    [
        Point("a.total", 3.0, True, TEN_OCLOCK_MS - 500, (("topic", "orders"),)),
        Point("a.total", 4.0, True, TEN_OCLOCK_MS - 500, (("topic", "päckchen"),)),
        Point("b.avg", -1.5),
    ],
    TEN_OCLOCK_MS,
    Temporality.DELTA,
    (("group_id", "g"), ("client_rack", "r")),
)


@pytest.fixture(scope="module")
def google() -> Any:
    """Google's class for MetricsData."""
    from google.protobuf import descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="metrics.proto", package="otlp", syntax="proto3")
    for message, fields in DECLARED.items():
        declared = file.message_type.add(name=message)
        for name, number, kind in fields:
            field = declared.field.add(name=name, number=number)
            field.label = kinds.LABEL_REPEATED if kind.startswith("*") else kinds.LABEL_OPTIONAL
            if kind.lstrip("*") in DECLARED:
                field.type, field.type_name = kinds.TYPE_MESSAGE, f".otlp.{kind.lstrip('*')}"
            else:
                field.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("otlp.MetricsData"))


def test_google_reads_what_we_write(google: Any) -> None:
    read = google.FromString(encode(PAYLOAD))
    (of_resource,) = read.resource_metrics
    assert [(pair.key, pair.value.string_value) for pair in of_resource.resource.attributes] == [("group_id", "g"), ("client_rack", "r")]
    (scope,) = of_resource.scope_metrics
    total, average = scope.metrics
    assert (total.name, total.sum.aggregation_temporality, total.sum.is_monotonic) == ("a.total", 1, True)
    assert [(point.as_double, point.attributes[0].value.string_value) for point in total.sum.data_points] == [
        (3, "orders"),
        (4, "päckchen"),
    ]
    assert {point.time_unix_nano for point in total.sum.data_points} == {TEN_OCLOCK_MS * 1_000_000}
    assert {point.start_time_unix_nano for point in total.sum.data_points} == {(TEN_OCLOCK_MS - 500) * 1_000_000}
    assert (average.name, average.gauge.data_points[0].as_double) == ("b.avg", -1.5)


def test_we_read_what_google_writes(google: Any) -> None:
    written = google()
    of_resource = written.resource_metrics.add(schema_url="left out")
    of_resource.resource.dropped_attributes_count = 7
    of_resource.resource.attributes.add(key="group_id").value.string_value = "g"
    metric = of_resource.scope_metrics.add().metrics.add(name="n", unit="ms")
    metric.sum.aggregation_temporality = 2
    metric.sum.data_points.add(as_int=-5, time_unix_nano=9_000_000, start_time_unix_nano=2_000_000, flags=1)
    assert decode(written.SerializeToString()) == Payload([Point("n", -5, True, 2)], 9, Temporality.CUMULATIVE, (("group_id", "g"),))


POINTS = st.builds(
    Point,
    st.text(max_size=20),
    st.floats(allow_nan=False),
    st.just(False),
    st.just(0),
    st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=3, unique_by=lambda pair: pair[0]).map(tuple),
)


@given(st.lists(POINTS, max_size=8))
def test_what_is_written_is_read_back(points: list[Point]) -> None:
    payload = Payload(points, TEN_OCLOCK_MS)
    read = decode(encode(payload))
    assert sorted(read.points) == sorted(points)


@given(st.binary(max_size=60) | st.integers(0, 200).map(lambda size: encode(PAYLOAD)[:size]))
def test_bytes_that_are_no_otlp_are_a_protocol_error_or_skipped(data: bytes) -> None:
    with suppress(ProtocolError):
        decode(data)


@given(st.lists(st.tuples(st.integers(0, len(encode(PAYLOAD)) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_payload_with_other_bytes_is_read_or_is_a_protocol_error(changes: list[tuple[int, int]]) -> None:
    data = bytearray(encode(PAYLOAD))
    for position, byte in changes:
        data[position] = byte
    with suppress(ProtocolError):
        decode(data)


NUMBER, EIGHT, BYTES = 0, 1, 2
"""How protobuf writes a value."""


def of_sum(*fields: bytes) -> bytes:
    """MetricsData with one sum."""
    data = b"".join(fields)
    for number in (7, 2, 2, 1):
        data = bytes([number << 3 | BYTES, len(data)]) + data
    return data


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param([bytes([2 << 3 | NUMBER, 3])], id="a temporality that does not exist"),
        pytest.param([bytes([2 << 3 | BYTES, 1, 1])], id="a temporality of bytes"),
        pytest.param([bytes([1 << 3 | NUMBER, 1])], id="a point that is a number"),
    ],
)
def test_a_sum_that_is_not_of_its_form_is_a_protocol_error(fields: list[bytes]) -> None:
    empty_point = bytes([1 << 3 | BYTES, 0])
    with pytest.raises(ProtocolError, match="OTLP"):
        decode(of_sum(empty_point, *fields))


@pytest.mark.parametrize("value", [bytes([4 << 3 | NUMBER, 1]), bytes([4 << 3 | BYTES, 2, 0, 0]), bytes([7 << 3 | NUMBER, 1])])
def test_a_point_that_is_not_of_its_form_is_a_protocol_error(value: bytes) -> None:
    with pytest.raises(ProtocolError, match="OTLP"):
        decode(of_sum(bytes([1 << 3 | BYTES, len(value)]), value))


def test_a_temporality_that_is_not_specified_counts_as_cumulative() -> None:
    zero = bytes([4 << 3 | EIGHT]) + bytes(8)
    read = decode(of_sum(bytes([1 << 3 | BYTES, len(zero)]), zero, bytes([2 << 3 | NUMBER, 0])))
    assert read == Payload([Point("", 0.0, True)], 0, Temporality.CUMULATIVE)


def test_nothing_is_an_empty_payload() -> None:
    assert decode(b"") == Payload([], 0)
    assert decode(encode(Payload([], TEN_OCLOCK_MS))).points == []
