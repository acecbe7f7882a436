"""docs/examples: the code on each page stands in the program, and the index names every program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [path for path in sorted((ROOT / "docs" / "examples").glob("*.md")) if path.stem != "index"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_on_a_page_is_the_programs(page: Path) -> None:
    text = page.read_text("utf-8")
    programs = [_lines((ROOT / "examples" / name).read_text("utf-8")) for name in set(re.findall(r"/examples/(\w+\.py)", text))]
    assert programs
    for piece in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        assert any(_lines(piece) in program for program in programs)


def test_the_index_names_every_program() -> None:
    index = (ROOT / "docs" / "examples" / "index.md").read_text("utf-8")
    assert [path.name for path in sorted((ROOT / "examples").glob("*.py")) if f"[{path.name}]" not in index] == []


def _lines(code: str) -> str:
    """Return code without its indentation, as a page shows the middle of a function."""
    return "".join(f"{line.strip()}\n" for line in code.splitlines())
