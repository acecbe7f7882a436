"""Copy new lines of an append-only file and changes of a SQLite database to Kafka. After a crash, continue without losing any.

    python examples/tail_to_kafka.py --bootstrap localhost:9092 --positions positions \
        --file app.log --database shop.db --table customers --table orders
    python examples/tail_to_kafka.py --bootstrap localhost:9092 --exactly-once tail --file app.log

Each line of the file goes to the topic of its first word (ERROR -> log.error), and each change of a table to the table's topic (db.orders).
A message's position is an increasing number: the file offset after a line, or the id of a change. Messages go to several partitions of
several topics and are acknowledged in any order. An AckBuffer therefore keeps the position to continue from: `safe` is the last position
for which this message and all messages before it are in Kafka. It is stored durably from time to time. If the program is killed, nothing
is lost, and only messages after the stored position may be sent twice.

With --exactly-once NAME instead of --positions, consumers with isolation.level=read_committed see no message twice, either: messages are
sent in transactions, and each transaction also commits the position after its messages, as an offset of the group NAME. Several messages
share a transaction, so consumers see them a little later.

Ctrl-C or SIGTERM ends the program in order. A message that cannot be written ends it with an error. When it is started again, it continues
from the stored positions.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import levada as lv

ROOM = 10_000
"""Maximum number of unacknowledged messages. If there are as many, reading waits."""
TRANSACTION = 1_000
"""Maximum number of messages in a transaction."""
STORE_EVERY_S = 0.1
LOCKED_S = 30
"""Time in seconds to wait while another program locks the database."""
PAUSE_S = 0.05
"""Pause in seconds before a source is read again."""


class Message(NamedTuple):
    """A message to send, and the position after it."""

    position: int
    topic: str
    value: bytes
    key: bytes | None = None


class Source(Protocol):
    """A source of messages that grows. name: the name under which its position is stored."""

    name: str

    def read(self, after: int) -> Iterator[Message]:
        """Yield messages after a position, in order; not necessarily all. 0 is the position before the first message."""
        ...


class FileSource:
    """Lines of a file that is only appended to. A position is the offset of the byte after a line."""

    name = "file"
    LEVELS = ("debug", "info", "warning", "error")

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, after: int) -> Iterator[Message]:
        """Yield the whole lines after a position."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(after)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # The line is not complete yet.
                after += len(line)
                yield Message(after, self._topic(line), line[:-1])

    def _topic(self, line: bytes) -> str:
        level = line.partition(b" ")[0].decode(errors="replace").lower()
        return f"log.{level if level in self.LEVELS else 'other'}"


class DatabaseSource:
    """Changes of a SQLite database. Triggers write them to a table within each transaction. A position is the id of a change.

    SQLite has one writer at a time, so ids become visible in order. In a database with overlapping transactions, a lower id may become
    visible after a higher one, and this reader would miss it. Read the log of such a database instead.
    """

    name = "database"

    def __init__(self, path: Path, tables: Sequence[str]) -> None:
        self._path = path
        with closing(sqlite3.connect(path, timeout=LOCKED_S)) as database, database:
            database.execute("BEGIN IMMEDIATE")
            database.execute('CREATE TABLE IF NOT EXISTS changes (id INTEGER PRIMARY KEY AUTOINCREMENT, "table" TEXT, key, change TEXT)')
            for table in tables:
                self._watch(database, table)

    @staticmethod
    def _watch(database: sqlite3.Connection, table: str) -> None:
        columns = [row[1] for row in database.execute("SELECT * FROM pragma_table_info(?)", (table,))]
        for event, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
            fields = ", ".join(f"'{name}', {row}.\"{name}\"" for name in columns)
            database.execute(
                f'CREATE TRIGGER IF NOT EXISTS "watch_{table}_{event}" AFTER {event} ON "{table}" BEGIN '
                f"INSERT INTO changes (\"table\", key, change) VALUES ('{table}', {row}.rowid, "
                f"json_object('event', '{event.lower()}', 'row', json_object({fields}))); END"
            )

    def read(self, after: int) -> Iterator[Message]:
        """Yield the next changes after a position. The database is not locked while they are sent."""
        with closing(sqlite3.connect(self._path, timeout=LOCKED_S)) as database:
            rows = database.execute('SELECT id, "table", key, change FROM changes WHERE id > ? ORDER BY id LIMIT 1000', (after,)).fetchall()
        for id, table, key, change in rows:
            yield Message(id, f"db.{table}", change.encode(), str(key).encode())


