"""examples/tail_to_kafka.py: killed at random and started again, it loses nothing and repeats only what was not stored as safe."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any, TextIO

import pytest

import levada as lv
from example_programs import Kafka, broker
from kafka_cluster import KafkaCluster

PROGRAM = Path(__file__).parents[2] / "examples" / "tail_to_kafka.py"
TOPICS = ("log.info", "log.error", "db.customers", "db.orders")
PARTITIONS = 2
SOURCES = ("file", "database")
KILLS = 3
PATIENCE_S = 30


@pytest.fixture
def kafka(given_kafka: KafkaCluster | None) -> Iterator[Kafka]:
    with broker(given_kafka, PARTITIONS) as kafka:
        for topic in TOPICS:
            kafka.create_topic(topic, PARTITIONS)
        yield kafka


class Upstream:
    """A program that logs and one that sells, and what they wrote, by position."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "app.log"
        self.database = folder / "shop.db"
        self.lines: dict[str, int] = {}
        self._sold = 0
        with closing(sqlite3.connect(self.database)) as database, database:
            database.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
            database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER)")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write all the time, in a thread."""
        enough = threading.Event()
        writer = threading.Thread(target=self._write, args=(enough,))
        writer.start()
        try:
            yield
        finally:
            enough.set()
            writer.join()

    def _write(self, enough: threading.Event) -> None:
        with self.file.open("a") as file, closing(sqlite3.connect(self.database, timeout=PATIENCE_S)) as database:
            database.execute("PRAGMA synchronous = OFF")
            while not enough.wait(0.002):
                for _ in range(5):
                    self._log(file)
                self._sell(database)

    def _log(self, file: TextIO) -> None:
        line = f"{('INFO', 'ERROR')[len(self.lines) % 2]} request {len(self.lines)}"
        file.write(f"{line}\n")
        file.flush()
        self.lines[line] = file.tell()

    def _sell(self, database: sqlite3.Connection) -> None:
        self._sold += 1
        with database:
            database.execute("INSERT INTO orders (customer, amount) VALUES (?, ?)", (self._sold % 7, self._sold))
            database.execute("INSERT OR REPLACE INTO customers VALUES (?, ?)", (self._sold % 7, f"bought {self._sold}"))
            if self._sold % 5 == 0:
                database.execute("DELETE FROM orders WHERE id = ?", (self._sold - 1,))

    def changes(self) -> dict[tuple[str, str, str], list[int]]:
        """The positions of equal changes: (table, key, change)."""
        found: dict[tuple[str, str, str], list[int]] = {}
        with closing(sqlite3.connect(self.database)) as database:
            for id, table, key, change in database.execute('SELECT id, "table", key, change FROM changes ORDER BY id'):
                found.setdefault((table, str(key), change), []).append(id)
        return found


