"""Members of librdkafka, aiokafka and kafka-python in groups of the embedded broker: they join, share, commit and leave."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from uuid import uuid4

import confluent_kafka
import confluent_kafka.admin
import pytest

from levada.testing import EmbeddedKafka
from peer_members import PEER_MEMBERS, ConfluentConsumerMember, PeerMember

PARTITIONS = 4
RECORDS = 40
PATIENCE_S = 30
POLL_S = 0.01
ALL = frozenset(range(PARTITIONS))
# A leader of kafka-python that joins at once assigns before it has metadata, and does not always recover from that.
JOIN_DELAY_MS = 200

each_peer = pytest.mark.parametrize("peer", [*PEER_MEMBERS, ConfluentConsumerMember], ids=lambda peer: peer.__name__)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=2, group_initial_rebalance_delay_ms=JOIN_DELAY_MS, group_consumer_heartbeat_interval_ms=200) as running:
        yield running


@pytest.fixture
def topic(broker: EmbeddedKafka) -> str:
    """A topic with records, which is the name of the group too."""
    name = f"shared-{uuid4().hex}"
    broker.create_topic(name, PARTITIONS)
    write(broker, name, "a")
    return name


def write(broker: EmbeddedKafka, topic: str, prefix: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(topic, values(prefix)[number], partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def values(prefix: str) -> list[bytes]:
    return [f"{prefix}{number}".encode() for number in range(RECORDS)]


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(POLL_S)


@contextmanager
def members(broker: EmbeddedKafka, topic: str, *kinds: type[PeerMember]) -> Iterator[list[PeerMember]]:
    """Members that share the topic's partitions, every partition owned once."""
    with ExitStack() as stack:
        found = []
        for kind in kinds:
            member = kind(broker.bootstrap_servers, topic, group=topic)
            stack.callback(member.close)
            found.append(member)
        wait_until(lambda: share_everything(*found))
        yield found


def share_everything(*members: PeerMember) -> bool:
    owned = [partition for member in members for partition in member.assigned]
    return sorted(owned) == sorted(ALL) and all(member.assigned for member in members)


def seen(*members: PeerMember) -> set[bytes]:
    return {value for member in members for value in member.seen}


@each_peer
def test_G23_G28_G40_peers_share_partitions_commit_and_take_over_from_who_leaves(
    broker: EmbeddedKafka, topic: str, peer: type[PeerMember]
) -> None:
    with members(broker, topic, peer, peer) as (first, second):
        wait_until(lambda: seen(first, second) == set(values("a")))
        first.commit()
        second.commit()
        first.close()
        wait_until(lambda: second.assigned == ALL)
        write(broker, topic, "b")
        wait_until(lambda: seen(second) >= set(values("b")))
        second.commit()
    with members(broker, topic, peer) as (again,):
        write(broker, topic, "c")
        wait_until(lambda: seen(again) >= set(values("c")))
        assert seen(again) == set(values("c"))  # What was committed is not read again.


def test_G26_peers_share_one_group(broker: EmbeddedKafka, topic: str) -> None:
    with members(broker, topic, *PEER_MEMBERS) as mixed:
        wait_until(lambda: seen(*mixed) == set(values("a")))
        for member in mixed:
            member.commit()


def test_peers_of_both_protocols_stay_members_when_the_coordinator_moves(broker: EmbeddedKafka, topic: str) -> None:
    with members(broker, topic, PEER_MEMBERS[0], ConfluentConsumerMember) as both:
        wait_until(lambda: seen(*both) == set(values("a")))
        for node in (1, 2):
            broker.move_coordinator(group=topic, node=node)
            for member in both:
                member.commit()
        wait_until(lambda: share_everything(*both))


def test_a_group_is_migrated_while_it_reads(broker: EmbeddedKafka, topic: str) -> None:
    """Its members are replaced one by one by members of the new protocol, and back again."""
    kinds: list[type[PeerMember]] = [PEER_MEMBERS[0], PEER_MEMBERS[2], *[ConfluentConsumerMember] * 2, PEER_MEMBERS[0], PEER_MEMBERS[1]]
    with members(broker, topic, *kinds[:2]) as current, ExitStack() as stack:
        for kind in kinds[2:]:
            current[0].close()
            current = [current[1], kind(broker.bootstrap_servers, topic, group=topic)]
            stack.callback(current[1].close)
            wait_until(lambda: share_everything(*current))  # noqa: B023
        write(broker, topic, "b")
        wait_until(lambda: seen(*current) >= set(values("b")))


def test_librdkafka_admin_describes_lists_and_deletes_groups(broker: EmbeddedKafka, topic: str) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def described() -> tuple[str, list[set[int]]]:
        group = admin.describe_consumer_groups([topic])[topic].result(PATIENCE_S)
        owned = [{tp.partition for tp in member.assignment.topic_partitions} for member in group.members]
        return group.state.name, sorted(owned, key=sorted)

    with members(broker, topic, PEER_MEMBERS[0], PEER_MEMBERS[0]):
        assert described() == ("STABLE", [{0, 1}, {2, 3}])
        listed = {group.group_id: group.state.name for group in admin.list_consumer_groups().result(PATIENCE_S).valid}
        assert listed[topic] == "STABLE"
        with pytest.raises(confluent_kafka.KafkaException, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([topic])[topic].result(PATIENCE_S)
    assert described() == ("EMPTY", [])
    admin.delete_consumer_groups([topic])[topic].result(PATIENCE_S)
    assert topic not in {group.group_id for group in admin.list_consumer_groups().result(PATIENCE_S).valid}