class Positions:
    """A folder with a file for each source's position. A stored position survives a crash of the machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def load(self, name: str) -> int:
        """Return the stored position of a source; 0 before the first."""
        path = self._folder / name
        return json.loads(path.read_text()) if path.exists() else 0

    def store(self, name: str, position: int) -> None:
        """Replace the position of a source atomically."""
        fresh = self._folder / f"{name}.new"
        with fresh.open("w") as file:
            file.write(json.dumps(position))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._folder / name)
        folder = os.open(self._folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


class Keeper:
    """Stores the safe position from time to time, because that would be slow after each message."""

    def __init__(self, name: str, buffer: lv.AckBuffer, positions: Positions) -> None:
        self._name, self._buffer, self._positions = name, buffer, positions
        self._stored, self._stored_at_s = buffer.safe, 0.0

    def look(self, *, now: bool = False) -> None:
        """Store the safe position if it has changed, and STORE_EVERY_S have passed or now is true."""
        if self._buffer.safe != self._stored and (now or time.monotonic() - self._stored_at_s > STORE_EVERY_S):
            self._stored, self._stored_at_s = self._buffer.safe, time.monotonic()
            self._positions.store(self._name, self._stored)


def follow(source: Source, producer: lv.KafkaProducer[Any, Any], positions: Positions, stop: threading.Event) -> None:
    """Send all messages after the stored position, and new ones, until stop is set."""
    position = positions.load(source.name)
    with lv.AckBuffer(ROOM, after=position, retain=False) as buffer:
        keeper = Keeper(source.name, buffer, positions)
        try:
            while not stop.is_set():
                for message in source.read(after=position):
                    sequence = buffer.put(message.position)
                    producer.send(message.topic, message.value, message.key, ack=(buffer, sequence))
                    position = message.position
                    keeper.look()
                    if stop.is_set():
                        break
                if buffer.failure is not None:
                    raise buffer.failure
                keeper.look()
                stop.wait(PAUSE_S)
            buffer.wait_empty()
        finally:
            producer.flush(timeout=10)  # After an error, too: messages before the failed one may still become safe.
            keeper.look(now=True)


def follow_in_transactions(source: Source, bootstrap: str, name: str, stop: threading.Event) -> None:
    """Send all messages after the committed position, and new ones, in transactions with their position, until stop is set."""
    place = lv.TopicPartition(f"{name}.{source.name}.position", 0)
    with lv.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"{name}-{source.name}", max_block_ms=10_000) as producer:
        # Call this before reading the position: it ends the open transaction of a killed run.
        producer.init_transactions()
        position = committed_position(bootstrap, name, place)
        while not stop.is_set():
            messages = list(islice(source.read(after=position), TRANSACTION))
            if not messages:
                stop.wait(PAUSE_S)
                continue
            position = messages[-1].position
            with producer.transaction():
                for message in messages:
                    producer.send(message.topic, message.value, message.key)
                producer.send_offsets_to_transaction({place: position}, name)


def committed_position(bootstrap: str, group: str, place: lv.TopicPartition) -> int:
    """Return the position that a group has committed, or 0. Creates the topic, because brokers keep offsets only of existing topics."""
    with lv.KafkaAdmin(bootstrap_servers=bootstrap) as admin:
        if place.topic not in admin.list_topics():
            admin.create_topics([lv.NewTopic(place.topic, partitions=1)])
    with lv.KafkaConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        committed = consumer.committed([place])[place]
    return committed.offset if committed else 0


def main() -> None:
    """Copy the sources that the command line names."""
    command = argparse.ArgumentParser(description="Follow a file and a SQLite database into Kafka.")
    command.add_argument("--bootstrap", required=True, help="host:port of a broker")
    keeping = command.add_mutually_exclusive_group(required=True)
    keeping.add_argument("--positions", type=Path, help="a folder for the positions")
    keeping.add_argument("--exactly-once", help="use transactions, with this name")
    command.add_argument("--file", type=Path, help="a file that is only appended to")
    command.add_argument("--database", type=Path, help="a SQLite database")
    command.add_argument("--table", action="append", default=[], help="a table to follow; repeat it for more")
    options = command.parse_args()

    sources: list[Source] = []
    if options.file:
        sources.append(FileSource(options.file))
    if options.database:
        sources.append(DatabaseSource(options.database, options.table))
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    if options.exactly_once:
        follow_all(sources, stop, lambda source: follow_in_transactions(source, options.bootstrap, options.exactly_once, stop))
    else:
        positions = Positions(options.positions)
        with lv.KafkaProducer(bootstrap_servers=options.bootstrap, linger_ms=20) as producer:
            follow_all(sources, stop, lambda source: follow(source, producer, positions, stop))


def follow_all(sources: Sequence[Source], stop: threading.Event, follow_one: Callable[[Source], None]) -> None:
    """Copy each source in a thread of its own, until stop is set or one fails."""
    with ThreadPoolExecutor(len(sources) or 1) as threads:
        running = [threads.submit(follow_one, source) for source in sources]
        wait(running, return_when=FIRST_EXCEPTION)
        stop.set()
        for follower in running:
            follower.result()


if __name__ == "__main__":
    main()
