"""Objects to bytes by a schema: what the serializers of formats for any object, Avro and JSON, have in common."""

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
    """own: the schema that the user gave. record_name: what that calls a record, for subject.name.strategy.

    topic, field, to_dict: the user's arguments, as AvroSerializer explains them.
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
        """Serialize one object. Raises SerializationError where it does not fit the schema, RegistryError where its id cannot be had."""
        if value is None:
            return None
        return self._schema.get()(value if self._to_dict is None else self._to_dict(value))

    def _compile(self, schema_id: int, schema: Schema) -> Callable[[Any], bytes]:
        raise NotImplementedError


C = TypeVar("C")

MOST_KEPT = 1_000


class PerSchemaId(Generic[C]):
    """Compiles a schema once per id. Read without a lock: two threads that meet a new id at once both compile it."""

    def __init__(self, compile: Callable[[int], C]) -> None:
        self._compile = compile
        self._known: dict[int, C] = {}

    def get(self, schema_id: int) -> C:
        """Return what was compiled for this id."""
        known = self._known.get(schema_id)
        if known is None:
            known = self._compile(schema_id)
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[schema_id] = known
        return known
