"""Imports modules of levada when a public name or a command is first used."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


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
