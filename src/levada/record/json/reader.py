# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Reads JSON objects into typed columns, one row per object, by a schema.

The columns are a table: first the root, which is a struct, then its fields next to each other, then their fields. A value goes directly
into the memory of its column. rewind() removes rows that must not stay: if the record is not JSON, it becomes a row of nulls; if a value
has another type than its column, it becomes null; if a key is repeated, its earlier value is removed; if memory runs out, the record is
removed and read again.

Between records the reader keeps only the columns, and for each struct the key that is expected next. Objects of one writer have their keys
in the same order, so most keys are found by a comparison with one name.

Compiled code touches no Python objects and runs without the interpreter lock. The C types are in reader.pxd.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

from levada.record.json.plan import KINDS, WIDTHS, Plan, written_key

# In compiled code these are imported by the .pxd file.
if not cython.compiled:
    from levada.record.json.base64 import decode_base64
    from levada.record.json.numbers import read_decimal, read_double, read_long
    from levada.record.json.table import HIGH, Column, copy, put_null, rewind, set_buffers
    from levada.record.json.text import (
        FAULT,
        MAX_DEPTH,
        colon_end,
        number_end,
        same,
        scan_string,
        skip_space,
        special_number_end,
        unescape,
        value_end,
    )
    from levada.record.json.times import read_date, read_time

COMPILED: bool = cython.compiled

# Assigned again, so that they are C numbers in compiled code.
STRING, LONG, INT, DOUBLE, BOOLEAN, TIMESTAMP, SHORT, BYTE, FLOAT, DATE, TIMESTAMP_NTZ, BINARY, DECIMAL, STRUCT, ARRAY = KINDS
# Returned instead of a position: the value has another type than its column; memory ran out.
MISMATCH, STARVED = -1, -2

MICROS = 1_000_000
# The most seconds since 1970 whose microseconds fit 64 bits.
MOST_SECONDS = (2**63 - 1) // MICROS
# The smallest number that rounds to infinity as a 32-bit float.
FLOAT_END = 2.0**128 - 2.0**103
INFINITY = float("inf")
NAN = float("nan")
# A longer text of a number or time with escapes is not parsed.
SCRATCH_SIZE = 256


def past_space(source: Any, at: int, end: int) -> int:
    """Do what skip_space() does. Usually there is at most one space, and calling another module costs more than testing for it."""
    if at < end and source[at] == ord(" "):
        at += 1
    if at < end and source[at] > ord(" "):
        return at
    return skip_space(source, at, end)


