"""What a format offers, and what its decoder returns."""

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
    """Why the value of a row is malformed. reason: goes on after "the value is", such as "not UTF-8"."""

    @property
    def row(self) -> int:
        """Its position in what was decoded."""
        ...

    @property
    def reason(self) -> str:
        """What the value is not."""
        ...


class RowFault(NamedTuple):
    """A fault of the formats that read values one by one."""

    row: int
    reason: str


class Decoded(Protocol):
    """A row per value. malformed: which values could not be read whole; their rows hold what could be read. fault: the first of these."""

    @property
    def rows(self) -> pa.Array:
        """Of the format's type; null where the value is null."""
        ...

    @property
    def malformed(self) -> pa.BooleanArray:
        """Without nulls."""
        ...

    @property
    def fault(self) -> Fault | None:
        """None where nothing is malformed."""
        ...


class DecodedRows(NamedTuple):
    """What the formats of this package return."""

    rows: pa.Array
    malformed: pa.BooleanArray
    fault: Fault | None


class Decoder(Protocol):
    """Decodes for one task."""

    def decode(self, values: pa.Array) -> Decoded:
        """Decode a binary column. Never raises for what a value is."""
        ...


class Format(ABC):
    """How the values of one side of a source are to be read. Picklable."""

    is_text: ClassVar[bool] = True
    """Whether a malformed value is shown as text; as base64 otherwise."""

    def pinned(self) -> Self:
        """Return the format with what a registry knows of it now; the query stays with that. Only the driver calls it, once."""
        return self

    @property
    @abstractmethod
    def data_type(self) -> DataType:
        """The type of the column. Only of a pinned format."""

    @abstractmethod
    def decoder(self) -> Decoder:
        """Return a decoder. Only of a pinned format."""


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
