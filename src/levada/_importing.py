"""Imports the modules of levada when a public name or a command is first used."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


def import_undisturbed(name: str) -> ModuleType:
    """Import a module. Signal handlers run after the import if the signal arrives during it.

    Otherwise an exception of a handler could be lost: the start of a module that Cython has compiled ignores all errors of its optional
    steps, including KeyboardInterrupt.
    """
    if name in sys.modules:
        return import_module(name)  # Waits if another thread is still importing the module.
    # Imported here, so that `import levada` stays fast.
    from levada.base.signals import DeferredSignals

    with DeferredSignals():
        return import_module(name)
