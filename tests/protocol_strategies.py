"""Hypothesis strategies for messages, made from their declarations."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from penstock.protocol.api import APIS
from penstock.protocol.schema import Field, Message, Struct

MESSAGES: list[type[Message]] = [message for request in APIS.values() for message in (request, request.RESPONSE)]
VERSIONED: list[tuple[type[Message], int]] = [
    (message, version) for message in MESSAGES for version in range(message.MIN_VERSION, message.NEWEST_VERSION + 1)
]

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
    versions = st.integers(message.MIN_VERSION, message.NEWEST_VERSION)
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
