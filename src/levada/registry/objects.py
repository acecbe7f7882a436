"""Code that the Avro and JSON serializers share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias

from levada.base.asking import AsksRegistry
from levada.base.model import Model
from levada.config.registry import SerializerConfig
from levada.errors import ConfigError
from levada.registry.client import SchemaRegistryClient
from levada.registry.schema import Schema
from levada.registry.wire_format import SchemaKey
from levada.registry.writing import Frame, WriterSchema, subject_for, topic_of_subject

if TYPE_CHECKING:
    from typing_extensions import TypeForm, TypeVar

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

    _TYPE: ClassVar[str]

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
        own_schema = None if own is None else partial(_itself, own)
        self._schema = WriterSchema(
            registry, config, own_schema, schema_type=self._TYPE, subject=subject, field=field, compile=self._compile_whole
        )

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

    def _compile_whole(self, frame: Frame, schema: Schema) -> Callable[[Any], bytes | None]:
        write, to_dict = self._compile(frame, schema), self._to_dict

        def serialize(value: Any) -> bytes | None:
            return None if value is None else write(value if to_dict is None else to_dict(value))

        def serialize_with_headers(value: Any) -> bytes | None:
            return None if (data := serialize(value)) is None else frame.around(data)

        return serialize if frame.headers is None else serialize_with_headers

    def _compile(self, frame: Frame, schema: Schema) -> Callable[[Any], bytes]:
        raise NotImplementedError


def _itself(own: Schema) -> Schema:
    return own


NO_MODEL: Any = None
"""The default of `model`. A parameter of type `TypeForm[T] | None` would not take a union of classes: mypy refuses it."""


def model_of(model: TypeForm[T] | None, function: Callable[..., Any] | None, name: str) -> Model[T] | None:
    """Return the conversions of a model class; None without one. function: the argument to_dict or from_dict; name: which of the two.

    Raises ConfigError if both model and function are given.
    """
    if model is not None and function is not None:
        raise ConfigError(f"give model or {name}, not both")
    return None if model is None else Model(model)


C = TypeVar("C")

MOST_KEPT = 1_000


Place: TypeAlias = tuple[SchemaKey, int]
"""The id or GUID of a schema, and the position in a key or value where the data begin."""


class PerSchema(Generic[C]):
    """Compiles the schema of a place when it is first used, and keeps the results of up to MOST_KEPT places. Then it forgets all.

    There is no lock: if two threads need a new place at the same time, both compile its schema.
    """

    def __init__(self, compile: Callable[[SchemaKey, int], C]) -> None:
        self._compile = compile
        self._known: dict[Place, C] = {}
        # A method of its own would take a tenth of the time in which a value is deserialized.
        self.known: Callable[[Place], C | None] = self._known.get
        """Returns the compiled schema for a place; None if it is not compiled yet."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Compiled schemas cannot be pickled. The copy, for example in a Spark worker, compiles them again.
        return type(self), (self._compile,)

    def get(self, place: Place) -> C:
        """Return the compiled schema for a place."""
        known = self._known.get(place)
        if known is None:
            known = self._compile(*place)
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[place] = known
        return known
