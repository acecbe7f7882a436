"""An exception of a program's whose text cannot be made: an ordinary slip in its __str__()."""

from __future__ import annotations


class OddError(Exception):
    """Its args have one item."""

    def __str__(self) -> str:
        return str(self.args[1])
