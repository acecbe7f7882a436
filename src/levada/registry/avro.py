"""Serializer and deserializer for Avro in Confluent's wire format. They use fastavro."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic

from levada.base.asking import ReadsSchemaId
from levada.base.model import Tags
from levada.config.registry import SerializerConfig
from levada.errors import ConfigError, SerializationError
from levada.registry.avro_codec import (
    RECORDS,
    SCHEMA_ERRORS,
    WRITE_ERRORS,
    LeftOverError,
    Parsed,
    ValueReader,
    document,
    is_plain_bytes,
    kind_of,
    parse,
    told,
    with_length,
    write_value,
)
from levada.registry.avro_defaults import Defaults
from levada.registry.client import SchemaRegistryClient
from levada.registry.objects import NO_MODEL, ObjectSerializer, PerSchema, T, model_of
from levada.registry.schema import AVRO, Schema, refuse_rules_on_reading
from levada.registry.wire_format import SchemaKey, locate, told_key
from levada.registry.writing import Frame, check_registry

if TYPE_CHECKING:
    from typing import Unpack

    from typing_extensions import TypeForm

    from levada.config.typed import SerializerSettings

Write = Callable[[Any], bytes]
Read = Callable[[bytes], Any]


class AvroSerializer(ObjectSerializer[T]):
    """Serializes objects as Avro, for `value_serializer` or `key_serializer`::

        KafkaProducer(value_serializer=AvroSerializer(registry, schema, topic="orders"), ...)

    schema: the JSON text of the Avro schema, or a Schema if it references other schemas. It is optional with use.schema.id,
    use.latest.version and use.latest.with.metadata. settings: option names with dots; options can also be keyword arguments, see
    docs/CONFIGURATION.md. topic: the topic of the records; not needed with subject.name.strategy=RecordName or use.schema.id. field:
    "value" or "key". to_dict: converts an object to a value that fastavro can write; for an Avro record, this is a mapping. None passes
    objects unchanged. model: the class of the objects, in place of to_dict: a dataclass, a msgspec.Struct, a pydantic model, or a union of
    such classes.

    None is returned as None, because a record with the value null deletes its key in a compacted topic.
    """

    _TYPE = AVRO

    @SerializerConfig.in_help
    def __init__(
        self,
        registry: SchemaRegistryClient,
        schema: str | Schema | None = None,
        settings: Mapping[str, Any] | None = None,
        /,
        *,
        topic: str | None = None,
        field: str = "value",
        to_dict: Callable[[T], Any] | None = None,
        model: TypeForm[T] = NO_MODEL,
        **keywords: Unpack[SerializerSettings],
    ) -> None:
        check_registry(type(self), registry)
        config = SerializerConfig.parse(settings, **keywords)
        own = _own_schema(schema)
        objects = model_of(model, to_dict, "to_dict")
        self._tags = objects.tags() if objects else {}
        to_dict = objects.to_builtins if objects else to_dict
        super().__init__(registry, config, own, _record_name(own), topic=topic, field=field, to_dict=to_dict)

    def _compile(self, frame: Frame, schema: Schema) -> Write:
        names: dict[str, Any] = {}
        parsed = parsed_schema(self._registry, schema, names)
        before = frame.before
        tags = self._tags
        if is_plain_bytes(parsed):
            return lambda data: before + bytes(data)

        def write(data: Any) -> bytes:
            try:
                if tags:
                    _name_branches(data, parsed, tags, names)
                return write_value(before, parsed, data)
            except WRITE_ERRORS as fault:
                raise SerializationError(f"it does not fit the Avro schema of id {frame.schema_id}: {told(fault)}") from fault

        return write


class AvroDeserializer(ReadsSchemaId, Generic[T]):
    """Deserializes Avro, for `value_deserializer` or `key_deserializer`::

        KafkaConsumer("orders", value_deserializer=AvroDeserializer(registry), ...)

    Each value, or a header of its record, contains the id of its writer's schema, and it is read with that schema. schema: the reader's
    schema, as text or Schema; if given, every value gets the fields and defaults of this schema (schema resolution). from_dict: converts a
    value from fastavro to an object. model: the class of the objects, in place of from_dict; as for AvroSerializer.
    """

    def __init__(
        self,
        registry: SchemaRegistryClient,
        schema: str | Schema | None = None,
        *,
        from_dict: Callable[[Any], T] | None = None,
        model: TypeForm[T] = NO_MODEL,
    ) -> None:
        check_registry(type(self), registry)
        self._registry = registry
        self._reader = _own_schema(schema)
        if self._reader is not None:
            refuse_rules_on_reading(self._reader.rule_set, "the reader")
        self._reader_parsed: Parsed = None
        objects = model_of(model, from_dict, "from_dict")
        self._tags = objects.tags() if objects else {}
        self._from_dict = objects.from_builtins if objects else from_dict
        self._read = PerSchema(self._compile_whole)

    def __call__(self, data: bytes, header: bytes | None = None) -> T:
        """Deserialize one value. Raises SerializationError if the data are invalid, and RegistryError if the schema cannot be fetched.

        header: the value of the record's header __key_schema_id or __value_schema_id, if it has one. Consumers pass it.
        """
        value: T = self._read.get(locate(data, header))(data)
        return value

    def _known(self, data: bytes, header: bytes | None = None) -> Read | None:
        """Return the function that deserializes `data`; None if the registry has to be asked for their schema first."""
        return self._read.known(locate(data, header))

    def _find(self, data: bytes, header: bytes | None = None) -> Read:
        """Return the function that deserializes `data`; ask the registry for their schema if necessary. Raises RegistryError."""
        return self._read.get(locate(data, header))

    def _compile_whole(self, key: SchemaKey, begin: int) -> Read:
        read, from_dict = self._compile(key, begin), self._from_dict
        return read if from_dict is None else lambda data: from_dict(read(data))

    def _compile(self, key: SchemaKey, begin: int) -> Read:
        """Return the function that reads values of a schema. begin: the position of the data in a value."""
        writer_schema, name = self._registry._schema_of(key), told_key(key)
        if writer_schema.schema_type != AVRO:
            raise SerializationError(f"schema {name} is of type {writer_schema.schema_type}, not AVRO")
        refuse_rules_on_reading(writer_schema.rule_set, name)
        names: dict[str, Any] = {}
        writer = parsed_schema(self._registry, writer_schema, names)
        if self._reader is not None and self._reader_parsed is None:
            self._reader_parsed = parsed_schema(self._registry, self._reader)
        reader = self._reader_parsed
        is_plain = is_plain_bytes(writer)
        if is_plain and (reader is None or is_plain_bytes(reader)):
            return lambda data: data[begin:]

        try:
            read_value = ValueReader(writer, names, reader, names_branches=bool(self._tags))
        except RecursionError as fault:
            raise SerializationError(f"the Avro schema of {name} is nested too deep: {told(fault)}") from fault

        tags = self._tags
        fill = None if reader in (None, writer) else Defaults(reader, names_branches=bool(tags)).fill

        def read(data: bytes) -> Any:
            try:
                value = read_value(with_length(data[begin:]), 0) if is_plain else read_value(data, begin)
                if fill is not None:
                    fill(value)
                return _with_tags(value, tags) if tags else value
            except LeftOverError as fault:
                raise SerializationError(
                    f"{fault.count} bytes are left over after the Avro schema of {name}: it was written with another schema"
                ) from None
            except Exception as fault:
                raise SerializationError(f"it cannot be read with the Avro schema of {name}: {told(fault)}") from fault

        return read


def _own_schema(schema: str | Schema | None) -> Schema | None:
    """Return the program's schema as a Schema; None without one. Raises ConfigError if it is invalid, so that a mistake is found early."""
    if schema is None:
        return None
    own = Schema(schema) if isinstance(schema, str) else schema
    if own.schema_type != AVRO:
        raise ConfigError(f"the schema is of type {own.schema_type}, not AVRO")
    try:
        own_document = document(own.schema_str)
        if not own.references:
            parse([own_document])
    except Exception as fault:
        raise ConfigError(f"the Avro schema cannot be read: {told(fault)}") from fault
    return own


