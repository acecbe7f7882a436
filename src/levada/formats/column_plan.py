"""The table of columns of `ColumnReader`: the kinds of columns, and its entries."""

from __future__ import annotations

from typing import NamedTuple

COLUMN_KINDS = NOTHING, BOOLEAN, INT, LONG, FLOAT, DOUBLE, TEXT, FIXED, STRUCT, LIST, MAP = range(11)
"""FIXED: values of `width` bytes. The others are named after Arrow's types; NOTHING has only nulls."""


class ColumnPlan(NamedTuple):
    """A column. width: the bytes of a value, for columns of numbers and FIXED. first, children: the columns of its fields, or of its
    elements, or of the keys and values of MAP; they stand next to each other.
    """

    kind: int
    width: int = 0
    first: int = 0
    children: int = 0
