"""M-P8: random courses of fetches and acknowledgements by members of a share group, as Kafka 4.4 answers them (KIP-932).

A course is made of a seed, and done against both brokers. Every answer is compared: which records a member was given, how often they were
delivered by then, and what became of acknowledgements, right and wrong ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from kafka_cluster import KafkaCluster
from levada.testing import EmbeddedKafka
from share_kit import ACCEPT, GAP, REJECT, RELEASE, Told
from share_side import Side, SideMember

pytestmark = pytest.mark.kafka

SEEDS = 3
MEMBERS = 3
STEPS = 80
SIZES = [1, 1, 2, 3, 5, 8, 20, 40]
BYTES = [1, 200, 400, 1 << 20]
LIMITS = [1, 2, 3, 5, 10, 500]
TYPES = [GAP, ACCEPT, ACCEPT, RELEASE, RELEASE, RELEASE, REJECT]


class Course:
    """Does what a seed says to a broker, and keeps what was answered."""

    def __init__(self, side: Side, seed: int) -> None:
        self.side = side
        self.random = Random(seed)
        self.members: list[SideMember] = []
        self.held: list[set[int]] = [set() for _ in range(MEMBERS)]
        self.told: list[Any] = []

    def run(self) -> list[Any]:
        locks, limit = self.random.choice(["100", "2000"]), str(self.random.randint(2, 8))
        self.told += [self.side.configure(share_partition_max_record_locks=locks, share_delivery_count_limit=limit)]
        self.side.produce(1)
        self.members = [self.side.member(str(number)) for number in range(MEMBERS)]
        self.begin()
        for _ in range(STEPS):
            self.random.choice(
                [self.produce, self.fetch, self.fetch, self.acknowledge, self.acknowledge, self.acknowledge_what_it_has_not]
            )()
        return self.told

    def begin(self) -> None:
        """Wait until the group reads; then a session for each member."""
        for member in self.members:
            member.joins()
        first = self.members[0]
        given = first.gets(parts=[self.side.part()])
        self.told += [given]
        for member in self.members[1:]:
            # Whether the first answer names a partition without records depends on who else reads in Kafka at that moment.
            assert isinstance(member.fetches(parts=[self.side.part()]), list)
        self.held[0] = {offset for one in given for offset in range(one.first, one.last + 1)}

    def produce(self) -> None:
        self.side.produce(*(self.random.choice(SIZES) for _ in range(self.random.randint(1, 4))))

    def fetch(self) -> None:
        number = self.random.randrange(MEMBERS)
        asked = {
            "max_bytes": self.random.choice(BYTES),
            "max_records": self.random.choice(LIMITS),
            "batch_size": self.random.choice(LIMITS),
        }
        answer = self.members[number].fetches(**asked, share_acquire_mode=self.random.choice([0, 0, 1]))
        self.told.append((number, asked, answer))
        self.held[number] |= {offset for _, _, _, given, _ in answer for one in given for offset in range(one.first, one.last + 1)}

    def acknowledge(self) -> None:
        number = self.random.randrange(MEMBERS)
        held = sorted(self.held[number])
        if held:
            first = self.random.randrange(len(held))
            chosen = held[first : first + self.random.randint(1, len(held))]
            batches = [self.batch(*run) for run in runs(chosen)]
            self.told.append((number, batches, self.members[number].acknowledges(*batches)))
            self.held[number] -= set(chosen)

    def acknowledge_what_it_has_not(self) -> None:
        number = self.random.randrange(MEMBERS)
        offset = self.random.randint(0, max(set().union(*self.held, {0})) + 3)
        if offset not in self.held[number]:
            self.told.append((number, offset, self.members[number].acknowledges(self.batch(offset, offset))))

    def batch(self, first: int, last: int) -> Told:
        count = self.random.choice([1, last - first + 1])
        return Told(first, last, tuple(self.random.choice(TYPES) for _ in range(count)))


def runs(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield first and last of offsets that follow one another."""
    first = offsets[0]
    for offset, following in zip(offsets, [*offsets[1:], None], strict=True):
        if following != offset + 1:
            yield first, offset
            first = offset if following is None else following


@pytest.fixture(scope="module")
def embedded_broker() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        yield kafka


@pytest.mark.parametrize("seed", range(SEEDS))
def test_M_P8_a_course_of_a_share_group_as_kafka_44(kafka44: KafkaCluster, embedded_broker: EmbeddedKafka, seed: int) -> None:
    group = f"random-{uuid4().hex[:8]}"
    found = []
    for kafka in (kafka44, embedded_broker):
        side = Side(kafka, group, partitions=1)
        try:
            found.append(Course(side, seed).run())
        finally:
            side.close()
    theirs, ours = found
    for at, (expected, gotten) in enumerate(zip(theirs, ours, strict=True)):
        assert gotten == expected, f"seed {seed}, answer {at}, after {theirs[max(at - 5, 0) : at]}"
