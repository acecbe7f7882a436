"""Serializers and deserializers of simple types, and the context that they are called with."""

from __future__ import annotations

import struct
from enum import StrEnum
from typing import Any

from levada.compat.confluent_kafka.error import SerializationError

__all__ = [
    "Deserializer",
    "DoubleDeserializer",
    "DoubleSerializer",
    "IntegerDeserializer",
    "IntegerSerializer",
    "MessageField",
    "SerializationContext",
    "SerializationError",
    "Serializer",
    "StringDeserializer",
    "StringSerializer",
]


class MessageField(StrEnum):
    """The part of a message that is serialized."""

    NONE = "none"
    KEY = "key"
    VALUE = "value"


class SerializationContext:
    """What a serializer is told: topic, field and headers of the message."""

    def __init__(self, topic: str, field: MessageField, headers: Any = None) -> None:
        self.topic = topic
        self.field = field
        self.headers = headers


class Serializer:
    """Base class of serializers."""

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """Return an object as bytes; None as None."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what the serializer holds."""


class Deserializer:
    """Base class of deserializers."""

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> Any:
        """Return bytes as an object; None as None."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what the deserializer holds."""


class _Packed(Serializer):
    _FORMAT = ""

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """Return a number as bytes, big-endian."""
        if obj is None:
            return None
        try:
            return struct.pack(self._FORMAT, obj)
        except struct.error as error:
            raise SerializationError(str(error)) from error


class _Unpacked(Deserializer):
    _FORMAT = ""

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> Any:
        """Return the number that the bytes are, big-endian."""
        if value is None:
            return None
        try:
            return struct.unpack(self._FORMAT, value)[0]
        except struct.error as error:
            raise SerializationError(str(error)) from error


class IntegerSerializer(_Packed):
    """Serializes an int as four bytes."""

    _FORMAT = ">i"


class IntegerDeserializer(_Unpacked):
    """Deserializes an int of four bytes."""

    _FORMAT = ">i"


class DoubleSerializer(_Packed):
    """Serializes a float as eight bytes."""

    _FORMAT = ">d"


class DoubleDeserializer(_Unpacked):
    """Deserializes a float of eight bytes."""

    _FORMAT = ">d"


class StringSerializer(Serializer):
    """Serializes text. codec: its encoding."""

    def __init__(self, codec: str = "utf_8") -> None:
        self.codec = codec

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """Return text as bytes."""
        try:
            return None if obj is None else bytes(obj.encode(self.codec))
        except UnicodeError as error:
            raise SerializationError(str(error)) from error


class StringDeserializer(Deserializer):
    """Deserializes text. codec: its encoding."""

    def __init__(self, codec: str = "utf_8") -> None:
        self.codec = codec

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> str | None:
        """Return bytes as text."""
        try:
            return None if value is None else value.decode(self.codec)
        except UnicodeError as error:
            raise SerializationError(str(error)) from error
