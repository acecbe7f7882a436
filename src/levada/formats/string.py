"""Text in UTF-8."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from levada.errors import ConfigError
from levada.formats.reading import DecodedRows, Decoder, Format, MalformedError, RowDecoder
from levada.formats.writing import Encode, Named, WriteFormat


@dataclass(frozen=True)
class StringFormat(Format):
    """Text in UTF-8. This format has no options."""

    @property
    def kind(self) -> pa.DataType:
        """A string."""
        return pa.string()

    def decoder(self, kind: pa.DataType | None = None) -> Decoder:
        """Return a decoder."""
        return StringDecoder()


class StringWriter(WriteFormat):
    """Writes text as UTF-8."""

    def check(self, column: str, kind: pa.DataType, named: Named = str) -> None:
        """Raise ConfigError if a column of this type cannot be written."""
        if not pa.types.is_string(kind):
            raise ConfigError(f"column '{column}' must be a string, but is {named(kind)}; cast it")

    def encoder(self, column: str) -> Encode:
        """Return a function that encodes a column."""
        return lambda array: array.cast(pa.binary())


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
