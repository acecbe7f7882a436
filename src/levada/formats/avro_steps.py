"""The table of `AvroReader`: the kinds of steps, and its entries."""

from __future__ import annotations

from typing import NamedTuple

STEP_KINDS = tuple(range(17))
NULL, FLAG, WHOLE, REAL_4, REAL_8, BYTES, BYTES_N, DECIMAL, DECIMAL_N, ENUM, UNION, RECORD, ARRAY, PAIRS, REFUSED, DEFAULT, SYMBOL = (
    STEP_KINDS
)
"""WHOLE: a number that is written as int or long. REFUSED: a branch that the reader's schema does not have. DEFAULT: a field that the
writer's schema does not have. SYMBOL: one of the texts of an enumeration.
"""


class Step(NamedTuple):
    """How a value is read. column: the index of the column that it belongs to; -1 for a field that the reader's schema does not have.

    first, parts: its parts in the table, which stand next to each other. WHOLE multiplies by `size` and divides by `divisor`. BYTES_N and
    DECIMAL_N have `size` bytes. SYMBOL: first and parts are the position and the size of its text in the constants; -1 for a symbol that
    the reader's schema does not have. DEFAULT: first is the step that reads the value, which the constants have from `parts` to before
    `size`. PAIRS: its parts are the key and the value.
    """

    kind: int
    column: int = -1
    first: int = 0
    parts: int = 0
    size: int = 1
    divisor: int = 1
