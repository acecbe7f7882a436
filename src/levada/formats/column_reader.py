# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Fills the memory of typed columns, a row for each value. A reader of a format derives from this class.

The columns are a table: first the root, then its fields next to each other, then their fields.

All values are read twice. The first pass finds the malformed values, and counts the rows and bytes of each column. So the second pass has
enough memory, whatever sizes the values announce, and cannot fail.

Compiled code touches no Python objects and runs without the interpreter lock. The C types are in column_reader.pxd.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

if cython.compiled:
    from cython.cimports.libc.string import memcmp, memcpy, memset  # type: ignore[import-untyped]

COLUMN_KINDS = tuple(range(11))
# C numbers in compiled code, so each module that uses them assigns them.
NOTHING, BOOLEAN, INT, LONG, FLOAT, DOUBLE, TEXT, FIXED, STRUCT, LIST, MAP = COLUMN_KINDS
"""INT, LONG: whole numbers, dates and times of 4 and 8 bytes. TEXT: also bytes. FIXED: values of `width` bytes. NOTHING: only nulls."""
# The most keys of a map that are compared with each other.
MOST_COMPARED = 64


class ColumnPlan(NamedTuple):
    """A column of the table. width: the bytes of a value, for columns of numbers and FIXED, else 0.

    first, children: the index of the first column within it, and how many there are: one for each field, one for the elements, or two for
    the keys and the values of MAP. They stand next to each other.
    """

    kind: int
    width: int = 0
    first: int = 0
    children: int = 0


if not cython.compiled:

    class Column:
        """A column in interpreted code. Compiled code has a C struct instead."""

        width: int
        kind: int

        def set_buffers(self, data: Any, offsets: Any, validity: Any) -> None:
            """Use these buffers, with a view for each type of numbers in them."""
            self.data, self.validity = data, validity
            self.offsets = None if offsets is None else offsets.cast("i")
            self.ints = data.cast("i") if self.width == 4 else None
            self.longs = data.cast("q") if self.width == 8 else None
            self.floats = data.cast("f") if self.width == 4 else None
            self.doubles = data.cast("d") if self.width == 8 else None

        def release(self) -> None:
            """Drop all references to the caller's memory."""
            self.data = self.validity = self.offsets = self.ints = self.longs = self.floats = self.doubles = None


def column_at(columns: Any, index: int) -> Any:
    """Return a column of a table."""
    if cython.compiled:
        return cython.address(columns[index])
    return columns[index]


