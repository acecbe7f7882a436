"""docs/examples: the code on each page stands in the program, and the index names every program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [path for path in sorted((ROOT / "docs" / "examples").glob("*.md")) if path.stem != "index"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_on_a_page_is_the_programs(page: Path) -> None:
    program = (ROOT / "examples" / f"{page.stem}.py").read_text("utf-8")
    pieces = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    for piece in pieces:
        assert piece in program


def test_the_index_names_every_program() -> None:
    index = (ROOT / "docs" / "examples" / "index.md").read_text("utf-8")
    assert [path.name for path in sorted((ROOT / "examples").glob("*.py")) if f"[{path.name}]" not in index] == []
