"""A message with a field of every kind, without protoc: types.All, in proto3, and types.Old, in proto2."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    EnumValueDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MessageOptions,
    OneofDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.duration_pb2 import DESCRIPTOR as DURATION
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP

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