class JsonReader:
    """Fills columns from JSON.

    The owner provides buffers for every column, with all validity bits set and BOOLEAN values zero, and larger buffers when go_on() needs
    them.
    """

    def __init__(self, plan: Sequence[Plan]) -> None:
        """plan: the columns, the root first."""
        if cython.compiled:
            self.table = bytearray(len(plan) * cython.sizeof(json_column))  # type: ignore[name-defined]  # noqa: F821 - C, see reader.pxd
            self.table_view = self.table
            self.columns = cython.cast(cython.pointer(json_column), cython.address(self.table_view[0]))  # type: ignore[name-defined]  # noqa: F821
        else:
            self.columns: Any = [Column() for _ in plan]
        names = bytearray()
        for index, (kind, name, first, count, precision, scale) in enumerate(plan):
            column = self.column(index)
            column.index, column.kind, column.width = index, kind, WIDTHS.get(kind, 0)
            column.first, column.count, column.expected = first, count, 0
            column.precision, column.scale = precision, scale
            column.key_at, column.key_size = len(names), len(written_key(name))
            column.name_at, column.name_size = len(names) + 1, len(name)
            names += b'"%s":' % name
        self.plan = tuple(plan)
        self.memory: list[Any] = [None] * len(plan)
        self.hold_names(bytes(names), max(SCRATCH_SIZE, *(6 * len(entry.name) for entry in plan)))

    def hold_names(self, names: bytes, scratch_size: int) -> None:
        """Store all names, and allocate memory for a key or a short text after its escapes are replaced."""
        self.names_view = names
        self.scratch_view = bytearray(scratch_size)
        self.stack_view = bytearray(MAX_DEPTH)
        self.scratch_size = scratch_size
        if cython.compiled:
            self.names = cython.address(self.names_view[0])
            self.scratch = cython.address(self.scratch_view[0])
            self.stack = cython.address(self.stack_view[0])
        else:
            self.names, self.scratch, self.stack = self.names_view, self.scratch_view, self.stack_view

    def column(self, index: int) -> Any:
        """Return a column of the table."""
        if cython.compiled:
            return cython.address(self.columns[index])
        return self.columns[index]

    def begin(self, data: Any, offsets: Any, validity: Any, first: int, rows: int, malformed: Any) -> None:
        """Start with new values and empty columns. The caller calls attach() for each column next.

        data, offsets, validity, first, rows: the parts of a binary array; validity is None if there are no nulls. malformed: a zero bit per
        row, which is set if the row is malformed.
        """
        self.source_view, self.offsets_view = data, offsets
        self.has_nulls = validity is not None
        self.validity_view = validity if self.has_nulls else b"\xff"
        self.malformed = malformed
        if cython.compiled:
            self.source = cython.address(self.source_view[0])
        else:
            self.source = bytes(data)
        self.first, self.rows, self.row = first, rows, 0
        self.fault_row = self.starved = -1
        for index in range(len(self.plan)):
            column = self.column(index)
            column.rows = column.nulls = column.size = 0

    def attach(self, index: int, capacity: int, data: Any, offsets: Any, validity: Any) -> None:
        """Give a column memory that has its rows so far, and room for `capacity` rows; None for a buffer that this kind of column lacks."""
        column = self.column(index)
        column.capacity = capacity
        column.room = len(data) if data is not None else 0
        self.memory[index] = (data, offsets, validity)
        set_buffers(column, data, offsets, validity)

    def release(self) -> None:
        """Drop all references to the caller's memory."""
        self.source_view = self.offsets_view = self.validity_view = self.malformed = None
        self.memory = [None] * len(self.plan)
        if not cython.compiled:
            self.source = b""
            for column in self.columns:
                column.release()

    def sizes(self, index: int) -> tuple[int, int, int]:
        """Return how many rows and nulls a column has, and the size of its text in bytes."""
        column = self.column(index)
        return column.rows, column.nulls, column.size

    def go_on(self) -> int:
        """Continue reading. Return -1 when all rows are read, otherwise the index of the column that needs memory.

        That column needs memory for `wanted` bytes of text in total if `starved_for_text`, otherwise for `wanted` rows.
        """
        with cython.nogil:
            self.run()
        return self.starved

    def run(self) -> None:
        """Do the work of go_on() without the interpreter lock."""
        root = self.column(0)
        self.starved = -1
        while self.row < self.rows:
            self.bad = False
            place = self.first + self.row
            if self.has_nulls and not self.validity_view[place >> 3] & (1 << (place & 7)):
                put_null(self.columns, root)
            elif not self.read_record(root, self.offsets_view[place], self.offsets_view[place + 1]):
                rewind(self.columns, root, self.row)
                # The fault is found again when the record is read again.
                if self.fault_row == self.row:
                    self.fault_row = -1
                return
            if self.bad:
                self.malformed[self.row >> 3] |= 1 << (self.row & 7)
            self.row += 1

    def read_record(self, root: Any, at: int, end: int) -> bool:
        """Add a row for the value between `at` and `end`. Returns False if memory ran out."""
        self.start = at
        at = past_space(self.source, at, end)
        if at == end:
            put_null(self.columns, root)
            return True
        if self.source[at] == ord("{"):
            at = self.read_object(root, at + 1, end, 1)
            if at >= 0:
                at = past_space(self.source, at, end)
                at = at if at == end else FAULT - at
        else:
            at = FAULT - at
        if at == STARVED:
            return False
        if at < 0:
            self.note(-1, FAULT - at)
            rewind(self.columns, root, self.row)
            self.end_object(root)
        return True

    def note(self, index: int, at: int) -> None:
        """Mark the record as malformed. index: the column whose type the value at `at` does not have; -1 if the record is not JSON."""
        self.bad = True
        if self.fault_row < 0 or (self.fault_row == self.row and index < 0):
            self.fault_row, self.fault_at, self.fault_column = self.row, at - self.start, index

    def read_object(self, parent: Any, at: int, end: int, depth: int) -> int:
        """Add a row for the object whose content begins at `at`; return the position after it, or a negative number as read_element() does.

        depth: the nesting depth of its values.
        """
        row = parent.rows
        source = self.source
        at = past_space(source, at, end)
        if at < end and source[at] == ord("}"):
            self.end_object(parent)
            return at + 1
        while True:
            at, index = self.find(parent, at, end)
            if at < 0:
                return at
            if index < 0:
                at = value_end(source, at, end, depth, self.stack)
            else:
                column = self.column(index)
                if column.rows > row:
                    rewind(self.columns, column, row)
                at = self.read_value(column, at, end, depth)
            if at < 0:
                return at
            at = past_space(source, at, end)
            byte = source[at] if at < end else 0
            if byte == ord("}"):
                self.end_object(parent)
                return at + 1
            if byte != ord(","):
                return FAULT - at
            at = past_space(source, at + 1, end)

    def end_object(self, parent: Any) -> None:
        """Complete a row of a struct: fields that were not in the object become null."""
        for place in range(parent.count):
            column = self.column(parent.first + place)
            if column.rows == parent.rows:
                put_null(self.columns, column)
        parent.rows += 1

    def find(self, parent: Any, at: int, end: int) -> tuple[int, int]:
        """Return the position of the value after the key at `at`, and the index of its column.

        The index is -1 if the key is not a field.
        """
        if parent.count:
            index = parent.first + parent.expected
            column = self.column(index)
            if column.key_size and same(self.source, at, end, self.names, column.key_at, column.key_size):
                parent.expected = parent.expected + 1 if parent.expected + 1 < parent.count else 0
                return past_space(self.source, at + column.key_size, end), index
        return self.find_any(parent, at, end)

    def find_any(self, parent: Any, at: int, end: int) -> tuple[int, int]:
        """Do what find() does for any key, also with escapes or single quotes. The returned position is below 0 for malformed JSON."""
        byte = self.source[at] if at < end else 0
        if byte != ord('"') and byte != ord("'"):
            return FAULT - at, -1
        stop, escaped = scan_string(self.source, at, end)
        if stop < 0:
            return stop, -1
        after = colon_end(self.source, stop + 1, end)
        if not escaped:
            return after, self.named(parent, self.source, at + 1, stop)
        if stop - at > self.scratch_size:
            return after, -1
        return after, self.named(parent, self.scratch, 0, unescape(self.source, at + 1, stop, self.scratch, 0))

    def named(self, parent: Any, text: Any, at: int, stop: int) -> int:
        """Return the index of the field of `parent` whose name is text[at:stop], or -1. The search begins with the expected field."""
        place = parent.expected
        for _ in range(parent.count):
            column = self.column(parent.first + place)
            place = place + 1 if place + 1 < parent.count else 0
            if column.name_size == stop - at and same(text, at, stop, self.names, column.name_at, column.name_size):
                parent.expected = place
                return int(column.index)
        return -1

    def read_value(self, column: Any, at: int, end: int, depth: int) -> int:
        """Add a row for the value at `at`; return the position after it, or STARVED, or a number of FAULT or below for malformed JSON.

        If the value has another type than the column, the row is null, and the record is marked as malformed.
        """
        row = column.rows
        stop = self.read_element(column, at, end, depth)
        if stop != MISMATCH:
            return stop
        rewind(self.columns, column, row)
        stop = value_end(self.source, at, end, depth, self.stack)
        if stop >= 0:
            self.note(column.index, at)
            put_null(self.columns, column)
        return stop

    def read_element(self, column: Any, at: int, end: int, depth: int) -> int:
        """Do what read_value() does, but return MISMATCH for a value of another type than the column's.

        Returns STARVED if memory ran out, and a number of FAULT or below for malformed JSON.
        """
        if at >= end:
            return FAULT - at
        source = self.source
        byte = source[at]
        if byte == ord("n") and same(source, at, end, b"null", 0, 4):
            put_null(self.columns, column)
            return at + 4
        kind = column.kind
        if byte == ord('"') or byte == ord("'"):
            return self.read_quoted(column, at, end)
        if kind in (LONG, INT, SHORT, BYTE, TIMESTAMP):
            return self.read_whole(column, at, end)
        if kind in (DOUBLE, FLOAT):
            return self.read_real(column, at, end)
        if kind == BOOLEAN:
            return self.read_boolean(column, at, end)
        if kind == STRING:
            stop = value_end(source, at, end, depth, self.stack)
            return self.put_text(column, at, stop, stop, False) if stop >= 0 else stop
        if kind == DECIMAL:
            stop = number_end(source, at, end)
            return stop if stop >= 0 and self.put_parsed(column, source, at, stop) else MISMATCH
        if depth < MAX_DEPTH and kind == STRUCT and byte == ord("{"):
            return self.read_object(column, at + 1, end, depth + 1)
        if depth < MAX_DEPTH and kind == ARRAY and byte == ord("["):
            return self.read_array(column, at + 1, end, depth + 1)
        return MISMATCH

    def read_array(self, column: Any, at: int, end: int, depth: int) -> int:
        """Add a row for the array whose content begins at `at`; return the position after it, or a negative number as read_element() does.

        As in Spark, one element of another type makes the whole array a mismatch.
        """
        source = self.source
        elements = self.column(column.first)
        at = past_space(source, at, end)
        byte = source[at] if at < end else 0
        while byte != ord("]"):
            if elements.rows >= elements.capacity:
                return self.starve(elements, elements.rows + 1, False)
            at = self.read_element(elements, at, end, depth)
            if at < 0:
                return at
            at = past_space(source, at, end)
            byte = source[at] if at < end else 0
            if byte == ord(","):
                at = past_space(source, at + 1, end)
            elif byte != ord("]"):
                return FAULT - at
        column.rows += 1
        column.offsets[column.rows] = elements.rows
        return at + 1

    def read_whole(self, column: Any, at: int, end: int) -> int:
        """Add a row for an integer; return the position after it, or MISMATCH. In a timestamp column it means seconds since 1970."""
        kind, row = column.kind, column.rows
        stop, value = read_long(self.source, at, end)
        if stop < 0:
            return MISMATCH
        if kind == LONG:
            column.longs[row] = value
        elif kind == INT and -0x80000000 <= value <= 0x7FFFFFFF:
            column.ints[row] = value
        elif kind == TIMESTAMP and -MOST_SECONDS <= value <= MOST_SECONDS:
            column.longs[row] = value * MICROS
        elif kind == SHORT and -0x8000 <= value <= 0x7FFF:
            column.shorts[row] = value
        elif kind == BYTE and -0x80 <= value <= 0x7F:
            column.data[row] = value & 0xFF
        else:
            return MISMATCH
        column.rows = row + 1
        return stop

    def read_real(self, column: Any, at: int, end: int) -> int:
        """Add a row for a floating point number, which may be NaN or infinite; return the position after it, or MISMATCH."""
        stop = special_number_end(self.source, at, end)
        if stop >= 0:
            self.put_special(column, self.source[at])
            return stop
        stop, value = read_double(self.source, at, end)
        if stop < 0:
            return MISMATCH
        self.put_real(column, value)
        return stop

    def put_special(self, column: Any, first: int) -> None:
        """Add a row for NaN or an infinity, selected by its first character."""
        self.put_real(column, NAN if first == ord("N") else -INFINITY if first == ord("-") else INFINITY)

    def put_real(self, column: Any, value: float) -> None:
        """Add a row with a floating point number."""
        if column.kind == DOUBLE:
            column.doubles[column.rows] = value
        else:
            column.floats[column.rows] = INFINITY if value >= FLOAT_END else -INFINITY if value <= -FLOAT_END else value
        column.rows += 1

    def read_boolean(self, column: Any, at: int, end: int) -> int:
        """Add a row for true or false; return the position after it, or MISMATCH."""
        row = column.rows
        if same(self.source, at, end, b"true", 0, 4):
            column.data[row >> 3] |= 1 << (row & 7)
            column.rows = row + 1
            return at + 4
        if same(self.source, at, end, b"false", 0, 5):
            column.rows = row + 1
            return at + 5
        return MISMATCH

    def read_quoted(self, column: Any, at: int, end: int) -> int:
        """Add a row for a string, or for a value of another type that is written as a string.

        Return the position after the value; MISMATCH if its text is not of the column's type; STARVED if memory ran out; FAULT or less for
        malformed JSON.
        """
        stop, escaped = scan_string(self.source, at, end)
        if stop < 0:
            return stop
        if column.kind == STRING or column.kind == BINARY:
            return self.put_text(column, at + 1, stop, stop + 1, escaped)
        if not escaped:
            good = self.put_parsed(column, self.source, at + 1, stop)
        elif stop - at > self.scratch_size:
            good = False
        else:
            good = self.put_parsed(column, self.scratch, 0, unescape(self.source, at + 1, stop, self.scratch, 0))
        return stop + 1 if good else MISMATCH

    def put_text(self, column: Any, at: int, stop: int, after: int, escaped: bool) -> int:
        """Add a row with the text from `at` to `stop`; return `after`, or STARVED or MISMATCH. escaped: whether the text has escapes."""
        begin = column.size
        if stop - at > column.room - begin:
            return self.starve(column, begin + stop - at, True)
        if escaped:
            end = unescape(self.source, at, stop, column.data, begin)
        else:
            copy(column.data, begin, self.source, at, stop - at)
            end = begin + stop - at
        if column.kind == BINARY:
            end = decode_base64(column.data, begin, end)
            if end < 0:
                return MISMATCH
        column.size = end
        column.rows += 1
        column.offsets[column.rows] = end
        return after

    def put_parsed(self, column: Any, text: Any, at: int, stop: int) -> bool:
        """Parse text[at:stop] as a value of the column's type, and add a row. Returns False, without adding one, if it is invalid."""
        kind, row = column.kind, column.rows
        if kind in (TIMESTAMP, TIMESTAMP_NTZ):
            good, time = read_time(text, at, stop, kind == TIMESTAMP)
            if good:
                column.longs[row] = time
        elif kind == DATE:
            good, day = read_date(text, at, stop)
            if good:
                column.ints[row] = day
        elif kind == DECIMAL:
            good, high, low = read_decimal(text, at, stop, column.precision, column.scale)
            if good:
                column.longs[2 * row + HIGH] = high
                column.longs[2 * row + 1 - HIGH] = low
        else:
            good = kind in (DOUBLE, FLOAT) and at < stop and special_number_end(text, at, stop) == stop
            if good:
                self.put_special(column, text[at])
            return bool(good)
        if good:
            column.rows = row + 1
        return bool(good)

    def starve(self, column: Any, wanted: int, for_text: bool) -> int:
        """Make go_on() return to ask for memory. wanted: rows, or bytes of text, in total."""
        self.starved, self.wanted, self.starved_for_text = column.index, wanted, for_text
        return STARVED
