"""The table of docs/JSON.md: what from_json does otherwise."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from source_tree import ROOT

ROW = re.compile(r"^\| ([a-z_]+(?:\(.*?\)|<.*?>)?) \| `(.*?)` \| (.*?) \| (.*?) \| [^|]+ \|$")


class Difference(NamedTuple):
    """One line. theirs, ours: the text of field f and whether the record is malformed; the text is None for words without backticks."""

    kind: str
    record: bytes
    theirs: tuple[str | None, bool]
    ours: tuple[str | None, bool]


def _outcome(cell: str) -> tuple[str | None, bool]:
    text, malformed = cell.removesuffix(", malformed"), cell.endswith(", malformed")
    return (text[1:-1] if text.startswith("`") else "null" if text == "null" else None), malformed


def differences() -> list[Difference]:
    """Return the lines of the table."""
    lines = (ROOT / "docs" / "JSON.md").read_text().partition("## What from_json")[2].splitlines()
    rows = [row.groups() for line in lines if (row := ROW.match(line))]
    assert len(rows) == sum(line.startswith("| ") for line in lines) - 1
    return [
        Difference(kind, ast.literal_eval(record) if record.startswith("b'") else record.encode(), _outcome(theirs), _outcome(ours))
        for kind, record, theirs, ours in rows
    ]
