"""A client of the Schema Registry (Confluent's REST API). Each name is loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levada.registry.client import SchemaRegistryClient
    from levada.registry.errors import (
        IncompatibleSchemaError,
        InvalidSchemaError,
        RegistryAnswerError,
        RegistryAuthenticationError,
        RegistryAuthorizationError,
        RegistryError,
        RegistryNotFoundError,
        RegistryUnavailableError,
    )
    from levada.registry.schema import Compatibility, RegisteredSchema, Schema, SchemaReference

_HOME = {
    "Compatibility": "levada.registry.schema",
    "IncompatibleSchemaError": "levada.registry.errors",
    "InvalidSchemaError": "levada.registry.errors",
    "RegisteredSchema": "levada.registry.schema",
    "RegistryAnswerError": "levada.registry.errors",
    "RegistryAuthenticationError": "levada.registry.errors",
    "RegistryAuthorizationError": "levada.registry.errors",
    "RegistryError": "levada.registry.errors",
    "RegistryNotFoundError": "levada.registry.errors",
    "RegistryUnavailableError": "levada.registry.errors",
    "Schema": "levada.registry.schema",
    "SchemaReference": "levada.registry.schema",
    "SchemaRegistryClient": "levada.registry.client",
}

__all__ = [
    "Compatibility",
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "RegisteredSchema",
    "RegistryAnswerError",
    "RegistryAuthenticationError",
    "RegistryAuthorizationError",
    "RegistryError",
    "RegistryNotFoundError",
    "RegistryUnavailableError",
    "Schema",
    "SchemaReference",
    "SchemaRegistryClient",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
