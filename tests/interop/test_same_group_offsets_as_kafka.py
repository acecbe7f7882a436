"""M-P8: the embedded broker keeps the offsets of groups without members as Kafka 4.4 does, in every version, mistakes included."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from kafka_cluster import KafkaCluster
from levada.error_codes import ErrorCode
from levada.protocol.frame import decode_response, encode_request
from levada.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from levada.protocol.messages.end_txn import EndTxnRequest
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from levada.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from levada.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from levada.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from levada.protocol.schema import Request, Struct
from levada.testing import EmbeddedKafka

pytestmark = pytest.mark.kafka

PATIENCE_S = 30
LEFT_OUT = {"throttle_time_ms", "topic_id"}
COMMIT_VERSIONS, FETCH_VERSIONS = range(2, 11), range(1, 11)
UNKNOWN_ID = UUID(int=9)
NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


def error_codes(part: Any) -> set[int]:
    """All error codes in a part of a response."""
    if isinstance(part, list):
        return set().union(*map(error_codes, part))
    if isinstance(part, Struct):
        inner = (getattr(part, field.name) for field in part.FIELDS)
        return {getattr(part, "error_code", ErrorCode.NONE)}.union(*map(error_codes, inner))
    return set()


class Broker:
    """One connection to one of the two brokers, and a topic of two partitions there."""

    def __init__(self, servers: str, topic: str) -> None:
        host, port = servers.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._answers = self._socket.makefile("rb")
        self.topic = topic
        self.topic_id = self._topic_id()

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def ask(self, request: Request, version: int) -> Any:
        """Return the response, or None where the connection was closed instead."""
        self._socket.sendall(encode_request(request, version, 1, "test"))
        head = self._answers.read(4)
        return decode_response(type(request), version, self._answers.read(*struct.unpack(">i", head))) if len(head) == 4 else None

    def _topic_id(self) -> UUID:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            (found,) = self.ask(MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)]), 12).topics
            if not found.error_code and len(found.partitions) == 2:
                topic_id: UUID = found.topic_id
                return topic_id
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def ask_until_ready(self, request: Request, version: int) -> Any:
        """Ask again while a coordinator is busy: Kafka's may still be ending a transaction whose markers are readable already."""
        deadline = time.monotonic() + PATIENCE_S
        while NOT_YET & error_codes(found := self.ask(request, version)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return found

    def load_coordinator(self, group: str) -> None:
        """Kafka creates __consumer_offsets at the first question about a group."""
        self.ask_until_ready(FindCoordinatorRequest(coordinator_keys=[group]), 4)
        self.ask_until_ready(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[])]), 8)


@pytest.fixture(scope="module")
def both(kafka44: KafkaCluster) -> Iterator[list[Broker]]:
    with EmbeddedKafka() as embedded:
        topic = f"offsets-{uuid4().hex}"
        for kafka in (kafka44, embedded):
            kafka.create_topic(topic, 2)
        brokers = [Broker(kafka.bootstrap_servers, topic) for kafka in (kafka44, embedded)]
        yield brokers
        for broker in brokers:
            broker.close()


@pytest.fixture
def group(both: list[Broker]) -> str:
    name = f"g-{uuid4().hex}"
    for broker in both:
        broker.load_coordinator(name)
    return name


def plain(part: Any) -> Any:
    """A response without what has to differ; lists in an order of their own, as Kafka's is that of its hash tables."""
    if isinstance(part, list):
        return sorted((plain(element) for element in part), key=repr)
    if isinstance(part, Struct):
        return {field.name: plain(getattr(part, field.name)) for field in part.FIELDS if field.name not in LEFT_OUT}
    return part


def same(both: list[Broker], about: str, question: Callable[[Broker], Request], version: int) -> Any:
    theirs, ours = (plain(broker.ask_until_ready(question(broker), version)) for broker in both)
    assert ours == theirs, f"{about}, version {version}"
    return ours


def commit(group: str, *offsets: int, generation: int = -1, member: str = "", **fields: Any) -> Callable[[Broker], OffsetCommitRequest]:
    """Commit offsets of partitions 0, 1, ...; topic, topic_id, instance, metadata, epoch may be given."""

    def request(broker: Broker) -> OffsetCommitRequest:
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=offset,
                committed_leader_epoch=fields.get("epoch", -1),
                committed_metadata=fields.get("metadata", "m"),
            )
            for index, offset in enumerate(offsets)
        ]
        topic = OffsetCommitRequestTopic(
            name=fields.get("topic", broker.topic), topic_id=fields.get("topic_id", broker.topic_id), partitions=partitions
        )
        return OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            group_instance_id=fields.get("instance"),
            topics=[topic],
        )

    return request


