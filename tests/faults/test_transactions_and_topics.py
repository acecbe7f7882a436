"""Rows M-A22 to M-A24 and M-A31 on three nodes of Kafka 4.4: transactions that time out or are taken over, topics that are made again,
records that are too large."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain, cycle, repeat
from threading import Event as Flag
from threading import Thread

import pytest

import levada as lv
from fault_load import PARTITIONS, Watched, Work
from kafka_cluster import KafkaCluster
from levada.consumer.positions.position_resetter import PositionReset
from levada.errors import KafkaError, ProducerFencedError, TransactionAbortableError, UnknownTopicOrPartitionError
from levada.testing.history import Event, RecordingProducer
from raw_fetch import batches_of

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.timeout(180)]
RECORDS = 12
PATIENCE_S = 20
TRANSACTION_TIMEOUT_MS = 2000
MAX_MESSAGE_BYTES = 2000


class Writer:
    """A recorded transactional producer."""

    def __init__(self, watched: Watched, transactional_id: str, **settings: int) -> None:
        self.producer = lv.KafkaProducer(bootstrap_servers=watched.servers, transactional_id=transactional_id, **settings)  # type: ignore[arg-type]
        self._topic = watched.topic
        self.recording = RecordingProducer(self.producer, watched.recorder())
        self.producer.init_transactions()

    def begin(self) -> None:
        self.recording.begin_transaction()
        self.send()
        self.recording.flush()

    def send(self) -> None:
        for number in range(RECORDS):
            self.recording.send(self._topic, partition=number % PARTITIONS)

    def commit(self) -> None:
        self.recording.commit_transaction()


@pytest.fixture
def writer(watched: Watched) -> Iterator[Callable[..., Writer]]:
    """Make a transactional producer, closed at the end of the test."""
    made: list[Writer] = []

    def make(**settings: int) -> Writer:
        made.append(Writer(watched, watched.topic, **settings))
        return made[-1]

    yield make
    for one in made:
        one.producer.close()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def state_of(watched: Watched) -> str:
    with lv.KafkaAdmin(bootstrap_servers=watched.servers) as admin:
        return admin.describe_transactions([watched.topic])[watched.topic].state


@pytest.mark.parametrize("meets", ["send", "commit"])
def test_M_A22_a_transaction_times_out_while_the_program_computes(
    watched: Watched, writer: Callable[..., Writer], meets: str, note: Callable[[str], None]
) -> None:
    watched.start()
    slow = writer(transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
    slow.begin()
    until(lambda: state_of(watched) == "CompleteAbort")
    with pytest.raises(TransactionAbortableError):
        if meets == "send":
            slow.send()
        slow.commit()
    began = time.monotonic()
    slow.recording.abort_transaction()
    slow.begin()
    slow.commit()
    took_ms = (time.monotonic() - began) * 1000
    report = watched.verdict()
    note(f"M-A22: the next transaction was committed {took_ms:.0f} ms after the error")
    report.require_clean()
    assert report.transactions == {"not committed": 1, "committed": 1}
    assert took_ms <= 5000


@pytest.mark.parametrize("moment", ["before its records", "after its records", "between two of its transactions"])
def test_M_A23_a_producer_that_was_replaced_goes_on(watched: Watched, writer: Callable[..., Writer], moment: str) -> None:
    watched.start()
    old = writer()
    if moment == "before its records":
        old.recording.begin_transaction()
    elif moment == "after its records":
        old.begin()
    new = writer()
    with pytest.raises(KafkaError):
        if moment == "between two of its transactions":
            old.recording.begin_transaction()
        old.send()
        old.commit()
    for call in (old.producer.abort_transaction, old.producer.begin_transaction):
        with pytest.raises(ProducerFencedError) as fenced:
            call()
        assert fenced.value.fatal
    new.begin()
    new.commit()
    report = watched.verdict()
    report.require_clean()
    assert report.transactions == {"not committed": 1, "committed": 1}


# Topics

FEWER = PARTITIONS // 2


class Reader(Thread):
    """A consumer of some partitions that goes on while their topic is made again. crashed: what ended it."""

    def __init__(self, watched: Watched) -> None:
        super().__init__(daemon=True)
        self.resets: list[PositionReset] = []
        self.offsets: dict[int, int] = {}
        self.crashed: BaseException | None = None
        self._stop_it = Flag()
        self._partitions = [lv.TopicPartition(watched.topic, partition) for partition in range(FEWER)]
        self._servers = watched.servers

    def run(self) -> None:
        try:
            self._read()
        except BaseException as error:
            self.crashed = error

    def _read(self) -> None:
        settings = {"bootstrap_servers": self._servers, "allow_auto_create_topics": False, "auto_offset_reset": "earliest"}
        with lv.KafkaConsumer(settings, on_reset=self.resets.append) as consumer:
            consumer.assign(self._partitions)
            while not self._stop_it.is_set():
                try:
                    for record in consumer.poll(0.1):
                        self.offsets[record.partition] = record.offset
                except UnknownTopicOrPartitionError:
                    continue

    def stop(self) -> None:
        self._stop_it.set()
        self.join(PATIENCE_S)
        if self.crashed is not None:
            raise self.crashed


def of_the_new_topic(events: list[Event]) -> list[Event]:
    """Leave out what the topic took that was deleted: a partition's acknowledgements up to the one whose offset is lower than before."""
    last: dict[int, int] = {}
    acknowledged: dict[int, list[int]] = {partition: [] for partition in range(FEWER)}
    old: set[int] = set()
    for event in events:
        if event.op == "send" and event.type == "ok":
            if event.offset < last.get(event.partition, -1):
                old.update(acknowledged[event.partition])
            last[event.partition] = event.offset
            acknowledged[event.partition].append(event.value)
    return [event for event in events if event.value not in old]


