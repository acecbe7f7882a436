"""Row M-A21: a request of one transaction arrives when the next one is under way. On transactions version 2 (4.4) and 1 (3.9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

import levada as lv
from fault_load import Watched
from fault_proxy import FaultProxy, Verbs
from kafka_cluster import KafkaCluster
from levada.error_codes import ErrorCode
from levada.testing.history import RecordingConsumer, RecordingProducer

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.timeout(120)]
RECORDS = 12
TWO_PARTITIONS = 2
REQUEST_TIMEOUT_MS = 1500
FENCED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
COMMITS = pytest.mark.parametrize("commits", [True, False], ids=["commit held", "abort held"])
COMMITS_NEXT = pytest.mark.parametrize("commits_next", [True, False], ids=["next is committed", "next is aborted"])


@pytest.fixture(scope="module", params=["4.4.0", "3.9.2"])
def cluster(request: pytest.FixtureRequest, start_real_kafka: Callable[..., AbstractContextManager[Any]]) -> Iterator[KafkaCluster]:
    if request.param == "4.4.0":
        yield request.getfixturevalue("kafka_cluster")
    else:
        with start_real_kafka(request.param, proxied=True) as cluster:
            yield cluster


@pytest.fixture
def proxy(cluster: KafkaCluster) -> Iterator[FaultProxy]:
    with FaultProxy(cluster.routes) as proxy:
        yield proxy


class Writer:
    """A recorded transactional producer behind the proxy, a group whose offsets it commits, and what a reader polls beside it."""

    def __init__(self, cluster: KafkaCluster, proxy: FaultProxy, topic: str) -> None:
        self.proxy = proxy
        self.topic = topic
        self._servers = cluster.bootstrap_servers
        self.watched = Watched(cluster.bootstrap_servers, topic)
        self._producer = lv.KafkaProducer(
            bootstrap_servers=cluster.proxied_servers, transactional_id=topic, request_timeout_ms=REQUEST_TIMEOUT_MS
        )
        self._recording = RecordingProducer(self._producer, self.watched.recorder())
        self._producer.init_transactions()

    def begin(self, *partitions: int, offset: int | None = None) -> None:
        """Begin a transaction, send records to these partitions, and commit an offset of the group in it."""
        self._recording.begin_transaction()
        for number in range(RECORDS):
            self._recording.send(self.topic, partition=partitions[number % len(partitions)])
        self._recording.flush()
        if offset is not None:
            self._recording.send_offsets_to_transaction({lv.TopicPartition(self.topic, 0): offset}, self.topic)

    def end(self, *, commits: bool) -> None:
        self._recording.commit_transaction() if commits else self._recording.abort_transaction()

    def hold(self, api: str) -> None:
        self.proxy.verbs = Verbs(hold=api)

    def poll(self) -> None:
        """Let a reader of committed records read what it is given now: none of what is not committed yet."""
        with lv.KafkaConsumer(bootstrap_servers=self._servers, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
            consumer.assign([lv.TopicPartition(self.topic, partition) for partition in range(TWO_PARTITIONS)])
            reading = RecordingConsumer(consumer, self.watched.recorder())
            while reading.poll(0.5):
                pass

    def offset(self) -> int | None:
        """What is committed for the group."""
        tp = lv.TopicPartition(self.topic, 0)
        with lv.KafkaConsumer(bootstrap_servers=self._servers, group_id=self.topic) as consumer:
            committed = consumer.committed([tp])[tp]
        return None if committed is None else committed.offset

    def judged(self) -> None:
        """A third transaction goes through, and the history is clean."""
        self.begin(0, 1)
        self.end(commits=True)
        self._producer.close()
        report = self.watched.verdict()
        report.require_clean()
        assert set(report.sends) == {"ok"}


@pytest.fixture
def writer(cluster: KafkaCluster, proxy: FaultProxy, topic: str) -> Writer:
    cluster.create_topic(topic, TWO_PARTITIONS)
    return Writer(cluster, proxy, topic)


@COMMITS_NEXT
@COMMITS
def test_M_A21_an_end_that_arrives_late_does_not_end_the_next_transaction(writer: Writer, commits: bool, commits_next: bool) -> None:
    writer.begin(0, 1)
    writer.hold("EndTxn")
    writer.end(commits=commits)
    writer.begin(0, 1)
    answer: Any = writer.proxy.deliver_held()
    assert ErrorCode(answer.error_code) in FENCED
    writer.poll()
    writer.end(commits=commits_next)
    writer.judged()


@COMMITS_NEXT
def test_M_A21_offsets_that_arrive_late_are_not_committed_with_the_next_transaction(writer: Writer, commits_next: bool) -> None:
    writer.begin(0, 1, offset=10)
    writer.end(commits=True)
    writer.hold("TxnOffsetCommit")
    writer.begin(0, 1, offset=20)
    writer.end(commits=False)
    writer.begin(0, 1)
    answer: Any = writer.proxy.deliver_held()
    assert answer.topics[0].partitions[0].error_code != ErrorCode.NONE
    writer.end(commits=commits_next)
    assert writer.offset() == 10
    writer.judged()


@pytest.mark.parametrize("cluster", ["3.9.2"], indirect=True)
@COMMITS_NEXT
def test_M_A21_partitions_that_are_added_late_do_not_join_the_next_transaction(writer: Writer, commits_next: bool) -> None:
    """Since transactions version 2 no client adds partitions."""
    writer.hold("AddPartitionsToTxn")
    writer.begin(0)
    writer.end(commits=True)
    writer.begin(1)
    answer: Any = writer.proxy.deliver_held()
    assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code in FENCED
    writer.end(commits=commits_next)
    writer.judged()
