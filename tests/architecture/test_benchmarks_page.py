"""The figure of docs/BENCHMARKS.md shows the numbers of its first table."""

from __future__ import annotations

from source_tree import ROOT
from tool_modules import load_tool


def test_the_figure_is_current() -> None:
    page = (ROOT / "docs" / "BENCHMARKS.md").read_text("utf-8")
    tool = load_tool("benchmarks")
    assert (ROOT / "docs" / "benchmarks.svg").read_text("utf-8") == tool.drawn(page), "run `make docs`"
    assert len(list(tool.rows_of(page))) > 10
