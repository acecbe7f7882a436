"""The program of docs/RELIABILITY.md runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from levada.testing.history import CHECKS

PAGE = (Path(__file__).parents[2] / "docs" / "RELIABILITY.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


def printed(program: str, folder: Path) -> str:
    (folder / "program.py").write_text(program)
    run = subprocess.run([sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_program_runs_and_finds_nothing(tmp_path: Path) -> None:
    told = printed(PROGRAMS[0].replace("time.monotonic() + 2", "time.monotonic() + 0.1"), tmp_path)
    assert told.startswith("clean\nsends: ")
    assert "longest gap between acknowledgements" in told


def test_the_program_with_a_killed_writer_runs_and_finds_nothing(tmp_path: Path) -> None:
    told = printed(PROGRAMS[1], tmp_path)
    assert told.startswith("clean\nsends: ")
    assert re.search(r"transactions: \d+ committed, \d (not committed|unknown)", told)


def test_the_page_names_every_check() -> None:
    assert re.findall(r"^\| (K\d+) ", PAGE, re.M) == list(CHECKS)
