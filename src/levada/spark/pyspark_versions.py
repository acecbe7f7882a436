"""Differences between the versions of PySpark, from 4.0.1 on. The other modules are written for the newest version.

| | 4.0 | 4.1 | 4.2 |
|---|---|---|---|
| streams written as Arrow batches (`DataSourceStreamArrowWriter`) | by `DataSourceArrowWriter` | yes | yes |
| filters of batch queries (`pushFilters`) | no | yes | yes |
| `latestOffset(start, limit)`, `prepareForTriggerAvailableNow` | no | no | yes |

Features are detected by the names in PySpark, not by its version number: vendors add features of newer versions to their own releases.

Without `latestOffset(start, limit)` Spark asks for the next end offset, but tells the reader neither the query's position nor its trigger.
`UntoldStreamReader` derives the position from Spark's other calls, as observed on 4.0.1 and 4.1.4:

- A run that continues from a checkpoint begins with partitions(x, x). x is the newest offset there, even if its batch was not committed.
- A batch that was not committed is planned again by partitions(start, x), before the first latestOffset().
- Spark plans each end offset that the reader returns, by partitions(), unless the query has reached this offset already.

The reader cannot know the trigger. Under AvailableNow and Once Spark asks once, runs this micro-batch and stops; under other triggers the
calls until then are the same. So a limited micro-batch may be the only one of a run, and the next run reads the rest. If the option
availableNow is true, there is no limit. If the option is not given, a warning says how many offsets may be left unread.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from levada.spark.source.offsets import StreamOffset, from_json
from levada.spark.source.trigger import backlog

logger = logging.getLogger(__name__)

HAS_ADMISSION_CONTROL = find_spec("pyspark.sql.streaming.datasource") is not None
PUSH_FILTERS: Any = getattr(DataSourceReader, "pushFilters", None)
"""The method of the base class. None if this PySpark does not push filters to a source."""

if TYPE_CHECKING or HAS_ADMISSION_CONTROL:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
else:
    from dataclasses import dataclass

    class ReadLimit:
        """Base class of the limits that Spark passes to latestOffset."""

    @dataclass
    class ReadAllAvailable(ReadLimit):
        """No limit."""

    @dataclass
    class ReadMaxRows(ReadLimit):
        """At most this number of rows."""

        max_rows: int

    class SupportsTriggerAvailableNow:
        """Takes the place of the interface in PySpark 4.2: a reader with prepareForTriggerAvailableNow()."""


if TYPE_CHECKING or hasattr(datasource, "DataSourceStreamArrowWriter"):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(datasource.DataSourceStreamWriter, datasource.DataSourceArrowWriter):
        """PySpark 4.0 passes Arrow batches to every DataSourceArrowWriter, also in streams, and rows to all other writers."""


if TYPE_CHECKING or PUSH_FILTERS is not None:
    from pyspark.sql.datasource import EqualNullSafe, EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual
else:
    # These classes are never instantiated. They only appear in annotations and type checks.
    Filter = type("Filter", (), {})
    EqualNullSafe, EqualTo, In = (type(name, (Filter,), {}) for name in ("EqualNullSafe", "EqualTo", "In"))
    GreaterThan, GreaterThanOrEqual = (type(name, (Filter,), {}) for name in ("GreaterThan", "GreaterThanOrEqual"))
    LessThan, LessThanOrEqual = (type(name, (Filter,), {}) for name in ("LessThan", "LessThanOrEqual"))

__all__ = [
    "HAS_ADMISSION_CONTROL",
    "PUSH_FILTERS",
    "DataSourceStreamArrowWriter",
    "EqualNullSafe",
    "EqualTo",
    "Filter",
    "GreaterThan",
    "GreaterThanOrEqual",
    "In",
    "LessThan",
    "LessThanOrEqual",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "UntoldStreamReader",
    "arrow_schema",
    "for_this_pyspark",
]


IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
"""An older to_arrow_schema has no such parameter, and always uses UTC."""


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects from a Python source."""
    return to_arrow_schema(schema, **IN_UTC)


class UntoldStreamReader(DataSourceStreamReader):
    """Wraps a reader that is written for PySpark 4.2, for a PySpark that passes neither the query's position nor a limit.

    is_available_now: whether Spark runs one micro-batch and stops. None if unknown: then a limit that leaves records unread is logged.
    """

    def __init__(self, reader: DataSourceStreamReader, is_available_now: bool | None) -> None:
        self._reader = reader
        self._is_available_now = is_available_now
        self._position: StreamOffset | None = None
        self._was_asked = False

    def initialOffset(self) -> StreamOffset:
        """Return the offsets at which a query without a checkpoint begins."""
        return self._reader.initialOffset()

    def latestOffset(self) -> StreamOffset:  # type: ignore[override]
        """Return the end of the next micro-batch."""
        start = self.initialOffset() if self._position is None else self._position
        limit = ReadAllAvailable() if self._is_available_now else self._reader.getDefaultReadLimit()
        self._position = end = self._reader.latestOffset(start, limit)
        if self._is_available_now is None and not self._was_asked:
            _warn_of(_unread(end, self._reader.reportLatestOffset()))
        self._was_asked = True
        return end

    def partitions(self, start: StreamOffset, end: StreamOffset) -> Sequence[InputPartition]:
        """Return the offset ranges of the tasks.

        If start equals end, Spark only announces the offset at which the query continues; the list is empty then.
        """
        self._position = end
        return [] if start == end else self._reader.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task. Runs in the task."""
        return self._reader.read(partition)

    def stop(self) -> None:
        """Close the driver's connections. At the end of a query PySpark 4.0 and 4.1 kill the process without calling this."""
        self._reader.stop()


def _warn_of(unread: int) -> None:
    if unread:
        logger.warning(
            "maxOffsetsPerTrigger leaves %d offsets for the next micro-batch. PySpark before 4.2 does not tell a source its trigger: if it "
            "is availableNow or once, this micro-batch is the only one, and the rest is left to the next run of the query. Set the option "
            "availableNow to true to read everything at once, or to false if the trigger is another one",
            unread,
        )


def _unread(end: StreamOffset, newest: StreamOffset | None) -> int:
    reached = from_json(end)
    return backlog(reached, {tp: offset for tp, offset in from_json(newest or {}).items() if tp in reached})


def for_this_pyspark(reader: DataSourceStreamReader, is_available_now: bool | None) -> DataSourceStreamReader:
    """Return a reader that the installed PySpark can call.

    reader: written for PySpark 4.2; PySpark 4.2 and later get it unchanged. is_available_now: the option availableNow; None if not given.
    """
    return reader if HAS_ADMISSION_CONTROL else UntoldStreamReader(reader, is_available_now)
