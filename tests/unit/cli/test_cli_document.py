"""docs/CLI.md is what --help says now."""

from __future__ import annotations

from pathlib import Path

from levada.cli.application import COMMANDS
from levada.cli.document import document

PAGE = Path(__file__).parents[3] / "docs" / "CLI.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == document(), "run: make docs"


def test_the_page_has_every_command() -> None:
    assert [line for line in document().splitlines() if line.startswith("## levada ")] == [f"## levada {name}" for name in COMMANDS]
