"""Serializes keys and values.

A serializer is any function that converts an object to bytes. It is also called for None, and may return None, text or another bytes-like
object. A deserializer is any function that converts bytes to an object. Without a serializer, a producer sends bytes-like objects
unchanged, and text as UTF-8. Without a deserializer, a consumer returns bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from levada.base.text import as_text
from levada.errors import SerializationError
from levada.types import HeadersIn

Sendable: TypeAlias = bytes | bytearray | memoryview | str
"""The types of keys and values that need no serializer."""

if TYPE_CHECKING:
    # Only type checkers need the defaults, so typing_extensions is not imported at run time. The default is Any: with Sendable, a type
    # checker would infer that the parameter of `value_serializer=lambda order: ...` is bytes.
    from typing_extensions import TypeForm, TypeVar

    K_in = TypeVar("K_in", default=Any, contravariant=True)
    V_in = TypeVar("V_in", default=Any, contravariant=True)
    _T = TypeVar("_T", default=Any)
else:
    from typing import TypeVar

    _T = TypeVar("_T")
    K_in = TypeVar("K_in", contravariant=True)
    V_in = TypeVar("V_in", contravariant=True)

Plain: TypeAlias = tuple[K_in | None, V_in | None] | tuple[K_in | None, V_in | None, HeadersIn | None] | V_in
"""A record for send_many(): a value, (key, value) or (key, value, headers)."""


class BytesWithHeaders(bytes):
    """A serialized key or value, and headers that its record needs. A serializer may return it: send() adds the headers to the record.

    headers: pairs of a name and bytes. They replace headers of the same name.
    """

    headers: Sequence[tuple[str, bytes]]

    def __new__(cls, data: bytes, headers: Sequence[tuple[str, bytes]]) -> Self:
        """Return the data with their headers."""
        made = super().__new__(cls, data)
        made.headers = headers
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (bytes(self), self.headers)


Serializer: TypeAlias = Callable[[Any], Sendable | None]
Deserializer: TypeAlias = Callable[[bytes], Any]


def json_of(model: TypeForm[_T]) -> tuple[Callable[[_T | None], bytes | None], Callable[[bytes], _T]]:
    """Return a serializer and a deserializer that convert objects of a class to JSON and back. They use no schema registry.

    model: a pydantic model or pydantic dataclass, which pydantic converts; a dataclass, msgspec.Struct, attrs class or TypedDict, which
    msgspec converts (levada[typed]); or a union or a list of such classes. The serializer returns None for None, because a record with the
    value null deletes its key in a compacted topic. Both functions raise SerializationError for a value that does not fit the model.
    """
    # Not needed by most clients, and decimal and json take time to load.
    from levada.base.model import Model

    converts = Model(model)

    def to_json(value: _T | None) -> bytes | None:
        return None if value is None else converts.to_json(value)

    return to_json, converts.from_json


def to_bytes(data: Any, what: str, serializer: Serializer | None = None) -> bytes | None:
    """Serialize a key or a value; return None for a null. Raises SerializationError, with `what` in its text: "key" or "value".

    A serializer is also called with None; without one, None is a null. The result may be a BytesWithHeaders.
    """
    if serializer is not None:
        data = _call(serializer, data, what)
    if data is None or type(data) is bytes or isinstance(data, BytesWithHeaders):
        return data
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    if serializer is not None:
        raise SerializationError(f"{what}: the serializer returned {type(data).__name__}, not bytes")
    raise SerializationError(f"{what} is {type(data).__name__}, not bytes, str or None; set {what}_serializer to send such objects")


def _call(serializer: Serializer, data: Any, what: str) -> Any:
    try:
        return serializer(data)
    except Exception as fault:
        raise SerializationError(f"{what}: the serializer failed on {type(data).__name__}: {as_text(fault)}") from fault
