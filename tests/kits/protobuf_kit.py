"""Protobuf messages without protoc: shop/money.proto, and shop/order.proto, which imports it."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

STRING, INT64, MESSAGE = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_INT64, FieldDescriptorProto.TYPE_MESSAGE


def field(name: str, number: int, kind: Any, message: str | None = None) -> Any:
    return FieldDescriptorProto(name=name, number=number, type=kind, type_name=message, label=FieldDescriptorProto.LABEL_OPTIONAL)


def shop(*more: Any) -> dict[str, Any]:
    """The classes Money, Order, Order.Line and Note by name. more: fields that Order has besides its own."""
    pool = DescriptorPool()
    money = DescriptorProto(name="Money", field=[field("cents", 1, INT64)])
    pool.Add(FileDescriptorProto(name="shop/money.proto", package="shop", syntax="proto3", message_type=[money]))
    line = DescriptorProto(name="Line", field=[field("item", 1, STRING)])
    order = DescriptorProto(
        name="Order",
        field=[field("id", 1, STRING), field("price", 2, MESSAGE, ".shop.Money"), *more],
        nested_type=[DescriptorProto(name="Unused"), line],
    )
    note = DescriptorProto(name="Note", field=[field("text", 1, STRING)])
    pool.Add(
        FileDescriptorProto(
            name="shop/order.proto",
            package="shop",
            syntax="proto3",
            dependency=["shop/money.proto"],
            message_type=[order, note],
        )
    )
    names = ("Money", "Order", "Order.Line", "Note")
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in names}


def old() -> Any:
    """The class Old of proto2: a required field in a message, beside a map of numbers."""
    pool = DescriptorPool()
    part = DescriptorProto(name="Part", field=[FieldDescriptorProto(name="needed", number=1, type=INT64, label=2)])
    entry = DescriptorProto(name="CountsEntry", field=[field("key", 1, STRING), field("value", 2, INT64)], options={"map_entry": True})
    counts = FieldDescriptorProto(name="counts", number=2, type=MESSAGE, type_name=".Old.CountsEntry", label=3)
    message = DescriptorProto(name="Old", field=[field("part", 1, MESSAGE, ".Part"), counts], nested_type=[entry])
    pool.Add(FileDescriptorProto(name="old.proto", syntax="proto2", message_type=[message, part]))
    return GetMessageClass(pool.FindMessageTypeByName("Old"))
