"""Implements KILL=1: kills the driver of the job "arrivals" with SIGKILL while it writes a micro-batch to Kafka, and starts it again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import levada as lv

DRIVER = Path(__file__).with_name("driver.py")
KILLS = 2
LEVELS = ("read_uncommitted", "read_committed")
LOG = "driver.log"
SHOW_EVERY_S = 0.25
LOOK_EVERY_S = 0.005
"""Shorter than the transaction of a large micro-batch."""


class Watched:
    """Watches a topic for open transactions, while one driver after another writes to it."""

    def __init__(self, servers: str, topic: str) -> None:
        self._open = ExitStack()
        self._readers = [self._open.enter_context(lv.KafkaConsumer(bootstrap_servers=servers, isolation_level=level)) for level in LEVELS]
        self._partitions = [lv.TopicPartition(topic, info.partition) for info in self._readers[0].partitions_for(topic)]
        self._end = 0

    def start(self) -> None:
        """Remember the end of the log. Rows up to there are not from the driver that starts now."""
        self._end, _ = self._ends()

    def has_undecided_rows(self) -> bool:
        """Return whether the log has rows of an open transaction of this driver. False while an earlier driver's rows are undecided."""
        end, stable = self._ends()
        return end > stable >= self._end

    def _ends(self) -> list[int]:
        return [sum(reader.end_offsets(self._partitions).values()) for reader in self._readers]

    def close(self) -> None:
        """Close the connections."""
        self._open.close()


class KilledDriver:
    """A driver that is killed in mid-batch and started again, KILLS times. asked: the arguments of driver.py."""

    def __init__(self, asked: Mapping[str, str]) -> None:
        self._asked = asked
        self._folder = Path(asked["folder"])
        self._reports: dict[int, dict[str, Any]] = {}
        self.kills = 0

    @property
    def reports(self) -> list[dict[str, Any]]:
        """Spark's reports, one for each micro-batch."""
        return [self._reports[number] for number in sorted(self._reports)]

    def until_done(self) -> Iterator[int]:
        """Run the driver, kill it, and run it to the end. Yields the number of records read so far."""
        with closing(Watched(self._asked["servers"], self._asked["target"])) as watched:
            while self.kills < KILLS:
                yield from self._run(watched)
                # If the transaction ended before the driver did, the kill was not in mid-batch and does not count.
                self.kills += watched.has_undecided_rows()
        yield from self._run(None)

    def _run(self, to_be_killed: Watched | None) -> Iterator[int]:
        """Run the driver to its end, or with to_be_killed until the rows of a micro-batch arrive in Kafka."""
        if to_be_killed is not None:
            to_be_killed.start()
        with self._running() as (driver, told):
            while driver.poll() is None:
                if to_be_killed is None:
                    time.sleep(SHOW_EVERY_S)
                elif to_be_killed.has_undecided_rows():
                    return
                else:
                    time.sleep(LOOK_EVERY_S)
                self._take(told)
                yield sum(report["numInputRows"] for report in self.reports)
            self._take(told)
        if driver.returncode or to_be_killed is not None:
            why = (self._folder / LOG).read_text()[-2000:] if driver.returncode else "it had written everything before it could be killed"
            raise SystemExit(f"the driver of the arrivals ended: {why}")

    @contextmanager
    def _running(self) -> Iterator[tuple[subprocess.Popen, BinaryIO]]:
        """Yield the driver's process and its output. Kill its remaining processes at the end."""
        told = self._folder / "told"
        with told.open("w") as out, (self._folder / LOG).open("w") as log, told.open("rb") as read:
            command = [sys.executable, str(DRIVER), json.dumps(self._asked)]
            driver = subprocess.Popen(command, stdout=out, stderr=log, start_new_session=True)
            try:
                yield driver, read
            finally:
                kill_session(driver.pid)
                driver.wait()

    def _take(self, told: BinaryIO) -> None:
        *lines, unfinished = told.read().split(b"\n")
        told.seek(-len(unfinished), os.SEEK_CUR)
        for report in map(json.loads, lines):
            self._reports[report["batchId"]] = report


def kill_session(leader: int) -> None:
    """Kill all processes of a session with SIGKILL, until none remains: the driver, Java, and the Python processes that Spark started."""
    while members := [int(stat.parent.name) for stat in Path("/proc").glob("[0-9]*/stat") if _runs_in(stat, leader)]:
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _runs_in(stat: Path, session: int) -> bool:
    try:
        state, _, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
    except OSError:
        return False
    return state != "Z" and int(its_session) == session


def aborted_rows(servers: str, topic: str) -> int:
    """Count the rows in a topic's log that consumers with isolation.level=read_committed do not see."""
    everything, committed = (_count(servers, topic, level) for level in LEVELS)
    return everything - committed


def _count(servers: str, topic: str, level: str) -> int:
    return sum(batch.num_rows for batch in lv.scan(topic, bootstrap_servers=servers, columns=["offset"], isolation_level=level).arrow())
