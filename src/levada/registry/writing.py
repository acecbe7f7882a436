"""Code that the serializers of all formats share: finding the subject, the schema to write with, and its id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from levada.base.asking import ID_HEADERS
from levada.config.registry import HEADER, SerializerConfig
from levada.errors import ConfigError, SerializationError
from levada.registry.client import SchemaRegistryClient
from levada.registry.endpoints import Registered
from levada.registry.errors import RegistryNotFoundError
from levada.registry.schema import RegisteredSchema, Schema, refuse_rules_on_writing
from levada.registry.wire_format import guid_header, header
from levada.serialization import BytesWithHeaders

C = TypeVar("C")


class Frame(NamedTuple):
    """How the id of a schema is written with a key or value: as bytes before the data, or as headers of the record (None without)."""

    schema_id: int
    before: bytes
    headers: Sequence[tuple[str, bytes]] | None

    def around(self, data: bytes) -> bytes:
        """Return the data, which begin with `before`, together with the headers for their record if there are any."""
        return data if self.headers is None else BytesWithHeaders(data, self.headers)


class WriterSchema(Generic[C]):
    """Finds the schema to write with, and compiles it when its id changes.

    own: returns the program's schema; None without one. It is called when the first value is written. Only then is the schema registered or
    looked up, so that making a serializer needs no registry. schema_type: the type that the schema must have, such as "AVRO". subject: not
    used with use.schema.id. field: "key" or "value". compile: converts the frame of a value and its schema to the object with which the
    serializer writes values. path: returns the bytes after the schema id, before the data or in a header, for the id and the schema; None
    if there are none. Raises ConfigError if `own` is None, and neither use.schema.id nor a setting for the latest version is set.
    """

    def __init__(
        self,
        registry: SchemaRegistryClient,
        config: SerializerConfig,
        own: Callable[[], Schema] | None,
        *,
        schema_type: str,
        subject: str,
        field: str,
        compile: Callable[[Frame, Schema], C],
        path: Callable[[int, Schema], bytes] | None = None,
    ) -> None:
        self._registry = registry
        self._config = config
        self._own = own
        self._schema_type = schema_type
        self._subject = subject
        self._field = field
        self._compile = compile
        self._path = path
        self._current: tuple[int, C] | None = None
        self._found: tuple[Registered, Schema] | None = None
        """What the registry has said about the current schema, so that a copy need not ask."""
        self._uses_latest = config.use_latest_version or bool(config.use_latest_with_metadata)
        if own is None and config.use_schema_id is None and not self._uses_latest:
            raise ConfigError("give a schema, or set use.latest.version or use.schema.id")

    def __getstate__(self) -> dict[str, Any]:
        # A compiled schema cannot be pickled. The copy, for example in a Spark worker, compiles it again.
        return {**self.__dict__, "_current": None}

    def get(self) -> C:
        """Return the compiled schema for the next value; register it or look it up if necessary.

        Raises RegistryError; SerializationError for a schema with rules that would have to run, or without the GUID that a header needs.
        """
        current = self._current
        # Only the latest version of a subject can change. The registry client caches it for cache.latest.ttl.sec.
        if current is not None and not self._uses_latest:
            return current[1]
        found = self._found if self._found is not None and not self._uses_latest else self._find()
        (schema_id, guid, rule_set), schema = found
        if current is None or current[0] != schema_id:
            if schema.schema_type != self._schema_type:
                raise SerializationError(f"schema id {schema_id} is of type {schema.schema_type}, not {self._schema_type}")
            # A registry that knows no rules answers without those of the program's schema.
            for rules in (rule_set, schema.rule_set):
                refuse_rules_on_writing(rules, f"id {schema_id}")
            current = self._current = (schema_id, self._compile(self._frame(schema_id, guid, schema), schema))
            self._found = found
        return current[1]

    def _frame(self, schema_id: int, guid: str | None, schema: Schema) -> Frame:
        path = b"" if self._path is None else self._path(schema_id, schema)
        if self._config.schema_id_serializer != HEADER:
            return Frame(schema_id, header(schema_id) + path, None)
        if guid is None:
            raise SerializationError(
                f"the registry has no GUID for schema id {schema_id}, so that it cannot be written into a header: registries have GUIDs "
                "since Confluent Platform 8; leave schema.id.serializer=Header out"
            )
        return Frame(schema_id, b"", [(ID_HEADERS[self._field == "value"], guid_header(guid) + path)])

    def known(self) -> C | None:
        """Return the compiled schema for the next value; None if get() has to ask the registry for it."""
        current = self._current
        if current is None:
            return None
        if not self._uses_latest:
            return current[1]
        latest = self._registry._known_latest_version(self._subject, self._config.use_latest_with_metadata)
        return current[1] if latest is not None and latest.schema_id == current[0] else None

    def _find(self) -> tuple[Registered, Schema]:
        """Return what the registry says about the schema to write with, and the schema."""
        config, registry = self._config, self._registry
        if config.use_schema_id is not None:
            schema, guid = registry._identified(config.use_schema_id)
            return Registered(config.use_schema_id, guid, schema.rule_set), schema
        if self._uses_latest or self._own is None:
            wanted = config.use_latest_with_metadata
            latest = registry.get_latest_with_metadata(self._subject, wanted) if wanted else registry.get_latest_version(self._subject)
            return _answer(latest), latest.schema
        own = self._own()
        if config.auto_register_schemas:
            return registry._register(self._subject, own, config.normalize_schemas), own
        return _answer(self._registered(own)), own

    def _registered(self, own: Schema) -> RegisteredSchema:
        try:
            return self._registry.lookup_schema(self._subject, own, self._config.normalize_schemas)
        except RegistryNotFoundError as missing:
            missing.add_note("register it, or set auto.register.schemas=true, or use.latest.version=true to write with the latest schema")
            raise


def _answer(found: RegisteredSchema) -> Registered:
    return Registered(found.schema_id, found.guid, found.schema.rule_set)


def subject_for(config: SerializerConfig, topic: str | None, field: str, record_name: str | None) -> str:
    """Return the subject of a serializer's schema. "" with use.schema.id, which needs no subject.

    field: "key" or "value". record_name: the full name of the record type; None without one.
    """
    return "" if config.use_schema_id is not None else subject_of(config.subject_name_strategy, topic, field, record_name)


def topic_of_subject(config: SerializerConfig, topic: str | None) -> str | None:
    """Return the topic in a serializer's subject; None if the subject has no topic, or if a function of the program makes it."""
    return topic if config.use_schema_id is None and config.subject_name_strategy in OF_TOPIC else None