class ColumnReader:
    """Fills columns from values. For each of the two passes call begin(), then go_on() of the derived class."""

    def __init__(self, plan: Sequence[ColumnPlan]) -> None:
        """plan: the columns, the root first."""
        if cython.compiled:
            self.table = bytearray(len(plan) * cython.sizeof(typed_column))  # type: ignore[name-defined]  # noqa: F821 - C, see column_reader.pxd
            self.table_view = self.table
            self.columns = cython.cast(cython.pointer(typed_column), cython.address(self.table_view[0]))  # type: ignore[name-defined]  # noqa: F821
        else:
            self.columns: Any = [Column() for _ in plan]
        self.count = len(plan)
        for index, (kind, width, first, count) in enumerate(plan):
            column = column_at(self.columns, index)
            column.kind, column.width, column.first, column.count = kind, width, first, count
        self.memory: list[Any] = [None] * len(plan)

    def begin(self, data: Any, offsets: Any, validity: Any, first: int, rows: int, malformed: Any, fills: bool) -> None:
        """Begin a pass over values with empty columns.

        data, offsets, validity, first, rows: the parts of a binary array; validity is None if there are no nulls. malformed: a byte per
        row; the first pass sets it to 1 if the row is malformed. fills: whether it is the second pass, before which attach() is called for
        every column.
        """
        self.source_view, self.offsets_view, self.malformed = data, offsets, malformed
        self.has_nulls = validity is not None
        self.validity_view = validity if self.has_nulls else b"\xff"
        if cython.compiled:
            self.source = cython.address(self.source_view[0])
        else:
            self.source = self.source_view
        self.first, self.rows, self.row, self.fills = first, rows, 0, fills
        self.may_have_key_twice = False
        for index in range(self.count):
            column = column_at(self.columns, index)
            column.rows = column.nulls = column.size = 0

    def attach(self, index: int, data: Any, offsets: Any, validity: Any) -> None:
        """Set the memory of a column, of the size that the first pass counted. None for a buffer that this kind of column does not have.

        All bits of validity are set; the bits of BOOLEAN and the first offset are zero.
        """
        self.memory[index] = (data, offsets, validity)
        column = column_at(self.columns, index)
        if cython.compiled:
            self.set_pointers(column, data, offsets, validity)
        else:
            column.set_buffers(data, offsets, validity)

    def set_pointers(self, column: Any, data: Any, offsets: Any, validity: Any) -> None:
        """Point the C struct of a column at its buffers."""
        view = validity
        column.validity = cython.address(view[0])
        if offsets is not None:
            view = offsets
            column.offsets = cython.cast(cython.p_int, cython.address(view[0]))
        if data is not None:
            view = data
            column.data = cython.address(view[0])
            column.ints = cython.cast(cython.p_int, column.data)
            column.longs = cython.cast(cython.p_longlong, column.data)
            column.floats = cython.cast(cython.p_float, column.data)
            column.doubles = cython.cast(cython.p_double, column.data)

    def release(self) -> None:
        """Drop all references to the caller's memory."""
        self.source_view = self.offsets_view = self.validity_view = self.malformed = None
        self.memory = [None] * self.count
        if not cython.compiled:
            self.source = b""
            for column in self.columns:
                column.release()

    def sizes(self, index: int) -> tuple[int, int, int]:
        """Return how many rows and nulls a column has, and the size of its text in bytes."""
        column = column_at(self.columns, index)
        return column.rows, column.nulls, column.size

    def has_value(self) -> bool:
        """Add the rows of nulls, and of values that the first pass found to be malformed; return whether a value to read follows."""
        while self.row < self.rows:
            place = self.first + self.row
            if self.has_nulls and not self.validity_view[place >> 3] & (1 << (place & 7)):
                self.put_null(column_at(self.columns, 0))
            elif self.fills and self.malformed[self.row]:
                self.put_bad(column_at(self.columns, 0))
            else:
                return True
            self.row += 1
        return False

    def note_malformed(self) -> None:
        """Mark the row as malformed. Parts of it are counted already; then the columns get a little more memory than they need."""
        self.malformed[self.row] = 1
        self.put_bad(column_at(self.columns, 0))

    def put_bad(self, column: Any) -> None:
        """Add a row for a malformed value: a struct whose fields are null; null if the column is no struct."""
        if column.kind != STRUCT:
            self.put_null(column)
            return
        for place in range(column.count):
            self.put_null(column_at(self.columns, column.first + place))
        column.rows += 1

    def put_null(self, column: Any) -> None:
        """Add a null row to a column; if it is a struct, also to its fields."""
        row = column.rows
        column.nulls += 1
        if column.kind == STRUCT:
            for place in range(column.count):
                self.put_null(column_at(self.columns, column.first + place))
        if self.fills and column.kind != NOTHING:
            column.validity[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            if column.width:
                self.blank(column.data, row * column.width, column.width)
            elif column.kind == TEXT:
                column.offsets[row + 1] = column.size
            elif column.kind in (LIST, MAP):
                column.offsets[row + 1] = column_at(self.columns, column.first).rows
        column.rows = row + 1

    def blank(self, target: Any, at: int, size: int) -> None:
        """Set `size` bytes to zero."""
        if cython.compiled:
            memset(target + at, 0, size)
        else:
            target[at : at + size] = bytes(size)

    def put_text(self, column: Any, source: Any, at: int, size: int) -> None:
        """Add a row of text."""
        row = column.rows
        if self.fills:
            self.copy(column.data, column.size, source, at, size)
            column.offsets[row + 1] = column.size + size
        column.size += size
        column.rows = row + 1

    def copy(self, target: Any, to: int, source: Any, at: int, size: int) -> None:
        """Copy `size` bytes from position `at` of `source` to position `to` of `target`."""
        if cython.compiled:
            memcpy(target + to, source + at, size)
        else:
            target[to : to + size] = source[at : at + size]

    def put_flag(self, column: Any, flag: int) -> None:
        """Add a row of BOOLEAN."""
        row = column.rows
        if self.fills and flag:
            column.data[row >> 3] |= 1 << (row & 7)
        column.rows = row + 1

    def put_many(self, column: Any) -> None:
        """Add a row of LIST or MAP, whose elements or entries are added."""
        if self.fills:
            elements = column_at(self.columns, column.first)
            column.offsets[column.rows + 1] = elements.rows
            if column.kind == MAP:
                self.compare_keys(elements, column.offsets[column.rows])
        column.rows += 1

    def compare_keys(self, keys: Any, first: int) -> None:
        """Note if a map, whose keys stand in their column from row `first` on, has a key twice, or too many keys to compare all."""
        if keys.rows - first > MOST_COMPARED:
            self.may_have_key_twice = True
            return
        for one in range(first + 1, keys.rows):
            for other in range(first, one):
                if self.are_equal(keys, one, other):
                    self.may_have_key_twice = True

    def are_equal(self, column: Any, one: int, other: int) -> Any:
        """Whether two rows of text, numbers or BOOLEAN are equal."""
        if column.kind == BOOLEAN:
            return (column.data[one >> 3] >> (one & 7) & 1) == (column.data[other >> 3] >> (other & 7) & 1)
        if column.kind == TEXT:
            begin, size = column.offsets[one], column.offsets[one + 1] - column.offsets[one]
            second = column.offsets[other]
            if column.offsets[other + 1] - second != size:
                return False
        else:
            begin, second, size = one * column.width, other * column.width, column.width
        if cython.compiled:
            return memcmp(column.data + begin, column.data + second, size) == 0
        return column.data[begin : begin + size] == column.data[second : second + size]
