"""Decoding value by value, for formats whose libraries make Python objects: one bad value is one malformed row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from levada.spark.formats.format import DecodedRows, RowFault

Read = Callable[[bytes], Any]
_NOT_HELD = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError)


class MalformedError(Exception):
    """A value is not what its format says. reason: goes on after "the value is"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RowDecoder:
    """read: from a value to what pyarrow makes a row of the type `built` of; raises MalformedError.

    kind: the type of the column, to which rows of the type `built` are cast; the two differ where a format has times in other units.
    The row of a malformed value is a struct whose fields are null, or null where the type is no struct.
    """

    def __init__(self, read: Read, kind: pa.DataType, built: pa.DataType | None = None) -> None:
        self._read = read
        self._kind = kind
        self._built = kind if built is None else built
        self._nothing: Any = {} if pa.types.is_struct(kind) else None

    def decode(self, values: pa.Array) -> DecodedRows:
        """Decode a binary column."""
        reasons: dict[int, str] = {}
        found: list[Any] = []
        for row, data in enumerate(values.to_pylist()):
            try:
                found.append(None if data is None else self._read(data))
            except MalformedError as fault:
                reasons[row] = fault.reason
                found.append(self._nothing)
        rows = self._column(found, reasons)
        if not reasons:
            return DecodedRows(rows, pa.repeat(pa.scalar(False), len(found)), None)
        first = min(reasons)
        malformed = pa.array([row in reasons for row in range(len(found))], pa.bool_())
        return DecodedRows(rows, malformed, RowFault(first, reasons[first]))

    def _column(self, found: list[Any], reasons: dict[int, str]) -> pa.Array:
        try:
            return self._made(found)
        except _NOT_HELD:
            self._mark(found, 0, len(found), reasons)
            return self._made(found)

    def _mark(self, found: list[Any], begin: int, end: int, reasons: dict[int, str]) -> None:
        """Mark the values that the type cannot hold, and put nothing in their place. One of them fails all: look in halves."""
        try:
            self._made(found[begin:end])
        except _NOT_HELD as fault:
            if end - begin == 1:
                reasons[begin] = f"beyond what its column can hold: {fault}"
                found[begin] = self._nothing
                return
            middle = (begin + end) // 2
            self._mark(found, begin, middle, reasons)
            self._mark(found, middle, end, reasons)

    def _made(self, found: list[Any]) -> pa.Array:
        column = pa.array(found, self._built)
        return column if column.type.equals(self._kind) else column.cast(self._kind)
