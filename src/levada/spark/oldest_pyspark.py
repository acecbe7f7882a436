"""The oldest PySpark that levada runs on: 4.0.1."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec

OLDEST = (4, 0, 1)


def refuse_older() -> None:
    """Raise ImportError where the installed PySpark is too old. Without any, the modules that need it say so."""
    if find_spec("pyspark") is None:
        return
    import pyspark

    fault = why_too_old(pyspark.__version__, os.environ)
    if fault is not None:
        raise ImportError(fault)


def why_too_old(version: str, environment: Mapping[str, str]) -> str | None:
    """Return what is wrong with a version of PySpark, None where it will do.

    Databricks counts in another way: what it calls 4.0.0 has later corrections.
    """
    number = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if number >= OLDEST or (number >= OLDEST[:2] and "DATABRICKS_RUNTIME_VERSION" in environment):
        return None
    return f"levada.spark needs PySpark 4.0.1 or newer, and this is PySpark {version}: pip install 'pyspark>=4.0.1'"
