# cython: annotation_typing=False
"""Making a bytearray longer without filling what is new.

A [c] module: what is not compiled fills it with zeros, which takes as long as receiving a part of what comes there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

if not cython.compiled:

    def resize(buffer: bytearray, size: int) -> None:
        """Add zeros: only C code can leave memory as it is."""
        buffer += bytes(size - len(buffer))


def grow(buffer: bytearray, size: int) -> None:
    """Make a buffer `size` bytes long, which is more than it is. The new bytes have no value until they are written."""
    resize(buffer, size)
