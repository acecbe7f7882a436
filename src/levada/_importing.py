"""Imports modules of levada when a public name or a command is first used, and refuses Python without the global interpreter lock."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType

from levada.base.gil import has_gil

FREE_THREADED = (
    "levada has not been proven without the global interpreter lock, and this Python ({version}) runs without: "
    "start it with PYTHON_GIL=1 or -X gil=1, use the usual build, or set LEVADA_FREE_THREADING=1 to try it (docs/PACKAGING.md)"
)


def refuse_free_threading() -> None:
    """Raise ImportError if threads run without the global interpreter lock, unless LEVADA_FREE_THREADING is set."""
    if not has_gil() and os.environ.get("LEVADA_FREE_THREADING", "") in ("", "0"):
        raise ImportError(FREE_THREADED.format(version=sys.version.split()[0]))


def import_undisturbed(name: str) -> ModuleType:
    """Import a module. A signal that arrives during the import is handled after it.

    Otherwise an exception of a signal handler could be lost: a module that Cython has compiled ignores all errors in some steps of its
    initialization, including KeyboardInterrupt.
    """
    if name in sys.modules:
        return import_module(name)  # Waits if another thread is still importing the module.
    # Imported here, so that `import levada` stays fast.
    from levada.base.signals import DeferredSignals

    with DeferredSignals():
        return import_module(name)
