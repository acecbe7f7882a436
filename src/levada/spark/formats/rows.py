"""Decoding value by value, for formats whose libraries make Python objects: one bad value is one malformed row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from levada.spark.formats.format import DecodedRows, RowFault

Read = Callable[[bytes], Any]


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
        if (column := self._converted(found)) is not None:
            return column
        # One value that the type cannot hold fails all of them: look for it.
        for row, value in enumerate(found):
            if self._converted([value]) is None:
                reasons.setdefault(row, f"more than {self._kind} can hold")
                found[row] = self._nothing
        return self._made(found)

    def _converted(self, found: list[Any]) -> pa.Array | None:
        try:
            return self._made(found)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
            return None

    def _made(self, found: list[Any]) -> pa.Array:
        column = pa.array(found, self._built)
        return column if column.type.equals(self._kind) else column.cast(self._kind)
