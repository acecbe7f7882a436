"""What programs may use changes on purpose only."""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path

import pytest

from levada import ack_buffer
from source_tree import ROOT

SNAPSHOT = Path(__file__).with_name("public_api.txt")


@pytest.mark.skipif((ack_buffer.__file__ or "").endswith(".py"), reason="a compiled class has other members than an interpreted one")
def test_names_and_signatures_are_those_of_the_snapshot() -> None:
    """After a change on purpose: python tools/public_api.py > tests/architecture/public_api.txt."""
    now = subprocess.run([sys.executable, ROOT / "tools" / "public_api.py"], capture_output=True, text=True, check=True).stdout
    changes = difflib.unified_diff(SNAPSHOT.read_text().splitlines(), now.splitlines(), "snapshot", "now", n=0, lineterm="")
    assert not list(changes)
