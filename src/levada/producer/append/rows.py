"""Rows of columns, as the producer takes them and as it tells where they went."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from levada.producer.append.producer_batch import ProducerBatch
from levada.record.builder import RowWriter


class RowsOfPartition(Protocol):
    """Rows of columns that go to one partition (levada.record.columnar.PartitionRows)."""

    @property
    def partition(self) -> int:
        """Its number."""
        ...

    @property
    def writer(self) -> RowWriter:
        """What writes them."""
        ...

    @property
    def rows(self) -> memoryview:
        """Their numbers."""
        ...

    @property
    def sizes(self) -> memoryview:
        """Of every row the writer knows, the most bytes that a batch of it alone takes."""
        ...

    def size_at(self, index: int) -> int:
        """Return that of rows[index]."""
        ...


class AppendedRows(NamedTuple):
    """The batch that rows went into, the first one's index there, and where to go on in them."""

    batch: ProducerBatch
    first_index: int
    end: int
