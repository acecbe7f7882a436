"""Ctrl-C ends the demo at once, wherever it is, and leaves no process behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

DEMO = Path(__file__).parents[2] / "demo"

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("stage", "seconds_later"), [("… Produce", 0.0), ("… Start Spark", 1.0), ("Spark warms up", 1.0)])
def test_ctrl_c_ends_the_demo_quietly(stage: Any, seconds_later: Any, tmp_path: Any) -> None:
    shown = tmp_path / "shown"
    with shown.open("w") as file:
        demo = subprocess.Popen([sys.executable, "-u", str(DEMO)], stdout=file, stderr=file, env=alone(), start_new_session=True)
    try:
        wait_for(lambda: stage in shown.read_text() or demo.poll() is not None, 300)
        time.sleep(seconds_later)  # into the stage
        os.killpg(demo.pid, signal.SIGINT)
        # Python itself ends by the signal where Ctrl-C came in a string of Python that an extension module ran, as some do at import.
        assert demo.wait(timeout=20) in (130, -signal.SIGINT)
        wait_for(lambda: not processes_of(demo.pid), 20)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(demo.pid, signal.SIGKILL)
        demo.wait()
    assert "Traceback" not in shown.read_text()
    assert "Exception" not in shown.read_text()


def alone() -> dict[str, str]:
    """Return the environment of a short demo, without the variables that a Spark session of this process has set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    return {**kept, "BOOTSTRAP": "", "COMPARE": "0", "DEMO_RECORDS": "100000"}


def wait_for(condition: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def processes_of(session: int) -> list[str]:
    """Return the command lines of all processes of a session that are not zombies."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, _, its_session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state != "Z":
                found.append((folder / "cmdline").read_text())
    return found
