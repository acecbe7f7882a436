"""levada beside librdkafka in a consumer group (KIP-848), and a group on its way from one protocol to the other and back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

import levada
from peer_members import ConfluentConsumerMember, LevadaConsumerMember, LevadaMember, PeerMember

PARTITIONS = 8
RECORDS = 80
PATIENCE_S = 60
REAL = pytest.mark.kafka


class MixedGroup:
    """Members of one group, and a topic that they share."""

    def __init__(self, kafka: Any, new_topic: Callable[..., str]) -> None:
        self.servers, self.topic, self.group = kafka.bootstrap_servers, new_topic(kafka, partitions=PARTITIONS), f"mixed-{uuid4().hex}"
        self.members: list[PeerMember] = []
        self.written = self.write("a")

    def __enter__(self) -> MixedGroup:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.close()

    def join(self, kind: type[PeerMember], **settings: Any) -> None:
        self.members.append(kind(self.servers, self.topic, self.group, **settings))

    def share(self) -> None:
        self.wait_until(self._share_everything)

    def commit_all(self) -> None:
        """Have all that was written so far committed."""
        partitions = [levada.TopicPartition(self.topic, index) for index in range(PARTITIONS)]
        with levada.KafkaConsumer(bootstrap_servers=self.servers, group_id=self.group) as looking:

            def is_committed() -> bool:
                for member in self.members:
                    member.commit()
                found = looking.committed(partitions)
                return all(at is not None and at.offset == ends[tp] for tp, at in found.items())

            ends = looking.end_offsets(partitions)
            self.wait_until(is_committed)

    def leave(self, index: int) -> None:
        self.members.pop(index).close()

    def go_on(self) -> None:
        """The others have everything, and read what comes, and nothing of what was committed."""
        self.share()
        for member in self.members:
            member.seen.clear()
        more = self.write("b")
        self.wait_until(lambda: more <= self.seen())
        assert not self.seen() & self.written

    def seen(self) -> set[bytes]:
        return {value for member in self.members for value in member.seen}

    def write(self, prefix: str) -> set[bytes]:
        values = [f"{prefix}{number}".encode() for number in range(RECORDS)]
        with levada.KafkaProducer(bootstrap_servers=self.servers) as producer:
            for number, value in enumerate(values):
                producer.send(self.topic, value=value, partition=number % PARTITIONS)
        return set(values)

    def wait_until(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            told = [(type(member).__name__, sorted(member.assigned), len(member.seen), member.error) for member in self.members]
            assert time.monotonic() < deadline, told
            assert not any(member.error for member in self.members), told
            time.sleep(0.01)

    def _share_everything(self) -> bool:
        owned = [partition for member in self.members for partition in member.assigned]
        return sorted(owned) == list(range(PARTITIONS)) and all(member.assigned for member in self.members)


@pytest.mark.parametrize(("broker", "assignor"), [pytest.param("embedded", "range"), pytest.param("kafka44", "uniform", marks=REAL)])
def test_G33_levada_and_librdkafka_share_one_consumer_group(
    request: pytest.FixtureRequest, embedded: Any, new_topic: Callable[..., str], broker: str, assignor: str
) -> None:
    kafka = request.getfixturevalue(broker)
    with MixedGroup(kafka, new_topic) as mixed:
        mixed.join(LevadaConsumerMember, group_remote_assignor=assignor)
        mixed.share()
        mixed.join(ConfluentConsumerMember, **{"group.remote.assignor": assignor})
        mixed.join(LevadaConsumerMember, group_remote_assignor=assignor)
        mixed.share()
        mixed.commit_all()
        mixed.leave(0)
        mixed.go_on()


@pytest.mark.parametrize(
    ("broker", "strategy"),
    [
        pytest.param("embedded", "range"),
        pytest.param("kafka44", "range", marks=REAL),
        pytest.param("kafka44", "cooperative-sticky", marks=REAL),
    ],
)
def test_G33_a_group_goes_to_the_consumer_protocol_and_back_member_by_member(
    request: pytest.FixtureRequest, embedded: Any, new_topic: Callable[..., str], broker: str, strategy: str
) -> None:
    kafka = request.getfixturevalue(broker)
    with MixedGroup(kafka, new_topic) as mixed:
        for _ in range(2):
            mixed.join(LevadaMember, partition_assignment_strategy=strategy)
        mixed.share()
        mixed.commit_all()
        for _ in range(2):
            mixed.leave(0)
            mixed.join(LevadaConsumerMember)
            mixed.share()
        mixed.go_on()
        mixed.commit_all()
        for _ in range(2):
            mixed.leave(0)
            mixed.join(LevadaMember, partition_assignment_strategy=strategy)
            mixed.share()
        assert not mixed.seen(), "all was committed"
