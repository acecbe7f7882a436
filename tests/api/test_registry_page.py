"""The programs of docs/REGISTRY.md run as they stand, and what the page lists is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from levada import registry
from levada.config import SerializerConfig

PAGE = (Path(__file__).parents[2] / "docs" / "REGISTRY.md").read_text()
NAMES = ("avro", "json", "registry", "asyncio")
BLOCKS = dict(zip(NAMES, re.findall(r"```python\n(.*?)```", PAGE, re.S), strict=True))
PRINTS = {
    "avro": "read {'item': 'apple', 'price': 3}\n['orders-value']\n",
    "json": "Order(item='apple', price=3)\n",
    "asyncio": "read {'item': 'apple'}\n[1]\n",
    "registry": "True\n('/: the reader has string, the writer int',)\n",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_program_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    if name == "avro":
        pytest.importorskip("fastavro", reason="the extra avro is not installed")
    program = tmp_path / "program.py"
    program.write_text(BLOCKS[name])
    run = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert PRINTS[name] in run.stdout


def test_every_setting_of_a_serializer_is_explained() -> None:
    rows = set(re.findall(r"^\| ([a-z.]+) \|", PAGE, re.M))
    assert set(SerializerConfig.OPTIONS) <= rows


def test_every_error_is_explained() -> None:
    errors = {name for name in registry.__all__ if name.endswith("Error")} - {"RegistryError"}
    assert {name for name in errors if f"`{name}`" not in PAGE} == set()
