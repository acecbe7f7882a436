"""Keeps the structs of large messages out of the garbage collector.

CPython counts new containers, and after every 700 (more in newer versions) it visits all young ones; containers that survive are visited
again later. A large message is thousands of structs and lists that are made at once, and none of them is garbage. With 10,000 partitions of
metadata the collector would take two thirds of the decoding time. So the structs of larger arrays are untracked, with all structs and lists
inside them. A decoded struct refers only to its own parts, so it cannot be part of a cycle, like the tuples of numbers that CPython itself
untracks. It is freed with its last reference, like every object. Code that makes a cycle of structs has to break the cycle itself.

No setting of the collector is changed: it still runs, but has less to visit.

This is a [c] module. Interpreted code leaves all structs to the collector, and takes longer.
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
"""The number of structs that are untracked together: far fewer than the number that starts a collection."""


def turns(items: list[Any], count: int) -> Iterable[object]:
    """Return an iterable for a loop that decodes `count` structs and appends them to `items`.

    In compiled code it removes the structs and the list from the garbage collector's tracking.
    """
    return Turns(items, count) if cython.compiled else range(count)


class Turns:
    """An iterator that yields None `count` times, and removes the structs that the loop has appended from garbage collector tracking."""

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
        """Untrack the structs that were appended since the last call, and the lists and structs inside them."""
        while self.done < len(self.items):
            untrack(self.items[self.done], StructMeta)
            self.done += 1


if not cython.compiled:

    def untrack(thing: object, struct_type: type) -> None:
        """Do nothing. In compiled code it removes an object from garbage collector tracking, which only C code can do."""
