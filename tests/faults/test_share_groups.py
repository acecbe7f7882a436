"""A share group on three real nodes, one of which is killed under load: every record is accepted, and none twice (KIP-932).

A node that is killed may have taken an acknowledgement without an answer. Its records never come again, and the member is told an error.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

import pytest

import levada as lv
from levada.errors import BrokerError, KafkaError
from share_peers import configure_group

pytestmark = [pytest.mark.kafka, pytest.mark.matrix]

GROUP, PARTITIONS, RECORDS = "share-of-killed-nodes", 6, 6_000
PATIENCE_S = 60

Place: TypeAlias = tuple[int, int]
"""Partition and offset."""


class Worker(threading.Thread):
    """A member that accepts all it gets.

    accepted: how often each place was told to be taken, by all workers. unknown: the places of which they were told that it may be taken.
    """

    def __init__(self, servers: str, topic: str, accepted: Counter[Place], unknown: set[Place]) -> None:
        super().__init__(name="share worker", daemon=True)
        self._servers, self._topic = servers, topic
        self._accepted, self._unknown = accepted, unknown
        self._stopping = threading.Event()
        self.start()

    def run(self) -> None:
        consumer: Any = lv.KafkaShareConsumer(
            bootstrap_servers=self._servers, group_id=GROUP, share_acknowledgement_mode="explicit", max_poll_records=50
        )
        consumer.set_acknowledgement_commit_callback(self._told)
        consumer.subscribe([self._topic])
        with consumer:
            while not self._stopping.is_set():
                with suppress(KafkaError):
                    consumer.acknowledge(consumer.poll(0.5))

    def _told(self, offsets: dict[lv.TopicPartition, list[int]], error: KafkaError | None) -> None:
        for tp, found in offsets.items():
            places = [(tp.partition, offset) for offset in found]
            if error is None:
                self._accepted.update(places)
            elif not isinstance(error, BrokerError):
                self._unknown.update(places)

    def stop(self) -> None:
        self._stopping.set()
        self.join(30)


def test_a_killed_leader_costs_no_record_and_doubles_none(kafka_cluster: Any, note: Callable[[str], None]) -> None:
    servers, topic = kafka_cluster.bootstrap_servers, "share-of-killed-nodes"
    with lv.KafkaAdmin(bootstrap_servers=servers) as admin:
        admin.create_topics([lv.NewTopic(topic, PARTITIONS, 3)])
    with lv.KafkaClient(bootstrap_servers=servers) as client:
        configure_group(client, GROUP, share_auto_offset_reset="earliest", share_record_lock_duration_ms="3000")
    accepted: Counter[Place] = Counter()
    unknown: set[Place] = set()
    workers = [Worker(servers, topic, accepted, unknown) for _ in range(3)]
    with lv.KafkaProducer(bootstrap_servers=servers) as producer:
        sent: list[Any] = []
        for number in range(RECORDS):
            sent.append(producer.send(topic, value=b"%d" % number))
            time.sleep(0.002)
            if number == RECORDS // 3:
                kafka_cluster.nodes[1].kill()
            if number == 2 * RECORDS // 3:
                kafka_cluster.nodes[1].restart()
        written = {(outcome.partition, outcome.offset) for outcome in (delivery.result(60) for delivery in sent)}
    deadline = time.monotonic() + PATIENCE_S
    while written - accepted.keys() - unknown and time.monotonic() < deadline:
        time.sleep(0.1)
    for worker in workers:
        worker.stop()
    missing = written - accepted.keys()
    assert missing - unknown == set()
    assert [place for place, times in accepted.items() if times > 1] == []
    note(
        f"a share group with a killed leader: {len(written) - len(missing)} records accepted by three members, each once; "
        f"{len(missing)} may be, the answer was lost"
    )