def fetch(
    *groups: str, version: int, partitions: list[int] | None, member: str | None = None, epoch: int = -1, **fields: Any
) -> Callable[[Broker], OffsetFetchRequest]:
    """Fetch offsets of partitions, None for all that are committed."""

    def request(broker: Broker) -> OffsetFetchRequest:
        topic, topic_id = fields.get("topic", broker.topic), fields.get("topic_id", broker.topic_id)
        if version < 8:
            topics = None if partitions is None else [OffsetFetchRequestTopic(name=topic, partition_indexes=partitions)]
            return OffsetFetchRequest(group_id=groups[0], topics=topics)
        named = None if partitions is None else [OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=partitions)]
        wanted = [OffsetFetchRequestGroup(group_id=group, member_id=member, member_epoch=epoch, topics=named) for group in groups]
        return OffsetFetchRequest(groups=wanted, require_stable=True)

    return request


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_M_P8_V15_commits(both: list[Broker], group: str, version: int) -> None:
    same(both, "a group that is not there, with a generation", commit(group, 1, generation=3, member="x"), version)
    same(both, "a member id alone", commit(group, 2, member="x"), version)
    same(both, "first", commit(group, 5, 6, epoch=0), version)
    same(both, "a generation", commit(group, 7, generation=3, member="x"), version)
    same(both, "an instance", commit(group, 7, instance="i" if version >= 7 else None), version)
    same(both, "an instance of a generation", commit(group, 7, generation=1, instance="i" if version >= 7 else None), version)
    same(both, "a partition that is not there", commit(group, 7, 8, 9), version)
    same(both, "a topic that is not there", commit(group, 7, topic="no-such-topic", topic_id=UNKNOWN_ID), version)
    same(both, "no metadata", commit(group, 10, metadata=None), version)
    same(both, "long metadata", commit(group, 11, metadata="\u00e4" * 4096), version)
    same(both, "too long metadata", commit(group, 12, metadata="x" * 4097), version)
    same(both, "too long in UTF-16", commit(group, 12, metadata="\U0001f600" * 2049), version)
    same(both, "negative", commit(group, -1), version)
    same(both, "very negative", commit(group, -7), version)
    same(both, "nothing", commit(group), version)
    same(both, "no group", commit("", 1), version)
    same(both, "what is there", fetch(group, version=8, partitions=None), 8)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_M_P8_V16_fetches(both: list[Broker], group: str, version: int) -> None:
    same(both, "no such group", fetch(group, version=version, partitions=[0]), version)
    same(both, "commit", commit(group, 5, 6, epoch=0), 9)
    found = same(both, "some", fetch(group, version=version, partitions=[1, 0, 7]), version)
    assert "'committed_offset': 6" in repr(found)
    same(both, "no partitions", fetch(group, version=version, partitions=[]), version)
    same(both, "no such topic", fetch(group, version=version, partitions=[0], topic="no-such", topic_id=UNKNOWN_ID), version)
    if version >= 2:
        same(both, "all", fetch(group, version=version, partitions=None), version)
        same(both, "all of no group", fetch(f"{group}-2", version=version, partitions=None), version)
    if version >= 8:
        same(both, "two groups", fetch(group, f"{group}-2", version=version, partitions=[0]), version)
    if version >= 9:
        same(both, "a member", fetch(group, version=version, partitions=[0], member="x", epoch=3), version)
        same(both, "a member of no group", fetch(f"{group}-2", version=version, partitions=[0], member="x", epoch=3), version)


def delete(group: str, *partitions: int, topic: str | None = None) -> Callable[[Broker], OffsetDeleteRequest]:
    parts = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    return lambda broker: OffsetDeleteRequest(
        group_id=group, topics=[OffsetDeleteRequestTopic(name=topic or broker.topic, partitions=parts)]
    )


def test_M_P8_deletes(both: list[Broker], group: str) -> None:
    same(both, "no such group", delete(group, 0), 0)
    same(both, "no name", delete("", 0), 0)
    same(both, "commit", commit(group, 5, 6), 9)
    same(both, "one", delete(group, 0), 0)
    same(both, "what is left", fetch(group, version=8, partitions=None), 8)
    same(both, "again, and one that is not there", delete(group, 0, 7), 0)
    same(both, "no such topic", delete(group, 0, topic="no-such-topic"), 0)
    same(both, "the last", delete(group, 1), 0)
    same(both, "of a group without offsets", delete(group, 1), 0)
    same(both, "all of it", fetch(group, version=8, partitions=None), 8)
    same(both, "a generation", commit(group, 7, generation=3, member="x"), 9)


