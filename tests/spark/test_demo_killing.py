"""What `make demo KILL=1` looks for, what it counts, and whom it kills."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import levada as lv
from demo_kit import load

killing = load("killing")


@pytest.fixture
def topic(embedded: Any, new_topic: Any) -> str:
    name: str = new_topic(embedded, 2)
    return name


@pytest.fixture
def producer(embedded: Any, topic: str) -> Iterator[lv.KafkaProducer]:
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        yield producer


def write(producer: lv.KafkaProducer, topic: str, rows: int) -> None:
    for number in range(rows):
        producer.send(topic, b"row", partition=number % 2)
    producer.flush()


def test_rows_of_an_open_transaction_are_seen(embedded: Any, topic: str, producer: lv.KafkaProducer) -> None:
    with closing(killing.Watched(embedded.bootstrap_servers, topic)) as watched:
        watched.start()
        producer.begin_transaction()
        assert not watched.has_undecided_rows()
        write(producer, topic, 3)
        assert watched.has_undecided_rows()
        watched.start()
        assert not watched.has_undecided_rows(), "these are of the driver before"
        producer.abort_transaction()
        producer.begin_transaction()
        write(producer, topic, 1)
        assert watched.has_undecided_rows()
        producer.commit_transaction()


def test_aborted_rows_are_counted(embedded: Any, topic: str, producer: lv.KafkaProducer) -> None:
    assert killing.aborted_rows(embedded.bootstrap_servers, topic) == 0
    for rows, end in [(3, producer.abort_transaction), (5, producer.commit_transaction)]:
        producer.begin_transaction()
        write(producer, topic, rows)
        end()
    assert killing.aborted_rows(embedded.bootstrap_servers, topic) == 3


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_all_processes_of_a_session_are_killed() -> None:
    """As Python workers of Spark are: children in a process group of their own."""
    child = "import os, time; os.setpgid(0, 0); print(os.getpid(), flush=True); time.sleep(600)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    killing.kill_session(parent.pid)
    parent.wait(20)
    parent.stdout.close()
    assert not killing._runs_in(Path(f"/proc/{pid}/stat"), parent.pid)


def test_what_a_driver_prints_is_read_line_by_line(tmp_path: Path) -> None:
    driver = killing.KilledDriver({"folder": str(tmp_path)})
    told = tmp_path / "told"
    told.write_text('{"batchId": 0, "numInputRows": 7}\n{"batchId": 1, ')
    with told.open("rb") as read:
        driver._take(read)
        assert driver.reports == [{"batchId": 0, "numInputRows": 7}]
        told.write_text('{"batchId": 0, "numInputRows": 7}\n{"batchId": 1, "numInputRows": 2}\n')
        driver._take(read)
    assert [report["numInputRows"] for report in driver.reports] == [7, 2]
