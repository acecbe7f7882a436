"""Whether Spark will start the Python that runs the program.

A JVM starts the Python processes that find, plan and run a source: PYSPARK_DRIVER_PYTHON, else PYSPARK_PYTHON, else python3 on its PATH, by
its own environment, which is that of the program that started it. (spark.pyspark.python does not change that; it is about the program
that spark-submit starts, and functions of the user's.) In a program that is run as `.venv/bin/python job.py` python3 is another Python,
which has no levada, and Spark finds no such source.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

PATIENCE_S = 10
_CHOSEN_BY = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
_OF_SERVICES = ("DATABRICKS_RUNTIME_VERSION", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
"""Where one of these is set, Spark's Python processes are started elsewhere, or by a service that sees to it."""


def warn_of_another() -> None:
    """Warn where Spark will start another Python than this one. Nothing is changed."""
    if not sys.executable or _is_spawned() or _is_elsewhere():
        return
    fault = why_another(os.environ)
    if fault is not None:
        warnings.warn(fault, stacklevel=3)


def why_another(environment: Mapping[str, str]) -> str | None:
    """Return what is wrong with the Python that Spark will start, and what to do; None where it is this one."""
    given = next((name for name in _CHOSEN_BY if name in environment), None)
    command = "python3" if given is None else environment[given]
    found = shutil.which(command, path=environment.get("PATH"))
    if found is not None and _is_this(found, environment):
        return None
    start = f"{command}, which is not there," if found is None else command if found == command else f"{command}, which is {found},"
    why = "PYSPARK_PYTHON is not set" if given is None else f"{given} says so"
    variable = given or "PYSPARK_PYTHON"
    return (
        f"Spark will start {start} for its Python processes, as {why}, but this program runs in {sys.executable}. Where levada is not "
        'installed in what Spark starts, format("levada") ends in DATA_SOURCE_NOT_FOUND. Activate the environment of this program, or set '
        f'{variable} before levada.spark is imported and the session is made: os.environ["{variable}"] = sys.executable. (A program that '
        "only connects to a Spark Connect server need not.)"
    )


def _is_this(found: str, environment: Mapping[str, str]) -> bool:
    """Whether a command is the Python that runs here, as far as its packages go. Who does not answer in time is believed to be."""
    mine = Path(sys.executable)
    if Path(found).parent == mine.parent and Path(found).resolve() == mine.resolve():
        return True
    import subprocess

    ask = [found, "-c", "import sys; print(sys.version_info[:2], sys.prefix)"]
    try:
        answer = subprocess.run(ask, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, env=environment)
    except subprocess.TimeoutExpired:
        return True
    except OSError:
        return False
    return answer.stdout.strip() == f"{sys.version_info[:2]} {sys.prefix}"


def _is_spawned() -> bool:
    """Whether this is one of the Python processes that Spark starts, or a child of a program that was told."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    by_spark = spec is not None and spec.name.startswith("pyspark.")
    return by_spark or "__mp_main__" in sys.modules or any(name.startswith("PYTHON_WORKER_FACTORY_") for name in os.environ)


def _is_elsewhere() -> bool:
    """Whether sessions of this program have their Python processes elsewhere, as clients of Spark Connect do.

    The package pyspark-client, which is nothing else, has no pyspark.core. (Of a pyspark within a zip file that is not known.)
    """
    if any(name in os.environ for name in _OF_SERVICES) or "pyspark.sql.connect.session" in sys.modules:
        return True
    pyspark = find_spec("pyspark")
    homes = [] if pyspark is None else [Path(home) for home in pyspark.submodule_search_locations or ()]
    return all(home.is_dir() and not (home / "core").is_dir() for home in homes)
