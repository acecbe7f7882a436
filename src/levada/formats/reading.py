"""The interfaces of a format that reads, its decoder, and the decoder's result; and a decoder for formats that read value by value."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias

import pyarrow as pa

from levada.errors import ConfigError
from levada.registry import RegisteredSchema, RegistryNotFoundError, SchemaRegistryClient


class Fault(Protocol):
    """Why the value of a row is malformed."""

    @property
    def row(self) -> int:
        """The index of the row in the decoded column."""
        ...

    @property
    def reason(self) -> str:
        """The reason as the end of a sentence that begins with "the value is", such as "not UTF-8"."""
        ...


class RowFault(NamedTuple):
    """A fault found by a format that reads values one by one."""

    row: int
    reason: str


class Decoded(Protocol):
    """The result of decoding a column, with one row per value.

    malformed: true for each value that could not be read completely; its row has the fields that could be read. fault: why the first
    malformed value is malformed.
    """

    @property
    def rows(self) -> pa.Array:
        """The decoded values, in the format's type. A null value stays null."""
        ...

    @property
    def malformed(self) -> pa.BooleanArray:
        """True for each malformed value; has no nulls."""
        ...

    @property
    def fault(self) -> Fault | None:
        """Why the first malformed value is malformed; None without one."""
        ...


class DecodedRows(NamedTuple):
    """The Decoded that the formats of this package return."""

    rows: pa.Array
    malformed: pa.BooleanArray
    fault: Fault | None


class Decoder(Protocol):
    """Decodes columns of values."""

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a binary column. A malformed value never raises an error; the result reports it."""
        ...


class Format(ABC):
    """How a reader decodes its keys, or its values. Picklable."""

    is_text: ClassVar[bool] = True
    """Whether the column for corrupt values shows a malformed value as text. If False, the column shows base64."""

    def pinned(self) -> Self:
        """Return a copy that has the schema which the registry has now. All that is read with the copy has this schema.

        A format without a registry returns itself.
        """
        return self

    @property
    @abstractmethod
    def kind(self) -> pa.DataType:
        """The type of the column of decoded values. Call it only on the format that pinned() returned."""

    @abstractmethod
    def decoder(self, kind: pa.DataType | None = None) -> Decoder:
        """Return a decoder, which one thread may use at a time. Call it only on the format that pinned() returned.

        kind: the type of the column; the format's values are cast to it. None for the format's own type.
        """


Registry: TypeAlias = tuple[tuple[str, Any], ...] | SchemaRegistryClient
"""Settings of a registry's client, hashable and picklable; or a program's own client."""


def client_of(registry: Registry) -> SchemaRegistryClient:
    """Return the client of a registry. This process has one for equal settings."""
    return registry if isinstance(registry, SchemaRegistryClient) else _client(os.getpid(), registry)


def latest_version(registry: Registry, subject: str, option: str, schema_type: str) -> RegisteredSchema:
    """Return the latest version of a subject. Raises ConfigError that names the option; RegistryError.

    schema_type: the type that it has to have, such as "AVRO".
    """
    try:
        latest = client_of(registry).get_version(subject, "latest")
    except RegistryNotFoundError as missing:
        raise ConfigError(f"option '{option}': the registry has no subject '{subject}'; register it, or name another") from missing
    if latest.schema.schema_type != schema_type:
        raise ConfigError(f"option '{option}': the schema of '{subject}' is of type {latest.schema.schema_type}, not {schema_type}")
    return latest


@lru_cache(maxsize=8)
def _client(process: int, settings: tuple[tuple[str, Any], ...]) -> SchemaRegistryClient:
    return SchemaRegistryClient(dict(settings))


Read = Callable[[bytes], Any]
_NOT_HELD = (ValueError, TypeError, OverflowError)
"""The exceptions that pyarrow raises for a value that its type cannot hold. ArrowInvalid is a ValueError."""
_LONGEST_REASON = 500


class MalformedError(Exception):
    """A value does not have its format. reason: completes the sentence "the value is ..."."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class SchemaLookupError(Exception):
    """The schema of a value cannot be looked up, so nothing is known about the value. The cause is the registry's error.

    row: the index of the value in the decoded column.
    """

    def __init__(self, schema_id: int) -> None:
        super().__init__(f"schema id {schema_id} cannot be looked up")
        self.schema_id = schema_id
        self.row = 0


class RowDecoder:
    """Decodes a column by calling a function for each value.

    read: converts a value to a Python object from which pyarrow can make a row of type `built`; raises MalformedError. kind: the type of
    the column, to which rows of type `built` are cast. The types differ if a format has times in other units. The row of a malformed value
    is a struct with null fields, or null if the type is not a struct.
    """

    def __init__(self, read: Read, kind: pa.DataType, built: pa.DataType | None = None) -> None:
        self._read = read
        self._kind = kind
        self._built = kind if built is None else built
        self._nothing: Any = {} if pa.types.is_struct(kind) else None

    def decode(self, values: pa.Array) -> DecodedRows:
        """Decode a binary column."""
        reasons: dict[int, str] = {}
        found: list[Any] = []
        for row, data in enumerate(values.to_pylist()):
            try:
                found.append(None if data is None else self._read(data))
            except SchemaLookupError as failed:
                failed.row = row
                raise
            except Exception as fault:
                # Libraries raise exceptions of any type for damaged bytes, and one bad value must not fail the other values.
                reasons[row] = _reason(fault)
                found.append(self._nothing)
        rows = self._column(found, reasons)
        if not reasons:
            return DecodedRows(rows, pa.repeat(pa.scalar(False), len(found)), None)
        first = min(reasons)
        malformed = pa.array([row in reasons for row in range(len(found))], pa.bool_())
        return DecodedRows(rows, malformed, RowFault(first, reasons[first]))

    def _column(self, found: list[Any], reasons: dict[int, str]) -> pa.Array:
        try:
            return self._made(found)
        except _NOT_HELD:
            self._mark(found, 0, len(found), reasons)
            return self._made(found)

    def _mark(self, found: list[Any], begin: int, end: int, reasons: dict[int, str]) -> None:
        """Mark and replace the values that the type cannot hold. One such value fails the whole column, so a binary search finds them.

        found: the values of a column, changed in place. begin, end: the rows to check. reasons: gets the reason for each marked row.
        """
        try:
            self._made(found[begin:end])
        except _NOT_HELD as fault:
            if end - begin == 1:
                what = "not of its column's type" if isinstance(fault, TypeError) else "beyond what its column can hold"
                reasons[begin] = _shortened(f"{what}: {fault}")
                found[begin] = self._nothing
                return
            middle = (begin + end) // 2
            self._mark(found, begin, middle, reasons)
            self._mark(found, middle, end, reasons)

    def _made(self, found: list[Any]) -> pa.Array:
        column = pa.array(found, self._built)
        column = column if column.type.equals(self._kind) else column.cast(self._kind)
        # pyarrow takes any number for a time of a day.
        column.validate(full=True)
        return column


def _shortened(reason: str) -> str:
    """Return a reason of readable length: some contain a whole schema, or the whole value."""
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]} ..."


def _reason(fault: Exception) -> str:
    return _shortened(fault.reason if isinstance(fault, MalformedError) else f"not read: {type(fault).__name__}: {fault}")
