"""Finds the tests of each requirement: reads docs/requirements and tests/, and writes docs/requirements/TESTS.md.

    python tools/requirements.py          write the page (`make docs` does so)
    python tools/requirements.py check    print faults of the catalogue; tests/architecture runs the same checks

An entry of the catalogue is one line, `- **A8** text. *Source: where Kafka has it from.*`, and may end with further marks:
`*Tests: as H3, N5.*`, `*Planned: transactions.*`, `*Planned in part: groups.*`, `*Differs: [what](../DEVIATIONS.md#heading).*`.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = Path("docs/requirements")
PAGE_OF_TESTS = PAGES / "TESTS.md"
DEVIATIONS = Path("docs/DEVIATIONS.md")

# M- marks rows of the fault matrix, X- checks of the history. Their letters alone are already used by sections of the catalogue.
_ID = r"(?:M-[ABCDP]|X-K|TR|[ABCDEFGHIKLMNOPQTVWXYZ])\d{1,2}"
_CITED = re.compile(rf"(?<![\w.+/-])({_ID})(?:(?:-| to )({_ID}|\d{{1,2}}))?(?![\w%]|[.-]\d)")
_ENTRY = re.compile(rf"- \*\*({_ID})\*\* (.+)")
_MARK = re.compile(r"\*(Source|Tests|Planned|Planned in part|Differs): (.+?)\.?\*(?= \*|$)")
_CASE = re.compile(rf"(?:{_ID}[ ,]+)+(?=[A-Za-z])")

# Words that look like ids but are not, such as partitions, times, magic numbers and codecs in prose.
NOT_IDS = frozenset({"T0"})


@dataclass(frozen=True)
class Entry:
    """A requirement. page, line: its place in the catalogue. marks: the marks after its text, by name, such as Source."""

    id: str
    page: Path
    line: int
    marks: dict[str, str]

    @property
    def held_with(self) -> list[str]:
        """The ids of entries whose tests also test this entry."""
        return cited_in(self.marks.get("Tests", ""))

    @property
    def is_excused(self) -> bool:
        """Whether the entry needs no test, because it is not built yet or because levada differs from Kafka here."""
        return "Planned" in self.marks or "Differs" in self.marks


@dataclass(frozen=True)
class Citation:
    """An id that a file mentions. test: the name of the test that mentions it, "" for the whole file."""

    id: str
    path: Path
    line: int
    test: str = ""


@dataclass
class Catalogue:
    """All entries by id, the citations of all files, and the tests of each id (holders)."""

    entries: dict[str, Entry] = field(default_factory=dict)
    sections: dict[Path, str] = field(default_factory=dict)
    citations: list[Citation] = field(default_factory=list)
    holders: dict[str, list[Citation]] = field(default_factory=lambda: defaultdict(list))
    faults: list[str] = field(default_factory=list)


def cited_in(text: str) -> list[str]:
    """Return the ids in a text. A range such as K16-K19 or M-C1 to M-C9 is expanded."""
    found: list[str] = []
    for match in _CITED.finditer(text):
        first, last = match.groups()
        letters, low = _split(first)
        upper = low
        if last:
            letters_of_last, high = _split(last)
            if letters_of_last not in ("", letters):
                found.append(last)
            elif high > low:
                upper = high
        found += [f"{letters}{number}" for number in range(low, upper + 1)]
    return [name for name in found if name not in NOT_IDS]


def _split(name: str) -> tuple[str, int]:
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :])


def ids_of_test(name: str) -> list[str]:
    """Return the ids that a test's name begins with: two for test_H8_I15_a_peer, a row of the fault matrix for test_M_B5_wraps."""
    rest = name.removeprefix("test_") + "_"
    found = []
    while match := re.match(r"([MX]_)?([A-Z]{1,2}\d{1,2})_", rest):
        found.append((match[1] or "").replace("_", "-") + match[2])
        rest = rest[match.end() :]
    return [name for name in found if re.fullmatch(_ID, name) and name not in NOT_IDS]


