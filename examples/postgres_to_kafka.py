"""Send each row change of a PostgreSQL to Kafka: python examples/postgres_to_kafka.py postgresql://reader:secret@localhost/shop

A change of a table in the publication NAME goes to the topic SCHEMA.TABLE, with the primary key as the key, so a row's changes keep their
order. The replication slot NAME has the position up to which all changes are in Kafka: after a crash only later ones are sent again. With
--exactly-once consumers of committed records see each change once: the position is also written to Kafka, in the changes' transaction. An
error ends the program. docs/examples/binlog_to_kafka.md tells more.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from itertools import count
from math import isfinite
from typing import Any, NamedTuple

import psycopg
from psycopg.adapt import Transformer
from psycopg.types.numeric import FloatLoader
from psycopg.types.string import TextLoader

from changes_to_kafka import Step, change, copy, options

PEEK = "SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, 1000, 'proto_version', '1', 'publication_names', %s)"
CONFIRMED = "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots WHERE slot_name = %s"
CREATE = "SELECT (lsn - '0/0')::bigint FROM pg_create_logical_replication_slot(%s, 'pgoutput')"
ADVANCE = """SELECT pg_replication_slot_advance(slot_name, greatest(confirmed_flush_lsn, '0/0'::pg_lsn + %s))
    FROM pg_replication_slots WHERE slot_name = %s"""


class Position(NamedTuple):
    """Where a transaction was committed, and how many of its changes are done. Transactions come in the order of their commits."""

    lsn: int
    changes: int = 0


class Float(FloatLoader):  # type: ignore[misc]
    """JSON has no NaN and no infinity: they become text."""

    def load(self, data: Any) -> Any:
        """Return the number of a text."""
        number = super().load(data)
        return number if isfinite(number) else bytes(data).decode()


# Python has no infinite date, no month in a timedelta, and no year 0 or 10000: dates and times stay as PostgreSQL writes them.
LOADERS = dict.fromkeys(("date", "time", "timetz", "timestamp", "timestamptz", "interval"), TextLoader) | {"float4": Float, "float8": Float}


class Table(NamedTuple):
    """A table, the columns of its primary key, and all columns, each with what reads its text."""

    name: str
    key: list[str]
    columns: list[tuple[str, Any]]


class Message(BytesIO):
    """A message of PostgreSQL's output plugin pgoutput, which is taken from the front. PostgreSQL's manual describes them."""

    def take(self, layout: str) -> Any:
        """Return the next value or, of a layout with several ones, a tuple."""
        values = struct.unpack(f">{layout}", self.read(struct.calcsize(f">{layout}")))
        return values if len(values) > 1 else values[0]

    def text(self) -> str:
        """Return the next text, which ends with a zero."""
        return b"".join(iter(lambda: self.read(1), b"\0")).decode()

    def table(self, types: Transformer) -> Table:
        """Return the description of a table."""
        schema, name, identity, count = self.text(), self.text(), self.take("c"), self.take("h")
        if identity == b"f":
            raise SystemExit(f"{schema}.{name} has REPLICA IDENTITY FULL: PostgreSQL does not say what its primary key is; set DEFAULT")
        columns = [(self.take("b"), self.text(), self.take("Ii")) for _ in range(count)]
        loaders = [(name, types.get_loader(type, psycopg.pq.Format.TEXT)) for _, name, (type, _) in columns]
        return Table(f"{schema}.{name}", [name for is_key, name, _ in columns if is_key], loaders)

    def row(self, table: Table) -> dict[str, Any]:
        """Return a row. A long value that has not changed (u) is left out."""
        row = {}
        for (name, loader), _ in zip(table.columns, range(self.take("h")), strict=True):
            kind = self.take("c")
            if kind != b"u":
                row[name] = loader.load(self.read(self.take("i"))) if kind == b"t" else None
        return row

    def changes(self, kind: bytes, table: Table) -> list[tuple[str, dict[str, Any]]]:
        """Return the operation and the row. An update of the primary key is a deletion and an insertion, each with its own key."""
        if self.take("c") == b"N":
            return [("insert" if kind == b"I" else "update", self.row(table))]
        deletion = ("delete", {name: value for name, value in self.row(table).items() if name in table.key})
        return [deletion] if kind == b"D" else [deletion, ("insert", self.take("c") and self.row(table))]


def read(database: psycopg.Connection[Any], slot: str, after: Position) -> Iterator[Step | None]:
    """Yield what a slot has after a position. Each query begins at the confirmed one, so it may return changes that are on their way."""
    for type, loader in LOADERS.items():
        database.adapters.register_loader(type, loader)
    # A killed reader may leave the slot behind its position in Kafka. PEEK would then return only changes that are in Kafka already.
    database.execute(ADVANCE, (after[0], slot))
    while True:
        for step in steps(database.execute(PEEK, (slot, slot), binary=True).fetchall(), Transformer(database)):
            if step.position > after:
                after = step.position
                yield step
        yield None
        time.sleep(0.05)


def steps(messages: list[tuple[bytes]], types: Transformer) -> Iterator[Step]:
    """Yield what messages say. They begin with a transaction, and describe each table before its first change."""
    tables: dict[int, Table] = {}
    lsn, numbers = 0, count(1)
    for message in (Message(data) for (data,) in messages):
        kind = message.take("c")
        if kind == b"B":
            lsn, numbers = message.take("Q"), count(1)
        elif kind == b"C":
            yield Step(Position(message.take("bQQ")[2]))
        elif kind == b"R":
            tables |= {message.take("I"): message.table(types)}
        elif kind in (b"I", b"U", b"D"):
            table = tables[message.take("I")]
            for operation, row in message.changes(kind, table):
                yield change(Position(lsn, next(numbers)), table.name, operation, table.key, row)


def main() -> None:
    """Run until it is stopped."""
    asked = options(__doc__, "postgresql://user:password@host:5432/database")
    with psycopg.connect(asked.database, autocommit=True) as database:
        [(lsn,)] = database.execute(CONFIRMED, (asked.name,)).fetchall() or database.execute(CREATE, (asked.name,)).fetchall()
        copy(asked, partial(Position, lsn), partial(read, database, asked.name), lambda at: database.execute(ADVANCE, (at.lsn, asked.name)))


if __name__ == "__main__":
    main()