def commit_in_transaction(group: str, partition: int = 0, **fields: Any) -> Callable[[Broker], TxnOffsetCommitRequest]:
    """Commit an offset for a transaction that is not open."""

    def request(broker: Broker) -> TxnOffsetCommitRequest:
        parts = [TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=1, committed_metadata="m")]
        topic = TxnOffsetCommitRequestTopic(
            name=fields.get("topic", broker.topic), topic_id=fields.get("topic_id", broker.topic_id), partitions=parts
        )
        return TxnOffsetCommitRequest(transactional_id="t", group_id=group, producer_id=7, producer_epoch=0, topics=[topic])

    return request


@pytest.mark.parametrize("version", range(7))
def test_M_P8_T6_commits_in_a_transaction_that_can_never_be(both: list[Broker], group: str, version: int) -> None:
    same(both, "no such topic", commit_in_transaction(group, topic="no-such-topic", topic_id=UNKNOWN_ID), version)
    same(both, "no such partition", commit_in_transaction(group, 7), version)
    same(both, "no group", commit_in_transaction(""), version)


class OpenTransaction:
    """A producer's transaction on one of the brokers, as clients begin it before transaction.version 2 and since."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self.name = name
        broker.ask_until_ready(FindCoordinatorRequest(key_type=1, coordinator_keys=[name]), 4)
        given = broker.ask_until_ready(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4)
        self.producer_id, self.epoch = given.producer_id, given.producer_epoch

    def add(self, group: str) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=group
        )
        return int(self.broker.ask_until_ready(request, 3).error_code)

    def end(self, *, committed: bool) -> int:
        request = EndTxnRequest(transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=committed)
        return int(self.broker.ask_until_ready(request, 3).error_code)


def settled(both: list[Broker], group: str) -> Any:
    """What is committed once the markers of the transactions are written."""
    deadline = time.monotonic() + PATIENCE_S
    while any("'error_code': 88" in repr(plain(broker.ask(fetch(group, version=8, partitions=None)(broker), 8))) for broker in both):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return same(both, "when the transaction has ended", fetch(group, version=8, partitions=None), 8)


@pytest.mark.parametrize("version", range(7))
def test_M_P8_T6_commits_in_a_transaction(both: list[Broker], group: str, version: int) -> None:
    name = f"tx-{uuid4().hex}"
    transactions = {broker: OpenTransaction(broker, name) for broker in both}

    def ask(about: str, offset: int = 5, *, epoch: int = 0, of: str | None = None, tx: str = name, producer: int = 0, **fields: Any) -> Any:
        def request(broker: Broker) -> TxnOffsetCommitRequest:
            wanted = commit_in_transaction(group if of is None else of, fields.get("partition", 0))(broker)
            mine = transactions[broker]
            wanted.transactional_id = tx
            wanted.producer_id, wanted.producer_epoch = mine.producer_id + producer, mine.epoch + epoch
            wanted.generation_id_or_member_epoch, wanted.member_id = fields.get("generation", -1), fields.get("member", "")
            wanted.topics[0].partitions[0].committed_offset = offset
            wanted.topics[0].partitions[0].committed_metadata = fields.get("metadata", "m")
            return wanted

        return same(both, about, request, version)

    same(both, "commit", commit(group, 1, 2), 9)
    if version < 5:
        ask("a group that was not added")
        assert {transaction.add(group) for transaction in transactions.values()} == {0}
    assert "'error_code': 0" in repr(ask("first"))
    ask("another id", tx=f"{name}-2")
    ask("another producer", producer=1_000_000)
    ask("a newer epoch", epoch=1)
    if version >= 3:
        ask("a generation", generation=3, member="x")
        ask("a member id", offset=6, member="x")
    if version >= 5:
        ask("a generation of no group", of=f"{group}-none", generation=3, member="x")
    ask("too much metadata", metadata="x" * 4097)
    same(both, "unstable", fetch(group, version=8, partitions=[0, 1]), 8)
    same(both, "all, unstable", fetch(group, version=8, partitions=None), 8)
    assert {transaction.end(committed=True) for transaction in transactions.values()} == {0}
    settled(both, group)

    if version < 5:
        assert {transaction.add(group) for transaction in transactions.values()} == {0}
    ask("the next transaction", offset=9, partition=1)
    assert {transaction.end(committed=False) for transaction in transactions.values()} == {0}
    settled(both, group)

    if version < 5:
        assert {transaction.add(group) for transaction in transactions.values()} == {0}
    ask("an offset that will be deleted", offset=9, partition=1)
    same(both, "deleted while the transaction is open", delete(group, 1), 0)
    same(both, "not unstable any more", fetch(group, version=8, partitions=[0, 1]), 8)
    assert {transaction.end(committed=True) for transaction in transactions.values()} == {0}
    settled(both, group)
