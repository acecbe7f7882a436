"""Rows M-A26 to M-A29 of the fault matrix: members of groups whose log is cut, deleted, compacted or aborted under them, on three nodes of
Kafka 4.4.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

import levada as lv
from fault_load import PARTITIONS
from fault_members import KINDS
from kafka_cluster import KafkaCluster, KafkaNode
from levada.consumer.positions.position_resetter import PositionReset
from levada.consumer.positions.subscription_state import OUT_OF_RANGE, TRUNCATED
from levada.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from levada.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from levada.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from raw_fetch import batches_of

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.timeout(180)]
PATIENCE_S = 60
HOUR_MS = 3_600_000
OLD = 1000
"""How many records there are when retention comes."""
WRITERS = 6
KEYED = 500
SEGMENT_S = 0.3
ABORTED = 60
SET, TOPIC = 0, 2
"""The operation and the resource of IncrementalAlterConfigs."""


class Reader:
    """A member of a group that commits what it has read. resets: what it was told of positions that could not be kept."""

    def __init__(self, cluster: KafkaCluster, topic: str, kind: str, **settings: Any) -> None:
        self.resets: list[PositionReset] = []
        self.seen: list[tuple[int, int, bytes]] = []
        self.tp = lv.TopicPartition(topic, 0)
        self.consumer = lv.KafkaConsumer(
            {"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"},
            on_reset=self.resets.append, enable_auto_commit=False, **KINDS[kind], **settings,
        )  # fmt: skip
        self.consumer.subscribe([topic])

    def read(self, condition: Callable[[], object], max_records: int | None = None) -> None:
        """Poll and commit until a condition holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, (len(self.seen), self.resets)
            found = self.consumer.poll(0.2, max_records)
            self.seen += [(record.partition, record.offset, record.value or b"") for record in found]
            if found:
                self.consumer.commit()

    def values(self) -> list[bytes]:
        return [value for _, _, value in self.seen]

    def is_at_end(self) -> bool:
        ends = self.consumer.end_offsets(self.consumer.assignment())
        return bool(ends) and all(self.consumer.position(tp) == end for tp, end in ends.items())


@pytest.fixture
def reader(kafka_cluster: KafkaCluster, topic: str, kind: str) -> Iterator[Callable[..., Reader]]:
    """Make a member of the topic's group, closed at the end of the test."""
    made: list[Reader] = []

    def make(**settings: Any) -> Reader:
        made.append(Reader(kafka_cluster, topic, kind, **settings))
        return made[-1]

    yield make
    for one in made:
        one.consumer.close()
    for node in kafka_cluster.nodes:
        if not node.is_running:
            node.restart()


def numbered(mark: bytes, count: int) -> list[bytes]:
    return [b"%s %d" % (mark, number) for number in range(count)]


def write(cluster: KafkaCluster, topic: str, values: list[bytes], **settings: Any) -> None:
    with lv.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **settings) as producer:
        for sent in [producer.send(topic, value) for value in values]:
            sent.result(PATIENCE_S)


def create_on(cluster: KafkaCluster, topic: str, nodes: list[KafkaNode], config: dict[str, str]) -> None:
    """Create a topic of one partition with replicas on these nodes, led by the first one."""
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[node.id for node in nodes])
    settings = [CreatableTopicConfig(name=name, value=value) for name, value in config.items()]
    wanted = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=[assignment], configs=settings)
    with lv.KafkaClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        answer = client.request(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000))
    assert [topic.error_code for topic in answer.topics] == [0]


def in_sync(cluster: KafkaCluster, topic: str) -> set[int]:
    with lv.KafkaAdmin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        return set(admin.describe_topics([topic])[topic].partitions[0].isr)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_M_A26_an_unclean_election_cuts_the_log(
    kafka_cluster: KafkaCluster, topic: str, reader: Callable[..., Reader], note: Callable[[str], None]
) -> None:
    """What a leader alone had is gone with it: the member is told from where to where, and reads all that is written there instead."""
    leader, behind, _ = kafka_cluster.nodes
    create_on(kafka_cluster, topic, [leader, behind], {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
    member = reader()
    write(kafka_cluster, topic, numbered(b"kept", 20))
    member.read(lambda: len(member.seen) == 20)
    behind.kill()
    until(lambda: in_sync(kafka_cluster, topic) == {leader.id})
    write(kafka_cluster, topic, numbered(b"lost", 30))
    member.read(lambda: len(member.seen) == 50)
    leader.kill()
    behind.restart()
    write(kafka_cluster, topic, numbered(b"new", 40))
    began = time.monotonic()
    member.read(lambda: len(member.seen) == 90)
    note(f"M-A26: told from 50 to 20, and read on {time.monotonic() - began:.1f} s after the new leader took records")
    until(lambda: member.resets)
    assert member.resets == [PositionReset(member.tp, 50, 20, TRUNCATED)]
    assert member.values() == numbered(b"kept", 20) + numbered(b"lost", 30) + numbered(b"new", 40)
    assert [offset for _, offset, _ in member.seen] == [*range(50), *range(20, 60)]


def configure(client: lv.KafkaClient, topic: str, name: str, value: str) -> None:
    setting = AlterableConfig(name=name, config_operation=SET, value=value)
    wanted = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[setting])
    answer = client.request(IncrementalAlterConfigsRequest(resources=[wanted]))
    assert [response.error_code for response in answer.responses] == [0]


def delete_by_retention(client: lv.KafkaClient, topic: str) -> int:
    """Let retention take all records, which are older than that; return the offset that the log begins at then."""
    configure(client, topic, "retention.ms", str(HOUR_MS))
    return OLD


def delete_on_request(client: lv.KafkaClient, topic: str) -> int:
    """Delete most of the records; return the offset that the log begins at then."""
    described = client.request(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
    wanted = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=OLD - 300)])
    request = DeleteRecordsRequest(topics=[wanted], timeout_ms=10_000)
    answer = client.request(request, node=described.topics[0].partitions[0].leader_id)
    assert answer.topics[0].partitions[0].error_code == 0
    return OLD - 300


