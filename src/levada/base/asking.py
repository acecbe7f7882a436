"""Serializers and deserializers that may have to ask a schema registry, and how a client keeps their questions off an event loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias, TypeGuard

from levada.errors import ConfigError, KafkaError, SerializationError

Convert: TypeAlias = Callable[[Any], Any]

ID_HEADERS = ("__key_schema_id", "__value_schema_id")
"""The names of the headers that have the schema id of a record's key, and of its value."""


class AsksRegistry(ABC):
    """Base class of the serializers and deserializers that may have to ask a schema registry before they convert a key or value.

    Calling one asks, if necessary, and converts. A client on an event loop takes the two steps apart, so that asking does not block the
    loop.
    """

    @abstractmethod
    def _known(self, data: Any) -> Convert | None:
        """Return the function that converts `data`; None if the registry has to be asked first. Never blocks."""

    @abstractmethod
    def _find(self, data: Any) -> Convert:
        """Return the function that converts `data`; ask the registry if necessary. May block. Raises like the registry's client."""


class ReadsSchemaId(AsksRegistry):
    """Base class of the deserializers that find the id of a schema at the beginning of the data, or in a header of the record.

    header: the value of the record's header __key_schema_id, for a key, or __value_schema_id, for a value; None without it.
    """

    @abstractmethod
    def _known(self, data: Any, header: bytes | None = None) -> Convert | None:
        """See AsksRegistry."""

    @abstractmethod
    def _find(self, data: Any, header: bytes | None = None) -> Convert:
        """See AsksRegistry."""


def asks_registry(convert: object) -> TypeGuard[AsksRegistry]:
    """Whether asking and converting may be taken apart: not if a subclass of the program has a __call__() of its own."""
    parts = (name for kind in type(convert).__mro__ for name in ("_known", "__call__") if name in vars(kind))
    return isinstance(convert, AsksRegistry) and next(parts) == "_known"


class MustAskError(KafkaError):
    """A deserializer has to ask a schema registry, in a place that may not block. The client then repeats the work where it may."""


def is_about_data(fault: BaseException | None) -> bool:
    """Whether a deserializer's error says that the data are bad, and not that a schema registry could not be asked."""
    if isinstance(fault, KafkaError) and not isinstance(fault, (SerializationError, ConfigError)):
        return getattr(fault, "_is_about_data", False)
    return True
