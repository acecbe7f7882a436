"""value.format=string: UTF-8 as text."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import DataType, StringType

from levada.spark.formats.format import DecodedRows, Decoder, Format
from levada.spark.formats.rows import MalformedError, RowDecoder


@dataclass(frozen=True)
class StringFormat(Format):
    """Text in UTF-8. This format has no options."""

    @property
    def data_type(self) -> DataType:
        """A string."""
        return StringType()

    def decoder(self) -> Decoder:
        """Return a decoder."""
        return StringDecoder()


class StringDecoder:
    """Checks that values are UTF-8. A column without malformed values is not copied."""

    def __init__(self) -> None:
        self._one_by_one = RowDecoder(read_text, pa.string())

    def decode(self, values: pa.Array) -> DecodedRows:
        """Decode a binary column."""
        try:
            texts = values.cast(pa.string())
        except pa.ArrowInvalid:
            return self._one_by_one.decode(values)
        return DecodedRows(texts, pa.repeat(pa.scalar(False), len(values)), None)


def read_text(data: bytes) -> str:
    """Return a value as text. Raises MalformedError."""
    try:
        return data.decode()
    except UnicodeDecodeError as fault:
        raise MalformedError(f"not UTF-8 (byte {fault.start})") from None
