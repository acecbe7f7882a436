"""Sends a database's changes to Kafka, and tells up to which position all are safe: what binlog_to_kafka.py and postgres_to_kafka.py share.

They yield steps with rising positions: one for each change, and one without a record at the end of each transaction of the database. None
means that the database has nothing new.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import levada as lv
from levada.testing import EmbeddedKafka

Producer = lv.KafkaProducer[Any, Any]
CONFIRM_EVERY_S = 0.1
"""How often a position is confirmed, and a transaction of Kafka committed, at most: both take a few milliseconds."""


class Step(NamedTuple):
    """A position, and the record that has to be in Kafka before it is safe: topic, value and key. Without a record a transaction ends."""

    position: Any
    record: tuple[str, str, str] | None = None


def change(position: Any, table: str, operation: str, key: list[str], row: Mapping[str, Any]) -> Step:
    """Return the step of a row's change. key: the columns of the primary key."""
    value = {"operation": operation, "row": row, "position": position._asdict()}
    as_json = partial(json.dumps, default=written)
    return Step(position, (table, as_json(value), as_json([row[column] for column in key])))


def written(value: Any) -> Any:
    """Return what JSON has for a value that it does not have: hexadecimal for bytes, a sorted list for a set, and text for all else."""
    return value.hex() if isinstance(value, bytes) else sorted(value) if isinstance(value, set) else str(value)


Confirm = Callable[[Any], object]


def copy(asked: argparse.Namespace, start: Callable[[], Any], read: Callable[[Any], Iterable[Step | None]], confirm: Confirm) -> None:
    """Send all changes after start(), or after the position in Kafka if it has one. Confirm positions up to which all are in Kafka."""
    with nullcontext() if asked.kafka else EmbeddedKafka(port=9092, data_dir=f"{asked.name}.kafka") as embedded:
        kafka = embedded.bootstrap_servers if embedded else asked.kafka
        print(f"sending to Kafka at {kafka}", flush=True)
        with lv.KafkaProducer(bootstrap_servers=kafka, transactional_id=asked.name if asked.exactly_once else None) as producer:
            if asked.exactly_once:
                topic = f"{asked.name}.position"
                send_exactly_once(read(committed_position(producer, kafka, topic, start)), producer, topic, confirm)
            else:
                after = start()
                send(read(after), after, producer, confirm)


def send(steps: Iterable[Step | None], after: Any, producer: Producer, confirm: Confirm) -> None:
    """Send each change at least once."""
    with lv.AckBuffer(10_000, after=after, retain=False) as acks:
        confirmed, due_s = after, 0.0
        for step in steps:
            if step:
                sequence = acks.put(step.position)
                if step.record:
                    producer.send(*step.record, ack=(acks, sequence))
                else:
                    acks.mark(sequence)
            if acks.failure:
                raise acks.failure
            if acks.safe != confirmed and time.monotonic() >= due_s:
                confirmed, due_s = acks.safe, time.monotonic() + CONFIRM_EVERY_S
                confirm(confirmed)


def send_exactly_once(steps: Iterable[Step | None], producer: Producer, topic: str, confirm: Confirm) -> None:
    """Send whole transactions of the database in transactions of Kafka, together with the position after them."""
    begun_s, position, is_whole = 0.0, None, False
    for step in steps:
        if step:
            if not begun_s:
                producer.begin_transaction()
                begun_s = time.monotonic()
            if step.record:
                producer.send(*step.record)
            position, is_whole = step.position, step.record is None
        if begun_s and is_whole and time.monotonic() - begun_s >= CONFIRM_EVERY_S:
            producer.send(topic, json.dumps(position), "position")
            producer.commit_transaction()
            confirm(position)
            begun_s = 0.0


def committed_position(producer: Producer, kafka: str, topic: str, start: Callable[[], Any]) -> Any:
    """Return the position of the last committed transaction; if there is none yet, commit start().

    Only this producer writes to the topic. Otherwise an open transaction of another one would hide the last positions.
    """
    with lv.KafkaAdmin(bootstrap_servers=kafka) as admin:
        if topic not in admin.list_topics():
            admin.create_topics([lv.NewTopic(topic, 1, config={"cleanup.policy": "compact", "segment.ms": "3600000"})])
    # A reader with this name that still runs cannot commit any more, and the open transaction of one that was killed is aborted.
    producer.init_transactions()
    positions = [json.loads(record.value or "") for record in lv.scan(topic, bootstrap_servers=kafka, isolation_level="read_committed")]
    if not positions:
        positions = [start()]
        with producer.transaction():
            producer.send(topic, json.dumps(positions[0]), "position")
    return tuple(positions[-1])


def options(description: str | None, example: str) -> argparse.Namespace:
    """Return what the command line says."""
    command = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("database", help=f"such as {example}")
    command.add_argument("--name", default="changes", help="of this reader; its position and its transactions have this name, too")
    command.add_argument("--kafka", help="host:port of a broker; by default levada's own runs on port 9092, with the folder NAME.kafka")
    command.add_argument("--exactly-once", action="store_true", help="send in transactions")
    return command.parse_args()
