# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The table of columns that JSON is read into. The owner of the reader provides their buffers. Compiled code uses C structs.

A column's fields, or the column of its elements, stand later in the table, next to each other. Rows are added at the end; rewind() removes
rows.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

from levada.record.json.plan import KINDS

if cython.compiled:
    from cython.cimports.libc.string import memcpy, memset  # type: ignore[import-untyped]

# Assigned again, so that they are C numbers in compiled code.
STRING, LONG, INT, DOUBLE, BOOLEAN, TIMESTAMP, SHORT, BYTE, FLOAT, DATE, TIMESTAMP_NTZ, BINARY, DECIMAL, STRUCT, ARRAY = KINDS

# The position of the high 64 bits of a 128-bit number in memory.
HIGH = 1 if sys.byteorder == "little" else 0


if not cython.compiled:

    class Column:
        """A column in interpreted code. Compiled code has a C struct instead."""

        width: int
        kind: int

        def set_buffers(self, data: Any, offsets: Any, validity: Any) -> None:
            """Use these buffers, with a view for each type of numbers in them."""
            self.data, self.validity = data, validity
            if offsets is not None:
                self.offsets = offsets.cast("i")
            if self.width > 1:
                self.shorts, self.ints, self.floats, self.doubles = data.cast("h"), data.cast("i"), data.cast("f"), data.cast("d")
                self.longs = data.cast("Q" if self.kind == DECIMAL else "q")

        def release(self) -> None:
            """Drop all references to the caller's memory."""
            self.data = self.validity = self.offsets = self.shorts = self.ints = self.floats = self.doubles = self.longs = None


def column_at(columns: Any, index: int) -> Any:
    """Return the column with an index."""
    if cython.compiled:
        return cython.address(columns[index])
    return columns[index]


def copy(target: Any, to: int, source: Any, at: int, size: int) -> None:
    """Copy `size` bytes from position `at` of `source` to position `to` of `target`."""
    if cython.compiled:
        memcpy(target + to, source + at, size)
    else:
        target[to : to + size] = source[at : at + size]


def blank(target: Any, at: int, size: int) -> None:
    """Set `size` bytes to zero."""
    if cython.compiled:
        memset(target + at, 0, size)
    else:
        target[at : at + size] = bytes(size)


def set_buffers(column: Any, data: Any, offsets: Any, validity: Any) -> None:
    """Make a column use these buffers. The caller keeps them alive. A buffer that this kind of column does not have is None."""
    if cython.compiled:
        set_pointers(column, data, offsets, validity)
    else:
        column.set_buffers(data, offsets, validity)
    if offsets is not None and column.rows == 0:
        column.offsets[0] = 0


def set_pointers(column: Any, data: Any, offsets: Any, validity: Any) -> None:
    """Point the C struct of a column at its buffers."""
    view = validity
    column.validity = cython.address(view[0])
    if offsets is not None:
        view = offsets
        column.offsets = cython.cast(cython.p_int, cython.address(view[0]))
    if data is not None:
        view = data
        column.data = cython.address(view[0])
        column.shorts = cython.cast(cython.p_short, column.data)
        column.ints = cython.cast(cython.p_int, column.data)
        column.longs = cython.cast(cython.p_longlong, column.data)
        column.floats = cython.cast(cython.p_float, column.data)
        column.doubles = cython.cast(cython.p_double, column.data)


def put_null(columns: Any, column: Any) -> None:
    """Add a null row to a column; if it is a struct, also to its fields."""
    row = column.rows
    column.validity[row >> 3] &= ~(1 << (row & 7)) & 0xFF
    column.nulls += 1
    if column.width:
        # The buffer is not initialised, and what it held before must not come out.
        blank(column.data, row * column.width, column.width)
    elif column.kind == STRUCT:
        for place in range(column.count):
            put_null(columns, column_at(columns, column.first + place))
    elif column.kind == ARRAY:
        elements = column_at(columns, column.first)
        column.offsets[row + 1] = elements.rows
    elif column.kind != BOOLEAN:
        column.offsets[row + 1] = column.size
    column.rows = row + 1


def rewind(columns: Any, column: Any, rows: int) -> None:
    """Shorten a column to its first `rows` rows, and the columns of its fields or elements accordingly.

    These may also have data of a row that was begun but not completed. That data is removed, too.
    """
    while column.rows > rows:
        column.rows -= 1
        row = column.rows
        bit = 1 << (row & 7)
        if not column.validity[row >> 3] & bit:
            column.validity[row >> 3] |= bit
            column.nulls -= 1
        if column.kind == BOOLEAN:
            column.data[row >> 3] &= ~bit & 0xFF
    if column.kind == STRUCT:
        for place in range(column.count):
            rewind(columns, column_at(columns, column.first + place), rows)
    elif column.kind == ARRAY:
        rewind(columns, column_at(columns, column.first), column.offsets[rows])
    elif column.kind == STRING or column.kind == BINARY:
        column.size = column.offsets[rows]
