"""value.format=json: objects with the fields of a schema, read by levada's own JSON reader (docs/JSON.md)."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import DataType, StructType

from levada.spark.formats.format import Decoder, Format
from levada.spark.pyspark_versions import arrow_schema


@dataclass(frozen=True)
class JsonFormat(Format):
    """JSON objects. schema: the fields to read."""

    schema: StructType

    @property
    def data_type(self) -> DataType:
        """A struct of the fields."""
        return self.schema

    def decoder(self) -> Decoder:
        """Return a decoder."""
        from levada.record.columnar import JsonDecoder

        return JsonDecoder(arrow_schema(self.schema))
