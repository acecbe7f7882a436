"""What a format of the sink offers: a column of structs becomes bytes, in the task that writes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

import pyarrow as pa
from pyspark.sql.types import DataType

Encode = Callable[[pa.Array], pa.Array]
"""From a column to a binary one, null where the column is. Raises SerializationError for a row that cannot be written."""


class SinkFormat(ABC):
    """How the column of one side of a sink is written. Picklable."""

    def pinned(self) -> Self:
        """Return the format with what a registry knows of it now. Only the driver calls it, when a writer is made."""
        return self

    @abstractmethod
    def check(self, column: str, kind: DataType) -> None:
        """Raise ConfigError when a column of this type cannot be written. Only of a pinned format."""

    @abstractmethod
    def encoder(self, column: str) -> Encode:
        """Return what encodes a column, which is named in errors. Only of a pinned format."""
