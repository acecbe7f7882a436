"""Send each row change of a MariaDB schema to Kafka: python examples/binlog_to_kafka.py mysql://reader:secret@localhost:3306/shop

A change goes to the topic SCHEMA.TABLE, with the primary key as the record's key, so the changes of a row keep their order. The file
NAME.position has the position up to which all changes are in Kafka: after a crash only changes after it are sent again. With --exactly-once
consumers of committed records see each change once: the position is also written to Kafka, in the transaction of the changes. An error ends
the program. docs/examples/binlog_to_kafka.md tells more.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from zlib import crc32

import pymysql
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import HeartbeatLogEvent, QueryEvent, RotateEvent, XidEvent
from pymysqlreplication.row_event import DeleteRowsEvent, RowsEvent, UpdateRowsEvent, WriteRowsEvent

from changes_to_kafka import Step, change, copy, options

EVENTS = [HeartbeatLogEvent, QueryEvent, RotateEvent, XidEvent, DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent]
NEEDED = {"log_bin": 1, "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL", "binlog_checksum": "CRC32"}


class Position(NamedTuple):
    """The end of a transaction in the binary log, and how many changes after it are done.

    The server can be asked to begin at the end of a transaction, but not at a change: that cannot be read without the events before it.
    """

    log: str
    offset: int
    changes: int = 0


def read(stream: BinLogStreamReader, after: Position) -> Iterator[Step | None]:
    """Yield what the binary log has after a position."""
    end, done, number = after._replace(changes=0), after.changes, 0
    for event in stream:
        if isinstance(event, RowsEvent):
            # A text is a key of one column. A table without a key has "", and all its rows have the key [].
            key = [event.primary_key] * bool(event.primary_key) if isinstance(event.primary_key, str) else list(event.primary_key)
            for operation, row in (found for values in event.rows for found in changes_of(event, values, key)):
                number += 1
                if number > done:
                    yield change(end._replace(changes=number), f"{event.schema}.{event.table}", operation, key, row)
        elif isinstance(event, HeartbeatLogEvent):
            yield None
        elif ends_transaction(event):
            end, done, number = Position(stream.log_file, stream.log_pos), 0, 0
            yield Step(end)


def changes_of(event: RowsEvent, row: dict[str, Any], key: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the operation and the row. An update of the primary key is a deletion and an insertion, each with its own key."""
    if not isinstance(event, UpdateRowsEvent):
        return [("insert" if isinstance(event, WriteRowsEvent) else "delete", row["values"])]
    before, after = row["before_values"], row["after_values"]
    if any(before[column] != after[column] for column in key):
        return [("delete", before), ("insert", after)]
    return [("update", after)]


def ends_transaction(event: Any) -> bool:
    """Whether the server can be asked to begin after this event. A rotation without a timestamp only tells where the stream begins."""
    if isinstance(event, RotateEvent):
        return bool(event.timestamp)
    return isinstance(event, XidEvent) or event.query in ("COMMIT", "ROLLBACK")


def stored_position(file: Path, server: dict[str, Any]) -> Position:
    """Return the stored position. Without one store the end of the binary log, so that a crash before the first change skips nothing."""
    with pymysql.connect(**server) as connection, connection.cursor() as cursor:
        for name, value in NEEDED.items():
            cursor.execute(f"SELECT @@{name}")
            if cursor.fetchone() != (value,):
                sys.exit(f"the server needs the setting {name}={value}")
        if not file.exists():
            cursor.execute("SHOW MASTER STATUS")
            store(file, Position(*cursor.fetchone()[:2]))
    return Position(*json.loads(file.read_text()))


def store(file: Path, position: Position) -> None:
    """Replace the stored position. After a crash the file has the old one or the new one."""
    fresh = file.with_suffix(".new")
    with fresh.open("w") as new:
        json.dump(position, new)
        new.flush()
        os.fsync(new.fileno())
    fresh.replace(file)


def main() -> None:
    """Run until it is stopped."""
    asked = options(__doc__, "mysql://user:password@host:3306/schema")
    url, file = urlsplit(asked.database), Path(f"{asked.name}.position")
    server = {"host": url.hostname, "port": url.port or 3306, "user": url.username, "password": url.password or "", "read_timeout": 60}

    def stream(after: Position) -> Iterator[Step | None]:
        # The server closes the connection of an older reader with the same id.
        log = BinLogStreamReader(server, crc32(asked.name.encode()), blocking=True, slave_heartbeat=0.1, enable_logging=False,
            only_events=EVENTS, only_schemas=[url.path[1:]], resume_stream=True, log_file=after.log, log_pos=after.offset)  # fmt: skip
        return read(log, after)

    copy(asked, lambda: stored_position(file, server), lambda after: stream(Position(*after)), lambda position: store(file, position))


if __name__ == "__main__":
    main()
