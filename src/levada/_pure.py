"""The interpreted form of the [c] modules.

A [c] module is one plain .py source with its C types in the .pxd file beside it. The source itself asks four names of `cython`, which this
module answers where the source runs as it is, so that Cython is needed only to compile: `compiled`, which Cython replaces by a
constant and so drops the other branch; `address`, reached in compiled code alone; `nogil`, a block that touches no Python object; and
`gil`, a block within such a one that does.

Python prefers a compiled module to the source beside it. With LEVADA_PURE=1 in the environment it is the other way round.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

compiled = False
nogil = gil = nullcontext()


def address(place: Any) -> Any:
    """Refuse: interpreted code has no pointers."""
    raise TypeError("cython.address() exists in compiled code only")


class SourceFirst:
    """A finder that takes the .py file of a levada module even where a compiled one stands beside it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of a levada module's source; None leaves the module to the other finders."""
        if not name.startswith("levada."):
            return None
        from importlib.util import spec_from_file_location

        sources = [os.path.join(folder, name.rpartition(".")[2] + ".py") for folder in path or ()]  # noqa: PTH118 - pathlib is slow to import
        found = [source for source in sources if os.path.isfile(source)]  # noqa: PTH113
        return spec_from_file_location(name, found[0]) if found else None


def obey_environment() -> None:
    """Take sources before compiled modules if LEVADA_PURE is set (and not 0)."""
    if os.environ.get("LEVADA_PURE", "") not in ("", "0") and SourceFirst not in sys.meta_path:
        sys.meta_path.insert(0, SourceFirst)
