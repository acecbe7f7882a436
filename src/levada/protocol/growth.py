# cython: annotation_typing=False
"""Makes a bytearray longer without setting the new bytes.

This is a [c] module. Interpreted code sets the new bytes to zero, which takes a part of the time of receiving the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

if not cython.compiled:

    def resize(buffer: bytearray, size: int) -> None:
        """Make a buffer longer, to `size` bytes. In Python the new bytes become zeros; only C code can leave them undefined."""
        buffer += bytes(size - len(buffer))


def grow(buffer: bytearray, size: int) -> None:
    """Make a buffer longer, to `size` bytes. The content of the new bytes is undefined until the caller writes them."""
    resize(buffer, size)
