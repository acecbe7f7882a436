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
from levada.registry.schema import refuse_rules_on_writing
from levada.registry.wire_format import GUID_MAGIC, GUID_SIZE, HEADER_SIZE, header


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
    """The Fault that the decoders of this package return."""

    row: int
    reason: str


class Decoded(Protocol):
    """The result of decoding a column, with one row per value.

    malformed: true for each value that could not be read completely; its row has the fields that could be read. fault: why the first
    malformed value is malformed.
    """

    @property
    def rows(self) -> pa.Array:
        """The decoded values, in the type of the decoder. A null value stays null."""
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
    """The Decoded that the decoders of this package return."""

    rows: pa.Array
    malformed: pa.BooleanArray
    fault: Fault | None


class Decoder(Protocol):
    """Decodes columns of values."""

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a binary column. A malformed value never raises an error; the result reports it.

        Raises SchemaLookupError if the schema of a value cannot be looked up.
        """
        ...


class Format(ABC):
    """How a reader decodes its keys, or its values. Picklable."""

    is_text: ClassVar[bool] = True
    """Whether the column for corrupt values shows a malformed value as text. If False, the column shows base64."""

    @property
    def has_ids(self) -> bool:
        """Whether values begin with the id of a schema, unless a header of their record has it."""
        return False

    def pinned(self) -> Self:
        """Return the format with the schema that the registry has now. All that is read with the result has this schema.

        A format that has its schema already returns itself. Raises ConfigError, RegistryError.
        """
        return self

    @property
    @abstractmethod
    def kind(self) -> pa.DataType:
        """The type of the column of decoded values. Only the format that pinned() returned has it."""

    @abstractmethod
    def decoder(self, kind: pa.DataType | None = None) -> Decoder:
        """Return a decoder, which one thread may use at a time. Call it only on the format that pinned() returned.

        kind: the type of the column, for formats whose values can have times in another unit; None for the format's own type.
        """


Registry: TypeAlias = tuple[tuple[str, Any], ...] | SchemaRegistryClient
"""Settings of a registry's client, hashable and picklable; or a program's own client."""


def client_of(registry: Registry) -> SchemaRegistryClient:
    """Return the client of a registry. Equal settings share one client in this process, which keeps up to eight."""
    return registry if isinstance(registry, SchemaRegistryClient) else _client(os.getpid(), registry)


def latest_version(registry: Registry, subject: str, option: str, schema_type: str, *, writes: bool = False) -> RegisteredSchema:
    """Return the latest version of a subject. Raises ConfigError that names the option; RegistryError.

    schema_type: the type that it has to have, such as "AVRO". writes: whether values are written with it. Then rules that would have to run
    raise SerializationError.
    """
    try:
        latest = client_of(registry).get_version(subject, "latest")
    except RegistryNotFoundError as missing:
        use = "write" if writes else "read with"
        raise ConfigError(
            f"option '{option}': the registry has no subject '{subject}'; register a schema there, name another subject, "
            f"or give the schema to {use}"
        ) from missing
    if latest.schema.schema_type != schema_type:
        raise ConfigError(f"option '{option}': the schema of '{subject}' is of type {latest.schema.schema_type}, not {schema_type}")
    if writes:
        refuse_rules_on_writing(latest.schema.rule_set, f"id {latest.schema_id}")
    return latest


@lru_cache(maxsize=8)
def _client(process: int, settings: tuple[tuple[str, Any], ...]) -> SchemaRegistryClient:
    return SchemaRegistryClient(dict(settings))


def with_ids(values: pa.Array, headers: pa.Array, name: str) -> pa.Array:
    """Return a column of keys or values where each begins with its schema id, also those whose id is in a header.

    headers: the records' headers. name: of the header. Of several headers the last one counts, as in Java. If it is too short for an id, it
    stands alone in the column, so that the value is malformed.
    """
    import pyarrow.compute as pc

    entries = headers.flatten()
    if not len(entries):
        return values
    is_id = pc.equal(entries.field("key"), name)
    rows, ids = pc.list_parent_indices(headers).filter(is_id), entries.field("value").filter(is_id)
    if not len(rows):
        return values
    # index_in() returns the first place of a row in the reversed list, which is its last header.
    places = pc.index_in(pa.array(range(len(values)), rows.type), rows[::-1])
    found = ids[::-1].take(places)
    size = pc.if_else(pc.starts_with(found, bytes([GUID_MAGIC])), 1 + GUID_SIZE, HEADER_SIZE)
    joined = pc.binary_join_element_wise(found, values, b"")
    is_short = pc.and_(pc.less(pc.binary_length(found), size), pc.is_valid(joined))
    return pc.if_else(pc.is_valid(found), pc.if_else(is_short, found, joined), values)


def with_short_ids(values: pa.Array, id_of: Callable[[bytes], int]) -> pa.Array:
    """Return a column where values that begin with a GUID begin with an id in its place. id_of: returns the id for a GUID."""
    import pyarrow.compute as pc

    if not pc.any(pc.starts_with(values, bytes([GUID_MAGIC]))).as_py():
        return values
    has_guid = pc.and_(pc.starts_with(values, bytes([GUID_MAGIC])), pc.greater(pc.binary_length(values), GUID_SIZE))
    guids = pc.if_else(has_guid, pc.binary_slice(values, 1, 1 + GUID_SIZE), pa.scalar(None, pa.binary())).dictionary_encode()
    before = pa.array([header(id_of(guid)) for guid in guids.dictionary.to_pylist()], pa.binary()).take(guids.indices)
    data = pc.binary_slice(values, 1 + GUID_SIZE, LONGEST)
    return pc.if_else(pc.is_valid(before), pc.binary_join_element_wise(before, data, b""), values)


Read = Callable[[bytes], Any]
_NOT_HELD = (ValueError, TypeError, OverflowError)
"""The exceptions that pyarrow raises for a value that its type cannot hold. ArrowInvalid is a ValueError."""
_LONGEST_REASON = 500
LONGEST = 2**31 - 1
"""Larger than any value. Without an end, binary_slice of some versions of pyarrow fails for short values."""


class MalformedError(Exception):
    """A value does not have its format. reason: completes the sentence "the value is ..."."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class SchemaLookupError(Exception):
    """The schema of a value cannot be looked up, so nothing is known about the value. The cause is the registry's error.

    schema: its id or GUID, as text. row: the index of the value in the decoded column.
    """

    def __init__(self, schema: str) -> None:
        super().__init__(f"schema {schema} cannot be looked up")
        self.schema = schema
        self.row = 0


class RowDecoder:
    """Decodes a column by calling a function for each value.

    read: converts a value to a Python object from which pyarrow can make a row of type `built`. Any exception of it marks the value as
    malformed, except SchemaLookupError, which decode() raises. kind: the type of the column, to which rows of type `built` are cast. built:
    None for `kind`; the types differ if a format has times in other units.

    The row of a malformed value is a struct with null fields, or null if the type is not a struct.
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
