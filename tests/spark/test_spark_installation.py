"""A program whose Python is not the one that Spark will start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from levada.spark import installation
from levada.spark.installation import why_another

PROGRAM = "import os; before = dict(os.environ); import levada.spark; assert dict(os.environ) == before"


@pytest.fixture
def other_python(tmp_path: Path) -> Path:
    """A python3 of another environment."""
    home = tmp_path / "other"
    (home / "bin").mkdir(parents=True)
    (home / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\ninclude-system-site-packages = false\n")
    python = home / "bin" / "python3"
    python.symlink_to(Path(sys.executable).resolve())
    return python


def imported(program: str, **environment: str) -> str:
    """Run a program with nothing but this environment, and return what it writes to stderr."""
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env={**paths, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_an_environment_that_is_not_activated_is_told_once_with_what_to_do(other_python: Path) -> None:
    said = imported(f"{PROGRAM}\nfrom levada.spark import read_kafka", PATH=str(other_python.parent))
    assert said.count("UserWarning") == 1
    assert said.startswith("<string>:1: UserWarning: "), "the line that imports it"
    assert f"Spark will start python3, which is {other_python}, for its Python processes, because PYSPARK_PYTHON is not set" in said
    assert f"this program runs in {sys.executable}" in said
    assert "DATA_SOURCE_NOT_FOUND" in said
    assert 'os.environ["PYSPARK_PYTHON"] = sys.executable' in said


def test_the_same_python_is_not_told(other_python: Path) -> None:
    assert imported(PROGRAM, PATH=str(Path(sys.executable).parent)) == ""
    assert imported(PROGRAM, PATH=str(other_python.parent), PYSPARK_PYTHON=sys.executable) == ""
    assert imported(f"import os, sys; os.environ['PYSPARK_PYTHON'] = sys.executable; {PROGRAM}", PATH=str(other_python.parent)) == ""


def test_a_script_that_runs_this_python_is_not_told(tmp_path: Path) -> None:
    shim = tmp_path / "python3"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    shim.chmod(0o755)
    assert why_another({"PATH": str(tmp_path)}) is None


def test_the_variables_count_as_they_do_for_spark(other_python: Path, tmp_path: Path) -> None:
    mine, path = sys.executable, os.environ["PATH"]
    assert why_another({"PATH": path, "PYSPARK_PYTHON": mine}) is None
    assert why_another({"PATH": path, "PYSPARK_PYTHON": str(other_python), "PYSPARK_DRIVER_PYTHON": mine}) is None
    chosen = why_another({"PATH": path, "PYSPARK_PYTHON": str(other_python)})
    assert chosen is not None
    assert f"Spark will start {other_python} for its Python processes, because PYSPARK_PYTHON says so" in chosen
    jupyter = tmp_path / "jupyter"
    jupyter.write_text("#!/bin/sh\nexit 2\n")
    jupyter.chmod(0o755)
    notebook = why_another({"PATH": path, "PYSPARK_PYTHON": mine, "PYSPARK_DRIVER_PYTHON": str(jupyter)})
    assert notebook is not None
    assert 'os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable' in notebook
    missing = why_another({"PATH": str(tmp_path)})
    assert missing is not None
    assert "Spark will start python3, which does not exist, for its Python processes" in missing


@pytest.mark.parametrize(
    "environment",
    [{"DATABRICKS_RUNTIME_VERSION": "17.3"}, {"SPARK_REMOTE": "sc://host"}, {"PYTHON_WORKER_FACTORY_SECRET": "s"}],
    ids=["Databricks", "Connect", "worker"],
)
def test_where_spark_starts_its_processes_elsewhere_nothing_is_told(other_python: Path, environment: dict[str, str]) -> None:
    assert imported(PROGRAM, PATH=str(other_python.parent), **environment) == ""


@pytest.mark.parametrize("module", ["pyspark.sql.connect.session", "__mp_main__"])
def test_clients_of_connect_and_children_are_not_told(other_python: Path, module: str) -> None:
    program = f"import sys, types; sys.modules[{module!r}] = types.ModuleType('there')\n{PROGRAM}"
    assert imported(program, PATH=str(other_python.parent)) == ""


def test_processes_that_spark_starts_are_not_told(monkeypatch: pytest.MonkeyPatch, recwarn: Any) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/python3")
    # Another test of this process may have been a client of Connect, or a child.
    for module in ("pyspark.sql.connect.session", "__mp_main__"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    installation.warn_of_another()
    assert len(recwarn) == 1
    main: Any = type(sys)("__main__")
    main.__spec__ = type("Spec", (), {"name": "pyspark.daemon"})
    monkeypatch.setitem(sys.modules, "__main__", main)
    installation.warn_of_another()
    assert len(recwarn) == 1
