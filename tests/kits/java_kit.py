"""Runs small Java programs that call Kafka's own classes for a test.

A program is one file of tests/java with a `main` that calls `Frames.serve`. It is compiled against the jars of one Kafka version, again
only if its source changes. The program answers requests until it is closed, and ends if the process that started it ends. Requests and
answers are bytes whose meaning only the program and its test define. The `java_program` fixture starts each program once per run.
"""

from __future__ import annotations

import hashlib
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from kafka_jars import KafkaUnavailable, cache_dir, filled, java

SOURCES = Path(__file__).parents[1] / "java"
# The source file that is compiled with every program, and the release of the Java language.
SHARED = SOURCES / "Frames.java"
RELEASE = "17"
COMPILER_PACKAGE = "openjdk-17-jdk-headless"
COMPILE_TIMEOUT_S = 120
END_TIMEOUT_S = 10

_SIZE = struct.Struct(">i")
_FAULT = 1


class JavaError(Exception):
    """An exception that a Java program has thrown. kind: its class, such as "java.lang.IllegalStateException"."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message

    @classmethod
    def parse(cls, text: str) -> JavaError:
        """Parse the text that Frames.java writes for an exception: class, line break, message."""
        kind, _, message = text.partition("\n")
        return cls(kind, message)


class JavaProgram:
    """A running program. source: its source file. jars: the folder of jars on its class path. heap: the value of -Xmx.

    Raises KafkaUnavailable if Java or a Java compiler is missing.
    """

    def __init__(self, source: Path, jars: Path, *, heap: str = "256m") -> None:
        self.name = f"{source.stem} on {jars.name}"
        class_path = f"{compiled(source, jars)}:{jars}/*"
        flags = [f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [str(java()), *flags, "-cp", class_path, source.stem],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, question: bytes) -> bytes:
        """Send a request, and return the answer. Raises JavaError if the program threw an exception, RuntimeError if it ended."""
        try:
            self._send(question)
            (size,) = _SIZE.unpack(self._receive(_SIZE.size))
            answer = self._receive(size)
        except (BrokenPipeError, EOFError):
            raise RuntimeError(f"{self.name} ended while it was asked:\n{self._printed()}") from None
        if answer[0] == _FAULT:
            raise JavaError.parse(answer[1:].decode())
        return answer[1:]

    def close(self) -> None:
        """Close the program's input, upon which it ends. Kill it if it still runs after END_TIMEOUT_S seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(END_TIMEOUT_S)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> JavaProgram:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _send(self, question: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(_SIZE.pack(len(question)) + question)
        self._process.stdin.flush()

    def _receive(self, size: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def _printed(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")


def compiled(source: Path, jars: Path) -> Path:
    """Return the folder of a program's classes. Compile the program if this folder does not exist."""
    digest = hashlib.sha256(source.read_bytes() + SHARED.read_bytes() + RELEASE.encode()).hexdigest()[:12]
    folder = cache_dir().parent / "classes" / f"{source.stem}-{digest}-{jars.name}"
    return filled(folder, lambda filling: _compile(source, jars, filling))


def _compile(source: Path, jars: Path, output: Path) -> None:
    options = ["-d", str(output), "-cp", f"{jars}/*", "--release", RELEASE, "-Xlint:-options", "-proc:none"]
    command = [str(_compiler()), *options, str(source), str(SHARED)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, stdin=subprocess.DEVNULL)
    if run.returncode != 0:
        raise RuntimeError(f"{source.name} does not compile against {jars.name}:\n{run.stdout}{run.stderr}")


def _compiler() -> Path:
    beside = java().resolve().with_name("javac")
    if beside.exists():
        return beside
    found = shutil.which("javac")
    if found is None:
        raise KafkaUnavailable(f"no Java compiler: the Java here only runs programs; install a JDK (Debian, Ubuntu: {COMPILER_PACKAGE})")
    return Path(found)
