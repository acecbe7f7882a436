"""The program of docs/RELIABILITY.md runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from levada.testing.history import CHECKS

PAGE = (Path(__file__).parents[2] / "docs" / "RELIABILITY.md").read_text()


def test_the_program_runs_and_finds_nothing(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    (tmp_path / "program.py").write_text(program.replace("time.monotonic() + 2", "time.monotonic() + 0.1"))
    run = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("clean\nsends: ")
    assert "longest gap between acknowledgements" in run.stdout


def test_the_page_names_every_check() -> None:
    assert re.findall(r"^\| (K\d+) ", PAGE, re.M) == list(CHECKS)
