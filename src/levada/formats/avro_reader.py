# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Reads Avro values into the memory of typed columns, a row for each value.

A writer's schema is a table of steps. A step says how a value of a type is written, and which column it belongs to: -1 for a field that the
reader's schema does not have. A step's parts, such as the fields of a record, stand later in the table, next to each other. The columns are
a table, too: first the root, then its fields next to each other, then their fields.

All values are read twice. The first pass finds the malformed values, and counts the rows and bytes of each column. So the second pass has
memory of the right size, whatever the values say about the size of what follows. It does not fail.

Every item of an array or a map takes a byte or more, and no record contains itself: other schemas have no steps. So the work is limited by
the bytes that there are. Compiled code touches no Python objects and runs without the interpreter lock. The C types are in avro_reader.pxd.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

from levada.formats.avro_steps import COLUMN_KINDS, STEP_KINDS, ColumnPlan, Step

if cython.compiled:
    from cython.cimports.libc.string import memcmp, memcpy, memset  # type: ignore[import-untyped]
else:
    from struct import Struct

    _FLOAT, _DOUBLE = Struct("<f"), Struct("<d")

COMPILED: bool = cython.compiled

# Assigned again, so that they are C numbers in compiled code.
NOTHING, BOOLEAN, INT, LONG, FLOAT, DOUBLE, TEXT, FIXED, STRUCT, LIST, MAP = COLUMN_KINDS
NULL, FLAG, WHOLE, REAL_4, REAL_8, BYTES, BYTES_N, DECIMAL, DECIMAL_N, ENUM, UNION, RECORD, ARRAY, PAIRS, REFUSED, DEFAULT, SYMBOL = (
    STEP_KINDS
)
HEADER_SIZE = 5
DECIMAL_SIZE = 16
MOST_INT, LEAST_INT = 2**31 - 1, -(2**31)
MOST_LONG = 2**63 - 1
LITTLE = sys.byteorder == "little"
# A number takes at most ten bytes.
MOST_SHIFT = 63
MALFORMED = -1
# The most keys of a map that are compared with each other.
MOST_COMPARED = 64


if not cython.compiled:

    class Column:
        """A column in interpreted code. Compiled code has a C struct instead."""

        width: int
        kind: int

        def set_buffers(self, data: Any, offsets: Any, validity: Any) -> None:
            """Use these buffers, with a view for each type of numbers in them."""
            self.data, self.validity = data, validity
            self.offsets = None if offsets is None else offsets.cast("i")
            self.ints = data.cast("i") if self.kind == INT else None
            self.longs = data.cast("q") if self.kind == LONG else None
            self.floats = data.cast("f") if self.kind == FLOAT else None
            self.doubles = data.cast("d") if self.kind == DOUBLE else None

        def release(self) -> None:
            """Drop all references to the caller's memory."""
            self.data = self.validity = self.offsets = self.ints = self.longs = self.floats = self.doubles = None

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


class AvroReader:
    """Fills columns from Avro values. For each of the two passes call begin(), then go_on() until it returns -1."""

    def __init__(self, plan: Sequence[ColumnPlan], has_header: bool) -> None:
        """plan: the columns, the root first. has_header: whether each value begins with a zero byte and the id of its schema."""
        if cython.compiled:
            self.table = bytearray(len(plan) * cython.sizeof(avro_column))  # type: ignore[name-defined]  # noqa: F821 - C, see avro_reader.pxd
            self.table_view = self.table
            self.columns = cython.cast(cython.pointer(avro_column), cython.address(self.table_view[0]))  # type: ignore[name-defined]  # noqa: F821
        else:
            self.columns: Any = [Column() for _ in plan]
        self.count = len(plan)
        for index, (kind, width, first, count) in enumerate(plan):
            column = self.column(index)
            column.kind, column.width, column.first, column.count = kind, width, first, count
        self.memory: list[Any] = [None] * len(plan)
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
            column = self.column(index)
            column.rows = column.nulls = column.size = 0

    def attach(self, index: int, data: Any, offsets: Any, validity: Any) -> None:
        """Give a column memory for what the first pass has counted: all bits of validity set, bits of BOOLEAN zero, offsets beginning with
        zero. None for a buffer that this kind of column does not have.
        """
        self.memory[index] = (data, offsets, validity)
        column = self.column(index)
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
        column = self.column(index)
        return column.rows, column.nulls, column.size

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
        root = self.column(0)
        self.wanted_id = -1
        while self.row < self.rows:
            place = self.first + self.row
            if self.has_nulls and not self.validity_view[place >> 3] & (1 << (place & 7)):
                self.put_null(root)
            elif self.fills and self.malformed[self.row]:
                self.put_bad(root)
            else:
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

    def note_malformed(self) -> None:
        """Mark the row as malformed. Parts of it are counted already; then the columns get a little more memory than they need."""
        self.malformed[self.row] = 1
        self.put_bad(self.column(0))

    def put_bad(self, column: Any) -> None:
        """Add a row for a malformed value: a struct whose fields are null; null if the column is no struct."""
        if column.kind != STRUCT:
            self.put_null(column)
            return
        for place in range(column.count):
            self.put_null(self.column(column.first + place))
        column.rows += 1

    def put_null(self, column: Any) -> None:
        """Add a null row to a column; if it is a struct, also to its fields."""
        row = column.rows
        column.nulls += 1
        if column.kind == STRUCT:
            for place in range(column.count):
                self.put_null(self.column(column.first + place))
        if self.fills and column.kind != NOTHING:
            column.validity[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            if column.width:
                self.blank(column.data, row * column.width, column.width)
            elif column.kind == TEXT:
                column.offsets[row + 1] = column.size
            elif column.kind in (LIST, MAP):
                column.offsets[row + 1] = self.column(column.first).rows
        column.rows = row + 1

    def blank(self, target: Any, at: int, size: int) -> None:
        """Set `size` bytes to zero."""
        if cython.compiled:
            memset(target + at, 0, size)
        else:
            target[at : at + size] = bytes(size)

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
        """Add the number in big-endian bytes as one of 16 bytes. Return False if it does not fit. The caller adds the row."""
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
            column = self.column(step.column)
            if self.fills:
                column.offsets[column.rows + 1] = self.column(column.first).rows
                if step.kind == PAIRS:
                    self.compare_keys(self.column(column.first), column.offsets[column.rows])
            column.rows += 1
        return at

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
        """Whether two rows of text are equal."""
        begin, size = column.offsets[one], column.offsets[one + 1] - column.offsets[one]
        second = column.offsets[other]
        if column.offsets[other + 1] - second != size:
            return False
        if cython.compiled:
            return memcmp(column.data + begin, column.data + second, size) == 0
        return column.data[begin : begin + size] == column.data[second : second + size]
