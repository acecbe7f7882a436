"""Builds Python source: its lines, their indentation, and the field to which each line belongs.

Both generators collect consecutive fixed-size values in a run, which becomes one pack or unpack call. A run may end with the length
of a string or array, so that a usual struct takes one call for each of its strings.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, NamedTuple

FORMATS: Final = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "bool": "?",
    "uuid": "16s",
}
# Arrays of up to this many numbers, usually replicas of a partition, have prepared codecs.
LONGEST_SHORT_ARRAY: Final = 8
_WORDS: Final = {"?": "t", "16s": "u"}


@cache
def unpackers_of(letter: str) -> list[Callable[..., tuple[Any, ...]]]:
    """Return a list of functions: the function at index n unpacks n numbers. letter: their format, as in the struct module."""
    return [struct.Struct(f">{count}{letter}").unpack_from for count in range(LONGEST_SHORT_ARRAY + 1)]


@cache
def packers_of(head: str, letter: str) -> list[Callable[..., bytes]]:
    """Return a list of functions: the function at index n packs a count and n numbers. head, letter: the formats of count and numbers."""
    return [struct.Struct(f">{head}{count}{letter}").pack for count in range(LONGEST_SHORT_ARRAY + 1)]


class Slot(NamedTuple):
    """A value in a run, which is a sequence of fixed-size values that are packed or unpacked by one call.

    place: the variable or expression of the value. field: the path of the value's field, for error messages.
    """

    format: str
    place: str
    field: str


class Source:
    """Collects the lines of a generated function. scope: the objects to which the function refers, by name."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.scope = scope
        self._lines: list[str] = []
        self._fields: list[str] = []
        self._path: list[str] = []
        self._depth = 0

    def line(self, text: str, field: str | None = None) -> None:
        """Add a line of code for the current field, or for `field`."""
        self._lines.append("    " * self._depth + text)
        self._fields.append(self.path if field is None else field)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a line, and indent the lines that are added within the `with` block."""
        self.line(head)
        start = len(self._lines)
        self._depth += 1
        yield
        if len(self._lines) == start:
            self.line("pass")
        self._depth -= 1

    @contextmanager
    def field(self, name: str) -> Iterator[None]:
        """Note that the lines that are added within the `with` block belong to this field, for error messages."""
        self._path.append(name)
        yield
        self._path.pop()

    @property
    def path(self) -> str:
        """The path of the current field within the message, with dots."""
        return ".".join(self._path)

    def add_run(self, slots: list[Slot], statement: Callable[[str, str], str], action: str) -> int:
        """Add the line that packs or unpacks a run of values. Return the size of the run in bytes.

        statement: makes the line from the name of the function and the list of variables. action: "pack" or "unpack".
        """
        formats = [slot.format for slot in slots]
        codec = struct.Struct(">" + "".join(formats))
        name = f"{action}_" + "".join(_WORDS.get(text, text) for text in formats)
        self.scope[name] = codec.pack if action == "pack" else codec.unpack_from
        fields = list(dict.fromkeys(slot.field for slot in slots))
        places = ", ".join(slot.place for slot in slots if slot.format != "x")
        self.line(statement(name, places), fields[0] if len(fields) == 1 else f"{fields[0]} .. {fields[-1]}")
        return codec.size

    def text(self) -> str:
        """The source code that has been added so far."""
        return "\n".join(self._lines) + "\n"

    def field_of_line(self, line: int) -> str:
        """Return the path of the field to which a line belongs. line: the number of the line, counted from 1."""
        return self._fields[line - 1]
