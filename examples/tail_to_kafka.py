"""Follow an append-only file and a SQLite database into Kafka, and go on after a crash from where everything is safe.

    python examples/tail_to_kafka.py --bootstrap localhost:9092 --positions positions \
        --file app.log --database shop.db --table customers --table orders
    python examples/tail_to_kafka.py --bootstrap localhost:9092 --exactly-once tail --file app.log

Each line of the file goes to the topic of its first word (ERROR -> log.error), each change of a table to the table's topic (db.orders).
A message's position is a number that rises: the offset after a line, the id of a change. Messages go to several partitions of several
topics and are acknowledged in any order, so the position to go on from is kept by an AckBuffer: `safe` is the last position such that
it and all before it are in Kafka. It is stored durably from time to time. Whenever this program is killed, nothing is lost, and what is
sent twice comes after the stored position.

With --exactly-once NAME instead of --positions nothing is sent twice either, for readers with isolation.level=read_committed: messages are
sent in transactions, and each takes the position after its messages with it, as an offset of the group NAME. Several messages share a
transaction, so they appear a little later.

Ctrl-C or SIGTERM ends it in order. An id that cannot be written ends it with an error: started again, it goes on from the stored positions.
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
"""How many messages may be on their way; the reader waits while they are."""
TRANSACTION = 1_000
"""How many messages a transaction may have."""
STORE_EVERY_S = 0.1
LOCKED_S = 30
"""How long to wait for a writer of the database."""
PAUSE_S = 0.05
"""How long to wait before looking for more."""


class Message(NamedTuple):
    """What is sent, and the position after it."""

    position: int
    topic: str
    value: bytes
    key: bytes | None = None


class Source(Protocol):
    """Something that grows. name: under which its position is stored."""

    name: str

    def read(self, after: int) -> Iterator[Message]:
        """Yield what is there after a position, or the next of it, in order; 0 is the beginning."""
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
                    return  # Its writer is in the middle of it.
                after += len(line)
                yield Message(after, self._topic(line), line[:-1])

    def _topic(self, line: bytes) -> str:
        level = line.partition(b" ")[0].decode(errors="replace").lower()
        return f"log.{level if level in self.LEVELS else 'other'}"


class DatabaseSource:
    """Changes of a SQLite database, which triggers write into a table as part of each transaction. A position is the id of a change.

    SQLite has one writer at a time, so ids become visible in their order. Where transactions overlap, a lower id may appear after a higher
    one, and a reader like this would miss it: read the log of such a database instead.
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
        """Yield the next changes after a position; nothing is locked while they are sent."""
        with closing(sqlite3.connect(self._path, timeout=LOCKED_S)) as database:
            rows = database.execute('SELECT id, "table", key, change FROM changes WHERE id > ? ORDER BY id LIMIT 1000', (after,)).fetchall()
        for id, table, key, change in rows:
            yield Message(id, f"db.{table}", change.encode(), str(key).encode())


class Positions:
    """A folder with a file per source that holds a position. A position that was stored is there after a crash of the machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def load(self, name: str) -> int:
        """Return the stored position of a source; 0 before the first."""
        path = self._folder / name
        return json.loads(path.read_text()) if path.exists() else 0

    def store(self, name: str, position: int) -> None:
        """Replace the position of a source: by all of the new one or not at all."""
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
    """Stores what is safe, but not after each message."""

    def __init__(self, name: str, buffer: lv.AckBuffer, positions: Positions) -> None:
        self._name, self._buffer, self._positions = name, buffer, positions
        self._stored, self._stored_at_s = buffer.safe, 0.0

    def look(self, *, now: bool = False) -> None:
        """Store the safe position if there is a new one and it is time."""
        if self._buffer.safe != self._stored and (now or time.monotonic() - self._stored_at_s > STORE_EVERY_S):
            self._stored, self._stored_at_s = self._buffer.safe, time.monotonic()
            self._positions.store(self._name, self._stored)


def follow(source: Source, producer: lv.KafkaProducer[Any, Any], positions: Positions, stop: threading.Event) -> None:
    """Send what is there after the stored position, and what comes, until told to stop."""
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
            producer.flush(timeout=10)  # After an error, too: what comes before a failed message may become safe yet.
            keeper.look(now=True)


def follow_in_transactions(source: Source, bootstrap: str, name: str, stop: threading.Event) -> None:
    """Send what is there after the committed position, and what comes, with its position, until told to stop."""
    place = lv.TopicPartition(f"{name}.{source.name}.position", 0)
    with lv.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"{name}-{source.name}", max_block_ms=10_000) as producer:
        # First, because this ends what a reader that was killed has left open.
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
    """Return the position that a group has committed for a place; 0 before the first. Brokers keep offsets for topics that exist only."""
    with lv.KafkaAdmin(bootstrap_servers=bootstrap) as admin:
        if place.topic not in admin.list_topics():
            admin.create_topics([lv.NewTopic(place.topic, partitions=1)])
    with lv.KafkaConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        committed = consumer.committed([place])[place]
    return committed.offset if committed else 0


def main() -> None:
    """Follow the sources that the command line names."""
    command = argparse.ArgumentParser(description="Follow a file and a SQLite database into Kafka.")
    command.add_argument("--bootstrap", required=True, help="host:port of a broker")
    keeping = command.add_mutually_exclusive_group(required=True)
    keeping.add_argument("--positions", type=Path, help="a folder for the positions")
    keeping.add_argument("--exactly-once", help="use transactions, with this name")
    command.add_argument("--file", type=Path, help="a file that is only appended to")
    command.add_argument("--database", type=Path, help="a SQLite database")
    command.add_argument("--table", action="append", default=[], help="a table of it to follow; may be repeated")
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
    """Follow each source in a thread of its own until all are told to stop, or one fails."""
    with ThreadPoolExecutor(len(sources) or 1) as threads:
        running = [threads.submit(follow_one, source) for source in sources]
        wait(running, return_when=FIRST_EXCEPTION)
        stop.set()
        for follower in running:
            follower.result()


if __name__ == "__main__":
    main()
