"""The kit that runs Java programs: faults are told apart, and no process is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import java_kit
from java_kit import SOURCES, JavaError, JavaProgram
from kafka_cluster import POMS
from kafka_jars import KafkaUnavailable, jars

START_AND_HANG = """
import sys, time
from java_kit import SOURCES, JavaProgram
from pathlib import Path
program = JavaProgram(SOURCES / "Messages.java", Path(sys.argv[1]))
print(program.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def program(java_program: Callable[[str, str], JavaProgram]) -> Iterator[JavaProgram]:
    """A program of this test's own; the shared one is asked for only to skip where there is no Java."""
    java_program("Messages", "4.4.0")
    with JavaProgram(SOURCES / "Messages.java", jars(POMS / "pom-4.4.0.xml")) as started:
        yield started


@pytest.mark.kafka
def test_an_exception_of_java_is_reported_and_the_program_goes_on(program: JavaProgram) -> None:
    for _ in range(2):
        with pytest.raises(JavaError, match=r"^java\.lang\.ClassNotFoundException: no\.such\.Message$") as caught:
            program.ask(b'L["no.such.Message"]')
        assert (caught.value.kind, caught.value.message) == ("java.lang.ClassNotFoundException", "no.such.Message")


@pytest.mark.kafka
def test_a_program_that_has_ended_says_so_and_can_still_be_closed(program: JavaProgram) -> None:
    os.kill(program.pid, signal.SIGKILL)

    with pytest.raises(RuntimeError, match=r"^Messages on 4\.4\.0-\w+ ended while it was asked"):
        program.ask(b"L[]")


@pytest.mark.kafka
def test_a_closed_program_has_ended(program: JavaProgram) -> None:
    program.close()

    assert not is_alive(program.pid)


@pytest.mark.kafka
def test_a_program_ends_with_the_process_that_asks_it(program: JavaProgram) -> None:
    command = [sys.executable, "-c", START_AND_HANG, str(jars(POMS / "pom-4.4.0.xml"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(SOURCES.parent / "kits")}) as asker:
        assert asker.stdout is not None
        pid = int(asker.stdout.readline())
        asker.kill()

    deadline = time.monotonic() + 20
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(pid)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be buried does not."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_java_that_only_runs_programs_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java_kit, "cache_dir", lambda: tmp_path / "cache" / "jars")

    with pytest.raises(KafkaUnavailable, match=r"^no Java compiler: .* install a JDK .*openjdk-17-jdk-headless"):
        JavaProgram(SOURCES / "Messages.java", tmp_path / "4.4.0")
