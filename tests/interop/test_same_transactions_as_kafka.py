"""M-P8: the embedded broker's transactions answer as those of Kafka 4.4 (transaction.version 2) and of Kafka 3.9 (none) do, field by field.

A scenario runs against both, request by request, and returns what was answered. Producer ids are numbered in the order in which they come
up. Kafka writes markers behind its answer, so a scenario waits for the end of a transaction before it asks on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from broker_kit import make_batch, produce_request
from kafka_cluster import KafkaCluster
from levada.error_codes import ErrorCode
from levada.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from levada.protocol.messages.describe_transactions import DescribeTransactionsRequest
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.list_transactions import ListTransactionsRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from levada.record.batch import set_producer_state
from levada.record.memory_records import read_batches
from levada.testing import EmbeddedKafka
from transaction_kit import Given, TransactionalProducer, read
from wire import Wire

pytestmark = pytest.mark.kafka

PATIENCE_S = 20
POLL_S = 0.005
NOW_MS = int(time.time() * 1000)
NOT_YET = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
AS_THE_REAL_ONE: dict[str, Any] = {
    "offsets_topic_num_partitions": 3,
    "transaction_state_log_num_partitions": 3,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 500,
}

Scenario = Callable[["Side"], list[Any]]


class Side:
    """One of the brokers that are compared, with a topic of two partitions. name: of the topic, the same on both."""

    def __init__(self, kafka: Any, name: str, *, tv2: bool) -> None:
        self.topic = name
        self.tv2 = tv2
        self.wire: Any = Wire(kafka.bootstrap_servers)
        self._ids: dict[int, int] = {}
        self._first_epoch = 0
        kafka.create_topic(name, 2)
        question = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        wait_until(lambda: not self.wire.ask(question, 9).topics[0].error_code)
        wait_until(lambda: not any(read(self.wire, name, partition=partition).error_code for partition in (0, 1)))
        wait_until(lambda: not self.wire.ask(InitProducerIdRequest(transaction_timeout_ms=1000), 4).error_code)

    def producer(self, name: str = "tx") -> TransactionalProducer:
        """A producer with a transactional id of its own, whose coordinator has been found."""
        found = TransactionalProducer(self.wire, f"{self.topic}.{name}", tv2=self.tv2, topic=self.topic, timestamp=NOW_MS)
        question = FindCoordinatorRequest(key_type=1, coordinator_keys=[found.id])
        wait_until(lambda: not self.wire.ask(question, 4).coordinators[0].error_code)
        wait_until(lambda: found.described().error_code not in NOT_YET)
        self._first_epoch = self._epoch_of_coordinators()
        return found

    def _epoch_of_coordinators(self) -> int:
        """The epoch that coordinators have by now: it rises whenever their node is started again, as other tests do."""
        question = MetadataRequest(topics=[MetadataRequestTopic(name="__transaction_state")], allow_auto_topic_creation=False)
        epochs = {partition.leader_epoch for partition in self.wire.ask(question, 9).topics[0].partitions}
        assert len(epochs) <= 1
        return max(epochs, default=0)

    def coordinator_epoch(self, relative: int) -> int:
        """An epoch by how far it is from that of the coordinators."""
        return relative if relative < 0 else self._first_epoch + relative

    def settle(self, producer: TransactionalProducer) -> tuple[Any, ...]:
        """Wait until no markers are being written; return how the id is described then."""
        wait_until(lambda: not producer.described().transaction_state.startswith("Prepare"))
        return self.described(producer)

    def described(self, producer: TransactionalProducer) -> tuple[Any, ...]:
        state = producer.described()
        topics = sorted((topic.topic, sorted(topic.partitions)) for topic in state.topics)
        # Before 4.0 an empty one kept the time of the one before it.
        began = state.transaction_state != "Empty" and state.transaction_start_time_ms > 0
        return (
            state.error_code,
            state.transaction_state,
            state.transaction_timeout_ms,
            began,
            self.known(state.producer_id),
            state.producer_epoch,
            topics,
        )

    def known(self, producer_id: int) -> int:
        """A producer id as its number in order of appearance."""
        return producer_id if producer_id < 0 else self._ids.setdefault(producer_id, len(self._ids))

    def given(self, answer: Given) -> tuple[Any, ...]:
        return answer.code.name, self.known(answer.producer_id), answer.epoch

    def seen(self, *, committed: bool = True, partition: int = 0) -> tuple[Any, ...]:
        """What a reader finds: values and markers, offsets, aborted transactions."""
        data = read(self.wire, self.topic, committed=committed, partition=partition)
        aborted = [(self.known(one.producer_id), one.first_offset) for one in data.aborted_transactions or []]
        batches = [
            (batch.base_offset, self.known(batch.producer_id), batch.producer_epoch, batch.base_sequence, batch.attributes, contents(batch))
            for batch in read_batches(bytes(data.records or b""))
        ]
        return data.error_code, data.high_watermark, data.last_stable_offset, data.log_start_offset, aborted, batches

    def producers(self, *partitions: int) -> list[Any]:
        """What DescribeProducers says."""
        request = DescribeProducersRequest(topics=[TopicRequest(name=self.topic, partition_indexes=list(partitions))])
        return [
            (
                part.partition_index,
                part.error_code,
                sorted(
                    (
                        self.known(one.producer_id),
                        one.producer_epoch,
                        one.last_sequence,
                        one.last_timestamp > 0,
                        one.coordinator_epoch if one.coordinator_epoch < 0 else one.coordinator_epoch - self._first_epoch,
                        one.current_txn_start_offset,
                    )
                    for one in part.active_producers
                ),
            )
            for part in self.wire.ask(request, 0).topics[0].partitions
        ]

    def close(self) -> None:
        self.wire.close()


def contents(batch: Any) -> list[Any]:
    return [record.key if batch.is_control else record.value for record in batch.walker().records()]


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(POLL_S)


@pytest.fixture(scope="module")
def embedded_by_version() -> Iterator[dict[int, EmbeddedKafka]]:
    """A broker of each transaction.version."""
    with (
        EmbeddedKafka(transaction_version=2, **AS_THE_REAL_ONE) as newer,
        EmbeddedKafka(transaction_version=0, **AS_THE_REAL_ONE) as older,
    ):
        yield {2: newer, 0: older}


def compare(real: Any, embedded: EmbeddedKafka, scenario: Scenario, *, tv2: bool) -> list[Any]:
    name = f"same-{uuid4().hex}"
    found = []
    for kafka in (real, embedded):
        side = Side(kafka, name, tv2=tv2)
        try:
            found.append(scenario(side))
        finally:
            side.close()
    theirs, ours = found
    assert ours == theirs
    return theirs


# Ends of transactions


def commit_and_repeat(side: Side) -> list[Any]:
    """First commit, the same again, with the epoch it returned, with the other version, as an abort; late requests of a zombie."""
    producer = side.producer()
    told: list[Any] = [side.given(producer.init()), producer.add(), producer.write(b"a"), side.described(producer), side.seen()]
    original = producer.pair
    told += [side.given(producer.end(commit=True)), side.settle(producer), side.seen(), side.producers(0, 1, 9)]
    told += [side.given(producer.end(commit=True, producer=original)), side.given(producer.end(commit=False, producer=original))]
    told += [side.given(producer.end(commit=True, producer=producer.pair))]
    if side.tv2:
        told += [side.given(producer.end(commit=True, producer=original, version=4))]
        producer.producer_id, producer.epoch = original
    told += [producer.write(b"late", sequence=1, version=9), producer.write(b"late", sequence=1), producer.add()]
    return [*told, side.described(producer)]


def abort_and_repeat(side: Side) -> list[Any]:
    producer = side.producer()
    told: list[Any] = [side.given(producer.init()), producer.add(1), producer.write(b"a", b"b", partition=1)]
    original = producer.pair
    told += [side.given(producer.end(commit=False)), side.settle(producer), side.seen(partition=1), side.seen(partition=1, committed=False)]
    told += [side.given(producer.end(commit=commit, producer=original)) for commit in (False, True)]
    told += [producer.add(1), producer.write(b"c", partition=1), side.seen(partition=1), side.producers(1)]
    return [*told, side.given(producer.end(commit=True)), side.settle(producer), side.seen(partition=1)]


def end_without_a_transaction(side: Side) -> list[Any]:
    """After InitProducerId only, and after AddPartitions only."""
    producer = side.producer()
    told: list[Any] = [side.given(producer.init()), side.described(producer), side.given(producer.end(commit=True))]
    told += [producer.add(), side.described(producer), side.given(producer.end(commit=True)), side.settle(producer), side.seen()]
    told += [side.given(producer.end(commit=False)), side.settle(producer)]
    return [*told, side.producers(0), producer.init(1, version=0).code, side.settle(producer)]


def fenced_by_a_second_producer(side: Side) -> list[Any]:
    """Another InitProducerId on the open transaction, and one after a commit that is repeated then."""
    first, second = side.producer(), side.producer()
    told: list[Any] = [side.given(first.init()), first.add(), first.write(b"lost"), side.given(second.init()), side.settle(first)]
    told += [side.given(second.init()), side.described(second), side.given(first.end(commit=True)), side.given(first.end(commit=False))]
    told += [first.add(), first.write(b"zombie", version=9), first.write(b"zombie"), side.seen(), side.producers(0)]
    told += [second.add(), second.write(b"kept")]
    original = second.pair
    told += [side.given(second.end(commit=True)), side.settle(second), side.given(second.init())]
    told += [side.given(second.end(commit=True, producer=original)), side.settle(second), side.seen()]
    return told


def timed_out(side: Side) -> list[Any]:
    producer = side.producer()
    told: list[Any] = [side.given(producer.init(50)), producer.add(), producer.write(b"late")]
    wait_until(lambda: producer.described().transaction_state == "CompleteAbort")
    told += [side.described(producer), side.seen(), side.producers(0)]
    told += [side.given(producer.end(commit=commit, producer=producer.pair)) for commit in (True, False)]
    told += [side.given(producer.end(commit=commit, producer=producer.pair, version=4)) for commit in (True, False)]
    told += [producer.write(b"later", version=9), producer.write(b"later"), producer.add()]
    return [*told, side.given(producer.init(given=producer.pair)), side.given(producer.init())]


def ended_by_the_other_version(side: Side) -> list[Any]:
    """Committed by one version of EndTxn, repeated by the other."""
    producer = side.producer()
    told: list[Any] = [side.given(producer.init()), producer.add(), producer.write(b"a")]
    original, first = producer.pair, 5 if side.tv2 else 4
    answer = side.wire.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
    second = 5 if first == 4 and any(key.api_key == 26 and key.max_version >= 5 for key in answer.api_keys) else first - 1
    told += [side.given(producer.end(commit=True, version=first)), side.settle(producer)]
    told += [side.given(producer.end(commit=commit, producer=original, version=second)) for commit in (True, False)]
    return told


def two_transactions_in_a_row(side: Side) -> list[Any]:
    """A duplicate of the first EndTxn that arrives in the second transaction."""
    producer = side.producer()
    told: list[Any] = [side.given(producer.init()), producer.add(), producer.write(b"a")]
    first = producer.pair
    told += [side.given(producer.end(commit=True)), side.settle(producer), producer.add(), producer.write(b"b")]
    told += [side.given(producer.end(commit=True, producer=first)), side.settle(producer), side.seen()]
    return [*told, side.producers(0)]


def a_topic_that_is_deleted(side: Side) -> list[Any]:
    producer = side.producer()
    told: list[Any] = [side.given(producer.init()), producer.add(), producer.write(b"a")]
    side.wire.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=side.topic)], timeout_ms=9000), 6)
    question = MetadataRequest(topics=[MetadataRequestTopic(name=side.topic)], allow_auto_topic_creation=False)
    wait_until(lambda: bool(side.wire.ask(question, 9).topics[0].error_code))
    return [*told, producer.add(), side.given(producer.end(commit=True)), side.settle(producer)]


# Initialising, adding, verifying


def initialising(side: Side) -> list[Any]:
    producer, other = side.producer(), side.producer("other")
    told: list[Any] = [side.given(other.init(timeout, version=version)) for timeout in (900_001, 0, -1) for version in (0, 5)]
    told += [side.described(other), side.given(producer.init()), side.given(producer.init()), side.described(producer)]
    pid = producer.producer_id
    pairs = [(pid, 1), (pid, 1), (pid, 2), (pid, 1), (pid, 0), (pid, 7), (pid + 500_000, 2), (pid, -1), (-1, 0)]
    told += [side.given(producer.init(given=pair)) for pair in pairs]
    told += [side.given(producer.init(given=(pid, 0), version=version)) for version in (3, 4)]
    told += [side.given(other.init(given=(pid, 3))), side.described(other), side.given(other.init(given=(pid, 3)))]
    empty = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60_000)
    plain = InitProducerIdRequest(transaction_timeout_ms=60_000, producer_id=pid, producer_epoch=3)
    return [*told, *(side.wire.ask(request, 5).error_code for request in (empty, plain)), side.described(producer)]


def adding(side: Side) -> list[Any]:
    producer = side.producer()
    told: list[Any] = [producer.add(), producer.add_group("g"), side.given(producer.init())]
    told += [producer.add_group(group) for group in ("g", "another", "")] + [side.described(producer)]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=side.topic, partitions=[0, 9]),
            AddPartitionsToTxnTopic(name="no-such-topic", partitions=[0]),
        ],
    )
    told += [
        sorted(
            (topic.name == side.topic, part.partition_index, part.partition_error_code)
            for topic in side.wire.ask(request, 3).results_by_topic_v3_and_below
            for part in topic.results_by_partition
        )
    ]
    told += [producer.add(0), producer.add(0), producer.add(1), side.described(producer)]
    producer.epoch += 1
    told += [producer.add(version=version) for version in (0, 1, 2, 3)] + [producer.add_group("g", version=version) for version in (1, 2)]
    told += [side.given(producer.end(commit=True, producer=producer.pair, version=version)) for version in (1, 2, 4)]
    producer.producer_id += 500_000
    told += [producer.add(), producer.add_group("g"), side.given(producer.end(commit=True, producer=producer.pair))]
    producer.id = ""
    return [*told, producer.add(), producer.add_group("g"), side.given(producer.end(commit=True, producer=producer.pair))]


def writing(side: Side) -> list[Any]:
    """What transactional batches are refused for, by the coordinator and by the partition's leader."""
    producer = side.producer()
    told: list[Any] = [side.given(producer.init())]
    told += [answer_to(side, producer.batch_of(b"not added"), version) for version in (9, 10, 11)]
    told += [producer.add(), producer.write(b"a", sequence=3), producer.write(b"a", sequence=0), producer.write(b"again", sequence=0)]
    told += [
        answer_to(side, producer.batch_of(b"gap", sequence=7), 12 if side.tv2 else 11),
        producer.write(b"elsewhere", partition=1, version=11),
    ]
    plain = make_batch(b"plain", producer=(*producer.pair, 1), timestamp=NOW_MS)
    told += [answer_to(side, produce_request(side.topic, plain), 9)]
    no_producer = bytearray(make_batch(b"x", timestamp=NOW_MS))
    set_producer_state(no_producer, producer_id=-1, producer_epoch=-1, base_sequence=-1, is_transactional=True)
    request = produce_request(side.topic, bytes(no_producer))
    request.transactional_id = producer.id
    told += [answer_to(side, request, 9)]
    two = producer.batch_of(b"b", sequence=1)
    producer.producer_id += 500_000
    two.topic_data[0].partition_data += producer.batch_of(b"c", partition=1).topic_data[0].partition_data
    told += [answer_to(side, two, 9), producer.write(b"stranger")]
    producer.producer_id -= 500_000
    if side.tv2:  # Before 4.0 this was taken.
        producer.epoch += 5
        told += [producer.write(b"from the future", sequence=0)]
        producer.epoch -= 5
    producer.epoch -= 1
    told += [answer_to(side, producer.batch_of(b"from the past", partition=1), version) for version in (9, 11)]
    producer.epoch += 1
    told += [side.seen(committed=False), side.producers(0, 1), side.described(producer)]
    # The batch without a producer is in no transaction.
    return [*told, side.given(producer.end(commit=True)), side.settle(producer), side.seen(), *offsets_of(side)]


