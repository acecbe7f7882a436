"""The broker that comes with levada, in a process of its own: its memory is its own, too, and it takes no part in the demo's Ctrl-C."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self


class Kafka(Protocol):
    """Where the demo runs."""

    bootstrap_servers: str

    def memory_bytes(self) -> int | None:
        """Return its resident memory, None where that is not known."""


@dataclass
class OtherKafka:
    """A Kafka that was there already."""

    bootstrap_servers: str

    def memory_bytes(self) -> int | None:
        """Return None: it may be anywhere."""
        return None


class BrokerProcess:
    """A running broker; leaving the `with` block ends it."""

    def __enter__(self) -> Self:
        # In a process group of its own: Ctrl-C would end it under a stream that still writes.
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
        )
        assert self._process.stdout is not None
        self.bootstrap_servers = self._process.stdout.readline().strip()
        if not self.bootstrap_servers:
            raise SystemExit("the embedded broker did not start; its own message is above")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.communicate()

    def memory_bytes(self) -> int | None:
        """Return its resident memory, None where the system does not tell."""
        return resident_bytes(Path(f"/proc/{self._process.pid}/status"))


def resident_bytes(status: Path) -> int | None:
    """Read the resident memory of a process from Linux's status file, None where there is no such file."""
    if not status.exists():
        return None
    lines = (line.split() for line in status.read_text().splitlines())
    return next((int(fields[1]) * 1024 for fields in lines if fields[0] == "VmRSS:"), None)


def serve() -> None:
    """Serve until standard input ends, as it does when the demo does."""
    from levada.testing import EmbeddedKafka

    with EmbeddedKafka() as kafka:
        print(kafka.bootstrap_servers, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    serve()
