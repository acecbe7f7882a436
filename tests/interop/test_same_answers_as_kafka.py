"""M-P8: the embedded broker answers as a real one does, also where something is wrong.

Every question goes to both, and what a client acts on is compared: error codes, offsets, timestamps. Texts may differ.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest

from broker_kit import fetch_request, make_batch, produce_request
from kafka_cluster import KafkaCluster
from levada.protocol.frame import decode_response, encode_request
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic
from levada.protocol.schema import Request, Struct
from levada.record.batch import seal
from levada.testing import EmbeddedKafka
from raw_fetch import batches_of

pytestmark = pytest.mark.kafka

PATIENCE_S = 20
NOW_MS = int(time.time() * 1000)
COMPARED = {
    "error_code",
    "base_offset",
    "log_append_time_ms",
    "log_start_offset",
    "batch_index",
    "offset",
    "timestamp",
    "leader_epoch",
    "end_offset",
    "high_watermark",
    "last_stable_offset",
    "session_id",
    "partition_index",
    "num_partitions",
    "replication_factor",
    "topic_authorized_operations",
    "cluster_authorized_operations",
}


class Question(NamedTuple):
    about: str
    request: Request
    version: int


@pytest.fixture(scope="module")
def embedded_kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        yield running


@pytest.fixture
def topic(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka) -> str:
    """A topic of one partition on both."""
    name = f"same-{uuid4().hex}"
    for kafka in (kafka44, embedded_kafka):
        kafka.create_topic(name, 1)
    wait_until_served(kafka44, name)
    return name


def wait_until_served(kafka44: KafkaCluster, topic: str) -> None:
    """Wait after the creation of a topic. The real node puts it into metadata first, and refuses what leaders are asked a moment longer."""
    deadline = time.monotonic() + PATIENCE_S
    while any(value for field, value in ask(kafka44.bootstrap_servers, fetch_request(topic), 12) if field == "error_code"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ask(servers: str, request: Request, version: int) -> Any:
    host, port = servers.split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection, connection.makefile("rb") as answers:
        connection.sendall(encode_request(request, version, 1, "test"))
        head = answers.read(4)
        if len(head) < 4:
            return "connection closed"
        return list(compared(decode_response(type(request), version, answers.read(*struct.unpack(">i", head)))))


def compared(part: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(part, list):
        for element in part:
            yield from compared(element)
    elif isinstance(part, Struct):
        for field in part.FIELDS:
            value = getattr(part, field.name)
            if field.name in COMPARED:
                yield field.name, int(value)
            yield from compared(value)


def check(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka, questions: list[Any]) -> None:
    theirs, ours = ([ask(kafka.bootstrap_servers, *asked) for _, *asked in questions] for kafka in (kafka44, embedded_kafka))
    different = [
        (question.about, kafka, levada) for question, kafka, levada in zip(questions, theirs, ours, strict=True) if kafka != levada
    ]
    assert not different


def batch(*values: bytes, **options: Any) -> bytes:
    return make_batch(*(values or (b"a",)), **{"timestamp": NOW_MS, **options})


def patched(data: bytes, at: int, value: bytes, *, sealed: bool = True) -> bytes:
    changed = bytearray(data)
    changed[at : at + len(value)] = value
    if sealed:
        seal(changed)
    return bytes(changed)


def test_M_P8_produce(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka, topic: str) -> None:
    sent = {
        "good": batch(),
        "a cut batch behind a whole one": batch() + b"x",
        "wrong checksum": patched(batch(b"abc"), 65, b"X", sealed=False),
        "unknown magic": patched(batch(), 16, b"\x07"),
        "fewer records than offsets": patched(batch(b"a", b"b"), 57, b"\0\0\0\1"),
        "more records than offsets": patched(batch(b"a", b"b"), 57, b"\0\0\0\3"),
        "no records": patched(batch(), 57, b"\0\0\0\0"),
        "control batch": patched(batch(), 22, b"\x20"),
        "producer without sequence": batch(producer=(5, 0, -1)),
        "transactional, but no transactional id": patched(batch(producer=(73, 0, 0)), 22, b"\x10"),
        "transactional, but no producer": patched(batch(), 22, b"\x10"),
        "codec 5": patched(batch(), 22, b"\x05"),
        "codec 7": patched(batch(), 22, b"\x07"),
        "codec 6 and a broken checksum": patched(batch(), 22, b"\x06", sealed=False),
        "flagged as stamped by the broker": patched(batch(), 22, b"\x08"),
        "one record from the future": batch(b"a", b"b", timestamp=[NOW_MS, NOW_MS + 10_000_000]),
        "too large": batch(b"x" * 1_100_000),
        "first sequence": batch(producer=(70, 0, 0)),
        "the same again": batch(producer=(70, 0, 0)),
        "a gap": batch(producer=(70, 0, 5)),
        "a new producer in the middle": batch(producer=(71, 0, 5)),
        "epoch 3": batch(producer=(72, 3, 0)),
        "epoch 2": batch(producer=(72, 2, 0)),
        "epoch 4, not from 0": batch(producer=(72, 4, 1)),
    }
    questions = [Question(about, produce_request(topic, records), 9) for about, records in sent.items()]
    questions += [
        Question("acks 2", produce_request(topic, batch(), acks=2), 9),
        Question("unknown topic", produce_request("no-such-topic", batch()), 9),
        Question("unknown topic id", produce_request("no-such-topic", batch()), 13),
        Question("claimed but not served", produce_request(topic, batch()), 2),
    ]
    check(kafka44, embedded_kafka, questions)


def test_M_P8_what_a_producer_claims_to_be_stamped_by_the_broker(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka, topic: str) -> None:
    flagged = [patched(batch(b"a", b"b", codec=codec, timestamp=[NOW_MS - 9, NOW_MS - 5]), 22, bytes([codec | 8])) for codec in (0, 1, 4)]
    check(kafka44, embedded_kafka, [Question(f"write {at}", produce_request(topic, data), 9) for at, data in enumerate(flagged)])
    theirs, ours = (
        [
            [batch.timestamp_type, batch.max_timestamp, [record.timestamp for record in batch.records()]]
            for batch in batches_of(servers, topic)
        ]
        for servers in (kafka44.bootstrap_servers, embedded_kafka.bootstrap_servers)
    )
    assert ours == theirs


def test_M_P8_fetch(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka, topic: str) -> None:
    in_session, wrong_epoch = fetch_request(topic), fetch_request(topic)
    in_session.session_id, in_session.session_epoch = 5, 1
    wrong_epoch.session_epoch = 1
    questions = [
        Question("write", produce_request(topic, batch(b"a", b"b")), 9),
        Question("inside the log", fetch_request(topic, 1), 12),
        Question("at the end", fetch_request(topic, 2), 12),
        Question("behind the end", fetch_request(topic, 3), 12),
        Question("before the start", fetch_request(topic, -5), 12),
        Question("no bytes allowed", fetch_request(topic, max_bytes=0, partition_max_bytes=0), 12),
        Question("unknown topic", fetch_request("no-such-topic"), 12),
        Question("unknown topic id", fetch_request("no-such-topic"), 13),
        Question("unknown partition", fetch_request(topic, partition=9), 12),
        Question("leader epoch", fetch_request(topic, leader_epoch=7), 12),
        Question("unknown session", in_session, 12),
        Question("no session, but an epoch", wrong_epoch, 12),
        Question("not served", fetch_request(topic), 3),
    ]
    check(kafka44, embedded_kafka, questions)


def list_offsets(topic: str, timestamp: int, epoch: int = -1) -> ListOffsetsRequest:
    wanted = ListOffsetsPartition(timestamp=timestamp, current_leader_epoch=epoch)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])


def test_M_P8_list_offsets(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka, topic: str) -> None:
    stamps = [NOW_MS, NOW_MS + 30, NOW_MS + 10]
    questions = [Question("write", produce_request(topic, batch(b"a", b"b", b"c", timestamp=stamps)), 9)]
    questions += [Question(f"empty, {special}", list_offsets("no-such-topic", special), 11) for special in (-1, 5)]
    questions += [Question(f"time {special}", list_offsets(topic, special), 11) for special in range(-7, 0)]
    questions += [Question(f"{after} ms", list_offsets(topic, NOW_MS + after), 11) for after in (-1, 0, 1, 30, 31)]
    questions += [
        Question(f"{special} in {version}", list_offsets(topic, special), version) for special, version in ((-3, 6), (-4, 7), (-5, 8))
    ]
    questions += [Question(f"epoch {epoch}", list_offsets(topic, -1, epoch), 11) for epoch in (0, 5)]
    for name in (topic, "no-such-topic"):
        questions.append(Question("twice", ListOffsetsRequest(replica_id=-1, topics=list_offsets(name, -1).topics * 2), 11))
    check(kafka44, embedded_kafka, questions)


def epoch_end(topic: str, epoch: int, *, current: int = -1, partition: int = 0) -> OffsetForLeaderEpochRequest:
    wanted = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])])


def test_M_P8_the_ends_of_leader_epochs(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka, topic: str) -> None:
    questions = [Question("empty", epoch_end(topic, 0), 4), Question("write", produce_request(topic, batch(b"a", b"b", b"c")), 9)]
    questions += [Question(f"epoch {epoch}", epoch_end(topic, epoch), version) for epoch in (-1, 0, 1, 7) for version in (2, 3, 4)]
    questions += [
        Question("fenced", epoch_end(topic, 0, current=9), 4),
        Question("current", epoch_end(topic, 0, current=0), 4),
        Question("unknown topic", epoch_end("no-such-topic", 0), 4),
        Question("unknown partition", epoch_end(topic, 0, partition=9), 4),
        Question("not served", epoch_end(topic, 0), 1),
    ]
    check(kafka44, embedded_kafka, questions)


def test_M_P8_topics(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka, topic: str) -> None:
    def create(**fields: Any) -> CreateTopicsRequest:
        wanted = {"name": f"{topic}-new", "num_partitions": 1, "replication_factor": 1, **fields}
        return CreateTopicsRequest(topics=[CreatableTopic(**wanted)])

    def configured(name: str, value: str | None) -> CreateTopicsRequest:
        return create(configs=[CreatableTopicConfig(name=name, value=value)])

    def assigned(partition: int, node: int, **fields: Any) -> CreateTopicsRequest:
        return create(assignments=[CreatableReplicaAssignment(partition_index=partition, broker_ids=[node])], **fields)

    by_default = {"num_partitions": -1, "replication_factor": -1}
    many = [create(name=f"{topic}-{part}", num_partitions=count).topics[0] for part, count in enumerate((6_000, 4_001, 0))]
    questions = [
        Question("exists", create(name=topic), 7),
        Question("name", create(name="not allowed"), 7),
        Question("no partitions", create(num_partitions=0), 7),
        Question("no replicas", create(replication_factor=0), 7),
        Question("too many replicas", create(replication_factor=2), 7),
        Question("unknown config", configured("no.such.config", "1"), 7),
        Question("null config", configured("retention.ms", None), 7),
        Question("bad config", configured("retention.ms", "soon"), 7),
        Question("unknown node", assigned(0, 99, **by_default), 7),
        Question("gap in partitions", assigned(1, 1, **by_default), 7),
        Question("both ways", assigned(0, 1), 7),
        Question("twice", CreateTopicsRequest(topics=create().topics * 2), 7),
        Question("too many partitions together", CreateTopicsRequest(topics=many), 7),
        Question("delete unknown", DeleteTopicsRequest(topics=[DeleteTopicState(name="no-such-topic")], timeout_ms=9000), 6),
        Question("delete unknown id", DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=UUID(int=9))], timeout_ms=9000), 6),
    ]
    check(kafka44, embedded_kafka, questions)


def test_M_P8_metadata_and_versions(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka, topic: str) -> None:
    def describe(name: str | None, **options: Any) -> MetadataRequest:
        return MetadataRequest(topics=[MetadataRequestTopic(name=name, topic_id=UUID(int=0 if name else 5))], **options)

    def versions(name: str, cluster: str | None = None, node: int = -1) -> ApiVersionsRequest:
        return ApiVersionsRequest(client_software_name=name, client_software_version="1", cluster_id=cluster, node_id=node)

    questions = [
        Question("operations", describe(topic, include_cluster_authorized_operations=True, include_topic_authorized_operations=True), 9),
        Question("created on the way", describe(f"{topic}-auto"), 12),
        Question("not created", describe(f"{topic}-missing", allow_auto_topic_creation=False), 12),
        Question("name", describe("not allowed"), 12),
        Question("unknown id", describe(None), 12),
        Question("id too early", describe(None), 11),
        Question("not served", ListOffsetsRequest(), 0),
        Question("software name", versions(""), 3),
        Question("cluster alone", versions("a", "other"), 5),
        Question("node alone", versions("a", None, 7), 5),
        Question("other cluster", versions("a", "other", 7), 5),
    ]
    check(kafka44, embedded_kafka, questions)


def test_E7_more_replicas_asked_for_than_there_are(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka) -> None:
    name = f"few-{uuid4().hex}"
    for kafka in (kafka44, embedded_kafka):
        kafka.create_topic(name, 1, {"min.insync.replicas": "2"})
    wait_until_served(kafka44, name)
    questions = [
        Question("acks=all", produce_request(name, batch()), 9),
        Question("acks=1", produce_request(name, batch(), acks=1), 9),
        Question("what is committed", fetch_request(name), 12),
    ]
    check(kafka44, embedded_kafka, questions)
