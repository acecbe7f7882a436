"""Record batches to and from Arrow columns; with the Spark connector the only part of penstock that imports pyarrow."""

from penstock.record.columnar.decoder import COLUMNS, ColumnDecoder, schema
from penstock.record.columnar.encoder import EncodedBatch, RejectedRow, encode_columns

__all__ = ["COLUMNS", "ColumnDecoder", "EncodedBatch", "RejectedRow", "encode_columns", "schema"]
