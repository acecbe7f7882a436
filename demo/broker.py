"""Runs levada's embedded broker in a separate process, so that its memory can be measured and the demo's Ctrl-C does not end it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self


class Kafka(Protocol):
    """The Kafka that the demo uses."""

    bootstrap_servers: str

    def memory_bytes(self) -> int | None:
        """Return the broker's resident memory in bytes, None if unknown."""


@dataclass
class OtherKafka:
    """A Kafka that the demo did not start."""

    bootstrap_servers: str

    def memory_bytes(self) -> int | None:
        """Return None: the broker may run on another machine."""
        return None


class BrokerProcess:
    """A broker that runs until the `with` block ends."""

    def __enter__(self) -> Self:
        # In a separate process group: otherwise Ctrl-C would end the broker while a stream still writes to it.
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
        """Return the broker's resident memory in bytes, None if the system does not report it."""
        return resident_bytes(Path(f"/proc/{self._process.pid}/status"))


def resident_bytes(status: Path) -> int | None:
    """Return the resident memory of a process in bytes, from Linux's status file; None if there is no such file."""
    if not status.exists():
        return None
    lines = (line.split() for line in status.read_text().splitlines())
    return next((int(fields[1]) * 1024 for fields in lines if fields[0] == "VmRSS:"), None)


def serve() -> None:
    """Run the broker until standard input ends, which happens when the demo ends."""
    from levada.testing import EmbeddedKafka

    with EmbeddedKafka() as kafka:
        print(kafka.bootstrap_servers, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    serve()
