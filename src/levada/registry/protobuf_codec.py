"""Writes messages with the package protobuf, and says what the fields of a message are. Without a registry."""

from __future__ import annotations

import base64
import binascii
from typing import Any

try:
    from google.protobuf.descriptor import FieldDescriptor as FieldDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError
    from google.protobuf.message import EncodeError as EncodeError
except ImportError as missing:
    raise ImportError("Protobuf needs protobuf: pip install 'levada[protobuf]'") from missing

MESSAGES = (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP)


SERIALIZED = "serialized"
"""The `format` that is asked of a registry, so that it returns a schema as file_of() reads it."""


def file_of(schema_str: str) -> Any:
    """Return the file of a schema that is a descriptor in base64; None for a schema in another form."""
    try:
        return FileDescriptorProto.FromString(base64.b64decode(schema_str, validate=True))
    except (binascii.Error, DecodeError, ValueError):
        return None


def serialized(message: Any) -> bytes:
    """Return the bytes of a message. Raises EncodeError if it lacks required fields."""
    # SerializeToString() would look for these fields by FindInitializationErrors(): see lacking().
    if not message.IsInitialized():
        raise EncodeError(f"it lacks {', '.join(lacking(message))}")
    data: bytes = message.SerializePartialToString()
    return data


def lacking(message: Any) -> list[str]:
    """Return the names of the required fields that a message, and the messages in it, do not have.

    FindInitializationErrors() of protobuf 7 ends the process if a map of the message has values that are no messages.
    """
    found = [one.name for one in message.DESCRIPTOR.fields if is_required(one) and not message.HasField(one.name)]
    for one, value in message.ListFields():
        if (entry_of(one)[1] if is_map(one) else one).type in MESSAGES:
            inner = value.values() if is_map(one) else value if is_repeated(one) else [value]
            found += [f"{one.name}.{name}" for part in inner for name in lacking(part)]
    return list(dict.fromkeys(found))


def is_repeated(one: Any) -> bool:
    """Whether a field is a list or a map. protobuf before 6 has no attribute is_repeated; later versions have no label."""
    return bool(one.is_repeated) if hasattr(one, "is_repeated") else one.label == one.LABEL_REPEATED


def is_required(one: Any) -> bool:
    """Whether proto2 requires a field. protobuf before 6 has no attribute is_required; later versions have no label."""
    return bool(one.is_required) if hasattr(one, "is_required") else one.label == one.LABEL_REQUIRED


def is_map(one: Any) -> bool:
    """Whether a field is a map."""
    return bool(one.type == FieldDescriptor.TYPE_MESSAGE and one.message_type.GetOptions().map_entry)


def entry_of(one: Any) -> tuple[Any, Any]:
    """Return the two fields of a map's entries: the key and the value."""
    entry = one.message_type.fields_by_name
    return entry["key"], entry["value"]
