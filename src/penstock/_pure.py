"""What the [c] modules ask of `cython` when they run interpreted and Cython is not installed.

A [c] module is one plain .py source with its C types in the .pxd file beside it. The source itself needs three names only: `compiled`,
which Cython replaces by a constant and so drops the other branch; `address`, reached in compiled code alone; and `nogil`, a block that
touches no Python object.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

compiled = False
nogil = nullcontext()


def address(place: Any) -> Any:
    """Refuse: interpreted code has no pointers."""
    raise TypeError("cython.address() exists in compiled code only")