@pytest.mark.parametrize("delete", [delete_by_retention, delete_on_request])
def test_M_A27_records_are_deleted_before_they_were_read(
    kafka_cluster: KafkaCluster, topic: str, reader: Callable[..., Reader], delete: Callable[[lv.KafkaClient, str], int]
) -> None:
    """The number of offsets that are skipped is told."""
    create_on(kafka_cluster, topic, kafka_cluster.nodes, {"retention.ms": "-1"})
    to = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    with lv.KafkaProducer(to) as producer:
        for value in numbered(b"old", OLD):
            producer.send(topic, value, timestamp=int(time.time() * 1000) - 2 * HOUR_MS)
    first = reader()
    first.read(lambda: len(first.seen) >= 100, max_records=50)
    first.consumer.close()
    with lv.KafkaClient(to) as client:
        start = delete(client, topic)
    second = reader()
    until(lambda: second.consumer.beginning_offsets([second.tp])[second.tp] == start)
    write(kafka_cluster, topic, numbered(b"new", 10))
    second.read(lambda: second.values()[-10:] == numbered(b"new", 10))
    until(lambda: second.resets)  # Another thread tells of it, perhaps a moment after the records were there.
    assert second.resets == [PositionReset(second.tp, len(first.seen), start, OUT_OF_RANGE)]
    assert [offset for _, offset, _ in second.seen] == [*range(start, OLD + 10)]


def test_M_A28_compaction_leaves_gaps_and_empty_batches(
    kafka_cluster: KafkaCluster, topic: str, reader: Callable[..., Reader], note: Callable[[str], None]
) -> None:
    """A member goes on where another one was, in a log that has lost almost all that stood there."""
    config = {
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": str(int(SEGMENT_S * 1000)),
        "delete.retention.ms": "0",
    }
    create_on(kafka_cluster, topic, kafka_cluster.nodes, config)
    keys = [b"key %d" % number for number in range(10)]
    for turn in range(WRITERS):
        # What a producer wrote is replaced by the next one, and its last batch stays without records, for its sequence.
        with lv.KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, batch_size=500, linger_ms=0) as producer:
            for number in range(KEYED):
                producer.send(topic, b"%d-%d" % (turn, number), key=keys[number % len(keys)])
        time.sleep(SEGMENT_S)
    first = reader()
    first.read(lambda: len(first.seen) >= 100, max_records=50)
    first.consumer.close()
    with lv.KafkaClient(bootstrap_servers=kafka_cluster.bootstrap_servers) as client:
        configure(client, topic, "cleanup.policy", "compact")
    address = leader_address(kafka_cluster, topic)
    until(lambda: any(batch.is_empty for batch in batches_of(address, topic)))
    second = reader()
    second.read(second.is_at_end)
    offsets = [offset for _, offset, _ in second.seen]
    gaps = sum(after > before + 1 for before, after in pairwise([first.seen[-1][1], *offsets]))
    note(f"M-A28: {gaps} gaps in {offsets[-1]} offsets")
    assert gaps > 0
    assert offsets == sorted(set(offsets))
    assert second.values()[-len(keys) :] == [b"%d-%d" % (WRITERS - 1, number) for number in range(KEYED - len(keys), KEYED)]
    assert second.resets == []


def leader_address(cluster: KafkaCluster, topic: str) -> str:
    with lv.KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        leader = consumer.partitions_for(topic)[0].leader
    return next(node.address for node in cluster.nodes if node.id == leader)


def test_M_A29_a_log_of_nothing_but_aborted_transactions(kafka_cluster: KafkaCluster, topic: str, reader: Callable[..., Reader]) -> None:
    kafka_cluster.create_topic(topic, PARTITIONS, {"min.insync.replicas": 2})
    member = reader(isolation_level="read_committed")
    with lv.KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        for _ in range(ABORTED):
            producer.begin_transaction()
            for number in range(100):
                producer.send(topic, b"never", partition=number % PARTITIONS)
            producer.flush()
            producer.abort_transaction()
        member.read(member.is_at_end)
        assert member.seen == []
        ends = member.consumer.end_offsets(member.consumer.assignment())
        assert len(ends) == PARTITIONS
        assert min(ends.values()) >= ABORTED
        with producer.transaction():
            for partition in range(PARTITIONS):
                producer.send(topic, b"at last", partition=partition)
    member.read(lambda: len(member.seen) == PARTITIONS)
    assert sorted(member.seen) == sorted((tp.partition, end, b"at last") for tp, end in ends.items())
    assert member.resets == []
