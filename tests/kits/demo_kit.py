"""The modules of the demo, which is a folder of files that import one another by their plain names."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

DEMO = Path(__file__).parents[2] / "demo"


def load(name: str) -> ModuleType:
    """Import one file of the demo; `__main__` too, without running it."""
    sys.path.insert(0, str(DEMO))
    try:
        if name != "__main__":
            return importlib.import_module(name)
        spec: Any = importlib.util.spec_from_file_location("demo_main", DEMO / "__main__.py")
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(DEMO))
