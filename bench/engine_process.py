"""Runs one system on one case in a separate process: the side of the benchmark, and the side of the worker.

A worker may print a line when it is prepared, if the benchmark waits for this. Its last line has its figures as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_cluster import die_with_parent

Figures = dict[str, float]

READY = "ready"
TIMEOUT_S = 180


class WorkerFailed(Exception):
    """A worker ended with an error, or did not end. The message has the end of its stderr."""


class Worker:
    """A process that runs `module:function` with the job's items as keyword arguments.

    source: another folder to import levada from.
    """

    def __init__(self, runner: str, job: Mapping[str, Any], *, source: Path | None = None) -> None:
        self._runner = runner
        self._errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - stays open as long as the worker runs
        # The start-up time counts, and users do not compile every module each time.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        if source is not None:
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(source), environment.get("PYTHONPATH")]))
        command = [sys.executable, __file__, runner, json.dumps(job)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment, preexec_fn=die_with_parent
        )

    def await_ready(self) -> str:
        """Wait until the worker is ready; return the text that it printed for this. Raises WorkerFailed."""
        assert self._process.stdout is not None
        first, _, told = self._process.stdout.readline().strip().partition(" ")
        if first != READY:
            self.result()
            raise WorkerFailed(f"{self._runner} ended before it was ready")
        return told

    def result(self) -> Figures:
        """Wait for the end of the worker; return its figures. Raises WorkerFailed."""
        try:
            output, _ = self._process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise WorkerFailed(f"{self._runner} did not end within {TIMEOUT_S} s\n{self._last_words()}") from None
        finally:
            self.stop()
        if self._process.returncode != 0:
            raise WorkerFailed(f"{self._runner} failed\n{self._last_words()}")
        figures: Figures = json.loads(output.splitlines()[-1])
        return figures

    def stop(self) -> None:
        """End the worker if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def _last_words(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-2000:]


def ready(told: str = "") -> None:
    """For workers: print that all is prepared. told: an address, or other text for the benchmark."""
    print(READY, told, flush=True)


def main() -> None:
    """Run one worker."""
    runner, job = sys.argv[1:3]
    module, _, function = runner.partition(":")
    print(json.dumps(getattr(importlib.import_module(module), function)(**json.loads(job))))


if __name__ == "__main__":
    main()