def read(root: Path = ROOT) -> Catalogue:
    """Read the pages of the catalogue, then all sources, tests and documents that cite its ids."""
    catalogue = Catalogue()
    for page in sorted((root / PAGES).glob("*.md")):
        if page.name not in ("README.md", PAGE_OF_TESTS.name):
            _read_page(catalogue, root, page)
    for path in sorted(root.glob("src/**/*.py")):
        catalogue.citations += _cited_in_source(path, path.relative_to(root))
    for path in sorted(root.glob("tests/**/*.py")):
        here = path.relative_to(root)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        catalogue.citations += _cited_in_source(path, here)
        if path.name.startswith("test_"):
            for citation in _holders(tree, here):
                catalogue.holders[citation.id].append(citation)
                catalogue.citations.append(citation)
    for path in sorted([root / "README.md", *root.glob("docs/**/*.md")]):
        if path.name != PAGE_OF_TESTS.name:
            lines = path.read_text(encoding="utf-8").splitlines()
            here = path.relative_to(root)
            catalogue.citations += [Citation(name, here, at) for at, line in enumerate(lines, 1) for name in cited_in(line)]
    return catalogue


def _read_page(catalogue: Catalogue, root: Path, page: Path) -> None:
    here = page.relative_to(root)
    for at, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("# "):
            catalogue.sections[here] = line[2:]
        elif match := _ENTRY.fullmatch(line):
            entry = Entry(match[1], here, at, dict(_MARK.findall(match[2])))
            if entry.id in catalogue.entries:
                catalogue.faults.append(f"{here}:{at}: {entry.id} has two entries")
            if "Source" not in entry.marks:
                catalogue.faults.append(f"{here}:{at}: {entry.id} lacks *Source: ...*")
            catalogue.entries[entry.id] = entry
        elif line.startswith("- **"):
            catalogue.faults.append(f"{here}:{at}: not an entry: {line[:60]}")


def _docstrings(tree: ast.Module) -> list[ast.Constant]:
    """Return all docstrings, including those of attributes."""
    bodies = (body for node in ast.walk(tree) if isinstance(body := getattr(node, "body", None), list))
    values = (statement.value for body in bodies for statement in body if isinstance(statement, ast.Expr))
    return [value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]


def _cited_in_source(path: Path, here: Path) -> Iterator[Citation]:
    """Yield the ids in comments and docstrings. Other code may contain texts that only look like ids."""
    text = path.read_text(encoding="utf-8")
    if not _CITED.search(text):
        return
    for docstring in _docstrings(ast.parse(text)):
        yield from (Citation(name, here, docstring.lineno) for name in cited_in(str(docstring.value)))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from (Citation(name, here, token.start[0]) for name in cited_in(token.string))


