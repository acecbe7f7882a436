"""The quick starts of the README run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import levada as lv
from levada.testing import EmbeddedKafka

README = (Path(__file__).parents[2] / "README.md").read_text()
NAMES = ("python", "asyncio", "exactly once", "any request", "arrow", "spark")
BLOCKS = dict(zip(NAMES, re.findall(r"```python\n(.*?)```", README, re.S), strict=True))
PRINTS = {
    "python": "at offset 0",
    "asyncio": "the last of 100 was written",
    "exactly once": "10 invoices",
    "any request": "(0, 13)",
    "arrow": "100000 rows written",
    "spark": "1000 records doubled",
}


@pytest.mark.parametrize("name", [*NAMES[:-1], pytest.param("spark", marks=pytest.mark.spark)])
def test_a_quick_start_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    program = tmp_path / "quick_start.py"
    program.write_text(BLOCKS[name])
    # As in an activated virtual environment: PySpark's workers are the first python3 on the PATH.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    run = subprocess.run([sys.executable, str(program)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110)
    assert run.returncode == 0, run.stderr
    assert PRINTS[name] in run.stdout


def test_exactly_once_goes_on_after_it_was_killed_within_a_transaction(tmp_path: Path) -> None:
    reading_on = BLOCKS["exactly once"].partition("    reading =")
    head = "import os\nimport levada as lv\nservers = os.environ['SERVERS']\n"
    whole = head + textwrap.dedent("".join(reading_on[1:]))
    killed = whole.replace("txn.send_offsets(consumer)\n", "txn.send_offsets(consumer)\n            os.kill(os.getpid(), 9)\n")
    assert killed != whole
    with EmbeddedKafka(num_partitions=1) as kafka:
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            producer.send_many("orders", [f"{n} apples" for n in range(10)])
        environment = {**os.environ, "SERVERS": kafka.bootstrap_servers}
        for text, code, printed in ((killed, -9, ""), (whole, 0, "10 invoices\n")):
            program = tmp_path / "exactly_once.py"
            program.write_text(text)
            run = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, timeout=60)
            assert (run.returncode, run.stdout) == (code, printed), run.stderr


def test_no_quick_start_leaves_files_that_its_next_run_would_trip_over() -> None:
    fixed_paths = [path for block in BLOCKS.values() for path in re.findall(r"""["'](/[^"']+)["']""", block)]
    assert fixed_paths == []
