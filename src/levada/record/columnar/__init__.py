"""Converts record batches to and from Arrow columns, and reads JSON values into Arrow columns.

Names are imported at first use, because the modules for writing import pyarrow.compute, which takes long. The decoder needs it only for
columns of text, for headers, and to filter rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levada._importing import import_undisturbed

if TYPE_CHECKING:
    from levada.record.columnar.acquired import ACQUIRED_COLUMNS, AcquiredColumns, places
    from levada.record.columnar.decoder import COLUMNS, ColumnDecoder, reader, rows_kept, schema, stream
    from levada.record.columnar.digest import rows_digest
    from levada.record.columnar.encoder import EncodedBatch, delivery_report, seal_rows
    from levada.record.columnar.json import JsonColumns, JsonDecoder, JsonFault
    from levada.record.columnar.rows import open_reader
    from levada.record.columnar.sorter import PartitionChoice, PartitionRows, RejectedRow, sort_columns

_HOME = {
    "ACQUIRED_COLUMNS": "acquired",
    "AcquiredColumns": "acquired",
    "COLUMNS": "decoder",
    "ColumnDecoder": "decoder",
    "EncodedBatch": "encoder",
    "JsonColumns": "json",
    "JsonDecoder": "json",
    "JsonFault": "json",
    "PartitionChoice": "sorter",
    "PartitionRows": "sorter",
    "RejectedRow": "sorter",
    "delivery_report": "encoder",
    "open_reader": "rows",
    "places": "acquired",
    "reader": "decoder",
    "rows_digest": "digest",
    "rows_kept": "decoder",
    "schema": "decoder",
    "seal_rows": "encoder",
    "sort_columns": "sorter",
    "stream": "decoder",
}

__all__ = [
    "ACQUIRED_COLUMNS",
    "COLUMNS",
    "AcquiredColumns",
    "ColumnDecoder",
    "EncodedBatch",
    "JsonColumns",
    "JsonDecoder",
    "JsonFault",
    "PartitionChoice",
    "PartitionRows",
    "RejectedRow",
    "delivery_report",
    "open_reader",
    "places",
    "reader",
    "rows_digest",
    "rows_kept",
    "schema",
    "seal_rows",
    "sort_columns",
    "stream",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_undisturbed(f"{__name__}.{_HOME[name]}"), name)