def answer_to(side: Side, request: Any, version: int) -> list[Any]:
    answer = side.wire.ask(request, version)
    return [
        (part.error_code, part.base_offset, part.log_append_time_ms, part.log_start_offset)
        for topic in answer.responses
        for part in topic.partition_responses
    ]


# Readers, administrators


def reading(side: Side) -> list[Any]:
    """Two transactions that overlap, plain records between, ends by time."""
    first, second = side.producer("first"), side.producer("second")
    told: list[Any] = [side.given(producer.init()) for producer in (first, second)]
    for producer in (first, second):
        told += [producer.add(), producer.write(b"x")]
    side.wire.ask(produce_request(side.topic, make_batch(b"plain", timestamp=NOW_MS)), 9)
    told += [side.seen(), *offsets_of(side), side.given(second.end(commit=True)), side.settle(second), side.seen(), *offsets_of(side)]
    told += [side.given(first.end(commit=False)), side.settle(first), side.seen(), *offsets_of(side)]
    found = [read(side.wire, side.topic, offset) for offset in (0, 1, 3, 4, 5)]
    return [*told, *([(side.known(one.producer_id), one.first_offset) for one in data.aborted_transactions or []] for data in found)]


def offsets_of(side: Side) -> list[Any]:
    found = []
    for isolation in (0, 1):
        for timestamp in (-1, -2, -3, 0, NOW_MS):
            wanted = ListOffsetsTopic(name=side.topic, partitions=[ListOffsetsPartition(timestamp=timestamp)])
            request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[wanted])
            (part,) = side.wire.ask(request, 7).topics[0].partitions
            found.append((isolation, timestamp == NOW_MS or timestamp, part.error_code, part.offset, part.leader_epoch))
    return found


