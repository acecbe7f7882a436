"""The figures of the state machines are drawn from their tables."""

from __future__ import annotations

from source_tree import ROOT
from tool_modules import load_tool


def test_the_page_is_current() -> None:
    assert (ROOT / "docs" / "STATES.md").read_text() == load_tool("states").document(), "run `make docs`"
