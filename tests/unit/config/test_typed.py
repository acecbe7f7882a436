"""The settings as keywords that an editor completes: written from the declarations, and what a type checker makes of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from levada.config import (
    AdminConfig,
    Config,
    ConsumerConfig,
    JSONSerializerConfig,
    ProducerConfig,
    RegistryConfig,
    SerializerConfig,
    typed,
)
from levada.config.client import ClientConfig
from levada.config.typed_source import source

KINDS: list[tuple[type[Config], type]] = [
    (ClientConfig, typed.ClientSettings),
    (AdminConfig, typed.AdminSettings),
    (ConsumerConfig, typed.ConsumerSettings),
    (ProducerConfig, typed.ProducerSettings),
    (RegistryConfig, typed.RegistrySettings),
    (SerializerConfig, typed.SerializerSettings),
    (JSONSerializerConfig, typed.JSONSerializerSettings),
]


def test_the_module_is_as_it_would_be_written() -> None:
    assert Path(typed.__file__).read_text() == source(), "run `make docs`"


@pytest.mark.parametrize(("config", "settings"), KINDS)
def test_every_option_is_a_keyword(config: type[Config], settings: type) -> None:
    keywords = settings.__annotations__
    assert sorted(keywords) == sorted(name.replace(".", "_") for name in config.OPTIONS)
    assert not [keyword for keyword in keywords if settings.__annotations__[keyword] == "Any"]


PROGRAM = """\
from typing import Unpack
from levada.config.typed import ProducerSettings

def producer(**settings: Unpack[ProducerSettings]) -> None: ...

producer(bootstrap_servers="a:9092", linger_ms=5, acks="all", compression_type="lz4", enable_idempotence=True)
producer(bootstrap_servers=["a:9092", ("b", 9092)], acks=0, key_serializer=str.encode)
producer(linger_millis=5)
producer(linger_ms=True is None or "5")
producer(compression_type="brotli")
"""


def test_a_type_checker_finds_misspelt_names_and_wrong_values(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    # In a process of its own: what it knows of the program stays in memory, where each collection of garbage passes over it again.
    command = [sys.executable, "-m", "mypy", "--no-incremental", "--follow-imports=silent", "--config-file=", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]
    assert lines == [8, 9, 10], done.stdout + done.stderr
