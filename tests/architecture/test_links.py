"""Every relative link of the pages leads to a file, and to a heading of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from source_tree import ROOT, SOURCE

DOCS = ROOT / "docs"
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")), *DOCS.rglob("*.md")]
WRITTEN_BY_MAKE = {DOCS / "requirements" / "TESTS.md"}
FENCE = re.compile(r"^( *)```.*?^\1```", re.S | re.M)
CODE = re.compile(r"(`+).+?\1", re.S)
TARGET = re.compile(r"\]\(\s*([^)\s]+)[^)]*\)")
NAMED_IN_SOURCE = re.compile(r"\bdocs/[\w./-]+\.md\b")


def links(page: Path) -> Iterator[str]:
    for target in TARGET.findall(CODE.sub("", FENCE.sub("", page.read_text("utf-8")))):
        if not re.match(r"[a-z]+:", target):
            yield target


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text("utf-8")), re.M):
        anchor = plain = re.sub(r"[^\w -]", "", re.sub(r"\]\([^)]*\)", "", heading).strip().lower()).replace(" ", "-")
        number = 0
        while anchor in found:
            number += 1
            anchor = f"{plain}-{number}"
        found.add(anchor)
    return found


def leads_nowhere(page: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    to = (page.parent / name).resolve() if name else page
    return not (to.exists() or to in WRITTEN_BY_MAKE) or (bool(anchor) and to.suffix == ".md" and anchor not in anchors(to))


def test_every_link_leads_somewhere() -> None:
    assert len(PAGES) > 100
    assert [f"{page.relative_to(ROOT)}: {target}" for page in PAGES for target in links(page) if leads_nowhere(page, target)] == []


def test_every_page_that_the_source_names_is_there() -> None:
    files = [*SOURCE.rglob("*.py"), *(ROOT / "examples").glob("*.py"), ROOT / "Makefile"]
    named = {(path, name) for path in files for name in NAMED_IN_SOURCE.findall(path.read_text("utf-8"))}
    assert len(named) > 10
    assert [f"{path.relative_to(ROOT)}: {name}" for path, name in named if not (ROOT / name).exists()] == []
