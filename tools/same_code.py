"""Whether only words have changed: `python tools/same_code.py [commit]` compares the Python files here with those of a commit (HEAD).

Comments and docstrings may differ; names, code and other texts may not. Files that exist on one side only are listed, and fail.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path


def code_of(source: str) -> str:
    """Return a source's syntax tree without docstrings, as text."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [entry for entry in body if not _is_text(entry)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)


def differing(commit: str) -> list[str]:
    """Return the Python files whose code differs from a commit's."""
    changed = _git("diff", "--name-only", "--no-renames", commit, "--", "*.py").split()
    return [name for name in changed if not _is_same(commit, Path(name))]


def _is_same(commit: str, path: Path) -> bool:
    if not path.exists() or not _git("ls-tree", commit, str(path)):
        return False
    return code_of(_git("show", f"{commit}:{path}")) == code_of(path.read_text(encoding="utf-8"))


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    found = differing(*sys.argv[1:2] or ["HEAD"])
    print("\n".join(found) or "only words have changed")
    sys.exit(bool(found))
