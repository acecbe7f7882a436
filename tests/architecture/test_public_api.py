"""What programs may use changes on purpose only."""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import levada.aio
import levada.errors
import levada.registry
import levada.testing
from levada import ack_buffer
from source_tree import ROOT

SNAPSHOT = Path(__file__).with_name("public_api.txt")


@pytest.mark.skipif((ack_buffer.__file__ or "").endswith(".py"), reason="a compiled class has other members than an interpreted one")
def test_names_and_signatures_are_those_of_the_snapshot() -> None:
    """After a change on purpose: python tools/public_api.py > tests/architecture/public_api.txt."""
    now = subprocess.run([sys.executable, ROOT / "tools" / "public_api.py"], capture_output=True, text=True, check=True).stdout
    changes = difflib.unified_diff(SNAPSHOT.read_text().splitlines(), now.splitlines(), "snapshot", "now", n=0, lineterm="")
    assert not list(changes)


@pytest.mark.parametrize("module", [levada, levada.aio], ids=lambda module: module.__name__)
def test_the_reference_has_every_name(module: ModuleType) -> None:
    pages = "\n".join(page.read_text("utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    of_errors = {name for name in module.__all__ if hasattr(levada.errors, name)}  # One directive shows the whole module.
    assert [name for name in module.__all__ if name not in of_errors and not re.search(rf"\b{name}\b", pages)] == []


@pytest.mark.parametrize("module", [levada, levada.aio, levada.registry, levada.testing], ids=lambda module: module.__name__)
def test_editors_and_help_find_every_name(module: ModuleType) -> None:
    assert set(module.__all__) <= set(dir(module))
