"""Loads the modules of the demo. The demo is a folder of files, not a package."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

DEMO = Path(__file__).parents[2] / "demo"


def load(name: str) -> ModuleType:
    """Import one file of the demo. `__main__` gets another module name, so that it does not run."""
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


def small_year() -> Any:
    """Return three flights in place of all flights of 2013."""
    return pa.table(
        {
            "carrier": ["UA", "AA", "UA"],
            "flight": [1, 2, 3],
            "origin": ["JFK", "EWR", "JFK"],
            "dest": ["BOS"] * 3,
            "dep_delay": [5, None, 20],
            "arr_delay": [25, None, 10],
            "distance": [187] * 3,
            "scheduled": ["2013-01-01T05:15", "2013-06-30T12:00", "2013-12-31T23:50"],
            "hour_utc": ["2013-01-01T10", "2013-06-30T16", "2014-01-01T04"],
        }
    )
