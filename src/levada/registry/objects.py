"""Code that the Avro and JSON serializers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic

from levada.base.asking import AsksRegistry
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


class ObjectSerializer(AsksRegistry, Generic[T]):
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
        self._schema = WriterSchema(registry, config, own_schema, subject=subject, compile=self._compile_whole)

    def __call__(self, value: T | None) -> bytes | None:
        """Serialize one object; None is returned as None.

        Raises SerializationError if the object does not match the schema, and RegistryError if the schema cannot be registered or fetched.
        """
        return None if value is None else self._schema.get()(value)

    def _known(self, data: T | None) -> Callable[[Any], bytes | None] | None:
        """Return the function that serializes `data`; None if the registry has to be asked for the schema first."""
        return self if data is None else self._schema.known()

    def _find(self, data: T | None) -> Callable[[Any], bytes | None]:
        """Return the function that serializes `data`; ask the registry for the schema if necessary. Raises RegistryError."""
        return self._schema.get()

    def _compile_whole(self, schema_id: int, schema: Schema) -> Callable[[Any], bytes | None]:
        write, to_dict = self._compile(schema_id, schema), self._to_dict

        def serialize(value: Any) -> bytes | None:
            return None if value is None else write(value if to_dict is None else to_dict(value))

        return serialize

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

    def known(self, schema_id: int) -> C | None:
        """Return the compiled schema for an id; None if it is not compiled yet."""
        return self._known.get(schema_id)

    def get(self, schema_id: int) -> C:
        """Return the compiled schema for an id."""
        known = self._known.get(schema_id)
        if known is None:
            known = self._compile(schema_id)
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[schema_id] = known
        return known
