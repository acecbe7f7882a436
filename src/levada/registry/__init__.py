"""A client of the Schema Registry (Confluent's REST API), and serializers and deserializers that use it. The same for AWS Glue's registry.

Each name is imported when it is first used, because AvroSerializer needs fastavro and ProtobufSerializer needs protobuf. The client needs
neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levada._importing import import_undisturbed

if TYPE_CHECKING:
    from levada.registry.avro import AvroDeserializer, AvroSerializer
    from levada.registry.client import SchemaRegistryClient
    from levada.registry.errors import (
        IncompatibleSchemaError,
        InvalidSchemaError,
        RegistryAnswerError,
        RegistryAuthenticationError,
        RegistryAuthorizationError,
        RegistryError,
        RegistryNotFoundError,
        RegistryProtocolError,
        RegistryUnavailableError,
    )
    from levada.registry.glue.client import GlueSchemaRegistry
    from levada.registry.glue.serializers import GlueDeserializer, GlueSerializer
    from levada.registry.json_schema import JSONDeserializer, JSONSerializer
    from levada.registry.on_asyncio import AsyncSchemaRegistryClient
    from levada.registry.protobuf import ProtobufDeserializer, ProtobufSerializer
    from levada.registry.schema import Compatibility, RegisteredSchema, Schema, SchemaReference

_HOME = {
    "AsyncSchemaRegistryClient": "levada.registry.on_asyncio",
    "AvroDeserializer": "levada.registry.avro",
    "AvroSerializer": "levada.registry.avro",
    "Compatibility": "levada.registry.schema",
    "GlueDeserializer": "levada.registry.glue.serializers",
    "GlueSchemaRegistry": "levada.registry.glue.client",
    "GlueSerializer": "levada.registry.glue.serializers",
    "IncompatibleSchemaError": "levada.registry.errors",
    "InvalidSchemaError": "levada.registry.errors",
    "JSONDeserializer": "levada.registry.json_schema",
    "JSONSerializer": "levada.registry.json_schema",
    "ProtobufDeserializer": "levada.registry.protobuf",
    "ProtobufSerializer": "levada.registry.protobuf",
    "RegisteredSchema": "levada.registry.schema",
    "RegistryAnswerError": "levada.registry.errors",
    "RegistryAuthenticationError": "levada.registry.errors",
    "RegistryAuthorizationError": "levada.registry.errors",
    "RegistryError": "levada.registry.errors",
    "RegistryNotFoundError": "levada.registry.errors",
    "RegistryProtocolError": "levada.registry.errors",
    "RegistryUnavailableError": "levada.registry.errors",
    "Schema": "levada.registry.schema",
    "SchemaReference": "levada.registry.schema",
    "SchemaRegistryClient": "levada.registry.client",
}

__all__ = [
    "AsyncSchemaRegistryClient",
    "AvroDeserializer",
    "AvroSerializer",
    "Compatibility",
    "GlueDeserializer",
    "GlueSchemaRegistry",
    "GlueSerializer",
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "JSONDeserializer",
    "JSONSerializer",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "RegisteredSchema",
    "RegistryAnswerError",
    "RegistryAuthenticationError",
    "RegistryAuthorizationError",
    "RegistryError",
    "RegistryNotFoundError",
    "RegistryProtocolError",
    "RegistryUnavailableError",
    "Schema",
    "SchemaReference",
    "SchemaRegistryClient",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_undisturbed(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
