"""The table of columns of `ColumnReader`: the kinds of columns, and its entries."""

from __future__ import annotations

from typing import NamedTuple

COLUMN_KINDS = NOTHING, BOOLEAN, INT, LONG, FLOAT, DOUBLE, TEXT, FIXED, STRUCT, LIST, MAP = range(11)
"""INT, LONG: whole numbers, dates and times of 4 and 8 bytes. TEXT: also bytes. FIXED: values of `width` bytes. NOTHING: only nulls."""


class ColumnPlan(NamedTuple):
    """A column. width: the bytes of a value, for columns of numbers and FIXED, else 0.

    first, children: the index of the first column within it, and how many there are: one for each field, one for the elements, or two for
    the keys and the values of MAP. They stand next to each other.
    """

    kind: int
    width: int = 0
    first: int = 0
    children: int = 0
