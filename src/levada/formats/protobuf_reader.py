# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Reads Protobuf messages into the memory of typed columns, a row for each message.

A type of messages is a table of steps: first the message, then its fields next to each other, then their fields. The columns and the two
passes are those of column_reader.py.

Fields come in any order. But each has a column of its own, so a value goes directly to the end of its column. Each message that is read has
a number, its mark. The steps of its fields remember the mark, to find a field that comes twice and, at the end of the message, the fields
that did not come.

The reader marks as malformed not only what is malformed, but all that is rare and needs more than this: a singular field that comes twice,
two fields of a oneof, groups, unknown numbers of an enum, extensions, unknown fields of a map's entry. Its owner reads such messages in
another way.

No message contains itself: such a type has no column. Every element takes a byte or more. So the work is limited by the bytes that there
are. Compiled code touches no Python objects and runs without the interpreter lock. The C types are in protobuf_reader.pxd.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

from levada.formats.column_reader import COLUMN_KINDS, ColumnPlan

# In compiled code it is imported by the .pxd file.
if not cython.compiled:
    from levada.formats.column_reader import ColumnReader

COMPILED: bool = cython.compiled

STEP_KINDS = tuple(range(10))
ABSENCES = tuple(range(3))
WIRE_TYPES = (0, 1, 2, 3, 5)
# C numbers in compiled code, so each module that uses them assigns them.
NOTHING, BOOLEAN, INT, LONG, FLOAT, DOUBLE, TEXT, FIXED, STRUCT, LIST, MAP = COLUMN_KINDS
NUMBER, ZIGZAG, FLAG, ENUM, BYTES, MESSAGE, ENTRY, TIME, REFUSED, SYMBOL = STEP_KINDS
"""NUMBER: also one of fixed size. ENTRY: a map's entry. TIME: a Timestamp or Duration. SYMBOL: a number of an enum."""
NULLED, FILLED, REQUIRED = ABSENCES
"""What a singular field is that a message does not have: null, its default, or a reason to refuse the message."""
VARINT, FIXED_8, DELIMITED, GROUP, FIXED_4 = WIRE_TYPES
HEADER_SIZE = 5
MALFORMED = -1
# A number takes at most ten bytes, a tag or a size at most five.
MOST_SHIFT = 63
MOST_SMALL_SHIFT = 28
MOST_TAG = 2**32 - 1
TAG_SECONDS, TAG_NANOS = 1 << 3, 2 << 3
MICROS = 1_000_000
# Seconds whose microseconds fit 64 bits, with nanoseconds added.
MOST_SECONDS = 2**63 // MICROS - 10
MASK_32, MASK_64 = 2**32 - 1, 2**64 - 1


class Step(NamedTuple):
    """A field, or a message that is no field. wire: the wire type of its values.

    column: the column with a row for each message around the field; -1 for a field without a column, because its message has no fields.
    target: the column of its values; another one than `column` for a repeated field. first, parts: the fields of a message or entry, or the
    symbols of an enum, by number; they stand next to each other. is_implicit: whether 0 counts as absent. is_extendable: whether a message
    may have extensions. oneof: the index of the step that stands for its oneof; -1 without one. value: the bits of a number that is the
    default of FILLED. at, size: the position of text in the constants, of such a default or of a symbol.
    """

    kind: int
    number: int = 0
    wire: int = VARINT
    column: int = -1
    target: int = -1
    first: int = 0
    parts: int = 0
    is_repeated: bool = False
    is_implicit: bool = False
    is_extendable: bool = False
    absence: int = NULLED
    oneof: int = -1
    value: int = 0
    at: int = 0
    size: int = 0


if not cython.compiled:

    class Place:
        """A step in interpreted code. Compiled code has a C struct instead."""


