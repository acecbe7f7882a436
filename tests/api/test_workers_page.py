"""docs/WORKERS.md: its programs run as they stand, under the real gunicorn and Celery."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import levada as lv
from levada.testing import EmbeddedKafka

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "WORKERS.md"
PATIENCE_S = 60

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork() here")


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=1) as kafka:
        yield kafka


def program(heading: str, path: Path) -> None:
    """Write the program under a heading of the page to a file."""
    section = PAGE.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    path.write_text(code, "utf-8")


@contextmanager
def running(command: list[str], folder: Path, kafka: EmbeddedKafka, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a folder; end it by SIGTERM, and wait until it has ended in order."""
    env = {**os.environ, "KAFKA": kafka.bootstrap_servers, **environment}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, (folder / "log").read_text()
    finally:
        process.kill()
        process.wait()


def values(kafka: EmbeddedKafka, topic: str) -> list[str]:
    return [record.value.decode() for record in lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers) if record.value is not None]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def visit(url: str) -> int:
    """Return the status of a GET request. Try again while the server does not listen yet."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
                status: int = response.status
                return status
        except (ConnectionError, urllib.error.URLError):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_gunicorn(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    pytest.importorskip("gunicorn", reason="gunicorn is not installed")
    program("gunicorn", tmp_path / "web.py")
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "2", "--bind", address, "web:application"]
    with running(command, tmp_path, kafka):
        assert {visit(f"http://{address}/page-{number}") for number in range(20)} == {202}
    # What was not acknowledged when the workers ended was waited for.
    assert sorted(values(kafka, "visits")) == sorted(f"/page-{number}" for number in range(20))


TASKS = """
import celery_worker
import os
import levada as lv

app = celery_worker.app
# Longer than the test: only the end of a process writes its records.
celery_worker.producer = lv.KafkaProducer({"bootstrap.servers": os.environ["KAFKA"], "linger.ms": 80_000})


@app.task
def count(order):
    celery_worker.producer.send("orders", f"order {order}")
"""


def test_celery(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Tasks of examples/celery_worker.py that do not wait: the end of each process writes what they have sent."""
    pytest.importorskip("celery", reason="Celery is not installed")
    (tmp_path / "tasks.py").write_text(TASKS, "utf-8")
    (tmp_path / "queue").mkdir()
    path = os.pathsep.join([str(ROOT / "examples"), *filter(None, [os.environ.get("PYTHONPATH")])])
    settings = {"CELERY_BROKER": "filesystem://", "CELERY_FOLDER": str(tmp_path / "queue"), "PYTHONPATH": path}
    ask = "import tasks\nfor order in range(20):\n    tasks.count.delay(order)\n"
    env = {**os.environ, "KAFKA": kafka.bootstrap_servers, **settings}
    subprocess.run([sys.executable, "-c", ask], cwd=tmp_path, env=env, check=True, timeout=PATIENCE_S)
    command = [sys.executable, "-m", "celery", "--app", "tasks", "worker", "--concurrency", "2", "--pool", "prefork", "--loglevel", "INFO"]
    with running(command, tmp_path, kafka, **settings):
        deadline = time.monotonic() + PATIENCE_S
        while (tmp_path / "log").read_text().count("succeeded in") < 20:
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.05)
    assert sorted(values(kafka, "orders")) == sorted(f"order {number}" for number in range(20))


def test_multiprocessing(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    program("multiprocessing", tmp_path / "numbers_pool.py")
    env = {**os.environ, "KAFKA": kafka.bootstrap_servers}
    done = subprocess.run(
        [sys.executable, "numbers_pool.py"], cwd=tmp_path, env=env, check=True, timeout=PATIENCE_S, stdout=subprocess.PIPE, text=True
    )
    assert done.stdout.split("\n")[:2] == ["fork 10", "spawn 10"]
    assert sorted(values(kafka, "numbers"), key=int) == [str(number) for number in sorted([*range(10)] * 2)]