def parsed_schema(registry: SchemaRegistryClient, schema: Schema, names: dict[str, Any] | None = None) -> Parsed:
    """Parse a schema after the schemas that it references. names: the named types of all these schemas are added to this dict."""
    try:
        used = registry.get_referenced_schemas(schema).values()
        return parse((document(one.schema_str) for one in (*used, schema)), names)
    except SCHEMA_ERRORS as fault:
        raise SerializationError(f"fastavro cannot read the schema {schema.schema_str}: {told(fault)}") from fault


def _name_branches(value: Any, schema: Parsed, tags: Tags, names: Mapping[str, Any]) -> None:
    """Add its full name to each record of a union that has a tag, in place. The value of the tag is the record's name.

    Without such a name, fastavro takes the branch of a union that has most fields in common with the record. names: the named types of the
    schema.
    """
    schema = names.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(schema, list):
        branches = [names.get(branch, branch) if isinstance(branch, str) else branch for branch in schema]
        if isinstance(value, dict) and (named := [branch for branch in branches if _is_named(branch, value, tags)]):
            value["-type"] = named[0]["name"]
            branches = named[:1]
        for branch in branches:
            _name_branches(value, branch, tags, names)
    elif isinstance(value, dict) and kind_of(schema) in RECORDS:
        for field in schema["fields"]:
            _name_branches(value.get(field["name"]), field["type"], tags, names)
    elif isinstance(value, dict) and kind_of(schema) == "map":
        for part in value.values():
            _name_branches(part, schema["values"], tags, names)
    elif isinstance(value, list) and kind_of(schema) == "array":
        for part in value:
            _name_branches(part, schema["items"], tags, names)


def _is_named(branch: Parsed, value: Mapping[str, Any], tags: Tags) -> bool:
    """Whether a type of a union is the record whose name a tag of the value says."""
    if kind_of(branch) not in RECORDS:
        return False
    name = branch["name"].rpartition(".")[2]
    return any(name in classes and value.get(tag) == name for tag, classes in tags.items())


def _with_tags(value: Any, tags: Tags) -> Any:
    """Return a value with the record alone in place of each (type name, record); the record gets the name as its tag.

    fastavro returns these pairs for unions. A tag that is a field of the record is not changed.
    """
    if isinstance(value, tuple):
        full_name, found = value
        name, found = full_name.rpartition(".")[2], _with_tags(found, tags)
        return {tag: name for tag, classes in tags.items() if name in classes} | found if isinstance(found, dict) else found
    if isinstance(value, dict):
        return {key: _with_tags(part, tags) for key, part in value.items()}
    return [_with_tags(part, tags) for part in value] if isinstance(value, list) else value


def _record_name(schema: Schema | None) -> str | None:
    found = None if schema is None else document(schema.schema_str)
    if not isinstance(found, dict) or "name" not in found:
        return None
    name, namespace = str(found["name"]), found.get("namespace")
    return f"{namespace}.{name}" if namespace and "." not in name else name
