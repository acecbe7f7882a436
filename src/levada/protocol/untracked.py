"""Keeping the structs of large messages out of the garbage collector.

CPython counts the containers that are made, and looks at all young ones after every 700; those that are still there it looks at again and
again. A large message is thousands of structs and lists, made in one go and none of them garbage: of the time that 10,000 partitions of
metadata take, two thirds would be the collector's. So what was read is untracked: a struct from the wire refers to nothing
but its own parts and cannot be part of a cycle, as little as the tuples of numbers that CPython itself stops tracking. It is freed like
everything else, with its last reference. Code that makes a cycle of structs has to break it itself.

Nothing of the process is switched or set: collections take place when they are due, and find little to do.

A [c] module: what is not compiled leaves everything to the collector, and takes longer for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from levada.protocol.schema import StructMeta

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

AT_ONCE = 64
"""Structs read before they are untracked: far fewer than start a collection."""


def turns(items: list[Any], count: int) -> Iterable[object]:
    """Return what a loop iterates over that reads `count` structs and appends each to `items`: they and the list become untracked."""
    return Turns(items, count) if cython.compiled else range(count)


class Turns:
    """An iterator with `count` turns of no value."""

    def __init__(self, items: list[Any], count: int) -> None:
        self.items = items
        self.left = count
        self.until_next = AT_ONCE
        self.done = 0

    def __iter__(self) -> Turns:
        return self

    def __next__(self) -> None:
        if self.left == 0:
            self.untrack_new()
            untrack(self.items, StructMeta)
            raise StopIteration
        if self.until_next == 0:
            self.untrack_new()
            self.until_next = AT_ONCE
        self.until_next -= 1
        self.left -= 1

    def untrack_new(self) -> None:
        """Untrack the structs that came since the last time, with their lists and structs, as far as these are still tracked."""
        while self.done < len(self.items):
            untrack(self.items[self.done], StructMeta)
            self.done += 1


if not cython.compiled:

    def untrack(thing: object, struct_type: type) -> None:
        """Do nothing: only C code can untrack an object."""
