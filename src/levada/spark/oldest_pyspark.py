"""The oldest PySpark that levada runs on: 4.0.1."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec

OLDEST = (4, 0, 1)


def refuse_older() -> None:
    """Raise ImportError if the installed PySpark is too old. If none is installed, the modules that import it raise."""
    if find_spec("pyspark") is None:
        return
    import pyspark

    fault = why_too_old(pyspark.__version__, os.environ)
    if fault is not None:
        raise ImportError(fault)


def why_too_old(version: str, environment: Mapping[str, str]) -> str | None:
    """Return why a version of PySpark is too old, with advice. None if it is new enough.

    Databricks numbers its versions differently: its 4.0.0 contains fixes of later versions.
    """
    number = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if number >= OLDEST or (number >= OLDEST[:2] and "DATABRICKS_RUNTIME_VERSION" in environment):
        return None
    return f"levada.spark needs PySpark 4.0.1 or newer, and this is PySpark {version}: pip install 'pyspark>=4.0.1'"
