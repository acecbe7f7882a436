"""Record batches to and from Arrow columns; with the Spark connector the only part of penstock that imports pyarrow."""

from penstock.record.columnar.decoder import COLUMNS, ColumnDecoder, schema
from penstock.record.columnar.encoder import EncodedBatch, RejectedRow, encode_columns
from penstock.record.columnar.report import delivery_report

__all__ = ["COLUMNS", "ColumnDecoder", "EncodedBatch", "RejectedRow", "delivery_report", "encode_columns", "schema"]
