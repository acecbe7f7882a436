"""Stands in for `cython` when a [c] module runs interpreted.

A [c] module is one ordinary .py source, whose C types are in the .pxd file beside it. The source uses five names of `cython`. This module
defines them for interpreted code, so that Cython is needed only to compile. `compiled`: Cython replaces it by a constant, and drops the
other branch. `address`: used in compiled code only. `nogil`: a block that uses no Python objects. `gil`: a block within a nogil block that
uses Python objects. `critical_section`: a block that one thread at a time runs for an object.

Python prefers a compiled module to the source beside it. With LEVADA_PURE=1 in the environment it prefers the source.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

compiled = False
nogil = gil = nullcontext()


def address(place: Any) -> Any:
    """Raise TypeError: interpreted code has no pointers."""
    raise TypeError("cython.address() exists in compiled code only")


def critical_section(owner: Any) -> AbstractContextManager[object]:
    """Return the context of a block that only one thread at a time runs for this object: the object's reentrant `_lock`, if it has one.

    In compiled code it is a critical section of CPython. With a global interpreter lock that does nothing: compiled code that runs no
    Python code is not interrupted by other threads.
    """
    lock: AbstractContextManager[object] = getattr(owner, "_lock", nogil)
    return lock


class SourceFirst:
    """A finder for sys.meta_path that loads the .py file of a levada module even if there is a compiled module beside it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of a levada module's .py file; None for other modules, or without that file. Then Python uses the next finder."""
        if not name.startswith("levada."):
            return None
        from importlib.util import spec_from_file_location

        sources = [os.path.join(folder, name.rpartition(".")[2] + ".py") for folder in path or ()]  # noqa: PTH118 - pathlib is slow to import
        found = [source for source in sources if os.path.isfile(source)]  # noqa: PTH113
        return spec_from_file_location(name, found[0]) if found else None


def is_wanted() -> bool:
    """Whether LEVADA_PURE is set and not 0."""
    return os.environ.get("LEVADA_PURE", "") not in ("", "0")


def obey_environment() -> None:
    """Make Python prefer sources to compiled modules if is_wanted()."""
    if is_wanted() and SourceFirst not in sys.meta_path:
        sys.meta_path.insert(0, SourceFirst)
