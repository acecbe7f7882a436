"""Checks of the installation when levada.spark is imported: that PySpark is new enough, and that Spark will start this program's Python.

The JVM starts the Python processes that find, plan and run a source. The JVM inherits the environment of the program that started it, and
runs the command in PYSPARK_DRIVER_PYTHON, else in PYSPARK_PYTHON, else the python3 on the PATH. (spark.pyspark.python does not change this;
it applies to the program that spark-submit starts, and to the user's functions.) If a program is run as `.venv/bin/python job.py`, the
python3 on the PATH may be a Python in which levada is not installed. Then Spark does not find the source.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

OLDEST_PYSPARK = (4, 0, 1)
"""The oldest version that levada runs on."""
PATIENCE_S = 10
_CHOSEN_BY = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
_OF_SERVICES = ("DATABRICKS_RUNTIME_VERSION", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
"""If one of these variables is set, Spark's Python processes run on another machine, or a service starts them with the right Python."""


def refuse_older() -> None:
    """Raise ImportError if the installed PySpark is too old. Do nothing without PySpark: each module that imports pyspark raises then."""
    if find_spec("pyspark") is None:
        return
    import pyspark

    fault = why_too_old(pyspark.__version__, os.environ)
    if fault is not None:
        raise ImportError(fault)


def why_too_old(version: str, environment: Mapping[str, str]) -> str | None:
    """Return an error text with advice if a version of PySpark is too old. None if the version is new enough.

    Databricks numbers its versions differently: its 4.0.0 contains fixes of later versions.
    """
    number = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if number >= OLDEST_PYSPARK or (number >= OLDEST_PYSPARK[:2] and "DATABRICKS_RUNTIME_VERSION" in environment):
        return None
    return f"levada.spark needs PySpark 4.0.1 or newer, and this is PySpark {version}: pip install 'pyspark>=4.0.1'"


def warn_of_another() -> None:
    """Warn if Spark will start a different Python than the one that runs this program. No setting is changed."""
    if not sys.executable or _is_spawned() or _is_elsewhere():
        return
    fault = why_another(os.environ)
    if fault is not None:
        warnings.warn(fault, stacklevel=3)


def why_another(environment: Mapping[str, str]) -> str | None:
    """Return a warning with advice if Spark will start a different Python than this one. None if Spark will start this Python.

    It may have to run the other command, to compare the two; None also if that takes longer than PATIENCE_S seconds.
    """
    given = next((name for name in _CHOSEN_BY if name in environment), None)
    command = "python3" if given is None else environment[given]
    found = shutil.which(command, path=environment.get("PATH"))
    if found is not None and _is_this(found, environment):
        return None
    start = f"{command}, which does not exist," if found is None else command if found == command else f"{command}, which is {found},"
    why = "PYSPARK_PYTHON is not set" if given is None else f"{given} says so"
    variable = given or "PYSPARK_PYTHON"
    return (
        f"Spark will start {start} for its Python processes, because {why}, but this program runs in {sys.executable}. If levada is not "
        'installed in the Python that Spark starts, format("levada") fails with DATA_SOURCE_NOT_FOUND. Activate the environment of this '
        f'program, or set {variable} before levada.spark is imported and the session is made: os.environ["{variable}"] = sys.executable. '
        "(Not needed in a program that only connects to a Spark Connect server.)"
    )


def _is_this(found: str, environment: Mapping[str, str]) -> bool:
    """Whether a command starts a Python with the same packages as this one. True if the command runs longer than PATIENCE_S seconds."""
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
    """Whether Spark has started this process, or a program that was warned already has started it by multiprocessing."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    by_spark = spec is not None and spec.name.startswith("pyspark.")
    return by_spark or "__mp_main__" in sys.modules or any(name.startswith("PYTHON_WORKER_FACTORY_") for name in os.environ)


def _is_elsewhere() -> bool:
    """Whether this program's sessions run their Python processes elsewhere: on a Spark Connect server, or in a hosted service.

    The package pyspark-client, which is only a Spark Connect client, has no pyspark.core. A pyspark in a zip file cannot be checked; the
    answer is False then. True if PySpark is not installed.
    """
    if any(name in os.environ for name in _OF_SERVICES) or "pyspark.sql.connect.session" in sys.modules:
        return True
    pyspark = find_spec("pyspark")
    homes = [] if pyspark is None else [Path(home) for home in pyspark.submodule_search_locations or ()]
    return all(home.is_dir() and not (home / "core").is_dir() for home in homes)
