# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Reads Avro values into the memory of typed columns, a row for each value.

A writer's schema is a table of steps. A step says how a value of a type is written, and which column it belongs to: -1 for a field that the
reader's schema does not have. A step's parts, such as the fields of a record, stand later in the table, next to each other. The columns and
the two passes are those of column_reader.py.

Every item of an array or a map takes a byte or more, and no record contains itself: other schemas have no steps. So the work is limited by
the bytes that there are. Compiled code touches no Python objects and runs without the interpreter lock. The C types are in avro_reader.pxd.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

from levada.formats.column_reader import COLUMN_KINDS, ColumnPlan

if cython.compiled:
    from cython.cimports.libc.string import memcpy  # type: ignore[import-untyped]
else:
    from struct import Struct

    # In compiled code it is imported by the .pxd file.
    from levada.formats.column_reader import ColumnReader

    _FLOAT, _DOUBLE = Struct("<f"), Struct("<d")

COMPILED: bool = cython.compiled

STEP_KINDS = tuple(range(17))
# C numbers in compiled code, so each module that uses them assigns them.
NOTHING, BOOLEAN, INT, LONG, FLOAT, DOUBLE, TEXT, FIXED, STRUCT, LIST, MAP = COLUMN_KINDS
NULL, FLAG, WHOLE, REAL_4, REAL_8, BYTES, BYTES_N, DECIMAL, DECIMAL_N, ENUM, UNION, RECORD, ARRAY, PAIRS, REFUSED, DEFAULT, SYMBOL = (
    STEP_KINDS
)
"""WHOLE: a number that is written as int or long. REFUSED: a branch that the reader's schema does not have. DEFAULT: a field that the
writer's schema does not have. SYMBOL: one of the texts of an enumeration.
"""
HEADER_SIZE = 5
DECIMAL_SIZE = 16
MOST_INT, LEAST_INT = 2**31 - 1, -(2**31)
MOST_LONG = 2**63 - 1
LITTLE = sys.byteorder == "little"
# A number takes at most ten bytes.
MOST_SHIFT = 63
MALFORMED = -1


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


if not cython.compiled:

    class Place:
        """A step in interpreted code. Compiled code has a C struct instead."""


class AvroSteps:
    """The steps of one writer's schema. constants: the bytes of symbols and defaults."""

    def __init__(self, steps: Sequence[Step], constants: bytes) -> None:
        if cython.compiled:
            self.memory = bytearray(len(steps) * cython.sizeof(avro_step))  # type: ignore[name-defined]  # noqa: F821 - C, see avro_reader.pxd
            self.memory_view = self.memory
            self.table = cython.cast(cython.pointer(avro_step), cython.address(self.memory_view[0]))  # type: ignore[name-defined]  # noqa: F821
        else:
            self.table: Any = [Place() for _ in steps]
        for index, given in enumerate(steps):
            self.set_step(index, given)
        # Never empty, so that it has an address.
        self.constants_view = constants + b"\0"
        if cython.compiled:
            self.constants = cython.address(self.constants_view[0])
        else:
            self.constants = self.constants_view

    def set_step(self, index: int, given: Step) -> None:
        """Fill an entry of the table."""
        step = cython.address(self.table[index]) if cython.compiled else self.table[index]
        step.kind, step.column, step.first, step.count, step.size, step.divisor = given


