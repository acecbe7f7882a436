"""examples/binlog_to_kafka.py and postgres_to_kafka.py: killed under load, they lose nothing, and repeat only what was not stored as safe.

tests/spark/test_example_changes.py kills them thirty times on the embedded broker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

import changes_to_kafka
import databases
import levada as lv
from changes_kit import PARTITIONS, Reader, Writer, kafka_of, verify
from changes_to_kafka import Step, committed_position, send, send_exactly_once, written
from databases import Database, Postgres
from example_programs import Kafka
from levada.errors import NotAcknowledgedError, ProducerFencedError, TransactionAbortableError
from levada.testing import EmbeddedKafka

KILLS, KILLS_ON_REAL_KAFKA = 2, 6
TOPIC, POSITIONS = "shop.orders", "test.position"
TRANSACTIONS, CHANGES = 40, 5


database = pytest.fixture(databases.each_database, scope="module", params=databases.EACH)
kafka = pytest.fixture(kafka_of)


@pytest.mark.parametrize("exactly_once", [False, True], ids=["at least once", "exactly once"])
def test_Q1_Q9_killed_under_load_nothing_is_lost(database: Database, kafka: Kafka, tmp_path: Path, exactly_once: bool) -> None:
    writer = Writer(database, tmp_path.name)
    reader = Reader(database, kafka, tmp_path, exactly_once=exactly_once)
    kills = KILLS if isinstance(kafka, EmbeddedKafka) else KILLS_ON_REAL_KAFKA
    reader.kill_under_load(writer, Random(tmp_path.name), kills)

    repeated = verify(reader.arrived(), writer.history, reader.kills)
    assert repeated == 0 or not exactly_once


@pytest.mark.parametrize("database", [param for param in databases.EACH if param.values == (Postgres,)], indirect=True)
def test_values_that_python_or_json_do_not_have_are_text_and_a_key_that_is_not_known_is_an_error(database: Database) -> None:
    from postgres_to_kafka import CREATE, Position, read

    odd = {
        "day": "infinity",
        "at": "0044-03-15 00:00:00 BC",
        "late": "24:00:00",
        "span": "1 mon 2 days",
        "number": "NaN",
        "most": "-Infinity",
    }
    with closing(database.connect(first=True)) as connection:
        connection.execute(
            "CREATE TABLE odd (day DATE PRIMARY KEY, at TIMESTAMP, late TIME, span INTERVAL, number FLOAT4, most FLOAT8, half FLOAT8)"
        )
        connection.execute("CREATE PUBLICATION odd FOR TABLE odd")
        [(lsn,)] = connection.execute(CREATE, ("odd",)).fetchall()
        try:
            steps = (step.record for step in read(connection, "odd", Position(lsn)) if step and step.record)
            connection.execute("INSERT INTO odd VALUES (%s, %s, %s, %s, %s, %s, 0.5)", [*odd.values()])
            _, value, key = next(steps)
            assert (json.loads(value, parse_constant=pytest.fail)["row"], json.loads(key)) == ({**odd, "half": 0.5}, ["infinity"])

            connection.execute("ALTER TABLE odd REPLICA IDENTITY FULL")
            connection.execute("DELETE FROM odd")
            with pytest.raises(SystemExit, match=r"public\.odd has REPLICA IDENTITY FULL"):
                next(steps)
        finally:
            connection.execute("DROP TABLE odd")
            connection.execute("SELECT pg_drop_replication_slot('odd')")


def test_what_json_does_not_have_is_written_in_one_way() -> None:
    assert written({"c", "a", "b"}) == ["a", "b", "c"]
    assert written(b"\x00\xff") == "00ff"
    assert written(Decimal("14.00")) == "14.00"


def test_Q9_a_reader_goes_on_that_was_killed_before_it_confirmed_what_it_had_committed(kafka: Kafka, tmp_path: Path) -> None:
    with databases.running(Postgres) as database:
        writer, reader = Writer(database, tmp_path.name), Reader(database, kafka, tmp_path, exactly_once=True)
        # As many changes as a reader asks for at once.
        database.execute("INSERT INTO payments SELECT id, 0, NULL, 0 FROM generate_series(1, 1000) AS id")
        [(committed,)] = database.query("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=reader.name) as killed:
            killed.init_transactions()
            with killed.transaction():
                killed.send(f"{reader.name}.position", json.dumps([committed, 0]), "position")
        writer.finish()
        with reader.running() as process:
            reader.await_last(process)
        assert reader.stored() >= (committed,)


def log(
    *, after: tuple[int, int] = (0, 0), crash_at: tuple[int, int] | None = None, pause: Callable[[], object] = lambda: None
) -> Iterator[Step | None]:
    """A database's log: a position is the number of a transaction, and how many changes of the next one are done. pause: in every third."""
    for transaction in range(TRANSACTIONS):
        for number in range(1, CHANGES + 1):
            if (transaction, number) == crash_at:
                raise KeyboardInterrupt
            if transaction % 3 == 0 and number == 3:
                pause()
                yield None
            if (transaction, number) > after:
                yield Step((transaction, number), (TOPIC, json.dumps([transaction, number]), str(number)))
        if (transaction + 1, 0) > after:
            yield Step((transaction + 1, 0))
            yield None


