"""The table of `ProtobufReader`: the kinds of steps, and its entries."""

from __future__ import annotations

from typing import NamedTuple

STEP_KINDS = tuple(range(10))
NUMBER, ZIGZAG, FLAG, ENUM, BYTES, MESSAGE, ENTRY, TIME, REFUSED, SYMBOL = STEP_KINDS
"""NUMBER: also one of fixed size. ENTRY: a map's entry. TIME: a Timestamp or Duration. SYMBOL: a number of an enum."""
ABSENCES = tuple(range(3))
NULLED, FILLED, REQUIRED = ABSENCES
"""What a singular field is that a message does not have: null, its default, or a reason to refuse the message."""
WIRE_TYPES = VARINT, FIXED_8, DELIMITED, GROUP = range(4)
FIXED_4 = 5


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
