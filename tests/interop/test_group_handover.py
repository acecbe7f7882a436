"""A group goes from another client to levada and back, member by member, while a producer goes on: nothing is lost, nothing comes twice.

All members commit automatically, so each commits what it was handed before it gives partitions up or leaves.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

import levada as lv
from peer_members import (
    AiokafkaMember,
    ConfluentConsumerMember,
    ConfluentMember,
    KafkaPythonMember,
    LevadaConsumerMember,
    LevadaMember,
    PeerMember,
)

PARTITIONS = 6
PATIENCE_S = 60
PAUSE_S = 0.002
REAL = pytest.mark.kafka


class Sending(threading.Thread):
    """A producer that goes on until close(). sent: all values that were acknowledged."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._servers, self._topic = servers, topic
        self._stopping = threading.Event()
        self.sent: set[bytes] = set()
        self.start()

    def run(self) -> None:
        with lv.KafkaProducer(bootstrap_servers=self._servers) as producer:
            sent = []
            for number in count():
                if self._stopping.wait(PAUSE_S):
                    break
                sent.append((b"%d" % number, producer.send(self._topic, b"%d" % number, partition=number % PARTITIONS)))
            self.sent = {value for value, delivery in sent if delivery.result(PATIENCE_S)}

    def close(self) -> None:
        self._stopping.set()
        self.join(PATIENCE_S)
        assert self.sent


class Clients(NamedTuple):
    theirs: type[PeerMember]
    ours: type[PeerMember]
    settings: dict[str, Any]
    """Those of the other client."""


LIBRDKAFKA = {"enable.auto.commit": True, "auto.commit.interval.ms": 200}
PYTHON = {"enable_auto_commit": True, "auto_commit_interval_ms": 200}
OURS = {"enable_auto_commit": True, "auto_commit_interval_ms": 200}
CLASSIC = Clients(ConfluentMember, LevadaMember, LIBRDKAFKA)
CONSUMER = Clients(ConfluentConsumerMember, LevadaConsumerMember, LIBRDKAFKA)


@pytest.mark.parametrize(
    ("broker", "clients"),
    [
        pytest.param("embedded", CLASSIC, id="confluent-kafka, classic"),
        pytest.param("embedded", CONSUMER, id="confluent-kafka, consumer"),
        pytest.param("embedded", Clients(AiokafkaMember, LevadaMember, PYTHON), id="aiokafka", marks=pytest.mark.matrix),
        pytest.param("embedded", Clients(KafkaPythonMember, LevadaMember, PYTHON), id="kafka-python", marks=pytest.mark.matrix),
        pytest.param("kafka44", CLASSIC, id="Kafka 4.4, classic", marks=REAL),
        pytest.param("kafka44", CONSUMER, id="Kafka 4.4, consumer", marks=REAL),
    ],
)
def test_M_B20_a_group_is_handed_over_and_back(
    request: pytest.FixtureRequest, new_topic: Callable[..., str], broker: str, clients: Clients
) -> None:
    kafka = request.getfixturevalue(broker)
    topic, group = new_topic(kafka, partitions=PARTITIONS), f"handed-{uuid4().hex}"
    seen: list[bytes] = []
    members: list[PeerMember] = []

    def join(kind: type[PeerMember]) -> None:
        settings = OURS if kind is clients.ours else clients.settings
        members.append(kind(kafka.bootstrap_servers, topic, group, **settings))
        wait_until(lambda: sorted(owned()) == list(range(PARTITIONS)) and all(member.assigned for member in members))

    def leave() -> None:
        member = members.pop(0)
        member.close()
        seen.extend(member.seen)

    def owned() -> list[int]:
        return [partition for member in members for partition in member.assigned]

    def read() -> int:
        return len(seen) + sum(len(member.seen) for member in members)

    def wait_until(holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            told = [(type(member).__name__, sorted(member.assigned), len(member.seen), member.error) for member in members]
            assert time.monotonic() < deadline, told
            assert not any(member.error for member in members), told
            time.sleep(0.01)

    sending = Sending(kafka.bootstrap_servers, topic)
    try:
        for kind in (clients.theirs, clients.theirs):
            join(kind)
        for kind in (clients.ours, clients.ours, clients.theirs, clients.theirs):
            # The newcomer is to have read something, or nothing would be handed on.
            join(kind)
            leave()
            before = read()
            wait_until(lambda before=before: read() > before + PARTITIONS)  # type: ignore[misc]
        sending.close()
        wait_until(lambda: read() >= len(sending.sent))
    finally:
        while members:
            leave()
    counted = Counter(seen)
    assert sending.sent - counted.keys() == set(), "lost"
    assert {value: times for value, times in counted.items() if times > 1} == {}, "came twice"
