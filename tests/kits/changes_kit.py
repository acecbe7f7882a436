"""A program that writes to a database, the example that sends its changes to Kafka, and whether what arrives is what was written."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

import levada as lv
from databases import TABLES, Database
from example_programs import EXAMPLES, PATIENCE_S, Kafka, broker
from kafka_cluster import KafkaCluster

PARTITIONS = 2
WRITERS = 3
ROWS = 15
"""How many rows each writer has in a table at most: few, so that each has many changes."""
LARGE = 400
"""Changes of a large transaction, of which a kill leaves a part in Kafka."""
LAST = -1
"""The key of the last change."""

Key = tuple[str, str]
"""A table, and a primary key as JSON."""
History = dict[Key, list[tuple[str, int | None]]]
"""The operations on each row, with the number of the change, which a deletion does not have."""


def kafka_of(given_kafka: KafkaCluster | None) -> Iterator[Kafka]:
    """A fixture: a broker without topics."""
    with broker(given_kafka, PARTITIONS) as kafka:
        yield kafka


class Writer:
    """Inserts, updates and deletes rows in transactions, some of which it rolls back. Each thread has rows of its own."""

    def __init__(self, database: Database, seed: str) -> None:
        self._database = database
        self._random = [Random(f"{seed} {number}") for number in range(WRITERS)]
        self._rows: list[dict[Key, list[int]]] = [{} for _ in range(WRITERS)]
        self._numbers = count(1)
        self._failure: BaseException | None = None
        self.history: History = defaultdict(list)
        self.transactions = 0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write all the time, in threads."""
        enough = threading.Event()
        threads = [threading.Thread(target=self._write, args=(number, enough)) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            enough.set()
            for thread in threads:
                thread.join()
        if self._failure is not None:
            raise self._failure

    def finish(self) -> None:
        """Write the last change."""
        with closing(self._database.connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("INSERT INTO customers VALUES (%s, 'the last', 0)", (LAST,))
            connection.commit()
        self.history["customers", json.dumps([LAST])].append(("insert", 0))

    def _write(self, writer: int, enough: threading.Event) -> None:
        try:
            with closing(self._database.connect()) as connection, closing(connection.cursor()) as cursor:
                while not enough.wait(0.02):
                    self._transact(writer, connection, cursor)
        except BaseException as failure:
            self._failure = failure

    def _transact(self, writer: int, connection: Any, cursor: Any) -> None:
        random, rows = self._random[writer], dict(self._rows[writer])
        done: list[tuple[Key, str, int | None]] = []
        for _ in range(LARGE if random.random() < 0.01 else random.randint(1, 6)):
            table = random.choice(TABLES)
            number = random.randrange(ROWS)
            key = [writer, number] if table == "orders" else [writer * ROWS + number]
            done += self._change(cursor, random, rows, table, key)
        if random.random() < 0.1:
            connection.rollback()
            return
        connection.commit()
        self._rows[writer] = rows
        self.transactions += 1
        for row, operation, change in done:
            self.history[row].append((operation, change))

    def _change(
        self, cursor: Any, random: Random, rows: dict[Key, list[int]], table: str, key: list[int]
    ) -> list[tuple[Key, str, int | None]]:
        row, change = (table, json.dumps(key)), next(self._numbers)
        where = "shop = %s AND number = %s" if table == "orders" else "id = %s"
        if row not in rows:
            rows[row] = key
            self._insert(cursor, random, table, key, change)
            return [(row, "insert", change)]
        choice = random.random()
        if choice < 0.2:
            del rows[row]
            cursor.execute(f"DELETE FROM {table} WHERE {where}", key)
            return [(row, "delete", None)]
        if choice < 0.3:
            # No other row ever has this key, so the changes of one thread are in order.
            target = [*key[:-1], 1_000_000 + change]
            # A row whose key changes is there under the new one, until it is deleted in the next step.
            name = "number" if table == "orders" else "id"
            cursor.execute(f"UPDATE {table} SET {name} = %s, change_no = %s WHERE {where}", [target[-1], change, *key])
            cursor.execute(f"DELETE FROM {table} WHERE {where}", target)
            del rows[row]
            moved = (table, json.dumps(target))
            return [(row, "delete", None), (moved, "insert", change), (moved, "delete", None)]
        cursor.execute(f"UPDATE {table} SET change_no = %s WHERE {where}", [change, *key])
        return [(row, "update", change)]

    def _insert(self, cursor: Any, random: Random, table: str, key: list[int], change: int) -> None:
        values: tuple[Any, ...] = {
            "customers": (f"Ærø ' {change}",),
            "orders": (random.randrange(5), f"{change}.25", random.choice([None, "gift \\ \n", ""])),
            "payments": (random.choice([None, f"{change}.50"]), "2026-01-31 12:00:00"),
        }[table]
        places = ", ".join(["%s"] * (len(key) + len(values) + 1))
        cursor.execute(f"INSERT INTO {table} VALUES ({places})", [*key, *values, change])


class Arrived(NamedTuple):
    """A change in Kafka."""

    topic: str
    partition: int
    offset: int
    position: tuple[Any, ...]
    row: Key
    operation: str
    change: int | None


COMPLETE = (lv.TransactionState.COMPLETE_COMMIT, lv.TransactionState.COMPLETE_ABORT, lv.TransactionState.EMPTY)


class Kill(NamedTuple):
    """When the reader was killed: the position that was stored, and the ends of the partitions."""

    stored: tuple[Any, ...]
    ends: dict[lv.TopicPartition, int]


class Reader:
    """The example in a process of its own."""

    def __init__(self, database: Database, kafka: Kafka, folder: Path, *, exactly_once: bool = False) -> None:
        name = "once" if exactly_once else "again"
        self._database, self._kafka, self._folder, self.name = database, kafka, folder, name
        program = EXAMPLES / f"{database.example}_to_kafka.py"
        options = ["--kafka", kafka.bootstrap_servers, "--name", name]
        self.command: list[str | Path] = [sys.executable, "-X", "faulthandler", program, database.url, *options]
        if exactly_once:
            self.command.append("--exactly-once")
        self.topics = [f"{database.schema}.{table}" for table in TABLES]
        self.kills: list[Kill] = []
        database.begin(name)
        for topic in self.topics:
            kafka.create_topic(topic, PARTITIONS)
        with self.running() as process:
            self.await_that(lambda: self.stored() != (), process)

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run it, and kill it with -9 at the end."""
        process = subprocess.Popen(self.command, cwd=self._folder, stdout=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
        self.kills.append(Kill(self.stored(), self.ends()))

    def ends(self) -> dict[lv.TopicPartition, int]:
        """Return the ends of the partitions."""
        places = [lv.TopicPartition(topic, partition) for topic in self.topics for partition in range(PARTITIONS)]
        return {tp: self._kafka.end_offset(*tp) for tp in places}

    def kill_under_load(self, writer: Writer, random: Random, kills: int) -> None:
        """Kill it so often while a program writes, and then let it send what is left."""
        with writer.writing():
            for _ in range(kills):
                self.kill_at_random(random)
        writer.finish()
        with self.running() as process:
            self.await_last(process)

    def kill_at_random(self, random: Random) -> None:
        """Run it until a position was stored, when a wrong one would lose what is on its way, or until some records have arrived then."""
        with self.running() as process:
            for _ in range(random.randint(1, 3)):
                self.await_stored(process)
            if random.random() < 0.7:
                enough = sum(self.ends().values()) + random.randint(1, 300)
                self.await_that(lambda: sum(self.ends().values()) >= enough, process)

    def stored(self) -> tuple[Any, ...]:
        """Return the position that is stored."""
        return self._database.stored(self._folder, self.name)

    def await_stored(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the stored position moves."""
        stored = self.stored()
        self.await_that(lambda: self.stored() != stored, process)

    def await_last(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the last change."""
        settings: dict[str, Any] = {"bootstrap_servers": self._kafka.bootstrap_servers, "isolation_level": "read_committed"}
        self.await_that(lambda: any(True for _ in lv.scan(self.topics[0], keys=[json.dumps([LAST])], **settings)), process)
        # The partitions of a transaction get their markers one after another.
        with lv.KafkaAdmin(bootstrap_servers=self._kafka.bootstrap_servers) as admin:

            def is_complete() -> bool:
                return all(one.state in COMPLETE for one in admin.list_transactions() if one.transactional_id == self.name)

            self.await_that(is_complete, process)

    def await_that(self, happened: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
        """Wait for something that the reader does."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not happened():
            assert process.poll() is None, "it has ended by itself"
            if time.monotonic() > deadline_s:
                # It then writes to stderr what its threads are doing.
                process.send_signal(signal.SIGABRT)
                process.wait()
                with lv.KafkaAdmin(bootstrap_servers=self._kafka.bootstrap_servers) as admin:
                    raise AssertionError(f"stored: {self.stored()}, ends: {self.ends()}, transactions: {admin.list_transactions()}")
            time.sleep(0.001)

    def arrived(self, isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed") -> list[Arrived]:
        """Return all changes in Kafka, those of a partition in order."""
        records = lv.scan(self.topics, bootstrap_servers=self._kafka.bootstrap_servers, isolation_level=isolation_level)
        return [arrived(record) for record in records]


def arrived(record: lv.ConsumerRecord[bytes, bytes]) -> Arrived:
    value = json.loads(record.value or b"")
    table = record.topic.partition(".")[2]
    change = None if value["operation"] == "delete" else value["row"]["change_no"]
    row = (table, (record.key or b"").decode())
    return Arrived(record.topic, record.partition, record.offset, tuple(value["position"].values()), row, value["operation"], change)


def differences(rows: History, history: History) -> str:
    """Return the first rows whose changes in Kafka are not those of the database."""
    wrong = [row for row in {*rows, *history} if rows.get(row) != history.get(row)]
    told = [f"{row}: in Kafka {rows.get(row)}, in the database {history.get(row)}" for row in sorted(wrong)[:5]]
    return "\n".join([f"{len(wrong)} rows differ", *told])


def verify(found: list[Arrived], history: History, kills: list[Kill]) -> int:
    """Check that nothing is lost, that each row's changes are in order, and that only changes after stored positions came again.

    Returns how many came again.
    """
    first: dict[tuple[Any, ...], Arrived] = {}
    rows: History = defaultdict(list)
    for one in found:
        known = first.setdefault(one.position, one)
        assert known[4:] == one[4:], "two different changes have the same position"
        if known is one:
            rows[one.row].append((one.operation, one.change))
    assert rows == history, differences(rows, history)
    for kill in kills:
        late = [one for one in found if one.offset >= kill.ends[lv.TopicPartition(one.topic, one.partition)]]
        assert all(one.position > kill.stored for one in late), "a change came again although the position after it was stored"
    latest: dict[tuple[Key, int], tuple[Any, ...]] = {}
    for one in found:
        run = sum(one.offset >= kill.ends[lv.TopicPartition(one.topic, one.partition)] for kill in kills)
        assert latest.get((one.row, run), ()) < one.position, "a run sent a row's changes out of order"
        latest[one.row, run] = one.position
    return len(found) - len(first)
