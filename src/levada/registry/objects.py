"""Code that the Avro and JSON serializers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic

from levada.config.registry import SerializerConfig
from levada.registry.client import SchemaRegistryClient
from levada.registry.schema import Schema
from levada.registry.writing import WriterSchema, subject_for, topic_of_subject

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")


class ObjectSerializer(Generic[T]):
    """Base class of the Avro and JSON serializers.

    own: the program's schema; None without one. record_name: the name of the record in this schema, for subject.name.strategy; None without
    one. topic, field, to_dict: as for AvroSerializer.

    subject_topic: the topic that the subject is made of; None for none. A producer warns of records of another topic.
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
        self.subject_topic = topic_of_subject(config, topic)
        self._to_dict = to_dict
        subject = subject_for(config, topic, field, record_name)
        own_schema = None if own is None else lambda: own
        self._schema = WriterSchema(registry, config, own_schema, subject=subject, compile=self._compile)

    def __call__(self, value: T | None) -> bytes | None:
        """Serialize one object; None is returned as None.

        Raises SerializationError if the object does not match the schema, and RegistryError if the schema cannot be registered or fetched.
        """
        if value is None:
            return None
        return self._schema.get()(value if self._to_dict is None else self._to_dict(value))

    def _compile(self, schema_id: int, schema: Schema) -> Callable[[Any], bytes]:
        raise NotImplementedError


C = TypeVar("C")

MOST_KEPT = 1_000


class PerSchemaId(Generic[C]):
    """Compiles the schema of each id once, and keeps the results of up to MOST_KEPT ids.

    There is no lock: if two threads need a new id at the same time, both compile its schema.
    """

    def __init__(self, compile: Callable[[int], C]) -> None:
        self._compile = compile
        self._known: dict[int, C] = {}

    def get(self, schema_id: int) -> C:
        """Return the compiled schema for an id."""
        known = self._known.get(schema_id)
        if known is None:
            known = self._compile(schema_id)
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[schema_id] = known
        return known
