"""Nodes of a real cluster are killed under a producer: nothing acknowledged is lost, doubled or reordered (M-P1, M-P2, M-A2, M-A3)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

import levada as lv
from kafka_cluster import KafkaCluster

KEYS = 100
PARTITIONS = 6


class Load(threading.Thread):
    """Sends ascending numbers until told to stop, and keeps what became of each."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.sent = 0
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.failures: list[BaseException] = []
        self._topic = topic
        self._producer = lv.KafkaProducer(bootstrap_servers=bootstrap_servers)

    def run(self) -> None:
        with self._producer as producer:
            while not self.stop.wait(0.01):
                for _ in range(20):
                    number, self.sent = self.sent, self.sent + 1
                    producer.send(self._topic, key=str(number % KEYS), value=str(number), on_delivery=self._noting(number))

    def _noting(self, number: int) -> Callable[[lv.RecordMetadata | None, BaseException | None], None]:
        def note(written: lv.RecordMetadata | None, error: BaseException | None) -> None:
            if written is not None:
                self.acknowledged[number] = (written.partition, written.offset)
            if error is not None:
                self.failures.append(error)

        return note


@pytest.mark.kafka
@pytest.mark.slow
def test_M_A3_killing_one_node_after_the_other_loses_doubles_and_reorders_nothing(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("chased", partitions=PARTITIONS, config={"min.insync.replicas": 2})
    load = Load(kafka_cluster.bootstrap_servers, "chased")
    load.start()
    for node in kafka_cluster.nodes[:2]:
        time.sleep(2)
        node.kill()
        time.sleep(4)
        node.restart()
    load.stop.set()
    load.join(timeout=60)
    assert not load.is_alive()

    assert load.failures == []
    assert len(load.acknowledged) == load.sent > 1000
    where: dict[int, tuple[int, int]] = {}
    last = [-1] * PARTITIONS
    for record in lv.scan("chased", bootstrap_servers=kafka_cluster.bootstrap_servers):
        number = int(record.value or b"")
        assert number not in where, f"{number} was written twice"
        assert number > last[record.partition], f"{number} came after {last[record.partition]}"
        where[number], last[record.partition] = (record.partition, record.offset), number
    assert where == load.acknowledged
