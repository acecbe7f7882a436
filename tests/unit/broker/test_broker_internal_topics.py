"""__consumer_offsets, __transaction_state and __share_group_state of the embedded broker, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_kit import Bench, Client, fetch_request, make_batch, only_partition
from disk_kit import kept
from group_kit import ConsumerGroupMember
from levada.broker.cluster.cluster import Cluster
from levada.broker.coordinators.internal_topics import ADMIN_CLIENT_ID
from levada.broker.replication.partition import NO_LEADER
from levada.error_codes import ErrorCode
from levada.errors import InvalidTopicError
from levada.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from levada.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from levada.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from levada.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from levada.protocol.prefixed import GROUP_RECORDS, SHARE_RECORDS, TRANSACTION_RECORDS, RecordTypes
from levada.protocol.records.consumer_group_metadata import ConsumerGroupMetadataKey
from levada.protocol.records.offset_commit import OffsetCommitValue
from levada.protocol.records.share_snapshot import ShareSnapshotKey
from levada.protocol.records.transaction_log import TransactionLogValue
from levada.record.memory_records import read_batches
from levada.types import OffsetAndMetadata, TopicPartition
from replica_kit import Trio
from share_kit import ShareMember
from transaction_kit import TransactionalProducer, commit_offset, read

OFFSETS, TRANSACTIONS, SHARES = "__consumer_offsets", "__transaction_state", "__share_group_state"
GROUP = "g"
PLACE = ord("g") % 50


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.node.create_topic("t", 2)
    return bench


def commit(client: Client, offset: int, group: str = GROUP, topic: str = "t") -> ErrorCode:
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
    topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=topics)
    return ErrorCode(client.ask(request, 8).topics[0].partitions[0].error_code)


def held(client: Client, topic: str, known: RecordTypes, *, committed: bool = False) -> Iterator[tuple[Any, Any]]:
    """Keys and values of an internal topic, as a consumer reads them."""
    for partition in range(50):
        for batch in read_batches(read(client, topic, partition=partition, committed=committed).records or b""):
            for record in () if batch.is_control else batch.records():
                decoded = known.decode(record.key or b"", record.value)
                yield decoded.key, decoded.value


def offsets(client: Client, **options: Any) -> list[tuple[str, int]]:
    found = held(client, OFFSETS, GROUP_RECORDS, **options)
    return [(key.group, value.offset) for key, value in found if isinstance(value, OffsetCommitValue)]


def size_of(bench: Bench) -> int:
    (folder,) = bench.client().ask(DescribeLogDirsRequest(topics=None)).results
    return sum(part.partition_size for topic in folder.topics if topic.name == OFFSETS for part in topic.partitions)


# What they hold


def test_nothing_is_written_in_memory_before_somebody_looks_and_everything_from_then_on(bench: Bench) -> None:
    client = bench.client()
    for offset in range(100):
        assert commit(client, offset) is ErrorCode.NONE
    assert size_of(bench) == 0
    assert offsets(client) == [(GROUP, 99)]
    assert commit(client, 100) is ErrorCode.NONE
    assert offsets(client) == [(GROUP, 99), (GROUP, 100)]


def test_a_reader_that_waits_is_answered_by_a_commit(bench: Bench) -> None:
    reader = bench.client()
    reader.send(fetch_request(OFFSETS, partition=PLACE, max_wait_ms=500), 12)
    assert reader.answers()[0].responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    bench.client().ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), 6)
    reader.send(fetch_request(OFFSETS, partition=PLACE, max_wait_ms=500), 12)
    assert reader.answers() == []
    commit(bench.client(), 7)
    assert len(list(read_batches(only_partition(reader.answers()[0]).records or b""))) == 1


def test_M_P8_pending_offsets_are_records_of_an_open_transaction(bench: Bench) -> None:
    producer = TransactionalProducer(bench.client())
    producer.init()
    producer.add_group(GROUP)
    assert commit(producer.client, 3) is ErrorCode.NONE
    assert commit_offset(producer, GROUP) is ErrorCode.NONE
    assert commit(producer.client, 4, group="h") is ErrorCode.NONE
    assert offsets(producer.client, committed=True) == [(GROUP, 3), ("h", 4)]
    assert offsets(producer.client) == [(GROUP, 3), (GROUP, 8), ("h", 4)]
    assert producer.commit() is ErrorCode.NONE
    assert offsets(producer.client, committed=True) == [(GROUP, 3), (GROUP, 8), ("h", 4)]
    (state,) = [value for _, value in held(producer.client, TRANSACTIONS, TRANSACTION_RECORDS)][-1:]
    assert isinstance(state, TransactionLogValue)


def test_members_and_share_groups_are_there(bench: Bench) -> None:
    client, member, sharing = bench.client(), ConsumerGroupMember(GROUP, "m"), ShareMember("s", "m")
    assert not member.take(client.ask(member.join())).error_code
    assert not sharing.take(client.ask(sharing.join())).error_code
    assert GROUP in {key.group_id for key, _ in held(client, OFFSETS, GROUP_RECORDS) if isinstance(key, ConsumerGroupMetadataKey)}
    keys = [key for key, _ in held(client, SHARES, SHARE_RECORDS)]
    assert {(key.group_id, key.partition) for key in keys if isinstance(key, ShareSnapshotKey)} == {("s", 0), ("s", 1)}


def test_a_transaction_of_an_administrator_in_them_ends(bench: Bench) -> None:
    bench.client().ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), 6)
    producer = TransactionalProducer(bench.client(client_id=ADMIN_CLIENT_ID), topic=OFFSETS)
    producer.init()
    assert producer.write(b"a", partition=PLACE) is ErrorCode.NONE
    assert read(producer.client, OFFSETS, partition=PLACE).last_stable_offset == 0
    assert producer.commit() is ErrorCode.NONE
    assert read(producer.client, OFFSETS, partition=PLACE).last_stable_offset == 2


def test_a_transaction_of_anybody_else_does_not_begin_in_them(bench: Bench) -> None:
    bench.client().ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), 6)
    producer = TransactionalProducer(bench.client(), topic=OFFSETS)
    producer.init()
    assert producer.add() is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert producer.write(b"a") is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert producer.abort() is ErrorCode.NONE


# Which there are


def test_partitions_cannot_be_added_because_groups_belong_to_them(bench: Bench) -> None:
    client = bench.client()
    commit(client, 1)
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=OFFSETS, count=60)])
    assert client.ask(request).results[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    with pytest.raises(InvalidTopicError, match="number of partitions determines the coordinators"):
        bench.node.cluster.plan_partitions(bench.node.cluster.topics[OFFSETS], 60, None)


def test_one_that_is_created_by_hand_has_its_own_number_of_partitions(bench: Bench) -> None:
    bench.node.create_topic(OFFSETS, 2)
    client = bench.client()
    assert commit(client, 1) is ErrorCode.NONE
    records = client.fetch(OFFSETS, partition=ord(GROUP) % 2).records
    assert len(list(read_batches(records or b""))) == 1


def test_members_and_producers_begin_anew_when_one_is_deleted(bench: Bench) -> None:
    client, member = bench.client(), ConsumerGroupMember(GROUP, "m")
    member.take(client.ask(member.join()))
    producer = TransactionalProducer(bench.client())
    producer.init()
    producer.write(b"a")
    hold = bench.node.faults.hold("WriteTxnMarkers")
    producer.commit()
    assert commit(client, 1, group="h") is ErrorCode.NONE
    for topic in (OFFSETS, TRANSACTIONS):
        bench.node.delete_topic(topic)
    hold.release()
    bench.advance(10)
    assert client.ask(member.beat()).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert producer.commit() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert offsets(client) == []
    assert commit(client, 2) is ErrorCode.NONE
    assert offsets(client) == [(GROUP, 2)]


# Several nodes


def led(cluster: Cluster) -> tuple[int, int]:
    partition = cluster.topics[OFFSETS].partitions[PLACE]
    assert partition.leader in {cluster.group_coordinators.leader_of(GROUP), NO_LEADER}
    return partition.leader, partition.leader_epoch


def test_T13_whoever_leads_a_partition_coordinates_its_groups() -> None:
    trio = Trio()
    placement = trio.cluster.group_coordinators
    placement.move(GROUP, 1)
    trio.clients[1].ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), 6)
    partition = trio.cluster.topics[OFFSETS].partitions[PLACE]
    assert (led(trio.cluster), sorted(partition.replicas), sorted(partition.isr)) == ((1, 1), [1, 2, 3], [1, 2, 3])
    assert commit(trio.clients[1], 5) is ErrorCode.NONE
    placement.move(GROUP, 2)
    assert led(trio.cluster) == (2, 2)
    trio.cluster.move_leader(partition, 3)
    assert (led(trio.cluster), commit(trio.clients[3], 6)) == ((3, 3), ErrorCode.NONE)
    assert trio.clients[1].fetch(OFFSETS, partition=PLACE).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert offsets_at(trio.clients[3]) == [6]
    trio.cluster.stop_node(3)
    assert led(trio.cluster)[0] != 3
    assert 3 not in partition.isr
    trio.cluster.start_node(3)
    assert sorted(partition.isr) == [1, 2, 3]
    for node in (1, 2, 3):
        trio.cluster.stop_node(node)
    assert partition.leader == NO_LEADER
    trio.cluster.start_node(2)
    assert partition.leader == 2 == placement.leader_of(GROUP)
    assert commit(trio.clients[2], 7) is ErrorCode.NONE


def offsets_at(client: Client) -> list[int]:
    batches = read_batches(client.fetch(OFFSETS, partition=PLACE).records or b"")
    return [GROUP_RECORDS.decode(one.key or b"", one.value).value.offset for batch in batches for one in batch.records()]  # type: ignore[union-attr]


def test_T13_elections_and_reassignments_move_coordinators() -> None:
    trio = Trio()
    trio.clients[1].ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), 6)
    moved = ReassignableTopic(name=OFFSETS, partitions=[ReassignablePartition(partition_index=PLACE, replicas=[2])])
    answer = trio.clients[1].ask(AlterPartitionReassignmentsRequest(topics=[moved]))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    assert led(trio.cluster)[0] == 2
    assert list(trio.cluster.topics[OFFSETS].partitions[PLACE].replicas) == [2]
    trio.cluster.group_coordinators.move(GROUP, 3)
    assert list(trio.cluster.topics[OFFSETS].partitions[PLACE].replicas) == [3]
    elected = TopicPartitions(topic=OFFSETS, partitions=[PLACE])
    answer = trio.clients[1].ask(ElectLeadersRequest(election_type=0, topic_partitions=[elected]))
    assert answer.replica_election_results[0].partition_result[0].error_code == ErrorCode.ELECTION_NOT_NEEDED


# A data directory


def topic_id(client: Client, name: str = OFFSETS) -> Any:
    return next(topic.topic_id for topic in client.ask(MetadataRequest(topics=None), 12).topics if topic.name == name)


@pytest.mark.usefixtures("no_flushing")
@pytest.mark.parametrize("crash", [False, True])
def test_they_are_the_same_when_a_broker_starts_again(tmp_path: Path, crash: bool) -> None:
    with kept(tmp_path, crash=crash, offsets_topic_num_partitions=3) as before:
        before.node.create_topic("t")
        client = before.client()
        assert commit(client, 1) is ErrorCode.NONE
        known = topic_id(client)
        before.node.cluster.configure(
            before.node.cluster.topics[OFFSETS], before.node.cluster.topics[OFFSETS].config.with_overrides({"segment.ms": "7"})
        )
    # As in Kafka, the topic number of partitions determines the coordinators when the setting changes.
    with kept(tmp_path, offsets_topic_num_partitions=50) as after:
        client = after.client()
        assert topic_id(client) == known
        topic = after.node.cluster.topics[OFFSETS]
        assert (len(topic.partitions), topic.config.text("segment.ms")) == (3, "7")
        assert topic.partitions[ord(GROUP) % 3].leader_epoch == 1
        assert commit(client, 2) is ErrorCode.NONE
        batches = list(read_batches(client.fetch(OFFSETS, partition=ord(GROUP) % 3).records or b""))
        assert [(batch.base_offset, batch.partition_leader_epoch) for batch in batches] == [(0, 0), (1, 1)]


@pytest.mark.usefixtures("no_flushing")
def test_those_of_a_folder_that_knew_no_internal_topics_are_there(tmp_path: Path) -> None:
    with kept(tmp_path) as before:
        before.node.create_topic("t")
        before.node.cluster.group_offsets.commit(GROUP, {TopicPartition("t", 0): OffsetAndMetadata(9)})
        assert OFFSETS not in before.node.cluster.topics
    with kept(tmp_path) as after:
        assert OFFSETS in after.node.cluster.topics
        assert offsets_at(after.client()) == [9]


@pytest.mark.usefixtures("no_flushing")
def test_one_that_was_deleted_is_gone_from_the_folder(tmp_path: Path) -> None:
    with kept(tmp_path) as before:
        before.node.create_topic("t")
        client = before.client()
        assert commit(client, 1) is ErrorCode.NONE
        before.node.delete_topic(OFFSETS)
        assert not list((tmp_path / "coordinators").glob(f"{OFFSETS}-*"))
    with kept(tmp_path) as after:
        assert OFFSETS not in after.node.cluster.topics
        assert not after.node.cluster.group_offsets.has_any(GROUP)
        assert commit(after.client(), 2) is ErrorCode.NONE
        assert after.client().produce(OFFSETS, make_batch(b"a")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
