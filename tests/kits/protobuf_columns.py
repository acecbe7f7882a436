"""A message with a field of every kind, without protoc: types.All, in proto3, and types.Old, in proto2."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    EnumOptions,
    EnumValueDescriptorProto,
    FieldDescriptorProto,
    FieldOptions,
    FileDescriptorProto,
    FileDescriptorSet,
    MessageOptions,
    OneofDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.duration_pb2 import DESCRIPTOR as DURATION
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP

from levada.formats.protobuf import ProtobufFormat
from levada.formats.protobuf_columns import ProtobufDecoder
from levada.formats.protobuf_schema import MessageType
from levada.formats.reading import RowDecoder

SCALARS: tuple[str, ...] = ("bool", "int32", "sint32", "sfixed32", "uint32", "fixed32", "int64", "sint64", "sfixed64", "uint64", "fixed64")
SCALARS += ("float", "double", "string", "bytes")


def field(name: str, number: int, kind: str, *, repeated: bool = False, **more: Any) -> Any:
    label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
    return FieldDescriptorProto(
        **{"name": name, "number": number, "type": getattr(FieldDescriptorProto, f"TYPE_{kind.upper()}"), "label": label, **more}
    )


def entry(name: str, value: Any) -> Any:
    return DescriptorProto(name=name, field=[field("key", 1, "string"), value], options=MessageOptions(map_entry=True))


def _all() -> Any:
    scalars = [field(f"a_{kind}", number, kind) for number, kind in enumerate(SCALARS, 1)]
    return DescriptorProto(
        name="All",
        field=[
            *scalars,
            field("size", 20, "enum", type_name=".types.Size"),
            field("sizes", 21, "enum", repeated=True, type_name=".types.Size"),
            field("point", 22, "message", type_name=".types.All.Point"),
            field("points", 23, "message", repeated=True, type_name=".types.All.Point"),
            field("names", 24, "string", repeated=True),
            field("counts", 25, "message", repeated=True, type_name=".types.All.CountsEntry"),
            field("places", 26, "message", repeated=True, type_name=".types.All.PlacesEntry"),
            field("at", 27, "message", type_name=".google.protobuf.Timestamp"),
            field("took", 28, "message", type_name=".google.protobuf.Duration"),
            field("nothing", 29, "message", type_name=".types.Empty"),
            field("left", 30, "int32", oneof_index=0),
            field("right", 31, "string", oneof_index=0),
            field("maybe", 32, "int32", oneof_index=1, proto3_optional=True),
        ],
        nested_type=[
            DescriptorProto(name="Point", field=[field("x", 1, "int32"), field("big", 2, "uint64")]),
            entry("CountsEntry", field("value", 2, "int64")),
            entry("PlacesEntry", field("value", 2, "message", type_name=".types.All.Point")),
        ],
        oneof_decl=[OneofDescriptorProto(name="either"), OneofDescriptorProto(name="_maybe")],
    )


def _files() -> list[Any]:
    size = EnumDescriptorProto(
        name="Size", value=[EnumValueDescriptorProto(name="SMALL", number=0), EnumValueDescriptorProto(name="LARGE", number=1)]
    )
    loop = DescriptorProto(name="Loop", field=[field("next", 1, "message", type_name=".types.Loop")])
    old = DescriptorProto(
        name="Old",
        field=[
            field("id", 1, "int32", label=FieldDescriptorProto.LABEL_REQUIRED),
            field("size", 2, "enum", type_name=".types.Kind", default_value="BIG"),
            field("note", 3, "string"),
            field("notes", 4, "message", repeated=True, type_name=".types.Old.NotesEntry"),
        ],
        nested_type=[entry("NotesEntry", field("value", 2, "string"))],
    )
    kind = EnumDescriptorProto(
        name="Kind", value=[EnumValueDescriptorProto(name="TINY", number=0), EnumValueDescriptorProto(name="BIG", number=1)]
    )
    built_in = []
    for module in (TIMESTAMP, DURATION):
        copied = FileDescriptorProto()
        module.CopyToProto(copied)
        built_in.append(copied)
    return [
        FileDescriptorProto(
            name="types/all.proto",
            package="types",
            syntax="proto3",
            dependency=["google/protobuf/timestamp.proto", "google/protobuf/duration.proto"],
            message_type=[DescriptorProto(name="Empty"), _all(), loop],
            enum_type=[size],
        ),
        FileDescriptorProto(name="types/old.proto", package="types", syntax="proto2", message_type=[old], enum_type=[kind]),
        *built_in,
    ]


def descriptor_set(*, leave_out: str = "") -> bytes:
    """The files in an order in which a pool does not take them."""
    return bytes(FileDescriptorSet(file=[file for file in _files() if file.name != leave_out]).SerializeToString())


def message_class(name: str) -> Any:
    pool = DescriptorPool()
    files = _files()
    for file in (*files[2:], *files[:2]):
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))


@lru_cache
def _every() -> Any:
    """A pool with messages of each syntax: every.New, every.Old, every.Outer, and every.Extendable with an extension."""
    pool = DescriptorPool()
    for module in (TIMESTAMP, DURATION):
        copied = FileDescriptorProto()
        module.CopyToProto(copied)
        pool.Add(copied)
    color = EnumDescriptorProto(
        name="Color",
        options=EnumOptions(allow_alias=True),
        value=[
            EnumValueDescriptorProto(name=name, number=number)
            for name, number in (("NONE", 0), ("LOW", -3), ("RED", 2), ("ROUGE", 2), ("FAR", 2**31 - 1))
        ],
    )
    lists = [field(f"l_{kind}", number, kind, repeated=True) for number, kind in enumerate(SCALARS, 1)]
    maps = {"by_int": ("sint32", "int32"), "by_flag": ("bool", "double"), "by_wide": ("fixed64", "bytes"), "by_text": ("string", "enum")}
    new = DescriptorProto(
        name="New",
        field=[
            *lists,
            *(
                field(name, number, "message", repeated=True, type_name=f".every.New.{_entry_name(name)}")
                for number, name in enumerate((*maps, "at_keys", "empties"), 20)
            ),
            field("far", 3000, "string"),
            field("times", 30, "message", repeated=True, type_name=".google.protobuf.Timestamp"),
            field("spans", 31, "message", repeated=True, type_name=".google.protobuf.Duration"),
            field("blanks", 32, "message", repeated=True, type_name=".every.Blank"),
            field("shell", 33, "message", type_name=".every.Shell"),
            field("color", 34, "enum", type_name=".every.Color"),
        ],
        nested_type=[
            *(
                _entry(name, key, field("value", 2, kind, type_name=".every.Color" if kind == "enum" else None))
                for name, (key, kind) in maps.items()
            ),
            _entry("at_keys", "int64", field("value", 2, "message", type_name=".google.protobuf.Timestamp")),
            _entry("empties", "string", field("value", 2, "message", type_name=".every.Blank")),
        ],
    )
    outer = DescriptorProto(
        name="Outer",
        field=[field("news", 2, "message", repeated=True, type_name=".every.New"), field("one", 1, "message", type_name=".every.New")],
    )
    blank, shell = (
        DescriptorProto(name="Blank"),
        DescriptorProto(name="Shell", field=[field("blank", 1, "message", type_name=".every.Blank")]),
    )
    pool.Add(
        FileDescriptorProto(
            name="every/new.proto",
            package="every",
            syntax="proto3",
            dependency=["google/protobuf/timestamp.proto", "google/protobuf/duration.proto"],
            message_type=[new, blank, outer, shell],
            enum_type=[color],
        )
    )
    closed = [
        EnumDescriptorProto(name=name, value=[EnumValueDescriptorProto(name=f"{name}_{number}", number=number) for number in numbers])
        for name, numbers in (("Kind", (5, 1)), ("Sort", (0, 1)))
    ]
    defaults = {"bool": "true", "string": "é", "bytes": "\\377x", "float": "0.1", "double": "-inf", "uint64": str(2**64 - 1)}
    part = DescriptorProto(
        name="Part", field=[field("needed", 1, "int32", label=FieldDescriptorProto.LABEL_REQUIRED), field("text", 2, "string")]
    )
    old = DescriptorProto(
        name="Old",
        field=[
            *(field(f"d_{kind}", number, kind, default_value=defaults.get(kind, "7")) for number, kind in enumerate(SCALARS, 1)),
            field("kind", 20, "enum", type_name=".every.Kind"),
            field("kinds", 21, "enum", repeated=True, type_name=".every.Kind"),
            field("chosen", 22, "enum", type_name=".every.Kind", default_value="Kind_1"),
            field("part", 23, "message", type_name=".every.Part"),
            field("parts", 24, "message", repeated=True, type_name=".every.Part"),
            field("grouped", 25, "group", type_name=".every.Part"),
            field("groups", 26, "group", repeated=True, type_name=".every.Part"),
            field("by_kind", 27, "message", repeated=True, type_name=f".every.Old.{_entry_name('by_kind')}"),
            field("either", 28, "message", type_name=".every.Part", oneof_index=0),
            field("other", 29, "string", oneof_index=0),
            field("packed", 30, "sint64", repeated=True, options=FieldOptions(packed=True)),
        ],
        nested_type=[_entry("by_kind", "string", field("value", 2, "enum", type_name=".every.Sort"))],
        oneof_decl=[OneofDescriptorProto(name="of_two")],
    )
    extendable = DescriptorProto(
        name="Extendable",
        field=[field("id", 1, "int32"), field("inner", 2, "message", type_name=".every.Extendable.Inner")],
        nested_type=[DescriptorProto(name="Inner", field=[field("s", 1, "string")])],
        extension_range=[DescriptorProto.ExtensionRange(start=77, end=2000)],
    )
    pool.Add(
        FileDescriptorProto(
            name="every/old.proto",
            package="every",
            syntax="proto2",
            message_type=[old, part, extendable],
            enum_type=closed,
            extension=[field("more", 77, "message", extendee=".every.Extendable", type_name=".every.Part")],
        )
    )
    return pool


def _entry_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_")) + "Entry"


def _entry(name: str, key: str, value: Any) -> Any:
    return DescriptorProto(name=_entry_name(name), field=[field("key", 1, key), value], options=MessageOptions(map_entry=True))


def every_kind(name: str) -> Any:
    """Return the class of a message that has what types.All and types.Old lack."""
    return GetMessageClass(_every().FindMessageTypeByName(name))


NAMES: tuple[str, ...] = ("types.Old", "types.All", "every.New", "every.Old", "every.Extendable", "every.Outer")
"""The messages of this file."""


@lru_cache
def class_named(name: str) -> Any:
    return every_kind(name) if name.startswith("every.") else message_class(name)


def filled(name: str, third: int) -> bytes:
    """Return a message with something in every third of its fields, from that place on."""
    return _filled(class_named(name), third)


def _filled(kind: Any, third: int) -> bytes:
    message = kind()
    for one in list(kind.DESCRIPTOR.fields)[third::3]:
        inner = one.message_type
        if inner is not None:
            data = _filled(GetMessageClass(inner), third) if one.name not in ("news", "one") else b""
            number, is_group = one.number, one.type == one.TYPE_GROUP
            tag, end = _varint(number << 3 | (3 if is_group else 2)), _varint(number << 3 | 4) if is_group else b""
            message.MergeFromString(tag + (b"" if is_group else _varint(len(data))) + data + end)
            continue
        values: Any = {one.CPPTYPE_STRING: "a" if one.type == one.TYPE_STRING else b"b", one.CPPTYPE_BOOL: True}
        value = one.enum_type.values[-1].number if one.enum_type is not None else values.get(one.cpp_type, third + 1)
        if one.is_repeated:
            getattr(message, one.name).extend([value] * 2)
        else:
            setattr(message, one.name, value)
    return bytes(message.SerializePartialToString())


def _varint(number: int) -> bytes:
    return number.to_bytes(1) if number < 0x80 else bytes([number & 0x7F | 0x80]) + _varint(number >> 7)


@lru_cache
def decoders(number: int) -> tuple[ProtobufDecoder, RowDecoder]:
    """Return the decoder by columns for one of NAMES, and the one that reads value by value."""
    format_ = ProtobufFormat(MessageType.of(class_named(NAMES[number % len(NAMES)]).DESCRIPTOR, "it"), has_header=False)
    by_columns = format_.decoder()
    assert isinstance(by_columns, ProtobufDecoder)
    assert isinstance(by_columns._one_by_one, RowDecoder)
    return by_columns, by_columns._one_by_one
