"""What became of records that were sent: how many were acknowledged, and which failed."""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

from levada.errors import KafkaError
from levada.types import RecordMetadata

MOST_SHOWN = 20


class Failure(NamedTuple):
    """A record that was not acknowledged. where: the line or row that it came from."""

    where: str
    error: KafkaError


class Outcomes:
    """Counts acknowledgements; callbacks of a producer, on its own thread, and the command use it at the same time."""

    def __init__(self) -> None:
        self.taken = 0
        """Records that were read and handed to the producer; only the command counts them."""
        self.aborted = False
        """Whether they were in a transaction that was aborted: nobody reads them, and nothing about them is unknown."""
        self.acknowledged = 0
        self.failed = 0
        self.shown: list[Failure] = []
        """The first failures; more are only counted."""
        self._lock = Lock()

    @property
    def unknown(self) -> int:
        """How many have no outcome. Some remain where a run is broken off: they may have been written."""
        return 0 if self.aborted else self.taken - self.acknowledged - self.failed

    def done(self, where: str, line: int, _: RecordMetadata, error: KafkaError | None) -> None:
        """Take up the outcome of one record. where: its file, empty for stdin."""
        if error is None:
            self.add(1)
        else:
            self.fail(f"{where}line {line}", error)

    def add(self, count: int) -> None:
        """Take up records that were acknowledged."""
        with self._lock:
            self.acknowledged += count

    def fail(self, where: str, error: KafkaError) -> None:
        """Take up a record that failed."""
        with self._lock:
            self.failed += 1
            if len(self.shown) < MOST_SHOWN:
                self.shown.append(Failure(where, error))
