"""Record batches to and from Arrow columns; with the Spark connector the only part of levada that imports pyarrow."""

from levada.record.columnar.decoder import COLUMNS, ColumnDecoder, schema
from levada.record.columnar.encoder import EncodedBatch, RejectedRow, encode_columns
from levada.record.columnar.report import delivery_report

__all__ = ["COLUMNS", "ColumnDecoder", "EncodedBatch", "RejectedRow", "delivery_report", "encode_columns", "schema"]