def administration(side: Side) -> list[Any]:
    """Aborting from outside, markers that come too late, listing and describing."""
    producer = side.producer()
    told: list[Any] = [side.given(producer.init()), producer.add(), producer.write(b"a"), side.described(producer)]
    told += [listed(side, state_filters=filters) for filters in ([], ["Ongoing"], ["Empty", "Nonsense"])]
    told += [listed(side, producer_id_filters=[producer.producer_id]), listed(side, producer_id_filters=[10**9])]
    told += [listed(side, 1, duration_filter=after) for after in (0, 10**9)]
    if side.tv2:
        patterns = (f"{side.topic}.*", f"{side.topic}", "[", "")
        told += [listed(side, 2, transactional_id_pattern=pattern) for pattern in patterns]
    told += [
        marked(side, producer, epoch=0, topic="no-such-topic"),
        marked(side, producer, epoch=0),
        side.seen(),
        side.producers(0),
        side.described(producer),
        marked(side, producer, epoch=0),
    ]
    told += [marked(side, producer, epoch=0, coordinator_epoch=-1), side.given(producer.end(commit=True)), side.settle(producer)]
    told += [side.seen(), side.producers(0), marked(side, producer, epoch=5), side.producers(0), marked(side, producer, epoch=4)]
    unknown = DescribeTransactionsRequest(transactional_ids=["no-such-id", ""])
    return [*told, [(state.error_code, state.producer_id) for state in side.wire.ask(unknown, 0).transaction_states]]