class Reader:
    """The example in a process of its own, which is killed with -9 in the end."""

    def __init__(self, kafka: Kafka, folder: Path, upstream: Upstream, *keeping: str) -> None:
        self._kafka = kafka
        self.positions = folder / "positions"
        sources: list[str | Path] = ["--file", upstream.file, "--database", upstream.database, "--table", "customers", "--table", "orders"]
        keeping = keeping or ("--positions", str(self.positions))
        self.command: list[str | Path] = [sys.executable, PROGRAM, "--bootstrap", kafka.bootstrap_servers, *keeping, *sources]

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(self.command)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def stored(self, source: str) -> int:
        path = self.positions / source
        return json.loads(path.read_text()) if path.exists() else 0

    def ends(self) -> dict[lv.TopicPartition, int]:
        places = [lv.TopicPartition(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
        return {tp: self._kafka.end_offset(*tp) for tp in places}

    def await_that(self, happened: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
        """Wait for something that the reader does."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not happened():
            assert process.poll() is None, "it has ended by itself"
            assert time.monotonic() < deadline_s
            time.sleep(0.0005)


def read(kafka: Kafka, **settings: Any) -> list[lv.ConsumerRecord[bytes, bytes]]:
    return [record for topic in TOPICS for record in lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers, **settings)]


def position_of(
    record: lv.ConsumerRecord[bytes, bytes], upstream: Upstream, changes: dict[tuple[str, str, str], list[int]]
) -> tuple[str, int]:
    kind, _, table = record.topic.partition(".")
    value = (record.value or b"").decode()
    if kind == "log":
        return "file", upstream.lines[value]
    [id] = changes[table, (record.key or b"").decode(), value]
    return "database", id


def expected(upstream: Upstream) -> set[tuple[str, int]]:
    ids = [id for ids in upstream.changes().values() for id in ids]
    return {("file", end) for end in upstream.lines.values()} | {("database", id) for id in ids}


def test_Q1_Q9_killed_at_random_nothing_is_lost_and_only_what_was_not_safe_is_repeated(kafka: Kafka, tmp_path: Path) -> None:
    random = Random(tmp_path.name)
    upstream = Upstream(tmp_path)
    reader = Reader(kafka, tmp_path, upstream)
    killed: list[tuple[dict[str, int], dict[lv.TopicPartition, int]]] = []
    for _ in range(KILLS):
        with upstream.writing(), reader.running() as process:
            for _ in range(random.randint(1, 3)):
                before = reader.stored("file")
                # A position that was just stored is where a wrong one would lose what is still under way.
                reader.await_that(lambda before=before: reader.stored("file") > before, process)  # type: ignore[misc]
        killed.append(({source: reader.stored(source) for source in SOURCES}, reader.ends()))
    with reader.running() as process:
        changes = upstream.changes()
        ends = {"file": upstream.file.stat().st_size, "database": max(id for ids in changes.values() for id in ids)}
        reader.await_that(lambda: all(reader.stored(source) == ends[source] for source in SOURCES), process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0

    everything = [(record, *position_of(record, upstream, changes)) for record in read(kafka)]
    assert {(source, position) for _, source, position in everything} == expected(upstream)
    for stored, log_ends in killed:
        late = [
            (source, position)
            for record, source, position in everything
            if record.offset >= log_ends[lv.TopicPartition(record.topic, record.partition)]
        ]
        assert all(position > stored[source] for source, position in late)


def test_Q9_a_message_that_cannot_be_written_ends_it_before_that_position(kafka: Kafka, tmp_path: Path) -> None:
    upstream = Upstream(tmp_path)
    upstream.file.write_text(f"INFO fits\nERROR {'x' * 2_000_000}\nINFO behind it\n")
    reader = Reader(kafka, tmp_path, upstream)

    ended = subprocess.run(reader.command, capture_output=True, text=True, timeout=PATIENCE_S)

    assert ended.returncode == 1
    assert "NotAcknowledgedError: id 2000017 (sequence 1) was not acknowledged: a record for topic 'log.error' takes up to" in ended.stderr
    assert reader.stored("file") == len("INFO fits\n")


def test_Q1_with_transactions_nothing_is_lost_or_repeated_however_often_it_is_killed(kafka: Kafka, tmp_path: Path) -> None:
    random = Random(tmp_path.name)
    upstream = Upstream(tmp_path)
    reader = Reader(kafka, tmp_path, upstream, "--exactly-once", "tail")
    for _ in range(KILLS):
        with upstream.writing(), reader.running() as process:
            count = sum(reader.ends().values()) + random.randint(1, 500)
            reader.await_that(lambda count=count: sum(reader.ends().values()) >= count, process)  # type: ignore[misc]
    wanted = expected(upstream)
    places = {source: lv.TopicPartition(f"tail.{source}.position", 0) for source in SOURCES}
    ends = {places[source]: max(position for name, position in wanted if name == source) for source in SOURCES}
    with reader.running() as process, lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id="tail") as consumer:
        reader.await_that(lambda: {place: found and found.offset for place, found in consumer.committed(ends).items()} == ends, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0

    changes = upstream.changes()
    committed = [position_of(record, upstream, changes) for record in read(kafka, isolation_level="read_committed")]
    assert sorted(committed) == sorted(wanted)
    assert len(read(kafka)) > len(committed), "a kill left an open transaction"
