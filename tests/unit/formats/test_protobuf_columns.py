"""Protobuf decoded by columns: the same rows as those of the package protobuf, whatever the messages and bytes are."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
pytest.importorskip("google.protobuf", reason="the extra protobuf is not installed")

import pyarrow as pa
from google.protobuf.internal import api_implementation

from levada.formats.protobuf import ProtobufFormat
from levada.formats.protobuf_columns import ProtobufDecoder, has_steps
from levada.formats.protobuf_schema import MessageType
from protobuf_columns import NAMES, class_named

compiled_package = pytest.mark.skipif(
    api_implementation.Type() == "python", reason="the package in Python takes a tag that is longer than needed for an unknown field"
)
Draw = Callable[[Any], Any]


class NotCalled:
    """Stands in for the decoder that reads value by value, where columns have to be decoded without it."""

    def decode(self, values: Any) -> Any:
        raise AssertionError("decoded value by value")


def both(name: str, *, has_header: bool = False) -> tuple[ProtobufDecoder, Any]:
    """Return the decoder by columns and the one that reads value by value."""
    fast = ProtobufFormat(MessageType.of(class_named(name).DESCRIPTOR, "it"), has_header).decoder()
    assert isinstance(fast, ProtobufDecoder)
    return fast, fast._one_by_one


def by_columns(name: str, values: list[bytes | None], **more: Any) -> Any:
    """Decode messages of which none is left to the decoder that reads value by value."""
    fast, slow = both(name, **more)
    fast._one_by_one = NotCalled()
    column = pa.array(values, pa.binary())
    rows = fast.decode(column).rows
    assert shown(rows) == shown(slow.decode(column).rows)
    return rows


def shown(array: pa.Array) -> list[Any]:
    """Return the values of a column, in which no number is equal to no number, -0.0 is not 0.0, and maps have no order."""
    # Python has no times after the year 9999.
    array = array.cast(_without_times(array.type))
    return [_shown(value, array.type) for value in array.to_pylist()]


def _without_times(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_times(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_without_times(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_times(kind.value_type)))
    return pa.int64() if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) else kind


def _shown(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _shown(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return sorted(((key, _shown(item, kind.item_type)) for key, item in value), key=repr)
    if pa.types.is_list(kind):
        return [_shown(item, kind.value_type) for item in value]
    return repr(value) if pa.types.is_floating(kind) else value


def check(name: str, values: list[bytes | None], *, has_header: bool = False) -> None:
    """Compare both decoders: rows, what is malformed, and why."""
    fast, slow = both(name, has_header=has_header)
    column = pa.array(values, pa.binary())
    found, expected = fast.decode(column), slow.decode(column)
    found.rows.validate(full=True)
    assert found.malformed.to_pylist() == expected.malformed.to_pylist()
    assert shown(found.rows) == shown(expected.rows)
    assert (found.fault and found.fault.row) == (expected.fault and expected.fault.row)
    assert (found.fault and found.fault.reason) == (expected.fault and expected.fault.reason)
    if len(values) > 1:
        assert shown(fast.decode(column.slice(1)).rows) == shown(found.rows.slice(1))


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


EDGES = [0, 1, 2, 5, 127, 128, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
NUMBERS = st.sampled_from(EDGES) | st.integers(0, 2**64 - 1)
TEXTS = st.sampled_from([b"", b"a", b"\xc3\xa9", b"\xff", b"\xed\xa0\x80", b"\0"]) | st.binary(max_size=5)


@st.composite
def padded(draw: Draw, numbers: Any) -> bytes:
    """Draw a number, sometimes in more bytes than it takes."""
    found = varint(draw(numbers))
    more = draw(st.sampled_from([0] * 20 + [1, 3, 8]))
    return found if not more else found[:-1] + bytes([found[-1] | 0x80]) + b"\x80" * (more - 1) + b"\0"


@st.composite
def wires(draw: Draw, descriptor: Any, depth: int = 0) -> bytes:
    """Draw a message as bytes: fields in any order, repeated, packed or not, of another wire type than theirs, and unknown ones."""
    parts = []
    for _ in range(draw(st.integers(0, 6 if depth < 3 else 2))):
        fields = list(descriptor.fields)
        one = draw(st.sampled_from(fields)) if fields and draw(st.integers(0, 9)) else None
        number = draw(st.sampled_from([77, 1000, 2**29 - 1, 1, 2])) if one is None else one.number
        of_field = WIRES.get(one.type, 2) if one is not None else 0
        if one is None or not draw(st.integers(0, 11)):
            of_field = draw(st.sampled_from([0, 1, 2, 5, 3] if depth < 3 else [0, 1, 2, 5]))
        elif of_field in (0, 1, 5) and not draw(st.integers(0, 3)):
            packed = {0: padded(NUMBERS), 1: st.binary(min_size=8, max_size=8), 5: st.binary(min_size=4, max_size=4)}[of_field]
            data = b"".join(draw(st.lists(packed, max_size=4)))
            parts.append(varint(number << 3 | 2) + varint(len(data)) + data)
            continue
        tag = draw(padded(st.just(number << 3 | of_field)))
        match of_field:
            case 0:
                small = st.integers(0, 3) if one is not None and one.type == one.TYPE_ENUM else NUMBERS
                parts.append(tag + draw(padded(small)))
            case 1:
                parts.append(tag + draw(st.binary(min_size=8, max_size=8) | st.just(bytes(8)) | st.just(b"\0" * 7 + b"\x80")))
            case 5:
                parts.append(tag + draw(st.binary(min_size=4, max_size=4) | st.just(bytes(4)) | st.just(b"\0\0\xc0\x7f")))
            case 3:
                inner = draw(wires(descriptor, depth + 1))
                parts.append(tag + inner + varint(number << 3 | 4))
            case _:
                inner_type = None if one is None else one.message_type
                data = draw(TEXTS if inner_type is None else wires(inner_type, depth + 1))
                parts.append(tag + draw(padded(st.just(len(data)))) + data)
    return b"".join(parts)


WIRES = {1: 1, 2: 5, 3: 0, 4: 0, 5: 0, 6: 1, 7: 5, 8: 0, 9: 2, 10: 3, 11: 2, 12: 2, 13: 0, 14: 0, 15: 5, 16: 1, 17: 0, 18: 0}
"""The wire type by the type of a field."""


@st.composite
def good(draw: Draw, name: str) -> bytes:
    """Draw a message as the package writes it, mostly with nothing that is rare."""
    message = class_named(name)()
    data = draw(wires(message.DESCRIPTOR))
    try:
        message.ParseFromString(data)
    except Exception:
        return b""
    message.DiscardUnknownFields()
    return bytes(message.SerializePartialToString())


@st.composite
def damaged(draw: Draw, name: str) -> bytes:
    value: bytes = draw(wires(class_named(name).DESCRIPTOR) | good(name))
    at = draw(st.integers(0, len(value)))
    match draw(st.sampled_from(["cut", "more", "set", "flip", "splice", "huge"])):
        case "cut":
            return value[:at]
        case "more":
            return value[:at] + bytes(draw(st.binary(max_size=3))) + value[at:]
        case "set":
            return value[:at] + bytes([draw(st.integers(0, 255))]) + value[at + 1 :]
        case "flip" if at < len(value):
            return value[:at] + bytes([value[at] ^ 1 << draw(st.integers(0, 7))]) + value[at + 1 :]
        case "splice":
            other: bytes = draw(wires(class_named(name).DESCRIPTOR))
            return value[:at] + other + value[at:]
        case _:
            huge: bytes = draw(st.sampled_from([b"\xff" * 9 + b"\x01", b"\xff\xff\xff\xff\x07", b"\xff" * 11]))
            return value[:at] + huge + value[at:]


@compiled_package
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_rows_are_those_of_the_package(name: str, data: Any) -> None:
    check(name, data.draw(st.lists(st.none() | good(name) | wires(class_named(name).DESCRIPTOR), min_size=1, max_size=5)))


@compiled_package
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_damaged_bytes_are_malformed_or_another_value(name: str, data: Any) -> None:
    check(name, data.draw(st.lists(damaged(name) | good(name), min_size=1, max_size=5)))


@compiled_package
@given(data=st.data())
def test_a_header_is_read_alike(data: Any) -> None:
    name = data.draw(st.sampled_from(["every.New", "every.Outer"]))
    path = {"every.New": [b"\0", b"\2\0", b"\2\2"], "every.Outer": [b"\2\4", b"\0", b"\2\x84\0"]}[name]
    head = st.sampled_from([b"\0\0\0\0\1", b"\0\xff\xff\xff\xff", b"\1\0\0\0\1", b"\0\0\0"])
    values = st.tuples(head, st.sampled_from(path), good(name)).map(b"".join)
    check(name, data.draw(st.lists(values, min_size=1, max_size=4)), has_header=True)


def test_what_programs_write_is_read_by_columns() -> None:
    message = class_named("types.All")
    full = message(
        a_bool=True,
        a_int32=-1,
        a_sint32=-2,
        a_uint32=2**32 - 1,
        a_sint64=-(2**63),
        a_uint64=2**64 - 1,
        a_float=-0.0,
        a_double=float("nan"),
        a_string="é",
        a_bytes=b"\xff",
        size=1,
        sizes=[0, 1],
        points=[{"x": -1}, {}],
        names=["a", ""],
        counts={"a": 0, "": 5},
        places={"k": {"x": 1}},
        at={"seconds": -1, "nanos": 999_999_999},
        took={"seconds": 1, "nanos": -1},
        nothing={},
        right="",
        maybe=0,
    ).SerializeToString()
    by_columns("types.All", [full, None, b"", b"\xda\x01\x00", full, b"\xc0\x3e\x01\xd2\x3e\x01a" + full])
    # Entries without a key, without a value, and with both in the other order; packed and single elements of one field.
    by_columns(
        "types.All", [b"\xca\x01\x02\x10\x05\xca\x01\x03\x0a\x01a\xca\x01\x05\x10\x07\x0a\x01b", b"\xaa\x01\x02\x00\x01\xa8\x01\x01"]
    )
    by_columns("types.All", [b"\0\0\0\0\1\2\2" + full], has_header=True)


@pytest.mark.parametrize(
    "data",
    [
        b"\x10\x01\x10\x02",  # a_int32 twice
        b"\xb2\x01\x02\x08\x01\xb2\x01\x02\x10\x02",  # point twice
        b"\xf0\x01\x01\xfa\x01\x01r",  # both of a oneof
        b"\xca\x01\x05\x0a\x01a\x10\x01\xca\x01\x05\x0a\x01a\x10\x02",  # a key twice
        b"\xa0\x01\x05",  # an unknown number of an enum
        b"\xa8\x01\x05\xa8\x01\x01",
        b"\x9b\x3e\x08\x01\x9c\x3e",  # an unknown group
        b"\x9b\x3e" * 120 + b"\x9c\x3e" * 120,
        b"\x9b\x3e",
        b"\x9c\x3e",
        b"\x72\x01\xff",  # not UTF-8
        b"\x72\xff\xff\xff\xff\x07",
        b"\xda\x01\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # a time that does not fit
        b"\x00\x01",
        b"\x0e",
    ],
)
def test_what_is_rare_is_read_value_by_value(data: bytes) -> None:
    check("types.All", [b"\x10\x07", data, None, b"", data, b"\x10\x08"])


def test_texts_that_are_not_utf8_do_not_take_a_column_each(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = 0
    decoded = ProtobufDecoder._decoded

    def counted(self: ProtobufDecoder, values: pa.Array) -> Any:
        nonlocal passes
        passes += 1
        return decoded(self, values)

    monkeypatch.setattr(ProtobufDecoder, "_decoded", counted)
    check("types.All", [b"\x72\x01\xff", b"\x72\x01a"] * 500)
    assert passes < 100


def test_required_fields_that_are_missing_beside_a_map_are_named() -> None:
    value = b"\xe2\x01\x00\xda\x01\x03\n\x01a\xc2\x01\x00\xc2\x01\x00"
    check("every.Old", [value, b""])
    fast, _ = both("every.Old")
    fault = fast.decode(pa.array([value], pa.binary())).fault
    assert fault is not None
    assert fault.reason == "no every.Old: it lacks parts.needed, either.needed"


def test_a_map_has_each_key_once_whatever_its_keys_are() -> None:
    for name in ("by_int", "by_flag", "by_wide"):
        keys = [False, True] if name == "by_flag" else list(range(1, 101))
        value = b"x" if name == "by_wide" else 7
        entries = class_named("every.New")(**{name: dict.fromkeys(keys, value)}).SerializeToString()
        by_columns("every.New", [entries, b"", entries])
        twice = class_named("every.New")(**{name: {keys[-1]: value}}).SerializeToString()
        check("every.New", [entries, entries + twice, None, twice, twice + twice])


def test_hostile_bytes_cost_no_more_than_others() -> None:
    def seconds(value: bytes) -> float:
        column = pa.array([value], pa.binary())
        fast, _ = both("types.All")
        return min(_timed(lambda: fast.decode(column)) for _ in range(3))

    unknown, elements = b"\xc0\x3e\x01", b"\xb8\x01\x01"
    for part in (unknown, elements, b"\xc2\x01\x00", b"\xba\x01\x00"):
        # Four times the square would be sixteen times as long.
        assert seconds(part * 40_000) < 12 * seconds(part * 10_000) + 0.05


def _timed(run: Callable[[], Any]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def test_messages_within_too_many_others_have_no_steps() -> None:
    kind: pa.DataType = pa.int32()
    for _ in range(90):
        kind = pa.struct([("inner", kind)])
    assert has_steps(kind)
    assert not has_steps(pa.struct([("inner", kind)]))
