"""levada beside librdkafka, aiokafka and kafka-python in one group, for each assignor that they share: embedded broker and Kafka 4.4."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import aiokafka.coordinator.assignors.range as aiokafka_range
import aiokafka.coordinator.assignors.roundrobin as aiokafka_roundrobin
import aiokafka.coordinator.assignors.sticky.sticky_assignor as aiokafka_sticky
import kafka.coordinator.assignors.cooperative_sticky as kafka_cooperative
import kafka.coordinator.assignors.range as kafka_range
import kafka.coordinator.assignors.roundrobin as kafka_roundrobin
import kafka.coordinator.assignors.sticky.sticky_assignor as kafka_sticky
import pytest

import levada
from peer_members import AiokafkaMember, ConfluentMember, KafkaPythonMember, LevadaMember, PeerMember

PARTITIONS = 8
RECORDS = 80
PATIENCE_S = 60

Kinds = dict[type[PeerMember], dict[str, Any]]

SHARED: dict[str, Kinds] = {
    "range": {
        ConfluentMember: {"partition.assignment.strategy": "range"},
        AiokafkaMember: {"partition_assignment_strategy": [aiokafka_range.RangePartitionAssignor]},
        KafkaPythonMember: {"partition_assignment_strategy": [kafka_range.RangePartitionAssignor]},
    },
    "roundrobin": {
        ConfluentMember: {"partition.assignment.strategy": "roundrobin"},
        AiokafkaMember: {"partition_assignment_strategy": [aiokafka_roundrobin.RoundRobinPartitionAssignor]},
        KafkaPythonMember: {"partition_assignment_strategy": [kafka_roundrobin.RoundRobinPartitionAssignor]},
    },
    "sticky": {
        AiokafkaMember: {"partition_assignment_strategy": [aiokafka_sticky.StickyPartitionAssignor]},
        KafkaPythonMember: {"partition_assignment_strategy": [kafka_sticky.StickyPartitionAssignor]},
    },
    "cooperative-sticky": {
        ConfluentMember: {"partition.assignment.strategy": "cooperative-sticky"},
        KafkaPythonMember: {"partition_assignment_strategy": [kafka_cooperative.CooperativeStickyAssignor]},
    },
}


CASES = [
    *[pytest.param("embedded", assignor, id=f"embedded-{assignor}") for assignor in ("range", "cooperative-sticky")],
    *[pytest.param("kafka44", assignor, id=f"kafka-4.4.0-{assignor}", marks=pytest.mark.kafka) for assignor in SHARED],
]


def write(servers: str, topic: str, prefix: str) -> set[bytes]:
    values = [f"{prefix}{number}".encode() for number in range(RECORDS)]
    with levada.KafkaProducer(bootstrap_servers=servers) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value=value, partition=number % PARTITIONS)
    return set(values)


def wait_until(members: list[PeerMember], happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        told = [(type(member).__name__, sorted(member.assigned), len(member.seen), member.error) for member in members]
        assert time.monotonic() < deadline, told
        assert not any(member.error for member in members), told
        time.sleep(0.01)


def share_everything(members: list[PeerMember]) -> bool:
    owned = [partition for member in members for partition in member.assigned]
    return sorted(owned) == list(range(PARTITIONS)) and all(member.assigned for member in members)


@pytest.mark.parametrize(("broker", "assignor"), CASES)
def test_G17_members_of_all_clients_share_one_group(
    request: pytest.FixtureRequest, new_topic: Callable[..., str], broker: str, assignor: str
) -> None:
    """The first to join leads: levada, until it leaves, and then somebody else."""
    kafka = request.getfixturevalue(broker)
    topic, group, servers = new_topic(kafka, partitions=PARTITIONS), f"mixed-{uuid4().hex}", kafka.bootstrap_servers
    written = write(servers, topic, "a")
    with ExitStack() as stack:
        members: list[PeerMember] = []

        def join(kind: type[PeerMember], **settings: Any) -> PeerMember:
            member = kind(servers, topic, group, **settings)
            stack.callback(member.close)
            members.append(member)
            return member

        leader = join(LevadaMember, partition_assignment_strategy=assignor)
        wait_until(members, lambda: share_everything(members))
        for kind, settings in SHARED[assignor].items():
            join(kind, **settings)
        join(LevadaMember, partition_assignment_strategy=assignor)
        wait_until(members, lambda: share_everything(members))
        wait_until(members, lambda: {value for member in members for value in member.seen} == written)
        for member in members:
            member.commit()
        leader.close()
        members.remove(leader)
        wait_until(members, lambda: share_everything(members))
        for member in members:
            member.seen.clear()
        more = write(servers, topic, "b")
        wait_until(members, lambda: more <= {value for member in members for value in member.seen})
