"""examples/binlog_to_kafka.py and postgres_to_kafka.py in full: thirty kills, lost connections, replaced readers, and a stream."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import max_by

import databases
from changes_kit import PARTITIONS, Reader, Writer, kafka_of, verify
from databases import Database, MariaDb
from example_programs import Kafka
from levada.testing import EmbeddedKafka

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(0)]

KILLS = 30
LOST_CONNECTIONS = 10
VALUE = """operation STRING, row STRUCT<customer: INT, amount: DECIMAL(10, 2)>,
    position STRUCT<log: STRING, offset: BIGINT, lsn: BIGINT, changes: BIGINT>"""
DUMPS = "SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump'"
SUMS = "SELECT customer, count(*), count(amount), sum(amount) FROM {table} GROUP BY customer ORDER BY customer"


database = pytest.fixture(databases.each_database, params=databases.EACH)
kafka = pytest.fixture(kafka_of)


@pytest.fixture
def embedded_kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=PARTITIONS) as kafka:
        yield kafka


@pytest.mark.parametrize("exactly_once", [False, True], ids=["at least once", "exactly once"])
def test_Q1_Q9_killed_thirty_times_under_load(
    database: Database, embedded_kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path, note: Callable[[str], None], exactly_once: bool
) -> None:
    writer = Writer(database, tmp_path.name)
    reader = Reader(database, embedded_kafka, tmp_path, exactly_once=exactly_once)
    reader.kill_under_load(writer, Random(tmp_path.name), KILLS)

    found = reader.arrived()
    repeated = verify(found, writer.history, reader.kills)
    aborted = len(reader.arrived("read_uncommitted")) - len(found)
    if exactly_once:
        assert repeated == 0
        assert aborted > 0, "no kill met an open transaction"
    else:
        assert repeated > 0, "no kill met changes that were not safe"
    assert sums_of_stream(spark, embedded_kafka, database, tmp_path) == database.query(SUMS.format(table="orders"))
    mode = "exactly once" if exactly_once else "at least once"
    note(
        f"{database.program}, {mode}: {KILLS} kills, {writer.transactions} transactions, {sum(map(len, writer.history.values()))} changes: "
        f"0 lost, {repeated} repeated, {aborted} in aborted transactions"
    )


def sums_of_stream(spark: SparkSession, kafka: EmbeddedKafka, database: Database, folder: Path) -> list[tuple[Any, ...]]:
    """Let a stream keep the latest change of each order, and return the sums over the orders that are there."""
    records = spark.readStream.format("levada").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    records = records.option("subscribe", f"{database.schema}.orders").option("startingOffsets", "earliest")
    changes = (
        records.option("kafka.isolation.level", "read_committed").load().selectExpr("key", f"from_json(string(value), '{VALUE}') AS c")
    )
    latest = changes.groupBy("key").agg(max_by("c", "c.position").alias("c"))
    query = (
        latest.writeStream.format("memory")
        .queryName("latest_orders")
        .outputMode("complete")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.sql("SELECT c.row.* FROM latest_orders WHERE c.operation != 'delete'").createOrReplaceTempView("orders_now")
    return [tuple(row) for row in spark.sql(SUMS.format(table="orders_now")).collect()]


def test_a_lost_connection_to_mariadb_neither_loses_nor_repeats(kafka: Kafka, tmp_path: Path, note: Callable[[str], None]) -> None:
    with databases.running(MariaDb) as database:
        writer, reader = Writer(database, tmp_path.name), Reader(database, kafka, tmp_path)
        with reader.running() as process:
            with writer.writing():
                for _ in range(LOST_CONNECTIONS):
                    enough = sum(reader.ends().values()) + 200
                    reader.await_that(lambda enough=enough: sum(reader.ends().values()) >= enough, process)  # type: ignore[misc]
                    # The reader may have read these records before it lost the connection, and not be connected again yet.
                    reader.await_that(lambda: database.query(DUMPS) != [], process)
                    for (connection,) in database.query(DUMPS):
                        database.execute(f"KILL {connection}")
            writer.finish()
            reader.await_last(process)

        assert verify(reader.arrived(), writer.history, reader.kills) == 0
    note(f"mariadbd: {LOST_CONNECTIONS} lost connections, {sum(map(len, writer.history.values()))} changes: 0 lost, 0 repeated")


def test_a_reader_that_was_paused_and_replaced_commits_nothing(database: Database, kafka: Kafka, tmp_path: Path) -> None:
    writer, reader = Writer(database, tmp_path.name), Reader(database, kafka, tmp_path, exactly_once=True)
    with reader.running() as paused, writer.writing():
        reader.await_stored(paused)
        paused.send_signal(signal.SIGSTOP)
        with reader.running() as fresh:
            reader.await_stored(fresh)
            paused.send_signal(signal.SIGCONT)
            assert paused.wait(databases.PATIENCE_S) != 0
    writer.finish()
    with reader.running() as process:
        reader.await_last(process)

    assert verify(reader.arrived(), writer.history, []) == 0