def check_registry(serializer: type, registry: Any, kind: type = SchemaRegistryClient) -> None:
    """Raise TypeError if the first argument of a serializer or a deserializer is no registry: other clients have another order.

    kind: the class of the registry's client.
    """
    if not isinstance(registry, kind):
        given = "class" if isinstance(registry, type) else type(registry).__name__
        advice = "; pass its `blocking`" if isinstance(getattr(registry, "blocking", None), kind) else ""
        raise TypeError(f"{serializer.__name__}() takes the {kind.__name__} first, got a {given}{advice}")


Field: TypeAlias = Literal["key", "value"]
Strategy: TypeAlias = Callable[[str | None, str, str | None], str]
"""A function that returns the subject of a schema: strategy(topic, field, record_name) -> subject."""


def topic_name(topic: str | None, field: str, record_name: str | None) -> str:
    """Return a subject such as orders-value, for topics with one type of record."""
    return f"{_topic(topic)}-{field}"


def record_name(topic: str | None, field: str, record_name: str | None) -> str:
    """Return a subject such as shop.Order, for record types that have the same schema in all topics."""
    return _record(record_name)


def topic_record_name(topic: str | None, field: str, record_name: str | None) -> str:
    """Return a subject such as orders-shop.Order, for topics with several types of records."""
    return f"{_topic(topic)}-{_record(record_name)}"


OF_TOPIC = ("TopicName", "TopicRecordName")
STRATEGIES: dict[str, Strategy] = {"TopicName": topic_name, "RecordName": record_name, "TopicRecordName": topic_record_name}


def subject_of(strategy: Any, topic: str | None, field: str, record_name: str | None) -> str:
    """Return the subject of a schema. strategy: the value of `subject.name.strategy`, a name or a function. field: "key" or "value".

    Raises ConfigError if `field` is invalid, if the strategy needs a topic or a record name that is None, or returns no subject.
    """
    if field not in ("key", "value"):
        raise ConfigError(f"field is 'key' or 'value', got {field!r}")
    subject = STRATEGIES.get(strategy, strategy)(topic, field, record_name)
    if not isinstance(subject, str) or not subject:
        raise ConfigError(f"'subject.name.strategy': the callable returned {subject!r}, not the name of a subject")
    return subject


def _topic(topic: str | None) -> str:
    if topic is None:
        raise ConfigError("the subject contains the topic's name: give topic='...', or subject.name.strategy=RecordName")
    return topic


def _record(name: str | None) -> str:
    if name is None:
        raise ConfigError("'subject.name.strategy': this schema has no name; use TopicName, or give it a name (Avro) or a title (JSON)")
    return name
