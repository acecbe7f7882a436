"""The job of a worker that reads, and the measurement of its reading."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from engine_process import Figures
from measure import own_cpu_seconds

PARTITIONS = 4
RATE, CPU, FIRST = "k records/s", "client CPU us", "first record ms"
WARM_SHARE = 5
WAIT_S = 5.0
AT_ONCE = 10_000


@dataclass(frozen=True)
class Job:
    """The job of a worker. form: the way of reading, for clients with several ways."""

    bootstrap_servers: str
    topic: str
    records: int
    form: str = ""
    settings: dict[str, Any] = field(default_factory=dict)


class Meter:
    """Counts the records that a worker reads. It is made after all imports, and before the client.

    The time to the first records is a figure of its own. The first fifth of all records is not part of the rate and the processor time.
    """

    def __init__(self, records: int) -> None:
        self._records = records
        self._seen = 0
        self._marks = [1, records // WARM_SHARE, records]
        self._start = time.perf_counter()
        self._first_ms = 0.0
        self._warm = (0, 0.0, 0.0)
        self.figures: Figures = {}

    @property
    def missing(self) -> int:
        """How many records remain until took() notes the next mark; 0 when all records are read."""
        return max(self._marks[0] - self._seen, 0) if self._marks else 0

    def took(self, records: int) -> None:
        """Count records that were read."""
        self._seen += records
        while self._marks and self._seen >= self._marks[0]:
            self._passed(len(self._marks))
            del self._marks[0]

    def _passed(self, left: int) -> None:
        if left == 3:
            self._first_ms = (time.perf_counter() - self._start) * 1e3
        elif left == 2:
            self._warm = self._seen, time.perf_counter(), own_cpu_seconds()
        else:
            seen, since, cpu = self._warm
            records, seconds = self._seen - seen, time.perf_counter() - since
            self.figures = {
                RATE: records / seconds / 1e3,
                CPU: (own_cpu_seconds() - cpu) / records * 1e6,
                FIRST: self._first_ms,
            }
