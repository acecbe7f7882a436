"""Code that the serializers of Avro and JSON share: they convert any objects to bytes by a schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic

from levada.config.registry import SerializerConfig
from levada.registry.client import SchemaRegistryClient
from levada.registry.schema import Schema
from levada.registry.writing import WriterSchema, subject_for

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")


class ObjectSerializer(Generic[T]):
    """Base class of the serializers of Avro and JSON.

    own: the user's schema; None without one. record_name: the record's name in this schema, for subject.name.strategy. topic, field,
    to_dict: see AvroSerializer.
    """

    def __init__(
        self,
        registry: SchemaRegistryClient,
        config: SerializerConfig,
        own: Schema | None,
        record_name: str | None,
        *,
        topic: str | None,
        field: str,
        to_dict: Callable[[T], Any] | None,
    ) -> None:
        self._registry = registry
        self._to_dict = to_dict
        subject = subject_for(config, topic, field, record_name)
        own_schema = None if own is None else lambda: own
        self._schema = WriterSchema(registry, config, own_schema, subject=subject, compile=self._compile)

    def __call__(self, value: T | None) -> bytes | None:
        """Serialize one object. Raises SerializationError if it does not fit the schema, RegistryError if the registry gives no schema."""
        if value is None:
            return None
        return self._schema.get()(value if self._to_dict is None else self._to_dict(value))

    def _compile(self, schema_id: int, schema: Schema) -> Callable[[Any], bytes]:
        raise NotImplementedError


C = TypeVar("C")

MOST_KEPT = 1_000


class PerSchemaId(Generic[C]):
    """Compiles a schema once for each id. There is no lock: two threads that need a new id at the same time both compile its schema."""

    def __init__(self, compile: Callable[[int], C]) -> None:
        self._compile = compile
        self._known: dict[int, C] = {}

    def get(self, schema_id: int) -> C:
        """Return the compiled schema for this id."""
        known = self._known.get(schema_id)
        if known is None:
            known = self._compile(schema_id)
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[schema_id] = known
        return known
