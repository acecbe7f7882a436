"""Nothing in the repository leads to one machine, one user or one package registry."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from source_tree import ROOT

# Spelled in pieces, so that this file passes its own test.
FORBIDDEN = {
    "a home folder": re.compile(r"/(root|home/\w+|Users/\w+)" + r"/"),
    "a build machine's folder": re.compile(r"(?<![\w.<>-])/(wor" + r"k|builds|workspace)/"),
    "a registry's host": re.compile("|".join(("py" + r"pi\.org", "python" + r"hosted\.org", "repo1?" + r"\.maven", "deb" + r"\.debian"))),
    "an index of packages": re.compile("--(extra-)?" + "index-url|--find-" + "links"),
}
BINARY = {".png", ".jar", ".parquet", ".arrow", ".gz", ".bin"}


def committed() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


FILES = [path for path in committed() if path.suffix not in BINARY]


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names(what: str) -> None:
    found = []
    for path in FILES:
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if FORBIDDEN[what].search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    assert not found


def test_constraints_are_versions_only() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)] == []
