"""A first read as columns loads nothing that takes longer than the read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder

import pytest

from levada.record import header
from source_tree import ROOT

PROGRAM = """
import json, sys
import pyarrow
from record_kit import build, only_batch
from levada.record.columnar import ColumnDecoder

decoder = ColumnDecoder(("key", "value", "topic", "partition", "offset", "timestamp"))
decoder.add(only_batch(build([(1, b"k", b"v", [])])), "t", 0)
assert decoder.finish().num_rows == 1
assert decoder.finish().num_rows == 0
print(json.dumps(sorted(sys.modules)))
"""


def test_reading_columns_loads_neither_pandas_nor_what_only_writing_needs() -> None:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests" / "kits")])
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths})
    assert run.returncode == 0, run.stderr
    slow = {"pandas", "pyarrow.compute", "levada.record.columnar.encoder"}
    assert not slow & set(json.loads(run.stdout.splitlines()[-1]))


def test_a_checksum_does_not_read_the_metadata_of_packages() -> None:
    """That takes longer than all the rest of a first read."""
    program = "import sys; from levada.record.header import checksum; checksum(b''); print('importlib.metadata' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}
    )
    assert run.stdout.strip() == "False", run.stderr


@pytest.mark.parametrize("found", [("crc32c", "crc32c._crc32c"), ("crc32c",), ()])
def test_M13_checksums_come_from_the_package_however_it_is_installed(monkeypatch: pytest.MonkeyPatch, found: tuple[str, ...]) -> None:
    class Finder:
        @staticmethod
        def find_spec(name: str, path: Sequence[str] | None = None) -> ModuleSpec | None:
            return PathFinder.find_spec(name, path) if name in found else None

    monkeypatch.setattr("levada.record.header.PathFinder", Finder)
    assert header._load_crc32c()(b"123456789") == 0xE3069283
