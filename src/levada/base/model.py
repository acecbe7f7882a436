"""Converts objects of a program's model classes. pydantic converts its own models, and msgspec converts all others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, get_args
from uuid import UUID

from levada.base.text import as_text
from levada.errors import ConfigError, SerializationError

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")

Tags: TypeAlias = Mapping[str, Set[str]]
"""The names of fields, each with the constants that it has in the classes of a union."""
_DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/schema"
MOST_QUOTED = 3
"""How many of pydantic's errors the text of a SerializationError quotes."""


class Model(Generic[T]):
    """The conversions of a model class. They raise SerializationError, with the library's reason, for a value that does not fit the model.

    model: a pydantic model or pydantic dataclass; or a dataclass, msgspec.Struct, attrs class or TypedDict; or a union or a list of such
    classes. Raises ConfigError if the library that converts the model does not support it, and ImportError if that is msgspec and it is not
    installed.
    """

    def __init__(self, model: TypeForm[T]) -> None:
        self._model = model
        self._name = model.__name__ if isinstance(model, type) else str(model)
        # isinstance() takes neither list[Order] nor a TypedDict.
        self._type = model if isinstance(model, type) and not get_args(model) and dict not in model.__mro__ else None
        try:
            self._by: _Pydantic | _Msgspec = _Pydantic(model) if _is_of_pydantic(model) else _Msgspec(model)
        except ImportError:
            raise
        except Exception as fault:
            raise ConfigError(f"{self._name} cannot be used as a model: {as_text(fault)}") from fault

    def __reduce__(self) -> tuple[Any, ...]:
        # msgspec's decoders cannot be pickled.
        return Model, (self._model,)

    def to_builtins(self, value: T) -> Any:
        """Return an object as dicts, lists and scalars.

        bytes, Decimal, UUID, dates and times are not converted, because Avro has types for them.
        """
        return self._write(self._by.to_builtins, value)

    def from_builtins(self, value: Any) -> T:
        """Return the object for dicts, lists and scalars."""
        found: T = self._convert(self._by.from_builtins, value)
        return found

    def to_json(self, value: T) -> bytes:
        """Return an object as JSON."""
        data: bytes = self._write(self._by.to_json, value)
        return data

    def from_json(self, data: bytes) -> T:
        """Return the object for JSON."""
        found: T = self._convert(self._by.from_json, data)
        return found

    def json_schema(self) -> str:
        """Return the JSON Schema of the model. Raises ConfigError if the library cannot make one."""
        text = json.dumps(_without_reference(self._schema()))
        # Only the schema of a tuple has another meaning before draft 2020-12, and not all registries know this draft.
        return text if "prefixItems" not in text else json.dumps({"$schema": _DRAFT_2020_12} | json.loads(text))

    def tags(self) -> Tags:
        """Return the fields that are a constant in every class of a union in the model, such as the tag of a msgspec.Struct.

        They tell the classes apart. Empty if the model has no JSON Schema.
        """
        try:
            schema = self._schema()
        except ConfigError:
            return {}
        found: dict[str, set[str]] = {}
        for tag, value in _tags(schema, schema.get("$defs", {})):
            found.setdefault(tag, set()).add(value)
        return found

    def _schema(self) -> dict[str, Any]:
        try:
            return self._by.json_schema()
        except Exception as fault:
            raise ConfigError(f"{self._name} has no JSON Schema: {as_text(fault)}") from fault

    def _write(self, convert: Callable[[Any], Any], value: Any) -> Any:
        # Neither library checks this itself: msgspec writes any object, and pydantic writes some.
        if self._type is not None and not isinstance(value, self._type):
            raise SerializationError(f"expected {self._name}, got {type(value).__name__}")
        return self._convert(convert, value)

    def _convert(self, convert: Callable[[Any], Any], value: Any) -> Any:
        try:
            return convert(value)
        except Exception as fault:
            raise SerializationError(f"it does not fit {self._name}: {self._by.text_of(fault)}") from fault