def test_M_A24_a_topic_is_deleted_and_made_again_with_fewer_partitions(watched: Watched, note: Callable[[str], None]) -> None:
    load = watched.start(work=Work(partitions=FEWER))
    reader = Reader(watched)
    reader.start()
    watched.await_progress()
    until(lambda: len(reader.offsets) == FEWER)
    with lv.KafkaAdmin(bootstrap_servers=watched.servers) as admin:
        admin.delete_topics([watched.topic])
        watched.faults.fault("deleted")
        admin.create_topics([lv.NewTopic(watched.topic, FEWER, 3, config={"min.insync.replicas": "2"})])
    watched.faults.fault("deleted", mended=True)
    began = time.monotonic()
    until(lambda: len(reader.resets) == FEWER)
    told_ms = (time.monotonic() - began) * 1000
    watched.await_progress()
    time.sleep(2)
    load.stop()
    reader.stop()
    watched.events[:] = of_the_new_topic(watched.events)
    report = watched.verdict()
    note(f"M-A24: {dict(report.sends)}; {report.recovery_ms}; the consumer told {told_ms:.0f} ms after the new topic was there")
    report.require_clean()
    assert report.records == report.sends["ok"] > 0
    assert set(report.sends) == {"ok"}
    for partition in range(FEWER):
        first = batches_of(leader_address(watched, partition), watched.topic, partition)[0]
        assert (first.base_offset, first.base_sequence) == (0, 0)


def leader_address(watched: Watched, partition: int) -> str:
    leader = watched.leader(partition)
    with lv.KafkaAdmin(bootstrap_servers=watched.servers) as admin:
        node = next(node for node in admin.describe_cluster().nodes if node.id == leader)
    return f"{node.host}:{node.port}"


def test_M_A31_a_record_is_too_large_and_batches_are_split(kafka_cluster: KafkaCluster, topic: str, note: Callable[[str], None]) -> None:
    kafka_cluster.create_topic(topic, PARTITIONS, {"min.insync.replicas": 2, "max.message.bytes": MAX_MESSAGE_BYTES})
    watched = Watched(kafka_cluster.bootstrap_servers, topic)
    small, large = repeat(b"x" * 100, 499), [b"x" * 2 * MAX_MESSAGE_BYTES]
    load = watched.start(work=Work(records=300, pause_s=0.2, payloads=cycle(chain(small, large))), linger_ms=50)
    watched.await_progress()
    time.sleep(8)
    splits = load.producer.metrics().value("batch-split-total")
    report = watched.verdict()
    note(f"M-A31: {dict(report.sends)}; {splits:.0f} batches split")
    report.require_clean()
    assert set(report.sends) == {"ok", "fail"}
    too_large = [event for event in watched.events if event.op == "send" and event.type == "fail"]
    assert all("RecordTooLargeError" in event.text for event in too_large)
    sent = sum(event.op == "send" and event.type == "invoke" for event in watched.events)
    assert len(too_large) == sent // 500
    assert splits > 0
