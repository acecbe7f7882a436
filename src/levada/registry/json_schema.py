"""Serializer and deserializer for JSON in Confluent's wire format. They check values against the schema only if this is configured."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Generic
from urllib.parse import urljoin

from levada.base.asking import ReadsSchemaId
from levada.base.text import as_text
from levada.config.registry import JSONSerializerConfig
from levada.errors import ConfigError, SerializationError
from levada.registry.client import SchemaRegistryClient
from levada.registry.endpoints import LONGEST_QUOTE
from levada.registry.objects import NO_MODEL, ObjectSerializer, PerSchema, T, model_of
from levada.registry.schema import JSON, Schema, refuse_rules_on_reading
from levada.registry.wire_format import SchemaKey, locate, told_key
from levada.registry.writing import Frame, check_registry

if TYPE_CHECKING:
    from typing import Unpack

    from typing_extensions import TypeForm

    from levada.config.typed import JSONSerializerSettings

Check = Callable[[Any], None]


class JSONSerializer(ObjectSerializer[T]):
    """Serializes objects as JSON, for `value_serializer` or `key_serializer`.

    schema: a JSON Schema, as text or as a Schema; optional as for AvroSerializer. With json.fail.invalid.schema=true, a value that does not
    match the schema raises SerializationError; this needs levada[jsonschema]. model: as for AvroSerializer; without a schema, the schema is
    made from the model. Other arguments: as for AvroSerializer.
    """

    _TYPE = JSON

    @JSONSerializerConfig.in_help
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
        **keywords: Unpack[JSONSerializerSettings],
    ) -> None:
        check_registry(type(self), registry)
        config = JSONSerializerConfig.parse(settings, **keywords)
        self._model = model_of(model, to_dict, "to_dict")
        own = _own_schema(self._model.json_schema() if self._model and schema is None else schema)
        self._validate = config.json_fail_invalid_schema
        if self._validate:
            _validators()
        super().__init__(registry, config, own, _title(own), topic=topic, field=field, to_dict=to_dict)

    def _compile(self, frame: Frame, schema: Schema) -> Callable[[Any], bytes]:
        before = frame.before
        check = _checker(self._registry, frame.schema_id, schema) if self._validate else None
        model = self._model

        def write(value: Any) -> bytes:
            data = as_json(value) if model is None else model.to_json(value)
            if check is not None:
                check(value if model is None else json.loads(data))
            return before + data

        return write


class JSONDeserializer(ReadsSchemaId, Generic[T]):
    """Deserializes JSON in Confluent's wire format, for `value_deserializer` or `key_deserializer`.

    from_dict: converts a JSON value to an object. validate: whether to check each value against `schema`, or against its writer's schema if
    `schema` is None; this needs a registry and levada[jsonschema]. Without validation, `registry` may be None. model: the class of the
    objects, in place of from_dict; as for AvroSerializer.
    """

    def __init__(
        self,
        registry: SchemaRegistryClient | None = None,
        schema: str | Schema | None = None,
        *,
        from_dict: Callable[[Any], T] | None = None,
        model: TypeForm[T] = NO_MODEL,
        validate: bool = False,
    ) -> None:
        if registry is not None:
            check_registry(type(self), registry)
        if schema is not None and not validate:
            raise ConfigError("a schema is used for validation only: set validate=True, or leave the schema out")
        self._model = model_of(model, from_dict, "from_dict")
        self._from_dict = from_dict
        self._checks = _checks(registry, _own_schema(schema)) if validate else None

    def __call__(self, data: bytes, header: bytes | None = None) -> T:
        """Deserialize one value. Raises SerializationError if the data are invalid, and RegistryError if a schema cannot be fetched.

        header: the value of the record's header __key_schema_id or __value_schema_id, if it has one. Consumers pass it.
        """
        key, begin = locate(data, header)
        body = data[begin:]
        if self._model is not None and self._checks is None:
            return self._model.from_json(body)
        try:
            value = json.loads(body)
        except (ValueError, RecursionError) as fault:
            raise SerializationError(f"the data of schema {told_key(key)} are not JSON: {fault}") from fault
        if self._checks is not None:
            self._checks.get((key, 0))(value)
        if self._model is not None:
            return self._model.from_json(body)
        return value if self._from_dict is None else self._from_dict(value)

    def _known(self, data: bytes, header: bytes | None = None) -> Callable[[bytes], T] | None:
        """Return the function that deserializes `data`; None if the registry has to be asked for a schema first."""
        if self._checks is not None and self._checks.known((locate(data, header)[0], 0)) is None:
            return None
        return self if header is None else partial(self, header=header)

    def _find(self, data: bytes, header: bytes | None = None) -> Callable[[bytes], T]:
        """Return the function that deserializes `data`; ask the registry for a schema if necessary. Raises RegistryError."""
        if self._checks is not None:
            self._checks.get((locate(data, header)[0], 0))
        return self if header is None else partial(self, header=header)


def as_json(value: Any) -> bytes:
    """Return a value as JSON without blanks, in UTF-8. Raises SerializationError if it cannot be written."""
    try:
        # allow_nan=False, because NaN and Infinity are not JSON, although Python would write them.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as fault:
        raise SerializationError(f"it cannot be written as JSON: {fault}") from fault


def _checks(registry: SchemaRegistryClient | None, reader: Schema | None) -> PerSchema[Check]:
    if registry is None:
        raise ConfigError("validate=True needs a registry")
    _validators()
    return PerSchema(partial(_check_of, registry, reader))


def _check_of(registry: SchemaRegistryClient, reader: Schema | None, key: SchemaKey, begin: int) -> Check:
    writer = registry._schema_of(key)
    refuse_rules_on_reading(writer.rule_set, told_key(key))
    return _checker(registry, key, reader or writer)


def _own_schema(schema: str | Schema | None) -> Schema | None:
    if schema is None:
        return None
    own = Schema(schema, JSON) if isinstance(schema, str) else schema
    if own.schema_type != JSON:
        raise ConfigError(f"the schema is of type {own.schema_type}, not JSON")
    try:
        document = json.loads(own.schema_str)
    except (ValueError, RecursionError) as fault:
        raise ConfigError(f"the JSON schema cannot be read: {fault}") from fault
    if not isinstance(document, dict | bool):
        raise ConfigError(f"a JSON schema is an object, got {document!r}")
    return own


def _title(schema: Schema | None) -> str | None:
    document = None if schema is None else json.loads(schema.schema_str)
    return str(document["title"]) if isinstance(document, dict) and "title" in document else None


def _validators() -> Any:
    try:
        import jsonschema
    except ImportError as missing:
        raise ImportError("validating JSON needs jsonschema: pip install 'levada[jsonschema]'") from missing
    return jsonschema


def _checker(registry: SchemaRegistryClient, key: SchemaKey, schema: Schema) -> Check:
    """Return a function that raises SerializationError for a value that does not match a schema."""
    jsonschema = _validators()
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT7

    from levada.registry.json_bounds import BoundedKinds, Budget

    budget, name = Budget(), told_key(key)
    used = registry.get_referenced_schemas(schema)
    try:
        document = json.loads(schema.schema_str)
        base = str(document.get("$id", "")) if isinstance(document, dict) else ""
        resources = [
            (uri, Resource.from_contents(json.loads(other.schema_str), default_specification=DRAFT7))
            for reference, other in used.items()
            # As in Java, the name of a reference is relative to the $id of the schema: there $ref leads to both joined.
            for uri in {reference.name, urljoin(base, reference.name)}
        ]
        kind = jsonschema.validators.validator_for(document, default=jsonschema.Draft7Validator)
        validator = BoundedKinds(budget).of(kind)(document, registry=Registry().with_resources(resources))
    except Exception as fault:
        raise SerializationError(f"the JSON schema of {name} cannot be used: {_first_line(fault)}") from fault

    def check(value: Any) -> None:
        try:
            budget.begin(value)
            fault = jsonschema.exceptions.best_match(validator.iter_errors(value))
        except Exception as unusable:
            # Some faults of a schema, such as a reference to a missing schema or to itself, appear only when the schema is applied.
            raise SerializationError(f"the JSON schema of {name} cannot be applied: {_first_line(unusable)}") from unusable
        if fault is not None:
            raise SerializationError(f"it does not fit the JSON schema of {name}: {fault.json_path}: {fault.message}")

    return check


def _first_line(fault: Exception) -> str:
    return f"{type(fault).__name__}: {(as_text(fault).splitlines() or [''])[0][:LONGEST_QUOTE]}"