class _Msgspec:
    _KEPT = (bytes, datetime, date, time, Decimal, UUID)

    def __init__(self, model: Any) -> None:
        try:
            import msgspec
        except ImportError as missing:
            raise ImportError("a model that is not pydantic's needs msgspec: pip install 'levada[typed]'") from missing
        self._model = model
        self._library = msgspec
        self._encode = msgspec.json.Encoder().encode
        self.from_json = msgspec.json.Decoder(model).decode

    def to_builtins(self, value: Any) -> Any:
        return _plain(self._library.to_builtins(value, builtin_types=self._KEPT))

    def from_builtins(self, value: Any) -> Any:
        return self._library.convert(value, self._model, str_keys=True)

    def to_json(self, value: Any) -> bytes:
        data = self._encode(value)
        # msgspec checks the fields only when it reads.
        self.from_json(data)
        return data

    def json_schema(self) -> dict[str, Any]:
        return self._library.json.schema(self._model)

    def text_of(self, fault: Exception) -> str:
        return as_text(fault) or type(fault).__name__


class _Pydantic:
    def __init__(self, model: Any) -> None:
        from pydantic import TypeAdapter, ValidationError

        self._error = ValidationError
        adapter: TypeAdapter[Any] = TypeAdapter(model)
        self._adapter = adapter
        self.from_builtins = adapter.validate_python
        self.from_json = adapter.validate_json
        self.json_schema = adapter.json_schema

    def to_builtins(self, value: Any) -> Any:
        return _plain(self._adapter.dump_python(value, by_alias=True, warnings="error"))

    def to_json(self, value: Any) -> bytes:
        return self._adapter.dump_json(value, by_alias=True, warnings="error")

    def text_of(self, fault: Exception) -> str:
        if not isinstance(fault, self._error):
            return " ".join(as_text(fault).split()) or type(fault).__name__
        errors = [(".".join(map(str, error["loc"])), error["msg"]) for error in fault.errors()]
        quoted = [f"{field}: {text}" if field else text for field, text in errors[:MOST_QUOTED]]
        return "; ".join(quoted) + (f"; and {len(errors) - MOST_QUOTED} more" if len(errors) > MOST_QUOTED else "")


def _is_of_pydantic(model: Any) -> bool:
    """Whether pydantic has made a class, or one in a union, a list and the like. This does not import pydantic."""
    return hasattr(model, "__pydantic_validator__") or any(_is_of_pydantic(part) for part in get_args(model))


_SCALARS = frozenset({str, int, float, bool, bytes, type(None)})


def _plain(value: Any) -> Any:
    """Return a value with lists in place of tuples and sets, the values of enums in place of enums, and text as the keys of dicts.

    fastavro would take a tuple for (name of the type, value).
    """
    if isinstance(value, dict):
        # Without a call for each key and each item, because most of them are left as they are.
        return {
            (key if type(key) is str else str(_plain(key))): (item if type(item) in _SCALARS else _plain(item))
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def _without_reference(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with the definition of its type at the top level instead of a $ref to it.

    subject.name.strategy=RecordName needs that: it takes the subject from the title at the top level.
    """
    if "$ref" not in schema:
        return schema
    definitions = schema["$defs"]
    name = schema["$ref"].removeprefix("#/$defs/")
    is_recursive = json.dumps(schema["$ref"]) in json.dumps(definitions)
    others = {other: definition for other, definition in definitions.items() if is_recursive or other != name}
    return definitions[name] | ({"$defs": others} if others else {})  # type: ignore[no-any-return]


def _tags(schema: Any, definitions: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each field that is a constant in all classes of a union, with each of its values. definitions: $defs of the JSON Schema."""
    if isinstance(schema, dict):
        names = [part["$ref"].removeprefix("#/$defs/") for part in schema.get("anyOf") or schema.get("oneOf") or () if "$ref" in part]
        classes = [_constants(definitions[name]) for name in names if "properties" in definitions.get(name, ())]
        for tag in set.intersection(*map(set, classes)) if len(classes) > 1 else set():
            yield from ((tag, constants[tag]) for constants in classes)
    parts: Iterable[Any] = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    for part in parts:
        yield from _tags(part, definitions)


def _constants(definition: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for field, schema in definition["properties"].items():
        match schema:
            case {"const": str(value)} | {"enum": [str(value)]}:
                found[field] = value
    return found
