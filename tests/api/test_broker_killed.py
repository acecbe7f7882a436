"""A broker process with a data_dir, killed at random moments under load: whatever it has acknowledged is there when it starts again."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

import levada as lv

PATIENCE_S = 20
ROUNDS = 3
KILLS = 2
COPIED = 150


class Broker:
    """python -m levada.broker in a folder, on the same port each time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.process: subprocess.Popen[str] | None = None

    def command(self) -> list[str]:
        return [sys.executable, "-m", "levada.broker", "--data-dir", str(self.folder), "--set", "log.segment.bytes=20000"]

    def start(self) -> str:
        command = [*self.command(), "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+), everything in ", line)
        assert found, line + (self.process.stderr.read() if self.process.stderr else "")
        self.port = int(found[1])
        return f"127.0.0.1:{self.port}"

    def refusal(self) -> str:
        """Return what a second broker in the same folder says."""
        second = subprocess.run([*self.command(), "--port", "0"], capture_output=True, text=True, timeout=PATIENCE_S)
        assert second.returncode == 1
        return second.stderr

    def end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.communicate(timeout=PATIENCE_S)
            self.process = None


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path / "data")


def test_M_B22_every_acknowledged_record_is_there_after_kill_9(broker: Broker) -> None:
    random = Random(7)
    acknowledged: list[bytes] = []
    number = 0
    servers = broker.start()
    try:
        assert "in use by another broker" in broker.refusal()
        with lv.KafkaProducer(bootstrap_servers=servers, linger_ms=1, batch_size=4000) as producer:
            for _ in range(ROUNDS):
                handles = []
                moment = time.monotonic() + random.uniform(0.05, 0.2)
                while time.monotonic() < moment:
                    value = b"%d" % number
                    handles.append((value, producer.send("t", value, key=value)))
                    number += 1
                broker.end(signal.SIGKILL)
                broker.start()
                acknowledged += [value for value, handle in handles if handle.result(timeout=PATIENCE_S).offset >= 0]
        found = [record.value for record in lv.scan("t", bootstrap_servers=servers)]
        assert found == [b"%d" % one for one in range(number)], "each once and in order: the broker still knows its producers"
        assert acknowledged == found
    finally:
        broker.end(signal.SIGKILL)


def test_M_B22_members_go_on_after_kill_9(broker: Broker) -> None:
    """Nobody is told of a rebalance, and nothing is lost or comes twice: the broker still knows the members of both protocols."""
    servers = broker.start()
    told: list[tuple[str, int]] = []
    deadline = time.monotonic() + 2 * PATIENCE_S
    settings: dict[str, Any] = {"auto_offset_reset": "earliest", "retry_backoff_ms": 20, "reconnect_backoff_max_ms": 50}
    try:
        with (
            lv.KafkaProducer(bootstrap_servers=servers) as producer,
            lv.KafkaConsumer(bootstrap_servers=servers, group_id="old", **settings) as classic,
            lv.KafkaConsumer(bootstrap_servers=servers, group_id="new", group_protocol="consumer", **settings) as consumer,
        ):
            members = (classic, consumer)
            for member in members:
                member.subscribe(
                    ["t"],
                    on_assigned=lambda partitions: told.append(("assigned", len(partitions))),
                    on_revoked=lambda partitions: told.append(("revoked", len(partitions))),
                )
            for turn in range(KILLS + 1):
                producer.send("t", b"%d" % turn).result(PATIENCE_S)
                for member in members:
                    found: list[Any] = []
                    while not found:
                        found = member.poll(0.05)
                        assert time.monotonic() < deadline, (turn, told)
                    assert [record.value for record in found] == [b"%d" % turn]
                    member.commit()
                if turn < KILLS:
                    before = [member.group_metadata() for member in members]
                    broker.end(signal.SIGKILL)
                    broker.start()
                    for member in members:
                        member.commit()
                    assert [member.group_metadata() for member in members] == before
            # A member that joins before the topic is there is told that it has nothing yet.
            assert [what for what in told if what[1]] == [("assigned", 1)] * 2
    finally:
        broker.end(signal.SIGKILL)


def test_M_B22_no_transaction_is_torn_by_kill_9(broker: Broker) -> None:
    """A restarted Kafka may leave markers out: output is then committed without its offsets, and the next program doubles it."""
    random = Random(11)
    servers = broker.start()
    try:
        with lv.KafkaProducer(bootstrap_servers=servers) as producer:
            producer.send_many("in", [(None, b"%d" % number) for number in range(COPIED)])
        turns = 0
        while copied(servers, broker, random):
            turns += 1
        assert turns >= KILLS
        committed = lv.scan("out", bootstrap_servers=servers, isolation_level="read_committed")
        assert [record.value for record in committed] == [b"%d" % number for number in range(COPIED)]
    finally:
        broker.end(signal.SIGKILL)


def copied(servers: str, broker: Broker, random: Random) -> bool:
    """Copy as a program that starts anew; kill the broker in one of its transactions. Return whether there is more to copy."""

    def restart() -> None:
        time.sleep(random.uniform(0, 0.02))
        broker.end(signal.SIGKILL)
        broker.start()

    settings: dict[str, Any] = {"bootstrap_servers": servers, "retry_backoff_ms": 20, "reconnect_backoff_max_ms": 50}
    source = lv.TopicPartition("in", 0)
    killer = threading.Thread(target=restart)
    with (
        lv.KafkaProducer(transactional_id="copy", **settings) as producer,
        lv.KafkaConsumer(
            group_id="copy", auto_offset_reset="earliest", enable_auto_commit=False, max_poll_records=5, **settings
        ) as consumer,
    ):
        consumer.assign([source])
        for number in range(12):
            if number == 5:
                killer.start()
            if consumer.position(source) == COPIED:
                break
            with producer.transaction() as transaction:
                for record in consumer.poll(PATIENCE_S):
                    producer.send("out", record.value)
                transaction.send_offsets(consumer)
        if killer.ident:
            killer.join()
        return consumer.position(source) < COPIED
