"""Modules of levada, loaded when a public name or a command is first used."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


def import_undisturbed(name: str) -> ModuleType:
    """Import a module; handlers of signals that come meanwhile run afterwards.

    What a handler raises while a module is imported may be lost: the start of a module that Cython has compiled catches all errors of a
    step that it can do without, KeyboardInterrupt included.
    """
    if name in sys.modules:
        return import_module(name)  # It waits where another thread is still importing it.
    # Here, so that `import levada` stays light.
    from levada.base.signals import DeferredSignals

    with DeferredSignals():
        return import_module(name)
