"""M-P8: __consumer_offsets, __transaction_state and __share_group_state behave on the embedded broker as Kafka 4.4's do, for every API."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest

import levada as lv
from broker_kit import fetch_request, make_batch, produce_request
from group_tool import JARS
from kafka_cluster import POMS, KafkaCluster
from kafka_jars import jars, java
from levada.error_codes import ErrorCode
from levada.protocol.frame import decode_response, encode_request
from levada.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from levada.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from levada.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from levada.protocol.messages.end_txn import EndTxnRequest
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from levada.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from levada.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from levada.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from levada.protocol.prefixed import GROUP_RECORDS, TRANSACTION_RECORDS, RecordTypes
from levada.protocol.schema import ZERO_UUID, Request, Struct
from levada.record.batch import RecordBatch, seal
from levada.record.memory_records import read_batches
from levada.testing import EmbeddedKafka

pytestmark = pytest.mark.kafka

PATIENCE_S = 30
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
NAMES = (*INTERNAL, "__cluster_metadata")
GROUP, TRANSACTION, SHARE = range(3)
SHARE_KEY = "g:" + "A" * 22 + ":0"
TOPIC = 2
ADMIN_CLIENT_ID = "__admin_client"
TRANSACTIONAL_BIT = b"\x10"
NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
COMPARED = {"error_code", "partition_error_code", "topic_config_error_code", "is_internal", "num_partitions"}
TIMES = {
    "commit_timestamp",
    "expire_timestamp",
    "producer_id",
    "previous_producer_id",
    "transaction_last_update_timestamp_ms",
    "transaction_start_timestamp_ms",
}


class Broker:
    """One of the two, reached over a connection for each client id."""

    def __init__(self, servers: str) -> None:
        host, port = servers.split(":")
        self._connections = {
            client_id: socket.create_connection((host, int(port)), timeout=PATIENCE_S) for client_id in ("test", ADMIN_CLIENT_ID)
        }

    def ask(self, request: Request, version: int, client_id: str = "test") -> Any:
        connection = self._connections[client_id]
        connection.sendall(encode_request(request, version, 1, client_id))
        (size,) = struct.unpack(">i", _received(connection, 4))
        return decode_response(type(request), version, _received(connection, size))

    def ask_until_ready(self, request: Request, version: int, client_id: str = "test") -> Any:
        """Ask again while a coordinator is not there yet, or busy."""
        return until(lambda: self.ask(request, version, client_id), lambda found: not NOT_YET & error_codes(found))

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def topics(self) -> dict[str, tuple[bool, int]]:
        """Every topic: whether it is internal, and how many partitions it has."""
        return {topic.name: (topic.is_internal, len(topic.partitions)) for topic in self.ask(MetadataRequest(topics=None), 12).topics}

    def delete(self, *names: str) -> Any:
        answer = self.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=10_000), 6)
        until(self.topics, lambda found: not found.keys() & set(names))
        return answer

    def create(self, name: str, partitions: int, *, validate_only: bool = False) -> Any:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        answer = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=validate_only), 7)
        if not validate_only and not answer.topics[0].error_code:
            until(self.topics, lambda found: name in found)
        return answer

    def find(self, kind: int, key: str) -> Any:
        """Find a coordinator, which creates the topic behind it."""
        return self.ask_until_ready(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 6)

    def batches(self, topic: str) -> list[RecordBatch]:
        """What is in all partitions of a topic, as soon as they are served."""
        found: list[RecordBatch] = []
        for partition in range(self.topics()[topic][1]):
            request = fetch_request(topic, partition=partition)
            answer = until(lambda asked=request: self.ask(asked, 12), _is_good)  # type: ignore[misc]
            found += read_batches(answer.responses[0].partitions[0].records or b"")
        return found

    def records(self, topic: str, known: RecordTypes) -> list[tuple[str, Any, Any]]:
        """Records and markers of an internal topic, in order, without what differs from run to run."""
        found: list[tuple[str, Any, Any]] = []
        for batch in self.batches(topic):
            if batch.is_control:
                found.append(("marker", batch.control_type(), None))
                continue
            for record in batch.records():
                decoded = known.decode(record.key or b"", record.value)
                found.append(("transactional" if batch.is_transactional else "", _plain(decoded.key), _plain(decoded.value)))
        return found


def _received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        assert more, "closed before the answer was complete"
        data += more
    return data


def until(get: Callable[[], Any], is_there: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not is_there(found := get()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def error_codes(part: Any) -> set[int]:
    return {value for name, value in compared(part) if name.endswith("error_code")}


def _is_good(answer: Any) -> bool:
    return not error_codes(answer) - {ErrorCode.NONE}


def compared(part: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(part, list):
        for element in part:
            yield from compared(element)
    elif isinstance(part, Struct):
        for field in part.FIELDS:
            value = getattr(part, field.name)
            if field.name in COMPARED:
                yield field.name, value
            yield from compared(value)


def _plain(part: Any) -> Any:
    if isinstance(part, list):
        return [_plain(element) for element in part]
    if isinstance(part, Struct):
        return {field.name: _plain(getattr(part, field.name)) for field in part.FIELDS if field.name not in TIMES}
    return part != ZERO_UUID if isinstance(part, UUID) else part


@pytest.fixture(scope="module")
def both(start_real_kafka: Callable[..., AbstractContextManager[KafkaCluster]]) -> Iterator[list[Broker]]:
    """A real broker and the embedded one, each with nothing but a topic named other, and as many partitions of internal topics."""
    embedded = EmbeddedKafka(
        offsets_topic_num_partitions=3, transaction_state_log_num_partitions=3, share_coordinator_state_topic_num_partitions=1
    )
    with start_real_kafka("4.4.0") as kafka, embedded:
        brokers = [Broker(one.bootstrap_servers) for one in (kafka, embedded)]
        for broker in brokers:
            broker.create("other", 2)
        yield brokers
        for broker in brokers:
            broker.close()


@pytest.fixture
def without(both: list[Broker]) -> list[Broker]:
    """The two while there are no internal topics."""
    for broker in both:
        broker.delete(*(broker.topics().keys() & set(INTERNAL)))
    return both


@pytest.fixture
def existing(without: list[Broker]) -> list[Broker]:
    """The two with all internal topics, which are empty."""
    for broker in without:
        for kind, key in ((GROUP, "g"), (TRANSACTION, "tx"), (SHARE, SHARE_KEY)):
            broker.find(kind, key)
        until(broker.topics, lambda found: set(INTERNAL) <= found.keys())
        for name in INTERNAL:
            assert not broker.batches(name)
    return without


class Question(NamedTuple):
    about: str
    request: Request
    version: int
    client_id: str = "test"


def offsets_of(name: str, group: str = "g") -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    topics = [OffsetCommitRequestTopic(name=name, partitions=partitions)]
    return OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=topics)


def questions(name: str) -> Iterator[Question]:
    """What every API is asked about a topic. None of it changes anything."""
    yield Question("metadata", MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False), 12)
    yield Question("description", DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name)]), 0)
    for partition in (0, 1_000):
        yield Question("produce", produce_request(name, make_batch(b"a"), partition=partition), 12)
    yield Question("produce with acks=1", produce_request(name, make_batch(b"a"), acks=1), 12)
    yield Question("fetch", fetch_request(name), 12)
    listed = ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    yield Question("list offsets", ListOffsetsRequest(topics=[listed]), 7)
    for partition in (0, 1_000):
        records = DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=partition, offset=0)])
        yield Question("delete records", DeleteRecordsRequest(topics=[records], timeout_ms=5_000), 2)
    for partitions in (1, 7):
        wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        yield Question("create", CreateTopicsRequest(topics=[wanted], timeout_ms=5_000, validate_only=True), 7)
    yield Question("describe configs", DescribeConfigsRequest(resources=[_resource(name, ["segment.bytes", "cleanup.policy"])]), 4)
    change = AlterableConfig(name="segment.bytes", config_operation=0, value="2000000")
    altered = AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[change])
    yield Question("alter configs", IncrementalAlterConfigsRequest(resources=[altered], validate_only=True), 1)


def _resource(name: str, keys: list[str] | None = None) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=keys)


def different(brokers: list[Broker], asked: list[Question]) -> list[Any]:
    theirs, ours = (
        [list(compared(broker.ask_until_ready(one.request, one.version, one.client_id))) for one in asked] for broker in brokers
    )
    return [(one.about, kafka, levada) for one, kafka, levada in zip(asked, theirs, ours, strict=True) if kafka != levada]


@pytest.mark.parametrize("name", NAMES)
def test_M_P8_a_name_of_a_topic_that_does_not_exist_yet(without: list[Broker], name: str) -> None:
    assert not different(without, list(questions(name)))
    assert [broker.topics() for broker in without] == [{"other": (False, 2)}] * 2


@pytest.mark.parametrize("name", NAMES)
def test_M_P8_a_name_of_a_topic_that_exists(existing: list[Broker], name: str) -> None:
    asked = [*questions(name), Question("commit", offsets_of(name), 8)]
    if name in INTERNAL:
        asked.append(Question("produce as an administrator", produce_request(name, make_batch(b"a")), 12, ADMIN_CLIENT_ID))
    assert not different(existing, asked)


def test_M_P8_coordinators_create_their_topics(without: list[Broker]) -> None:
    seen = []
    for broker in without:
        told = []
        for kind, key in ((GROUP, "g"), (SHARE, SHARE_KEY), (TRANSACTION, "tx")):
            assert broker.find(kind, key).coordinators[0].error_code == ErrorCode.NONE
            told.append(broker.topics())
        seen.append(told)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("name", NAMES)
def test_M_P8_metadata_creates_them_with_their_own_settings(without: list[Broker], name: str) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    assert not different(without, [Question("metadata", request, 12)])
    if name in INTERNAL:
        theirs, ours = (until(broker.topics, lambda found: name in found) for broker in without)
        assert theirs == ours
    overridden = []
    for broker in without:
        (result,) = broker.ask(DescribeConfigsRequest(resources=[_resource(name)]), 4).results
        overridden.append({one.name: one.value for one in result.configs if one.config_source == 1})
    assert overridden[0] == overridden[1]


def test_M_P8_deleting_them_forgets_what_they_held(existing: list[Broker]) -> None:
    seen = []
    for broker in existing:
        group = f"g-{uuid4().hex}"
        broker.find(GROUP, group)
        told: list[Any] = [list(compared(broker.ask_until_ready(offsets_of("other", group), 8)))]
        told.append({one.name: one.error_code for one in broker.delete(*NAMES).responses})
        broker.create("__consumer_offsets", 7)
        broker.find(GROUP, group)
        told.append(committed(broker, group))
        told.append(broker.topics())
        seen.append(told)
    assert seen[0] == seen[1]


def committed(broker: Broker, group: str) -> list[tuple[str, int]]:
    answer = broker.ask_until_ready(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]), 8)
    return [(topic.name, part.committed_offset) for topic in answer.groups[0].topics for part in topic.partitions]


def test_M_P8_an_open_transaction_whose_coordinator_was_deleted_hangs_until_it_is_aborted(existing: list[Broker]) -> None:
    """Deleting __transaction_state deletes the state of open transactions, and no coordinator ends them then."""
    seen = []
    for broker in existing:
        topic = f"hanging-{uuid4().hex}"
        broker.create(topic, 1)
        broker.batches(topic)
        initialise = InitProducerIdRequest(transactional_id="hangs", transaction_timeout_ms=1_000)
        broker.find(TRANSACTION, "hangs")
        given = broker.ask_until_ready(initialise, 4)
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="hangs",
            v3_and_below_producer_id=given.producer_id,
            v3_and_below_producer_epoch=given.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )
        assert _is_good(broker.ask_until_ready(added, 3))
        batch = bytearray(make_batch(b"a", producer=(given.producer_id, given.producer_epoch, 0)))
        batch[22:23] = TRANSACTIONAL_BIT
        seal(batch)
        produced = produce_request(topic, bytes(batch))
        produced.transactional_id = "hangs"
        assert _is_good(broker.ask_until_ready(produced, 11))
        told: list[Any] = [last_stable_offset(broker, topic)]
        told.append({one.name: one.error_code for one in broker.delete("__transaction_state").responses})
        broker.find(TRANSACTION, "hangs")
        # Not the same producer: that one is not known any more.
        again = broker.ask_until_ready(initialise, 4)
        told += [again.producer_id == given.producer_id, last_stable_offset(broker, topic)]
        marker = WritableTxnMarker(
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
            coordinator_epoch=0,
        )
        told += list(compared(broker.ask(WriteTxnMarkersRequest(markers=[marker]), 1)))
        told.append(last_stable_offset(broker, topic))
        seen.append(told)
    assert seen[0] == seen[1]
    assert (seen[1][3], seen[1][-1]) == (0, 2)


def last_stable_offset(broker: Broker, topic: str) -> int:
    offset: int = broker.ask_until_ready(fetch_request(topic), 12).responses[0].partitions[0].last_stable_offset
    return offset


def test_M_P8_no_transaction_writes_to_them(existing: list[Broker]) -> None:
    seen = []
    for broker in existing:
        given = broker.ask_until_ready(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000), 4)
        producer = (given.producer_id, given.producer_epoch)
        told = []
        for name in NAMES:
            added = AddPartitionsToTxnTopic(name=name, partitions=[0])
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="tx",
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=[added],
            )
            told += list(compared(broker.ask_until_ready(request, 3)))
            batch = bytearray(make_batch(b"a", producer=(*producer, 0)))
            batch[22:23] = TRANSACTIONAL_BIT
            seal(batch)
            produced = produce_request(name, bytes(batch))
            produced.transactional_id = "tx"
            told += list(compared(broker.ask(produced, 11)))
        seen.append(told)
    assert seen[0] == seen[1]


def test_M_P8_offsets_are_records_that_a_consumer_can_read(existing: list[Broker]) -> None:
    seen = []
    for broker in existing:
        for version in (3, 8):
            assert _is_good(broker.ask_until_ready(offsets_of("other"), version))
        for is_committed in (True, False):
            in_a_transaction(broker, is_committed=is_committed)
        seen.append(records_with_markers(broker, 2))
    assert seen[0] == seen[1]


def records_with_markers(broker: Broker, markers: int) -> list[Any]:
    """The records of offsets, once so many transactions with some of them have ended."""
    return list(
        until(
            lambda: broker.records("__consumer_offsets", GROUP_RECORDS),
            lambda found: sum(kind == "marker" for kind, *_ in found) == markers,
        )
    )


def in_a_transaction(broker: Broker, *, is_committed: bool) -> None:
    """Commit offsets of a group within a transaction."""
    given = broker.ask_until_ready(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000), 4)
    who = {"transactional_id": "tx", "producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
    assert _is_good(broker.ask_until_ready(AddOffsetsToTxnRequest(group_id="g", **who), 3))
    offset = TxnOffsetCommitRequestPartition(partition_index=1, committed_offset=7 + is_committed, committed_metadata="m")
    topics = [TxnOffsetCommitRequestTopic(name="other", partitions=[offset])]
    assert _is_good(broker.ask_until_ready(TxnOffsetCommitRequest(group_id="g", topics=topics, **who), 3))
    assert _is_good(broker.ask_until_ready(EndTxnRequest(committed=is_committed, **who), 3))


def test_M_P8_transactions_are_records_that_a_consumer_can_read(existing: list[Broker]) -> None:
    seen = []
    for broker in existing:
        in_a_transaction(broker, is_committed=True)
        seen.append(transactions(broker))
    assert seen[0] == seen[1]


def transactions(broker: Broker) -> list[Any]:
    """The records of transactional ids, once the last of them says that a transaction is complete."""
    complete_commit = 4
    return list(
        until(
            lambda: broker.records("__transaction_state", TRANSACTION_RECORDS),
            lambda found: bool(found) and found[-1][2]["transaction_status"] == complete_commit,
        )
    )


@pytest.mark.usefixtures("both")
def test_kafkas_console_consumer_prints_what_was_committed() -> None:
    with EmbeddedKafka(offsets_topic_num_partitions=1) as kafka:
        kafka.create_topic("t", 1)
        with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id="readers") as consumer:
            consumer.commit({lv.TopicPartition("t", 0): lv.OffsetAndMetadata(7, metadata="so far")})
        command = [str(java()), "-cp", f"{jars(POMS / f'pom-{JARS}.xml')}/*", "org.apache.kafka.tools.consumer.ConsoleConsumer"]
        command += ["--bootstrap-server", kafka.bootstrap_servers, "--topic", "__consumer_offsets", "--partition", "0"]
        command += ["--offset", "earliest", "--max-messages", "1", "--timeout-ms", str(PATIENCE_S * 1000)]
        command += ["--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"]
        printed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=2 * PATIENCE_S).stdout)
    assert printed["key"]["data"] == {"group": "readers", "topic": "t", "partition": 0}
    assert {key: printed["value"]["data"][key] for key in ("offset", "metadata")} == {"offset": 7, "metadata": "so far"}
