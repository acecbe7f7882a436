"""The declarations of messages are those that `make messages` writes from the schemas in Kafka's published jars."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from source_tree import ROOT

pytestmark = pytest.mark.kafka


def run(*command: object) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "kits")}
    done = subprocess.run([sys.executable, *map(str, command)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if "no schemas:" in done.stderr and not os.environ.get("CI"):
        pytest.skip(f"no real Kafka: {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(600)
def test_declarations_are_as_kafkas_schemas_have_them(tmp_path: Path) -> None:
    assert "439 schemas" in run("tools/schemas.py", tmp_path)
    assert "813 versions of them compared, 0 faults" in run("tools/messages.py", "--check", tmp_path)
