"""The source files under src for the architecture tests: modules, their imports, functions and length in lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


@dataclass(frozen=True)
class Import:
    """One imported module. lazy: whether the import is inside a function. typing: whether it is for the type checker only."""

    module: str
    line: int
    lazy: bool
    typing: bool


@dataclass(frozen=True)
class Module:
    """One source file under src."""

    path: Path

    @property
    def name(self) -> str:
        parts = self.path.relative_to(SOURCE).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def is_package(self) -> bool:
        return self.path.stem == "__init__"

    @property
    def area(self) -> str:
        """The second part of the module's name: a package or module of levada. Empty for levada itself."""
        return [*self.name.split("."), ""][1]

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(), str(self.path))

    @property
    def lines(self) -> int:
        return len(self.path.read_text().splitlines())

    @cached_property
    def imports(self) -> list[Import]:
        return list(self._walk(self.tree, lazy=False, typing=False))

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node

    def _walk(self, node: ast.AST, *, lazy: bool, typing: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import | ast.ImportFrom):
                for module in self._modules(child):
                    yield Import(module, child.lineno, lazy, typing)
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                yield from self._walk(child, lazy=True, typing=typing)
            elif isinstance(child, ast.If) and _is_type_checking(child.test):
                for branch in child.body:
                    yield from self._walk(ast.Module([branch], []), lazy=lazy, typing=True)
                yield from self._walk(ast.Module(child.orelse, []), lazy=lazy, typing=typing)
            else:
                yield from self._walk(child, lazy=lazy, typing=typing)

    def _modules(self, node: ast.Import | ast.ImportFrom) -> list[str]:
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        base = self._absolute(node)
        # `from levada import errors` may name a submodule; `from levada.types import Node` names an object in a module.
        return [f"{base}.{alias.name}" if _is_module(f"{base}.{alias.name}") else base for alias in node.names]

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        above = package[: len(package) - node.level + 1]
        return ".".join([*above, *([node.module] if node.module else [])])


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING")


def _is_module(name: str) -> bool:
    path = SOURCE.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


@cache
def modules(root: Path = SOURCE) -> list[Module]:
    """Return every source file below a folder, sorted by path."""
    return [Module(path) for path in sorted(root.rglob("*.py"))]