def listed(side: Side, version: int = 0, **filters: Any) -> list[Any]:
    answer = side.wire.ask(ListTransactionsRequest(**filters), version)
    own = [one for one in answer.transaction_states if one.transactional_id.startswith(side.topic)]
    return [answer.error_code, answer.unknown_state_filters, [(side.known(one.producer_id), one.transaction_state) for one in own]]


def marked(side: Side, producer: TransactionalProducer, *, epoch: int, coordinator_epoch: int = 0, topic: str = "") -> list[int]:
    """Write an abort marker as an administrator does; return the error codes."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic or side.topic, partition_indexes=[0])],
        coordinator_epoch=side.coordinator_epoch(coordinator_epoch),
    )
    (answer,) = side.wire.ask(WriteTxnMarkersRequest(markers=[marker]), 1).markers
    return [part.error_code for found in answer.topics for part in found.partitions]


def features(side: Side) -> list[Any]:
    """What ApiVersions says about transaction.version, and up to which versions transactions are served."""
    told: list[Any] = []
    for version in (3, 4):
        answer = side.wire.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), version)
        told += [(one.min_version, one.max_version) for one in answer.supported_features if one.name == "transaction.version"]
        told += [(one.min_version_level, one.max_version_level) for one in answer.finalized_features if one.name == "transaction.version"]
    transactional = (22, 24, 25, 26, 27, 61, 65, 66)
    return told + sorted((key.api_key, key.max_version) for key in answer.api_keys if key.api_key in transactional)


SCENARIOS = [
    features,
    commit_and_repeat,
    abort_and_repeat,
    end_without_a_transaction,
    fenced_by_a_second_producer,
    timed_out,
    ended_by_the_other_version,
    two_transactions_in_a_row,
    a_topic_that_is_deleted,
    initialising,
    adding,
    writing,
    reading,
    administration,
]
each_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)


@each_scenario
def test_M_P8_T14_T15_T18_T19_transaction_version_2(
    kafka44: KafkaCluster, embedded_by_version: dict[int, EmbeddedKafka], scenario: Scenario
) -> None:
    compare(kafka44, embedded_by_version[2], scenario, tv2=True)


@each_scenario
def test_M_P8_T14_T15_T18_T19_before_transaction_versions(
    kafka39: KafkaCluster, embedded_by_version: dict[int, EmbeddedKafka], scenario: Scenario
) -> None:
    compare(kafka39, embedded_by_version[0], scenario, tv2=False)


@each_scenario
def test_M_P8_T14_T15_T18_T19_older_requests_to_transaction_version_2(
    kafka44: KafkaCluster, embedded_by_version: dict[int, EmbeddedKafka], scenario: Scenario
) -> None:
    compare(kafka44, embedded_by_version[2], scenario, tv2=False)
