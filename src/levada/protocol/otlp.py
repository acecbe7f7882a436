"""Encodes and decodes OTLP metrics: the bytes inside PushTelemetry (KIP-714), as far as clients of Kafka use them. See adr/0028.

The format is protobuf: each field is a tag, which has the field's number and the encoding of its value, and then the value. A message
inside another is a field of bytes. This file knows the parts of OpenTelemetry's metrics.proto that clients of Kafka push: numbers that are
either gauges or monotonic sums, with attributes that are text. Other fields of a payload are skipped.

    MetricsData 1: ResourceMetrics      1: Resource 1: KeyValue, 2: ScopeMetrics 2: Metric
    Metric      1: name                 5: Gauge 1: NumberDataPoint     7: Sum 1: NumberDataPoint, 2: temporality, 3: is_monotonic
    NumberDataPoint                     2: start, 3: time (nanoseconds, fixed64), 4: value (double), 6: value (sfixed64), 7: KeyValue
    KeyValue    1: key, 2: AnyValue     AnyValue 1: text
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from levada.errors import ProtocolError, TruncatedError
from levada.wire.varint import Bytes, decode_uvarlong, encode_uvarint

Attributes = tuple[tuple[str, str], ...]

_NS_PER_MS = 1_000_000
_FIXED64, _DOUBLE, _SIGNED = struct.Struct("<Q"), struct.Struct("<d"), struct.Struct("<q")


class _Wire(IntEnum):
    """The encodings of values in protobuf."""

    VARINT = 0
    EIGHT_BYTES = 1
    BYTES = 2
    FOUR_BYTES = 5


class Temporality(IntEnum):
    """Whether the value of a sum counts from the last push (DELTA) or from the start of the client (CUMULATIVE)."""

    DELTA = 1
    CUMULATIVE = 2


class Point(NamedTuple):
    """One value of a metric. is_sum: True for a sum, which encode() calls monotonic and decode() does not check; False for a gauge.

    start_ms: the time at which a sum began to count, in ms since the epoch; 0 for a gauge that encode() has written.
    """

    name: str
    value: float
    is_sum: bool = False
    start_ms: int = 0
    attributes: Attributes = ()


class Payload(NamedTuple):
    """The contents of one push. resource: attributes of all points, such as a consumer's group.

    time_ms: the time of the values, in ms since the epoch.
    """

    points: Sequence[Point]
    time_ms: int
    temporality: Temporality = Temporality.CUMULATIVE
    resource: Attributes = ()


def encode(payload: Payload) -> bytes:
    """Encode a payload as MetricsData. Points with the same name and is_sum become one metric."""
    named: dict[tuple[str, bool], list[Point]] = {}
    for point in payload.points:
        named.setdefault((point.name, point.is_sum), []).append(point)
    metrics = b"".join(_field(2, _metric(name, is_sum, points, payload)) for (name, is_sum), points in named.items())
    resource = b"".join(_key_value(1, *pair) for pair in payload.resource)
    return _field(1, _field(1, resource) + _field(2, metrics))


def _metric(name: str, is_sum: bool, points: Sequence[Point], payload: Payload) -> bytes:
    data = b"".join(_field(1, _number(point, payload.time_ms)) for point in points)
    if not is_sum:
        return _field(1, name.encode()) + _field(5, data)
    return _field(1, name.encode()) + _field(7, data + _varint(2, payload.temporality) + _varint(3, 1))


def _number(point: Point, time_ms: int) -> bytes:
    start = _eight(2, _FIXED64.pack(point.start_ms * _NS_PER_MS)) if point.is_sum else b""
    attributes = b"".join(_key_value(7, *pair) for pair in point.attributes)
    return start + _eight(3, _FIXED64.pack(time_ms * _NS_PER_MS)) + _eight(4, _DOUBLE.pack(point.value)) + attributes


def _key_value(number: int, key: str, text: str) -> bytes:
    return _field(number, _field(1, key.encode()) + _field(2, _field(1, text.encode())))


def _tag(number: int, wire: _Wire) -> bytes:
    return encode_uvarint(number << 3 | wire)


def _field(number: int, data: bytes) -> bytes:
    return _tag(number, _Wire.BYTES) + encode_uvarint(len(data)) + data


def _varint(number: int, value: int) -> bytes:
    return _tag(number, _Wire.VARINT) + encode_uvarint(value)


def _eight(number: int, data: bytes) -> bytes:
    return _tag(number, _Wire.EIGHT_BYTES) + data


def decode(data: Bytes) -> Payload:
    """Decode the gauges and sums in MetricsData of any client. Raises ProtocolError if `data` is cut short or is not MetricsData.

    time_ms is that of the newest point (0 without points), temporality that of the first sum (CUMULATIVE without sums, and if it is not
    specified), and resource has the attributes of all ResourceMetrics.
    """
    points: list[Point] = []
    resource: dict[str, str] = {}
    times_ms, temporalities = [0], []
    for resource_metrics in _messages(data, 1):
        for described in _messages(resource_metrics, 1):
            resource.update(_attributes(described, 1))
        for scope in _messages(resource_metrics, 2):
            for metric in _messages(scope, 2):
                for point, time_ms, temporality in _points(metric):
                    points.append(point)
                    times_ms.append(time_ms)
                    temporalities += [temporality] if point.is_sum else []
    first = (temporalities[0] if temporalities else 0) or Temporality.CUMULATIVE
    if first not in tuple(Temporality):
        raise ProtocolError(f"OTLP: there is no temporality {first}")
    return Payload(points, max(times_ms), Temporality(first), tuple(resource.items()))


def _points(metric: Bytes) -> Iterator[tuple[Point, int, int]]:
    fields = _fields(metric)
    name = _text(_last(fields, 1, b""))
    for number, is_sum in ((5, False), (7, True)):
        for kind in _messages(metric, number):
            temporality = _last(_fields(kind), 2, 0) if is_sum else 0
            for point in _messages(kind, 1):
                start_ms, time_ms, value = _read_number(_fields(point))
                yield Point(name, value, is_sum, start_ms, tuple(_attributes(point, 7).items())), time_ms, temporality


def _read_number(fields: Mapping[int, Sequence[Any]]) -> tuple[int, int, float]:
    start, time = (_unpack(_FIXED64, fields, number) // _NS_PER_MS for number in (2, 3))
    return start, time, _unpack(_SIGNED, fields, 6) if 6 in fields else _unpack(_DOUBLE, fields, 4)


def _unpack(form: struct.Struct, fields: Mapping[int, Sequence[Any]], number: int) -> Any:
    data = _last(fields, number, bytes(form.size))
    if len(data) != form.size:
        raise ProtocolError(f"OTLP: field {number} has {len(data)} bytes instead of {form.size}")
    return form.unpack(data)[0]


def _attributes(message: Bytes, number: int) -> dict[str, str]:
    pairs = [_fields(pair) for pair in _messages(message, number)]
    return {_text(_last(pair, 1, b"")): _text(_last(_fields(_last(pair, 2, b"")), 1, b"")) for pair in pairs}


def _messages(message: Bytes, number: int) -> Sequence[Bytes]:
    return [_checked(number, value, b"") for value in _fields(message).get(number, ())]


def _last(fields: Mapping[int, Sequence[Any]], number: int, default: Any) -> Any:
    """Return the value of a field that is not repeated. If there are several, the last one counts in protobuf.

    number: the number of the field. default: the value of a field that is missing.
    """
    return _checked(number, fields[number][-1], default) if number in fields else default


def _checked(number: int, value: Any, default: Any) -> Any:
    """Return a value. Raises ProtocolError unless it and the default are both numbers, or both bytes."""
    if isinstance(value, int) != isinstance(default, int):
        raise ProtocolError(f"OTLP: field {number} is {'a number' if isinstance(value, int) else 'bytes'}, which is not its type")
    return value


def _text(data: Bytes) -> str:
    return bytes(data).decode(errors="replace")


def _fields(message: Bytes) -> dict[int, list[Any]]:
    """Return the values of a message by field number: ints for varints, views of the bytes for all other encodings."""
    found: dict[int, list[Any]] = {}
    view, at = memoryview(message), 0
    while at < len(view):
        tag, at = decode_uvarlong(view, at)
        wire, size, value = tag & 7, 0, None
        if wire == _Wire.VARINT:
            value, at = decode_uvarlong(view, at)
        elif wire == _Wire.BYTES:
            size, at = decode_uvarlong(view, at)
        elif wire in (_Wire.EIGHT_BYTES, _Wire.FOUR_BYTES):
            size = 8 if wire == _Wire.EIGHT_BYTES else 4
        else:
            raise ProtocolError(f"OTLP: field {tag >> 3} is written in a way {wire} that protobuf does not have")
        if at + size > len(view):
            raise TruncatedError(f"OTLP: field {tag >> 3} ends beyond the message")
        found.setdefault(tag >> 3, []).append(view[at : at + size] if value is None else value)
        at += size
    return found
