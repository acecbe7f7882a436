"""Functions fit a screen, the modules of both APIs are thin. How long a file may be is a hint: tools/long_files.py."""

from __future__ import annotations

import ast
from pathlib import Path
from statistics import median

from source_tree import ROOT, SOURCE, Module, modules

LONGEST_FUNCTION = 60
LONGEST_API = 300

EVERYTHING = [module for folder in (SOURCE, ROOT / "demo", ROOT / "bench", ROOT / "examples") for module in modules(folder)]


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def lengths(module: Module) -> dict[str, int]:
    return {f"{node.name} (line {node.lineno})": (node.end_lineno or node.lineno) - node.lineno + 1 for node in module.functions()}


def test_a_function_fits_a_screen() -> None:
    assert not [
        (shown(module.path), name, length) for module in EVERYTHING for name, length in lengths(module).items() if length > LONGEST_FUNCTION
    ]


def test_an_api_is_thin() -> None:
    files = [path for api in ("sync", "aio") for path in (SOURCE / "levada" / api).glob("*.py")]
    assert files
    assert not [(shown(path), count) for path in files if (count := statement_lines(path)) > LONGEST_API]


def statement_lines(path: Path) -> int:
    """Count the lines of code, without blank lines, comments and docstrings."""
    text = path.read_text()
    lines = {number for number, line in enumerate(text.splitlines(), 1) if line.strip() and not line.strip().startswith("#")}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def test_most_functions_are_short() -> None:
    found = sorted(length for module in modules() for length in lengths(module).values())
    assert median(found) <= 10
    assert found[len(found) * 9 // 10] < 40


def test_the_tree_in_the_architecture_document_names_every_package() -> None:
    document = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    packages = [path for path in SOURCE.glob("*/*/") if path.is_dir() and any(path.glob("*.py"))]
    assert [path.name for path in packages if f"  {path.name}/" not in document] == []
