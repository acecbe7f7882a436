"""Print what a reader of the source trips over: circles of imports, long lists of parameters, and small files: `python tools/shape.py`.

A circle is a set of files that import one another, directly or over others. Imports inside functions count as imports at module level do.
Circles that exist only because of imports under TYPE_CHECKING are listed by themselves. It never fails.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

SOURCE: Final = Path(__file__).parents[1] / "src"
PACKAGE: Final = "levada"
MOST_PARAMETERS: Final = 10
SMALL_LINES: Final = 60
ONE_FILE_PER_API: Final = ("protocol/messages/", "protocol/embedded/", "protocol/records/", "broker/apis/")
"""Folders in which small files are wanted."""

Graph = Mapping[str, set[str]]


class Import(NamedTuple):
    """A module that a file imports. typing: only for the type checker."""

    module: str
    typing: bool


class SourceFile:
    """One file of the package. shown: its path below the package."""

    def __init__(self, path: Path) -> None:
        self.shown = path.relative_to(SOURCE / PACKAGE).as_posix()
        parts = path.relative_to(SOURCE).with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.module = ".".join(parts[:-1] if self.is_package else parts)
        text = path.read_text()
        self.lines = len(text.splitlines())
        self.tree = ast.parse(text, str(path))

    def imports(self, modules: Mapping[str, SourceFile]) -> Iterator[Import]:
        """Yield the modules of the package that this one imports."""
        yield from self._below(self.tree, modules, typing=False)

    def functions(self) -> Iterator[tuple[str, int]]:
        """Yield each function as `name (line n)`, with the number of its parameters but for self and cls."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                yield f"{node.name} (line {node.lineno})", len(every) - (bool(every) and every[0].arg in ("self", "cls"))

    def _below(self, node: ast.AST, modules: Mapping[str, SourceFile], *, typing: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import | ast.ImportFrom):
                yield from (Import(name, typing) for name in self._named(child, modules))
            elif isinstance(child, ast.If) and _is_type_checking(child.test):
                yield from self._below(ast.Module(child.body, []), modules, typing=True)
                yield from self._below(ast.Module(child.orelse, []), modules, typing=typing)
            else:
                yield from self._below(child, modules, typing=typing)

    def _named(self, node: ast.Import | ast.ImportFrom, modules: Mapping[str, SourceFile]) -> Iterator[str]:
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            base = self._base(node)
            # `from levada import errors` may name a module; `from levada.types import Node` names something inside of one.
            inner = [f"{base}.{alias.name}" for alias in node.names]
            found = [name if name in modules else base for name in inner]
        yield from (name for name in dict.fromkeys(found) if name in modules and name != self.module)

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.module.split(".")
        above = package[: len(package) - node.level + self.is_package]
        return ".".join([*above, *([node.module] if node.module else [])])


def circles(graph: Graph) -> list[list[str]]:
    """Return the sets of modules that import one another, directly or over others, the largest first."""
    reached = {module: _reachable(module, graph) for module in graph}
    found = {tuple(sorted(other for other in reached[module] if module in reached[other])) for module in graph if module in reached[module]}
    return sorted((list(circle) for circle in found), key=lambda circle: (-len(circle), circle))


def _reachable(module: str, graph: Graph) -> set[str]:
    """Return what a module imports, directly or over others. The module itself is in it only if it is part of a circle."""
    reached: set[str] = set()
    waiting = list(graph[module])
    while waiting:
        imported = waiting.pop()
        if imported not in reached:
            reached.add(imported)
            waiting += graph[imported]
    return reached


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING")


def _imports_within(circle: Iterable[str], graph: Graph) -> Iterator[str]:
    members = set(circle)
    for module in sorted(members):
        imported = ", ".join(sorted(graph[module] & members))
        yield f"    {module} imports {imported}"


def _print_circles(title: str, found: Iterable[list[str]], graph: Graph) -> None:
    every = list(found)
    print(f"{title}: {len(every)}")
    for number, circle in enumerate(every, 1):
        print(f"  {number}: {len(circle)} files")
        print("\n".join(_imports_within(circle, graph)))


def main() -> None:
    """Print the circles, then the functions with many parameters, then the small files."""
    files = [SourceFile(path) for path in sorted((SOURCE / PACKAGE).rglob("*.py"))]
    modules = {file.module: file for file in files}
    imports = {file.module: list(file.imports(modules)) for file in files}
    at_runtime = {module: {found.module for found in every if not found.typing} for module, every in imports.items()}
    # The package's own __init__ names everything public for type checkers, and loads it when it is first used.
    in_all = {module: {found.module for found in every if not found.typing or module != PACKAGE} for module, every in imports.items()}
    real = circles(at_runtime)
    _print_circles("circles of imports at runtime", real, at_runtime)
    _print_circles("circles that exist only with imports under TYPE_CHECKING", [c for c in circles(in_all) if c not in real], in_all)

    many = [(count, file.shown, name) for file in files for name, count in file.functions() if count > MOST_PARAMETERS]
    print(f"functions with more than {MOST_PARAMETERS} parameters: {len(many)}")
    for count, shown, name in sorted(many, key=lambda one: (-one[0], one[1:])):
        print(f"  {count}  {shown}: {name}")

    small = [
        file
        for file in files
        if file.lines <= SMALL_LINES and not file.is_package and not any(file.shown.startswith(folder) for folder in ONE_FILE_PER_API)
    ]
    print(f"files with {SMALL_LINES} lines or fewer, without __init__ and the folders with one file per API: {len(small)} of {len(files)}")
    for file in sorted(small, key=lambda one: (one.lines, one.shown)):
        print(f"  {file.lines:3}  {file.shown}")


if __name__ == "__main__":
    main()