class AvroReader(ColumnReader):
    """Fills columns from Avro values. For each of the two passes call begin(), then go_on() until it returns -1."""

    def __init__(self, plan: Sequence[ColumnPlan], has_header: bool) -> None:
        """plan: the columns, the root first. has_header: whether each value begins with a zero byte and the id of its schema."""
        super().__init__(plan)
        self.header_size = HEADER_SIZE if has_header else 0
        self.steps_object: Any = None
        self.schema_id = self.wanted_id = -1

    def column(self, index: int) -> Any:
        """Return a column of the table."""
        if cython.compiled:
            return cython.address(self.columns[index])
        return self.columns[index]

    def step(self, index: int) -> Any:
        """Return a step of the writer's schema."""
        if cython.compiled:
            return cython.address(self.steps[index])
        return self.steps[index]

    def select(self, schema_id: int, steps: Any) -> None:
        """Read the values with this schema id by these steps. Without headers, read all values by them; the id is not used then."""
        self.schema_id = schema_id
        self.steps_object = steps
        self.use_steps(steps)

    def use_steps(self, steps: Any) -> None:
        """Point at the table of steps."""
        self.steps, self.constants = steps.table, steps.constants

    def pass_over(self) -> None:
        """Note that the next row is malformed, because its schema cannot be used."""
        self.note_malformed()
        self.row += 1

    def go_on(self) -> int:
        """Continue reading. Return -1 when all rows are read, otherwise the schema id of the next row: call select(), or pass_over()."""
        with cython.nogil:
            self.run()
        wanted: int = self.wanted_id
        return wanted

    def run(self) -> None:
        """Do the work of go_on() without the interpreter lock."""
        self.wanted_id = -1
        while self.has_value():
            place = self.first + self.row
            at, end = self.offsets_view[place], self.offsets_view[place + 1]
            if self.header_size:
                wanted = self.id_at(at, end)
                if wanted != self.schema_id and wanted >= 0:
                    self.wanted_id = wanted
                    return
                at = at + self.header_size if wanted >= 0 else MALFORMED
            if at >= 0:
                at = self.read(0, self.source, at, end)
            if at != end:
                self.note_malformed()
            self.row += 1

    def id_at(self, at: int, end: int) -> Any:
        """Return the schema id of a value; -1 if it does not begin with one."""
        source = self.source
        if end - at < HEADER_SIZE or source[at] != 0:
            return MALFORMED
        wanted = source[at + 1]
        for place in range(2, HEADER_SIZE):
            wanted = wanted << 8 | source[at + place]
        return wanted

    def read(self, index: int, source: Any, at: int, end: int) -> Any:
        """Read a value by a step; return the position after it, or -1 if it is malformed. Nothing after `end` belongs to the value."""
        step = self.step(index)
        kind = step.kind
        if kind == WHOLE:
            return self.read_whole(step, source, at, end)
        if kind == BYTES:
            return self.read_bytes(step, source, at, end)
        if kind in (UNION, ENUM):
            branch, at = self.number(source, at, end)
            if at < 0 or branch < 0 or branch >= step.count:
                return MALFORMED
            return self.read(step.first + branch, source, at, end)
        if kind == RECORD:
            for place in range(step.count):
                at = self.read(step.first + place, source, at, end)
                if at < 0:
                    return at
            if step.column >= 0:
                self.column(step.column).rows += 1
            return at
        if kind == NULL:
            if step.column >= 0:
                self.put_null(self.column(step.column))
            return at
        if kind in (REAL_8, REAL_4):
            return self.read_real(step, source, at, end)
        if kind == FLAG:
            if at >= end:
                return MALFORMED
            if step.column >= 0:
                self.put_flag(self.column(step.column), source[at])
            return at + 1
        if kind == SYMBOL:
            if step.first < 0:
                return MALFORMED
            if step.column >= 0:
                self.put_text(self.column(step.column), self.constants, step.first, step.count)
            return at
        if kind in (ARRAY, PAIRS):
            return self.read_blocks(step, source, at, end)
        if kind == DEFAULT:
            return at if self.read(step.first, self.constants, step.count, step.size) >= 0 else MALFORMED
        if kind == REFUSED:
            return MALFORMED
        return self.read_fixed(step, source, at, end)

    def number(self, source: Any, at: int, end: int) -> tuple[int, int]:
        """Return a number, and the position after it; -1 if it is malformed."""
        if at < end and source[at] < 0x80:
            raw = source[at]
            return (raw >> 1) ^ -(raw & 1), at + 1
        wide = 0
        shift = 0
        while at < end and shift <= MOST_SHIFT:
            byte = source[at]
            part = byte & 0x7F
            # In C the bits beyond 64 are dropped by the shift.
            wide |= part << shift
            at += 1
            if byte < 0x80:
                if not cython.compiled:
                    wide &= 0xFFFF_FFFF_FFFF_FFFF
                if wide & 1:
                    return -1 - (wide >> 1), at
                return wide >> 1, at
            shift += 7
        return 0, MALFORMED

    def read_whole(self, step: Any, source: Any, at: int, end: int) -> int:
        """Read a number that is written as int or long."""
        value, at = self.number(source, at, end)
        if at < 0 or step.column < 0:
            return at
        column = self.column(step.column)
        row = column.rows
        kind = column.kind
        if step.size != 1 or step.divisor != 1:
            if value > MOST_LONG // step.size or value < -(MOST_LONG // step.size):
                return MALFORMED
            value = value * step.size
            whole = value // step.divisor
            # In C division rounds towards zero.
            if whole * step.divisor > value:
                whole -= 1
            value = whole
        if kind == INT and (value > MOST_INT or value < LEAST_INT):
            return MALFORMED
        if self.fills:
            if kind == LONG:
                column.longs[row] = value
            elif kind == INT:
                column.ints[row] = value
            elif kind == DOUBLE:
                column.doubles[row] = value
            else:
                column.floats[row] = value
        column.rows = row + 1
        return at

    def read_real(self, step: Any, source: Any, at: int, end: int) -> int:
        """Read a float or a double."""
        size = 8 if step.kind == REAL_8 else 4
        if end - at < size:
            return MALFORMED
        if step.column < 0:
            return at + size
        column = self.column(step.column)
        if self.fills:
            value = self.double_at(source, at) if size == 8 else self.float_at(source, at)
            if column.kind == DOUBLE:
                column.doubles[column.rows] = value
            else:
                column.floats[column.rows] = value
        column.rows += 1
        return at + size

    def double_at(self, source: Any, at: int) -> Any:
        """Return the double at a position, which is little-endian."""
        if cython.compiled:
            bits = 0
            for place in range(8):
                byte = source[at + 7 - place]
                bits = bits << 8 | byte
            memcpy(cython.address(value), cython.address(bits), 8)  # type: ignore[name-defined]  # noqa: F821 - declared in avro_reader.pxd
            return value  # type: ignore[name-defined]  # noqa: F821
        return _DOUBLE.unpack_from(source, at)[0]

    def float_at(self, source: Any, at: int) -> Any:
        """Return the float at a position, which is little-endian."""
        if cython.compiled:
            bits = 0
            for place in range(4):
                byte = source[at + 3 - place]
                bits = bits << 8 | byte
            memcpy(cython.address(value), cython.address(bits), 4)  # type: ignore[name-defined]  # noqa: F821 - declared in avro_reader.pxd
            return value  # type: ignore[name-defined]  # noqa: F821
        return _FLOAT.unpack_from(source, at)[0]

    def read_bytes(self, step: Any, source: Any, at: int, end: int) -> int:
        """Read bytes or text."""
        size, at = self.number(source, at, end)
        if at < 0 or size < 0 or size > end - at:
            return MALFORMED
        if step.column >= 0:
            self.put_text(self.column(step.column), source, at, size)
        return at + size

    def read_fixed(self, step: Any, source: Any, at: int, end: int) -> Any:
        """Read a fixed, or a decimal."""
        size = step.size
        if step.kind == DECIMAL:
            size, at = self.number(source, at, end)
            if at < 0:
                return at
        if size < 0 or size > end - at:
            return MALFORMED
        if step.column < 0:
            return at + size
        column = self.column(step.column)
        if step.kind != BYTES_N:
            if not self.put_decimal(column, source, at, size):
                return MALFORMED
        elif self.fills:
            self.copy(column.data, column.rows * size, source, at, size)
        column.rows += 1
        return at + size

    def put_decimal(self, column: Any, source: Any, at: int, size: int) -> bool:
        """Write a big-endian number to the next row, as 16 bytes; return False if it does not fit. The caller counts the row."""
        sign = 0xFF if size and source[at] & 0x80 else 0
        while size > DECIMAL_SIZE:
            if source[at] != sign:
                return False
            at += 1
            size -= 1
            if size == DECIMAL_SIZE and (source[at] & 0x80) != (sign & 0x80):
                return False
        if self.fills:
            begin = column.rows * DECIMAL_SIZE
            for place in range(DECIMAL_SIZE):
                byte = source[at + size - 1 - place] if place < size else sign
                column.data[begin + (place if LITTLE else DECIMAL_SIZE - 1 - place)] = byte
        return True

    def read_blocks(self, step: Any, source: Any, at: int, end: int) -> int:
        """Read an array or a map."""
        while True:
            count, at = self.number(source, at, end)
            if at < 0:
                return at
            if count == 0:
                break
            if count < 0:
                # A count below zero is followed by the size of the block.
                _, at = self.number(source, at, end)
                if at < 0 or count < -MOST_LONG:
                    return MALFORMED
                count = -count
            # Every item takes a byte or more.
            if count > end - at:
                return MALFORMED
            while count > 0:
                for place in range(step.count):
                    at = self.read(step.first + place, source, at, end)
                    if at < 0:
                        return at
                count -= 1
        if step.column >= 0:
            self.put_many(self.column(step.column))
        return at
