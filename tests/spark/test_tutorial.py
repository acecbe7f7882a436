"""The program of README.md, and those of docs/tutorial.md one after another, run on a broker as files of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from levada.testing import EmbeddedKafka

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "tutorial.md").read_text()
BLOCKS = dict(re.findall(r"^## ([^\n]*)\n(?:(?!^## ).)*?```python\n(.*?)```", PAGE, re.S | re.M))
PRINTS = {
    "Produce": ["written to orders-"],
    "Consume": ["b'7 apples'", "100 orders"],
    "A group": ["packed 100 orders from orders-0 orders-1 orders-2"],
    "A transaction": ["100 invoices"],
    "Arrow columns": ["100000 rows written", "[{'key': 'user-0', 'value_count': 10000}"],
    "Spark, exactly once": ["100 labels"],
}


def test_each_section_has_at_most_one_program() -> None:
    assert BLOCKS.keys() == PRINTS.keys()
    assert PAGE.count("```python") == len(BLOCKS)


FIRST, *_, SPARK = PRINTS


@pytest.mark.parametrize("sections", [[*PRINTS][:-1], pytest.param([FIRST, SPARK], marks=pytest.mark.spark)])
def test_the_programs_run_as_they_stand(sections: list[str], tmp_path: Path) -> None:
    with EmbeddedKafka() as kafka:
        for section in sections:
            printed = run(BLOCKS[section], kafka.bootstrap_servers, tmp_path)
            assert [text for text in PRINTS[section] if text not in printed] == [], (section, printed)


def test_the_first_program_runs_as_it_stands(tmp_path: Path) -> None:
    [program] = re.findall(r"```python\n(.*?)```", (DOCS.parent / "README.md").read_text(), re.S)
    with EmbeddedKafka() as kafka:
        assert run(program, kafka.bootstrap_servers, tmp_path) == "b'customer-7' b'3 apples'\n"


def run(program: str, bootstrap_servers: str, folder: Path) -> str:
    """Run a program in a process of its own, and return what it prints."""
    path = folder / "program.py"
    path.write_text(program.replace("localhost:9092", bootstrap_servers))
    # As in an activated virtual environment: PySpark's workers are the first python3 on the PATH.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run([sys.executable, str(path)], cwd=folder, env=environment, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
