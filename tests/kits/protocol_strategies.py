"""Hypothesis strategies for messages, made from their declarations."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from levada.protocol.api import APIS
from levada.protocol.schema import Data, Field, Message, RecordKey, RecordValue, Struct


def data_messages(package: str) -> list[type[Message]]:
    """What a package declares that is neither request nor response."""
    folder = import_module(f"levada.protocol.{package}")
    modules = [import_module(f"{folder.__name__}.{found.name}") for found in iter_modules(folder.__path__)]
    declared = [value for module in modules for value in vars(module).values() if isinstance(value, type) and issubclass(value, Data)]
    return [message for message in declared if message not in (Data, RecordKey, RecordValue)]


def versions_of(message: type[Message]) -> range:
    """All versions, drafts included."""
    return range(message.OLDEST_VERSION, message.NEWEST_VERSION + 1)


API_MESSAGES: list[type[Message]] = [message for request in APIS.values() for message in (request, request.RESPONSE)]
MESSAGES: list[type[Message]] = [*API_MESSAGES, *data_messages("embedded"), *data_messages("records")]
VERSIONED: list[tuple[type[Message], int]] = [(message, version) for message in MESSAGES for version in versions_of(message)]

_RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint16": (0, (1 << 16) - 1),
    "uint32": (0, (1 << 32) - 1),
}
# The long ones need two bytes of varint in the compact forms.
_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    **{kind: st.integers(*span) for kind, span in _RANGES.items()},
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.uuids(),
    "string": st.text(max_size=6) | st.just("λ" * 100),
    "bytes": st.binary(max_size=6) | st.just(b"b" * 200),
    "records": st.binary(max_size=6) | st.just(b"r" * 200),
}


def messages(struct: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Instances that hold any value in the fields of this version, and defaults in the others."""
    present = [field for field in struct.FIELDS if field.is_inline(version) or field.is_tagged(version)]
    return st.builds(struct, **{field.name: _with_default(field, version) for field in present})


def messages_of_any_version(message: type[Message]) -> st.SearchStrategy[tuple[Any, int]]:
    """Pairs of an instance and the version it is for."""
    versions = st.sampled_from(versions_of(message))
    return versions.flatmap(lambda version: st.tuples(messages(message, version), st.just(version)))


def _with_default(field: Field, version: int) -> st.SearchStrategy[Any]:
    # Whether a tagged field is written depends on it being at its default, so that must come up often.
    return st.builds(field.new_default) | _values(field, version) if field.is_tagged(version) else _values(field, version)


def _values(field: Field, version: int) -> st.SearchStrategy[Any]:
    found = _present_values(field, version)
    return st.none() | found if field.nullable.has(version) else found


def _present_values(field: Field, version: int) -> st.SearchStrategy[Any]:
    if field.kind == "array":
        assert field.element is not None
        return st.lists(_values(field.element, version), max_size=2)
    if field.kind == "struct":
        assert field.struct is not None
        return messages(field.struct, version)
    return _PRIMITIVES[field.kind]


_FILLED: dict[str, Any] = {
    "int8": 0x7A,
    "int16": -0x1234,
    "int32": 0x12345678,
    "int64": -0x123456789ABCDEF0,
    "uint16": 0xFEDC,
    "uint32": 0xFEDCBA98,
    "bool": True,
    "float64": -0.1,
    "uuid": UUID(int=0x0123456789ABCDEF0123456789ABCDEF),
    "string": "λ",
    "bytes": b"b" * 130,
    "records": b"r" * 130,
}


def filled(struct: type[Struct], version: int, elements: int = 2) -> Any:
    """An instance in which every field of the version holds something, and its own arrays that many elements."""
    present = [field for field in struct.FIELDS if field.is_inline(version) or field.is_tagged(version)]
    return struct(**{field.name: _filled(field, version, elements) for field in present})


def _filled(field: Field, version: int, elements: int) -> Any:
    if field.kind == "array":
        assert field.element is not None
        return [_filled(field.element, version, elements)] * elements
    if field.kind == "struct":
        assert field.struct is not None
        return filled(field.struct, version, elements=1)
    return _FILLED[field.kind]


def emptied(struct: type[Struct], version: int) -> Any:
    """An instance in which every field of the version that may be null is null, and arrays have an element to show it."""
    present = [field for field in struct.FIELDS if field.is_inline(version) or field.is_tagged(version)]
    return struct(**{field.name: _emptied(field, version) for field in present})


def _emptied(field: Field, version: int) -> Any:
    if field.nullable.has(version):
        return None
    if field.kind == "array":
        assert field.element is not None
        return [_emptied(field.element, version)]
    if field.kind == "struct":
        assert field.struct is not None
        return emptied(field.struct, version)
    return b"" if field.kind == "records" else field.new_default()
