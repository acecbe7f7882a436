"""Print what makes the source hard to read: import cycles, long parameter lists, and small files: `python tools/shape.py`.

A cycle is a set of files that import one another, directly or through others. Imports inside functions count, too. Cycles that exist only
because of imports under TYPE_CHECKING are listed separately. This program never fails. long_files.py prints long files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "kits"))

from source_tree import SOURCE, Module, modules

PACKAGE: Final = "levada"
MOST_PARAMETERS: Final = 10
SMALL_LINES: Final = 60
ONE_FILE_PER_API: Final = ("protocol/messages/", "protocol/embedded/", "protocol/records/", "broker/apis/")
"""Folders with one file for each API. Small files there are intended."""

Graph = Mapping[str, set[str]]


def graph_of(files: Iterable[Module], *, typing: bool) -> Graph:
    """Return the modules of the package that each module imports. typing: whether to include imports under TYPE_CHECKING."""
    every = {file.name: file for file in files}
    # The package's __init__ imports all public names under TYPE_CHECKING, but loads them only at first use.
    return {
        name: {
            found.module
            for found in file.imports
            if found.module in every and found.module != name and (not found.typing or (typing and name != PACKAGE))
        }
        for name, file in every.items()
    }


def circles(graph: Graph) -> list[list[str]]:
    """Return the sets of modules that import one another, directly or through others, the largest first."""
    reached = {module: _reachable(module, graph) for module in graph}
    found = {tuple(sorted(other for other in reached[module] if module in reached[other])) for module in graph if module in reached[module]}
    return sorted((list(circle) for circle in found), key=lambda circle: (-len(circle), circle))


def _reachable(module: str, graph: Graph) -> set[str]:
    """Return the modules that a module imports, directly or through others. The module itself is included only if it is part of a cycle."""
    reached: set[str] = set()
    waiting = list(graph[module])
    while waiting:
        imported = waiting.pop()
        if imported not in reached:
            reached.add(imported)
            waiting += graph[imported]
    return reached


def long_parameter_lists(file: Module) -> Iterator[tuple[int, str, str]]:
    """Yield each function with too many parameters: their number without self and cls, the file, and `name (line n)`."""
    for node in file.functions():
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        count = len(every) - (bool(every) and every[0].arg in ("self", "cls"))
        if count > MOST_PARAMETERS:
            yield count, _shown(file), f"{node.name} (line {node.lineno})"


def _shown(file: Module) -> str:
    return file.path.relative_to(SOURCE / PACKAGE).as_posix()


def _print_circles(title: str, found: list[list[str]], graph: Graph) -> None:
    print(f"{title}: {len(found)}")
    for number, circle in enumerate(found, 1):
        print(f"  {number}: {len(circle)} files")
        for module in circle:
            print(f"    {module} imports {', '.join(sorted(graph[module] & set(circle)))}")


def main() -> None:
    """Print the import cycles, then the functions with many parameters, then the small files."""
    files = modules(SOURCE / PACKAGE)
    at_runtime, in_all = graph_of(files, typing=False), graph_of(files, typing=True)
    real = circles(at_runtime)
    _print_circles("import cycles at runtime", real, at_runtime)
    _print_circles("import cycles that exist only under TYPE_CHECKING", [c for c in circles(in_all) if c not in real], in_all)

    many = sorted((found for file in files for found in long_parameter_lists(file)), key=lambda one: (-one[0], one[1:]))
    print(f"functions with more than {MOST_PARAMETERS} parameters: {len(many)}")
    for count, shown, name in many:
        print(f"  {count}  {shown}: {name}")

    small = [file for file in files if file.lines <= SMALL_LINES and not file.is_package and not _shown(file).startswith(ONE_FILE_PER_API)]
    print(f"files with {SMALL_LINES} lines or fewer, without __init__ and the folders with one file per API: {len(small)} of {len(files)}")
    for file in sorted(small, key=lambda one: (one.lines, _shown(one))):
        print(f"  {file.lines:3}  {_shown(file)}")


if __name__ == "__main__":
    main()
