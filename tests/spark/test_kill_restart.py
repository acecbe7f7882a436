"""A stream from Kafka to Kafka is killed in the middle of a micro-batch and started again: nothing is lost (issue 3, done when 3)."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import levada as lv
from levada.spark.pyspark_versions import HAS_ADMISSION_CONTROL
from levada.types import TopicPartition
from process_sessions import kill_session, members, signal_all

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(400)]

JOB = Path(__file__).parent / "streaming_job.py"
RECORDS = 16_000
SOME = 500
PATIENCE_S = 120


@pytest.mark.skipif(sys.platform != "linux", reason="finds the processes of a session through /proc")
def test_a_stream_killed_in_mid_batch_loses_nothing(kafka44: Any, new_topic: Any, tmp_path: Any, capsys: Any) -> None:
    source, target = new_topic(kafka44, partitions=3), new_topic(kafka44, partitions=3)
    produce(kafka44.bootstrap_servers, source)
    job = Job(kafka44.bootstrap_servers, source, target, tmp_path)

    with job.running(pause_s=0.1):
        wait_until(job.stops_within_a_batch)
    killed_at = job.written()
    job.run_to_the_end()
    if not HAS_ADMISSION_CONTROL:
        # PySpark before 4.2 runs one micro-batch, and that was the unfinished one.
        job.run_to_the_end()

    copies = Counter(record.value for record in lv.scan(target, bootstrap_servers=kafka44.bootstrap_servers))
    lost = {b"%d" % number for number in range(RECORDS)} - copies.keys()
    duplicates = copies.total() - len(copies)
    with capsys.disabled():
        print(f"\nkilled after {killed_at:,} records of {RECORDS:,}: {len(lost)} lost, {duplicates} written twice or more")
    assert not lost
    assert len(copies) == RECORDS
    assert duplicates > 0, "the kill met no unfinished batch: the test proves nothing"


def produce(servers: str, topic: str) -> None:
    with lv.KafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(RECORDS):
            producer.send(topic, key=b"%d" % number, value=b"%d" % number)


class Job:
    """The program streaming_job.py, with its topics and its checkpoint."""

    def __init__(self, servers: str, source: str, target: str, folder: Path) -> None:
        self._servers = servers
        self._target = target
        self._checkpoint = folder / "checkpoint"
        self._log = folder / "job.log"
        self._command = [sys.executable, str(JOB), servers, source, target, str(self._checkpoint)]
        self._session = 0
        self._written_before: dict[int, int] = {}

    @contextmanager
    def running(self, pause_s: float) -> Iterator[None]:
        """Run the program during the block, then kill driver, JVM and all Python workers. pause_s: the program's pause, in seconds."""
        with self._log.open("ab") as log:
            program = subprocess.Popen([*self._command, str(pause_s)], stdout=log, stderr=log, start_new_session=True)
        self._session = program.pid
        try:
            yield
            assert program.poll() is None, self._log.read_text()
        finally:
            kill_session(program.pid)
            program.wait(PATIENCE_S)

    def run_to_the_end(self) -> None:
        done = subprocess.run([*self._command, "0"], capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr

    def stops_within_a_batch(self) -> bool:
        """Whether all processes are stopped within a micro-batch. Stopped, because the batch could end before the program is killed."""
        if not self.is_within_a_batch():
            return False
        signal_all(members(self._session), signal.SIGSTOP)
        if self._newest("commits") != self._newest("offsets"):
            return True
        signal_all(members(self._session), signal.SIGCONT)
        return False

    def is_within_a_batch(self) -> bool:
        """Whether a micro-batch after the first has written some records, and Spark has not committed it."""
        batch = self._newest("offsets")
        if not batch or self._newest("commits") == batch:
            return False
        before = self._written_before.setdefault(batch, self.written())
        return self.written() >= before + SOME and self._newest("commits") != batch

    def written(self) -> int:
        with lv.KafkaConsumer(bootstrap_servers=self._servers) as consumer:
            partitions = [TopicPartition(self._target, info.partition) for info in consumer.partitions_for(self._target)]
            return sum(consumer.end_offsets(partitions).values())

    def _newest(self, log: str) -> int | None:
        folder = self._checkpoint / log
        numbers = [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
        return max(numbers, default=None)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the stream did not get into the middle of a batch"
        time.sleep(0.05)
