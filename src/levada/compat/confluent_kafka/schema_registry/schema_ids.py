"""The values of schema.id.serializer and schema.id.deserializer, and the headers that have a schema's id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Never

from levada.compat.confluent_kafka.error import SerializationError
from levada.compat.confluent_kafka.serialization import MessageField, SerializationContext
from levada.serialization import BytesWithHeaders

_NAMES = {MessageField.KEY: "__key_schema_id", MessageField.VALUE: "__value_schema_id"}


def header_schema_id_serializer(payload: bytes, ctx: SerializationContext | None, schema_id: Any) -> Never:
    """Value of schema.id.serializer: write the schema's GUID into a header."""
    raise _not_called("schema.id.serializer")


def prefix_schema_id_serializer(payload: bytes, ctx: SerializationContext | None, schema_id: Any) -> Never:
    """Value of schema.id.serializer: write the schema's id before the data."""
    raise _not_called("schema.id.serializer")


def dual_schema_id_deserializer(payload: bytes, ctx: SerializationContext | None, schema_id: Any) -> Never:
    """Value of schema.id.deserializer: read the header, or else what is before the data."""
    raise _not_called("schema.id.deserializer")


def prefix_schema_id_deserializer(payload: bytes, ctx: SerializationContext | None, schema_id: Any) -> Never:
    """Value of schema.id.deserializer: read what is before the data."""
    raise _not_called("schema.id.deserializer")


def levada_place(serializer: Callable[..., Any] | None) -> str:
    """Return levada's schema.id.serializer. Raises ValueError for a function of the program."""
    places = {None: "Prefix", prefix_schema_id_serializer: "Prefix", header_schema_id_serializer: "Header"}
    if serializer not in places:
        raise ValueError("schema.id.serializer: levada has header_schema_id_serializer and prefix_schema_id_serializer, and runs no other")
    return places[serializer]


def reads_headers(deserializer: Callable[..., Any] | None) -> bool:
    """Return whether a value of schema.id.deserializer reads headers. Raises ValueError for a function of the program."""
    if deserializer not in (None, dual_schema_id_deserializer, prefix_schema_id_deserializer):
        raise ValueError(
            "schema.id.deserializer: levada has dual_schema_id_deserializer and prefix_schema_id_deserializer, and runs no other"
        )
    return deserializer is not prefix_schema_id_deserializer


def add_headers(data: bytes | None, ctx: SerializationContext) -> bytes | None:
    """Return serialized bytes, after adding the headers that they need to those of the context, as confluent-kafka does. Raises
    SerializationError if the context has no headers to add to.
    """
    if not isinstance(data, BytesWithHeaders):
        return data
    if not isinstance(ctx.headers, list | dict):
        raise SerializationError(f"headers are a list or a dict, to which the schema's id is added; got {ctx.headers!r}")
    if isinstance(ctx.headers, dict):
        ctx.headers.update(data.headers)
    else:
        ctx.headers.extend(data.headers)
    return bytes(data)


def id_header(ctx: SerializationContext | None) -> bytes | None:
    """Return the value of the header that has the schema's id; None without one."""
    if ctx is None or not ctx.headers or ctx.field not in _NAMES:
        return None
    pairs = ctx.headers.items() if isinstance(ctx.headers, Mapping) else ctx.headers
    return next((value for name, value in pairs if name == _NAMES[ctx.field]), None)


def _not_called(name: str) -> TypeError:
    return TypeError(f"this function is a value of {name}, and is not called")
