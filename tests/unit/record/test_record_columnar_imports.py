"""A first read as columns loads nothing that takes longer than the read."""

from __future__ import annotations

import json
import os
import subprocess
import sys

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
    assert not {"pandas", "pyarrow.compute", "levada.record.columnar.encoder"} & set(json.loads(run.stdout.splitlines()[-1]))
