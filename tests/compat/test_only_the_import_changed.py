"""Programs for confluent-kafka, run as they are and with only their imports changed: both print the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from levada.testing import EmbeddedKafka, EmbeddedRegistry

PROGRAMS = sorted(Path(__file__).with_name("programs").glob("*.py"))
THEIRS, OURS = "confluent_kafka", "levada.compat.confluent_kafka"
OF_THEIR_REGISTRY = ("certifi", "httpx", "attrs", "authlib", "cachetools")
"""Packages that their registry client needs, and that `make setup` does not install."""
AVRO_PRINTS = """\
refused: _VALUE_SERIALIZATION
offsets: [0, 1, 2]
registered: 1 AVRO
subjects: True
compatible: True
missing: 404 40401
read: 0 Order(fruit='pears', pieces=0)
read: 1 Order(fruit='apples', pieces=1)
read: 2 Order(fruit='plums', pieces=2)
read: 9 None
text: b'\\xc3\\x96l'
"""


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=4, super_users=["ANONYMOUS"]) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def registry() -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry() as registry:
        yield registry


def printed(program: Path, package: str, folder: Path, *arguments: str) -> str:
    """Run a program with this package in the place of confluent_kafka; return what it prints."""
    copy = folder / f"{package}.{program.name}"
    copy.write_text(program.read_text().replace(f"from {THEIRS}", f"from {package}"))
    run = subprocess.run([sys.executable, copy, *arguments], capture_output=True, text=True, timeout=90)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_program_prints_the_same(program: Path, kafka: EmbeddedKafka, registry: EmbeddedRegistry, tmp_path: Path) -> None:
    topic = program.stem.replace("_", "-")
    ours = printed(program, OURS, tmp_path, kafka.bootstrap_servers, f"ours-{topic}", registry.url)
    if program.stem == "avro_orders":
        assert ours == AVRO_PRINTS
        if not all(find_spec(package) for package in OF_THEIR_REGISTRY):
            return
    assert ours == printed(program, THEIRS, tmp_path, kafka.bootstrap_servers, f"theirs-{topic}", registry.url)
