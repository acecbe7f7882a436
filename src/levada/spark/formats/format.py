"""The interfaces of a format of the source, its decoder, and the decoder's result."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import ClassVar, NamedTuple, Protocol, Self

import pyarrow as pa
from pyspark.sql.types import DataType, StructField, StructType

from levada.registry import SchemaRegistryClient
from levada.spark.pyspark_versions import arrow_schema


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
    """Decodes the values that one task reads."""

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a binary column. A malformed value never raises an error; the result reports it."""
        ...


class Format(ABC):
    """How a source decodes its keys, or its values. Picklable."""

    is_text: ClassVar[bool] = True
    """Whether the column for corrupt values shows a malformed value as text. If False, the column shows base64."""

    def pinned(self) -> Self:
        """Return a copy that has the schema which the registry has now. The query uses this schema until it ends.

        Only the driver calls it, once. A format without a registry returns itself.
        """
        return self

    @property
    @abstractmethod
    def data_type(self) -> DataType:
        """The Spark type of the column of decoded values. Call it only on the format that pinned() returned."""

    @abstractmethod
    def decoder(self) -> Decoder:
        """Return a decoder for one task. Call it only on the format that pinned() returned."""


def arrow_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type in which Spark expects a column."""
    return arrow_schema(StructType([StructField("value", kind)])).field(0).type


Settings = tuple[tuple[str, str], ...]
"""Settings of SchemaRegistryClient, hashable."""


def registry(settings: Settings) -> SchemaRegistryClient:
    """Return this process's client with these settings."""
    return _client(os.getpid(), settings)


@lru_cache(maxsize=8)
def _client(process: int, settings: Settings) -> SchemaRegistryClient:
    return SchemaRegistryClient(dict(settings))
