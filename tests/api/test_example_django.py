"""examples/django_signals.py, with the real Django: the outbox loses no order that was committed, and sends none that was not."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import example_programs
import levada as lv
from example_programs import EXAMPLES, PATIENCE_S, running
from levada.testing import EmbeddedKafka

pytest.importorskip("django", reason="Django is not installed")

RELAY_AGAIN = """
import levada as lv, os, django_signals as shop
with lv.KafkaProducer(bootstrap_servers=os.environ["KAFKA"]) as shop.producer:
    print(shop.relay())
    shop.save("fig", "x" * 2_000_000, "date")
    try:
        shop.relay()
    except lv.errors.NotAcknowledgedError as error:
        print(type(error.__cause__).__name__, [row.pk == error.id for row in shop.Outbox.objects.order_by("id")])
shop.save("kiwi")
print(shop.Outbox.objects.count())
"""


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=1) as kafka:
        yield kafka


def items(kafka: EmbeddedKafka, topic: str) -> list[str]:
    return [json.loads(record.value or "")["item"] for record in lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers)]


where = pytest.fixture(example_programs.where)


def test_orders_and_notices_are_in_kafka(where: list[str]) -> None:
    with running("django_signals", *where) as shop:
        assert shop.end() == 0, shop.output
    both = [b'{"id": 1, "item": "pear"}', b'{"id": 2, "item": "plum"}']
    assert shop.lines == ["relayed: 2 left: 0", f"orders {both}", f"notices {both}"]


def committed_rows(database: Path) -> int:
    if not database.exists():
        return 0
    try:
        with closing(sqlite3.connect(database, timeout=PATIENCE_S)) as connection:
            rows: int = connection.execute("SELECT count(*) FROM shop_outbox").fetchone()[0]
            return rows
    except sqlite3.OperationalError:  # The table is not there yet.
        return 0


def test_killed_after_the_commit_it_loses_notices_and_no_orders(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    kafka.create_topic("orders")
    kafka.create_topic("notices")
    kafka.faults.blackhole("Produce")
    database = tmp_path / "shop.db"
    with running("django_signals", "--kafka", kafka.bootstrap_servers, DATABASE=str(database)) as shop:
        deadline = time.monotonic() + PATIENCE_S
        while committed_rows(database) < 2:
            assert time.monotonic() < deadline and shop.process.poll() is None, shop.output
            time.sleep(0.02)
        assert shop.end(signal.SIGKILL) == -signal.SIGKILL
    kafka.faults.clear()
    env = {**os.environ, "KAFKA": kafka.bootstrap_servers, "DATABASE": str(database)}
    relayed = subprocess.run(
        [sys.executable, "-c", RELAY_AGAIN], cwd=EXAMPLES, env=env, check=True, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S
    )
    # The row that is too large, and the one after it, stay. Without a producer an order is saved, too.
    assert relayed.stdout.splitlines() == ["2", "RecordTooLargeError [True, False]", "3"]
    assert items(kafka, "orders") == ["pear", "plum", "fig", "date"]
    assert items(kafka, "notices") == ["fig", "date"]