def in_kafka(kafka: Kafka, **settings: Any) -> list[tuple[int, int]]:
    return [tuple(json.loads(record.value or b"")) for record in lv.scan(TOPIC, bootstrap_servers=kafka.bootstrap_servers, **settings)]


EVERYTHING = {step.position for step in log() if step and step.record}


def test_Q1_a_confirmed_position_is_one_up_to_which_all_changes_are_in_kafka(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes_to_kafka, "CONFIRM_EVERY_S", 0)
    kafka.create_topic(TOPIC, PARTITIONS)
    confirmed: list[Any] = [(0, 0)]

    def confirm(position: tuple[int, int]) -> None:
        assert position > confirmed[-1]
        confirmed.append(position)
        assert set(in_kafka(kafka)) >= {change for change in EVERYTHING if change <= position}

    for crash_at in ((3, 4), (17, 1), (38, 5), None):
        start = confirmed[-1]
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            try:
                send(log(after=start, crash_at=crash_at, pause=producer.flush), start, producer, confirm)
            except KeyboardInterrupt:
                continue
    assert set(in_kafka(kafka)) == EVERYTHING
    assert confirmed[-1] > (30, 0)


def test_Q9_a_change_that_cannot_be_written_ends_it_before_that_position(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes_to_kafka, "CONFIRM_EVERY_S", 0)
    confirmed: list[Any] = []

    def steps(producer: lv.KafkaProducer[Any, Any]) -> Iterable[Step | None]:
        yield Step((0, 1), (TOPIC, "fits", "1"))
        producer.flush()
        yield None
        yield Step((0, 2), (TOPIC, "x" * 2_000_000, "2"))
        yield Step((0, 3), (TOPIC, "behind it", "3"))
        producer.flush()
        yield None

    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer, pytest.raises(NotAcknowledgedError) as refused:
        send(steps(producer), (0, 0), producer, confirmed.append)

    assert refused.value.id == (0, 2)
    assert confirmed == [(0, 1)]


def test_Q1_with_transactions_each_change_is_once_in_kafka(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes_to_kafka, "CONFIRM_EVERY_S", 0)
    confirmed: list[Any] = []
    for crash_at in ((0, 1), (3, 4), (3, 4), (17, 1), (38, 5), None):
        producer: lv.KafkaProducer[Any, Any] = lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="test")
        start = committed_position(producer, kafka.bootstrap_servers, POSITIONS, lambda: (0, 0))
        assert start == (confirmed[-1] if confirmed else (0, 0))
        try:
            send_exactly_once(log(after=start, crash_at=crash_at), producer, POSITIONS, confirmed.append)
        except KeyboardInterrupt:
            producer.flush()
        # What it has sent of an open transaction stays in Kafka, as after a crash.
        producer.close(timeout=0)

    assert sorted(in_kafka(kafka, isolation_level="read_committed")) == sorted(EVERYTHING)
    assert len(in_kafka(kafka)) > len(EVERYTHING)


def test_a_reader_that_was_replaced_commits_nothing(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes_to_kafka, "CONFIRM_EVERY_S", 0)
    servers = kafka.bootstrap_servers
    with (
        lv.KafkaProducer(bootstrap_servers=servers, transactional_id="test") as paused,
        lv.KafkaProducer(bootstrap_servers=servers, transactional_id="test") as fresh,
    ):
        start = committed_position(paused, servers, POSITIONS, lambda: (0, 0))
        assert committed_position(fresh, servers, POSITIONS, lambda: (7, 7)) == start
        with pytest.raises((TransactionAbortableError, ProducerFencedError)):
            send_exactly_once(log(after=start), paused, POSITIONS, lambda position: None)
        send_exactly_once(log(after=start), fresh, POSITIONS, lambda position: None)

    assert sorted(in_kafka(kafka, isolation_level="read_committed")) == sorted(EVERYTHING)