class ProtobufReader(ColumnReader):
    """Fills columns from Protobuf messages. For each of the two passes call begin(), then go_on().

    plan: the columns. steps: the type of the messages; the first one is the message. constants: the bytes of symbols and defaults. prefix:
    what follows the schema's id in a header; None for messages without a header.
    """

    def __init__(self, plan: Sequence[ColumnPlan], steps: Sequence[Step], constants: bytes, prefix: bytes | None) -> None:
        super().__init__(plan)
        if cython.compiled:
            self.steps_memory = bytearray(len(steps) * cython.sizeof(protobuf_step))  # type: ignore[name-defined]  # noqa: F821 - C, see protobuf_reader.pxd
            self.steps_view = self.steps_memory
            self.steps = cython.cast(cython.pointer(protobuf_step), cython.address(self.steps_view[0]))  # type: ignore[name-defined]  # noqa: F821
        else:
            self.steps: Any = [Place() for _ in steps]
        for index, given in enumerate(steps):
            self.set_step(index, given)
        self.header_size = 0 if prefix is None else HEADER_SIZE + len(prefix)
        self.prefix_view = prefix or b""
        # Never empty, so that it has an address.
        self.constants_view = constants + b"\0"
        if cython.compiled:
            self.constants = cython.address(self.constants_view[0])
        else:
            self.constants = self.constants_view
        self.mark = 0

    def set_step(self, index: int, given: Step) -> None:
        """Fill an entry of the table."""
        step = self.step(index)
        step.kind, step.number, step.wire, step.column, step.target, step.first, step.count = given[:7]
        step.is_repeated, step.is_implicit, step.is_extendable, step.absence, step.oneof = given[7:12]
        step.value, step.at, step.size = given[12:]
        step.mark = step.oneof_mark = 0

    def column(self, index: int) -> Any:
        """Return a column of the table."""
        if cython.compiled:
            return cython.address(self.columns[index])
        return self.columns[index]

    def step(self, index: int) -> Any:
        """Return a step of the table."""
        if cython.compiled:
            return cython.address(self.steps[index])
        return self.steps[index]

    def go_on(self) -> None:
        """Read all rows."""
        with cython.nogil:
            self.run()

    def run(self) -> None:
        """Do the work of go_on() without the interpreter lock."""
        while self.has_value():
            place = self.first + self.row
            end = self.offsets_view[place + 1]
            at = self.behind_header(self.offsets_view[place], end)
            if at < 0 or self.read_message(0, self.source, at, end) < 0:
                self.note_malformed()
            self.row += 1

    def behind_header(self, at: int, end: int) -> int:
        """Return the position of a message behind its header."""
        if end - at < self.header_size:
            return MALFORMED
        if self.header_size and self.source[at] != 0:
            return MALFORMED
        for place in range(HEADER_SIZE, self.header_size):
            if self.source[at + place] != self.prefix_view[place - HEADER_SIZE]:
                return MALFORMED
        return at + self.header_size

    def read_message(self, index: int, source: Any, at: int, end: int) -> Any:
        """Read a message, or a map's entry, that ends at `end`; return `end`, or -1 if it is malformed or rare."""
        step = self.step(index)
        self.mark += 1
        mark = self.mark
        place = 0
        while at < end:
            tag, at = self.small(source, at, end)
            number = tag >> 3
            if at < 0 or number == 0 or tag > MOST_TAG:
                return MALFORMED
            place = self.find(step, place, number)
            if place < step.count:
                field = self.step(step.first + place)
                if step.kind == ENTRY and field.wire != tag & 7:
                    return MALFORMED
                at = self.read_field(step.first + place, mark, tag & 7, source, at, end)
                place += not field.is_repeated
            elif step.is_extendable or step.kind == ENTRY:
                # The package leaves out an entry with unknown fields.
                return MALFORMED
            else:
                at = self.skip(tag & 7, source, at, end)
            if at < 0:
                return MALFORMED
        for place in range(step.count):
            field = self.step(step.first + place)
            if field.is_repeated:
                if field.column >= 0:
                    self.put_many(self.column(field.column))
            elif field.mark != mark and not self.put_absent(field):
                return MALFORMED
        if step.target >= 0:
            self.column(step.target).rows += 1
        return end

    def find(self, step: Any, guess: int, number: int) -> int:
        """Return which part of a step has a number; the count of parts if none has. guess: the part that is tried first."""
        if 0 <= guess < step.count and self.step(step.first + guess).number == number:
            return guess
        low, high = 0, step.count
        while low < high:
            middle = (low + high) >> 1
            if self.step(step.first + middle).number < number:
                low = middle + 1
            else:
                high = middle
        return low if low < step.count and self.step(step.first + low).number == number else step.count

    def put_absent(self, field: Any) -> Any:
        """Add a row for a field that a message does not have. Return False if the message is malformed without it."""
        if field.absence == REQUIRED:
            return False
        if field.column >= 0:
            column = self.column(field.column)
            if field.absence == NULLED:
                self.put_null(column)
            elif column.kind == TEXT:
                self.put_text(column, self.constants, field.at, field.size)
            else:
                self.put_bits(column, field.value)
        return True

    def read_field(self, index: int, mark: int, wire: int, source: Any, at: int, end: int) -> Any:
        """Read the value of a field, or several packed ones. mark: that of the message."""
        field = self.step(index)
        if wire != field.wire:
            if wire != DELIMITED or not field.is_repeated or field.kind == REFUSED:
                return self.skip(wire, source, at, end)
            size, at = self.small(source, at, end)
            if at < 0 or size > end - at:
                return MALFORMED
            end = at + size
            while 0 <= at < end:
                at = self.read_value(index, source, at, end)
            return at
        if not field.is_repeated:
            if field.mark == mark:
                return MALFORMED
            field.mark = mark
            if field.oneof >= 0:
                of_oneof = self.step(field.oneof)
                if of_oneof.oneof_mark == mark:
                    return MALFORMED
                of_oneof.oneof_mark = mark
        if wire == DELIMITED:
            return self.read_delimited(index, source, at, end)
        return self.read_value(index, source, at, end)

    def read_delimited(self, index: int, source: Any, at: int, end: int) -> Any:
        """Read text or a message, after its size."""
        field = self.step(index)
        size, at = self.small(source, at, end)
        if at < 0 or size > end - at:
            return MALFORMED
        end = at + size
        if field.kind == BYTES:
            if size == 0 and field.is_implicit:
                self.put_null(self.column(field.target))
            else:
                self.put_text(self.column(field.target), source, at, size)
            return end
        if field.kind == TIME:
            return self.read_time(self.column(field.target), source, at, end)
        if field.kind == REFUSED:
            return MALFORMED
        return self.read_message(index, source, at, end)

    def read_time(self, column: Any, source: Any, at: int, end: int) -> Any:
        """Read a Timestamp or Duration."""
        seconds = 0
        nanos = 0
        found = 0
        while at < end:
            tag, at = self.small(source, at, end)
            if at < 0 or tag >> 3 == 0 or tag > MOST_TAG:
                return MALFORMED
            if tag in (TAG_SECONDS, TAG_NANOS):
                if found & tag:
                    return MALFORMED
                found |= tag
                bits, at = self.varint(source, at, end)
                if tag == TAG_SECONDS:
                    seconds = bits if cython.compiled else signed(bits, 64)
                else:
                    nanos = bits if cython.compiled else signed(bits, 32)
            else:
                at = self.skip(tag & 7, source, at, end)
            if at < 0:
                return MALFORMED
        if seconds > MOST_SECONDS or seconds < -MOST_SECONDS:
            return MALFORMED
        micros = nanos // 1000
        # In C division rounds towards zero.
        if micros * 1000 > nanos:
            micros -= 1
        micros += seconds * MICROS
        self.put_bits(column, micros)
        return end

    def read_value(self, index: int, source: Any, at: int, end: int) -> Any:
        """Read a number, or what is written as one."""
        field = self.step(index)
        if field.kind == REFUSED:
            return MALFORMED
        column = self.column(field.target)
        if field.wire == VARINT:
            bits, at = self.varint(source, at, end)
        else:
            bits, at = self.fixed(8 if field.wire == FIXED_8 else 4, source, at, end)
        if at < 0:
            return MALFORMED
        if column.kind != LONG and field.kind != FLAG and field.wire == VARINT:
            bits &= MASK_32
        if field.is_implicit and bits == 0:
            self.put_null(column)
            return at
        if field.kind == ZIGZAG:
            bits = (bits >> 1) ^ ((0 - (bits & 1)) & MASK_64)
        elif field.kind == ENUM:
            number = bits if cython.compiled else signed(bits, 32)
            place = self.find(field, number - self.step(field.first).number, number)
            if place == field.count:
                return MALFORMED
            symbol = self.step(field.first + place)
            self.put_text(column, self.constants, symbol.at, symbol.size)
            return at
        self.put_bits(column, bits)
        return at

    def put_bits(self, column: Any, bits: Any) -> None:
        """Add a row with the bits of a number, or of BOOLEAN."""
        if column.kind == BOOLEAN:
            self.put_flag(column, bits != 0)
            return
        if self.fills:
            if column.width == 8:
                column.longs[column.rows] = bits if cython.compiled else signed(bits, 64)
            else:
                column.ints[column.rows] = bits if cython.compiled else signed(bits, 32)
        column.rows += 1

    def skip(self, wire: int, source: Any, at: int, end: int) -> Any:
        """Return the position after a value of an unknown field."""
        if wire == VARINT:
            _, at = self.varint(source, at, end)
            return at
        size = 8 if wire == FIXED_8 else 4
        if wire == DELIMITED:
            size, at = self.small(source, at, end)
            if at < 0:
                return MALFORMED
        elif wire != FIXED_8 and wire != FIXED_4:
            return MALFORMED
        return at + size if size <= end - at else MALFORMED

    def small(self, source: Any, at: int, end: int) -> tuple[int, int]:
        """Return a tag or a size, and the position after it; -1 if it is malformed."""
        if at < end and source[at] < 0x80:
            return source[at], at + 1
        found = 0
        shift = 0
        while at < end and shift <= MOST_SMALL_SHIFT:
            byte = source[at]
            part = byte & 0x7F
            found |= part << shift
            at += 1
            if byte < 0x80:
                return found, at
            shift += 7
        return 0, MALFORMED

    def varint(self, source: Any, at: int, end: int) -> tuple[int, int]:
        """Return the 64 bits of a number, and the position after it; -1 if it is malformed."""
        if at < end and source[at] < 0x80:
            return source[at], at + 1
        bits = 0
        shift = 0
        while at < end and shift <= MOST_SHIFT:
            byte = source[at]
            part = byte & 0x7F
            # In C the bits beyond 64 are dropped by the shift.
            bits |= part << shift
            at += 1
            if byte < 0x80:
                return bits & MASK_64, at
            shift += 7
        return 0, MALFORMED

    def fixed(self, size: int, source: Any, at: int, end: int) -> tuple[int, int]:
        """Return the bits of a number of `size` bytes, little-endian, and the position after it; -1 if it is malformed."""
        if end - at < size:
            return 0, MALFORMED
        bits = 0
        for place in range(size):
            byte = source[at + size - 1 - place]
            bits = bits << 8 | byte
        return bits, at + size


if not cython.compiled:

    def signed(bits: int, size: int) -> int:
        """Return the signed number of the low `size` bits. Compiled code converts numbers so."""
        bits &= (1 << size) - 1
        return bits - (bits >> (size - 1) << size)