def _holders(tree: ast.Module, here: Path) -> Iterator[Citation]:
    """Yield the ids that a file's tests cover, from names and docstrings of tests, names of cases, and the file's docstring."""
    in_tests: set[str] = set()
    docstrings = set(_docstrings(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            names = {*ids_of_test(node.name), *cited_in(ast.get_docstring(node) or "")}
            in_tests |= names
            yield from (Citation(name, here, node.lineno, node.name) for name in sorted(names))
        elif isinstance(node, ast.Constant) and node not in docstrings and (case := _CASE.match(str(node.value))):
            names = set(cited_in(case[0]))
            in_tests |= names
            yield from (Citation(name, here, node.lineno, str(node.value)) for name in sorted(names))
    for name in dict.fromkeys(cited_in(ast.get_docstring(tree) or "")):
        if name not in in_tests:
            yield Citation(name, here, 1)


def unknown(catalogue: Catalogue) -> list[str]:
    """Return a fault for each citation of an id that has no entry."""
    told: dict[str, None] = {}
    for citation in catalogue.citations:
        if citation.id not in catalogue.entries:
            told[f"{citation.path}:{citation.line}: {citation.id} has no entry in {PAGES}"] = None
    return list(told)


def not_held(catalogue: Catalogue) -> list[str]:
    """Return a fault for each entry with neither a test nor a Planned or Differs mark."""
    return [
        f"{entry.page}:{entry.line}: {entry.id}: no test holds it, and it is marked neither Planned nor Differs"
        for entry in catalogue.entries.values()
        if not is_held(catalogue, entry.id) and not entry.is_excused
    ]


def is_held(catalogue: Catalogue, name: str, above: frozenset[str] = frozenset()) -> bool:
    """Return whether an entry has a test of its own, or all entries named in its `Tests: as` have tests. above: entries in progress."""
    entry = catalogue.entries.get(name)
    if entry is None or name in above:
        return False
    if catalogue.holders.get(name):
        return True
    return bool(entry.held_with) and all(is_held(catalogue, other, above | {name}) for other in entry.held_with)


def broken_links(catalogue: Catalogue, root: Path = ROOT) -> list[str]:
    """Return a fault for each Differs mark whose link leads to no heading of DEVIATIONS.md."""
    path = root / DEVIATIONS
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE) if path.exists() else []
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return [
        f"{entry.page}:{entry.line}: {entry.id}: Differs must link to a heading of {DEVIATIONS}"
        for entry in catalogue.entries.values()
        if "Differs" in entry.marks and not anchors & set(re.findall(r"DEVIATIONS\.md#([\w-]+)\)", entry.marks["Differs"]))
    ]


def missing_modules(root: Path = ROOT) -> list[str]:
    """Return a fault for each place where a page names a module of levada that does not exist."""
    faults = []
    for page in sorted((root / PAGES).glob("*.md")):
        for at, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            for name in re.findall(r"`(levada(?:\.\w+)*)`", line):
                path = root.joinpath("src", *name.split("."))
                if not path.is_dir() and not path.with_suffix(".py").exists():
                    faults.append(f"{page.relative_to(root)}:{at}: there is no module {name}")
    return faults


def document(catalogue: Catalogue) -> str:
    """Return the text of TESTS.md."""
    lines = [
        "# Tests of each requirement",
        "",
        "Made by `make docs` from names and docstrings of tests, and not committed. [README.md](README.md) explains the ids.",
    ]
    for page, title in sorted(catalogue.sections.items()):
        entries = [entry for entry in catalogue.entries.values() if entry.page == page]
        if entries:
            lines += ["", f"## [{title}]({page.name})", "", "| id | test | file |", "|---|---|---|"]
            lines += [row for entry in entries for row in _rows(catalogue, entry)]
    return "\n".join(lines) + "\n"


def _rows(catalogue: Catalogue, entry: Entry) -> Iterable[str]:
    for citation in sorted(set(catalogue.holders.get(entry.id, ())), key=lambda it: (str(it.path), it.test)):
        name = f"`{citation.test}`" if citation.test else "the whole file"
        yield f"| {entry.id} | {name} | [{citation.path}](../../{citation.path}) |"
    for mark in ("Tests", "Planned", "Planned in part", "Differs"):
        if mark in entry.marks:
            said = entry.marks[mark] if mark == "Tests" else f"{mark.lower()}: {entry.marks[mark]}"
            yield f"| {entry.id} | {said} | |"


def main(arguments: list[str]) -> int:
    """Write the page, or check the catalogue. Return the exit code."""
    catalogue = read()
    if arguments == ["check"]:
        faults = [*catalogue.faults, *unknown(catalogue), *not_held(catalogue), *broken_links(catalogue), *missing_modules()]
        print("\n".join(faults) or f"{len(catalogue.entries)} entries, all in order")
        return bool(faults)
    if arguments:
        print(__doc__)
        return 2
    (ROOT / PAGE_OF_TESTS).write_text(document(catalogue), encoding="utf-8")
    held = sum(is_held(catalogue, name) for name in catalogue.entries)
    planned = Counter(entry.marks["Planned"] for entry in catalogue.entries.values() if "Planned" in entry.marks)
    print(f"{PAGE_OF_TESTS}: {len(catalogue.entries)} entries, {held} held by tests, {planned.total()} planned", file=sys.stderr)
    for entry in catalogue.entries.values():
        if "Planned" in entry.marks and catalogue.holders.get(entry.id):
            print(f"{entry.page}:{entry.line}: {entry.id} is marked Planned, but tests hold it: remove the mark", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
