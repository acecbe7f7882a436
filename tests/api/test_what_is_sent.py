"""What the clients say to a broker, byte for byte decoded: the embedded broker notes every request, and may change an answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from copy import copy
from itertools import islice
from typing import Any, TypeVar

import pytest

import levada as lv
from levada.protocol.frame import RequestFrame, decode_request, encode_response_parts
from levada.protocol.messages.fetch import FetchRequest, FetchResponse
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.messages.produce import ProduceRequest, ProduceResponse
from levada.protocol.schema import Request, Response
from levada.testing import EmbeddedKafka

PATIENCE_S = 20
AnyRequest = TypeVar("AnyRequest", bound=Request)


class Wire:
    """The requests that came, and what to do with requests and answers on their way."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self.kafka = kafka
        self.frames: list[RequestFrame] = []
        self.on_request: Callable[[RequestFrame], None] = lambda frame: None
        self.on_answer: Callable[[Response], None] = lambda response: None

    def of(self, kind: type[AnyRequest]) -> list[AnyRequest]:
        return [frame.request for frame in self.frames if isinstance(frame.request, kind)]

    def frames_of(self, kind: type[Request]) -> list[RequestFrame]:
        return [frame for frame in self.frames if isinstance(frame.request, kind)]

    @property
    def address(self) -> str:
        return self.kafka.bootstrap_servers


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    with EmbeddedKafka(num_partitions=1) as kafka:
        wire = Wire(kafka)

        def decode_and_note(frame: Any) -> RequestFrame:
            request = decode_request(frame)
            wire.frames.append(request._replace(request=copy(request.request)))
            wire.on_request(request)
            return request

        def change_and_encode(response: Response, version: int, correlation_id: int) -> Any:
            wire.on_answer(response)
            return encode_response_parts(response, version, correlation_id)

        monkeypatch.setattr("levada.broker.node.node.decode_request", decode_and_note)
        monkeypatch.setattr("levada.broker.node.node.encode_response_parts", change_and_encode)
        yield wire


def read_one(wire: Wire, topic: str, *, fetches: int = 1, **settings: Any) -> None:
    """Write a record and read it with a consumer, which is closed when so many fetches were sent."""
    with lv.KafkaProducer(bootstrap_servers=wire.address) as producer:
        producer.send(topic, b"v").result(timeout=PATIENCE_S)
    with lv.KafkaConsumer(bootstrap_servers=wire.address, auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign([lv.TopicPartition(topic, 0)])
        assert next(iter(consumer)).value == b"v"
        while len(wire.of(FetchRequest)) < fetches:
            time.sleep(0.01)


# Who speaks


def test_H6_K23_a_client_id_is_sent_as_given_or_made_of_its_kind_and_a_number(wire: Wire) -> None:
    every: tuple[dict[str, Any], ...] = ({"client_id": "billing"}, {}, {})
    for settings in every:
        with lv.KafkaProducer(bootstrap_servers=wire.address, **settings) as producer:
            producer.send("t", b"v").result(timeout=PATIENCE_S)
    given, first, second = dict.fromkeys(frame.client_id for frame in wire.frames)
    assert given == "billing"
    kind, _, number = (first or "").rpartition("-")
    assert kind == "levada-producer"
    assert second == f"{kind}-{int(number) + 1}"


def test_K1_a_producer_has_one_thread_and_takes_it_along(wire: Wire) -> None:
    before = set(threading.enumerate())
    with lv.KafkaProducer(bootstrap_servers=wire.address) as producer:
        producer.send("t", b"v").result(timeout=PATIENCE_S)
        (thread,) = set(threading.enumerate()) - before
        assert thread.daemon
    assert not thread.is_alive()


# Produce


@pytest.mark.parametrize(("acks", "sent"), [("all", -1), ("1", 1)])
def test_K13_V4_a_produce_request_has_acks_a_timeout_and_its_batches_by_topic(wire: Wire, acks: Any, sent: int) -> None:
    with lv.KafkaProducer(
        bootstrap_servers=wire.address, acks=acks, enable_idempotence=False, request_timeout_ms=12_345, linger_ms=200
    ) as producer:
        wire.kafka.create_topic("a", 2)
        wire.kafka.create_topic("b", 1)
        for topic, partition in (("a", 0), ("a", 1), ("b", 0)):
            producer.partitions_for(topic)
            producer.send(topic, b"v", partition=partition)
        producer.flush(timeout=PATIENCE_S)
    request = wire.of(ProduceRequest)[0]
    assert (request.acks, request.timeout_ms, request.transactional_id) == (sent, 12_345, None)
    assert sorted(len(topic.partition_data) for topic in request.topic_data) == [1, 2]


def test_TR51_a_partition_that_the_answer_leaves_out_is_sent_again(wire: Wire) -> None:
    def leave_out_once(response: Response) -> None:
        if isinstance(response, ProduceResponse):
            response.responses = []
            wire.on_answer = lambda _: None

    with lv.KafkaProducer(bootstrap_servers=wire.address) as producer:
        producer.send("t", b"first").result(timeout=PATIENCE_S)
        wire.on_answer = leave_out_once
        assert producer.send("t", b"second").result(timeout=PATIENCE_S).offset == 1
    assert wire.kafka.end_offset("t") == 2


# Fetch


def test_V6_F9_a_fetch_says_by_default_what_javas_says(wire: Wire) -> None:
    read_one(wire, "t")
    fetch = wire.of(FetchRequest)[0]
    assert (fetch.max_wait_ms, fetch.min_bytes, fetch.max_bytes, fetch.isolation_level, fetch.rack_id) == (500, 1, 52_428_800, 0, "")
    assert fetch.topics[0].partitions[0].partition_max_bytes == 1_048_576
    assert (fetch.replica_id, fetch.replica_state.replica_id) == (-1, -1)


def test_F9_F16_a_fetch_says_what_was_configured(wire: Wire) -> None:
    options = {"fetch_max_wait_ms": 70, "fetch_min_bytes": 3, "fetch_max_bytes": 9_000, "max_partition_fetch_bytes": 800}
    read_one(wire, "t", client_rack="cellar", isolation_level="read_committed", **options)
    fetch = wire.of(FetchRequest)[0]
    assert (fetch.max_wait_ms, fetch.min_bytes, fetch.max_bytes, fetch.isolation_level, fetch.rack_id) == (70, 3, 9_000, 1, "cellar")
    assert fetch.topics[0].partitions[0].partition_max_bytes == 800


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({}, 4 << 20),
        ({"max_partition_fetch_bytes": 1 << 20}, 1 << 20),
        # Two responses of each partition find room.
        ({"fetch_buffer_bytes": 4 << 20}, 2 << 20),
    ],
)
def test_F9_a_fetch_asks_for_more_while_responses_are_full(wire: Wire, settings: dict[str, Any], most: int) -> None:
    with lv.KafkaProducer(bootstrap_servers=wire.address) as producer:
        for _ in range(24):
            producer.send("t", bytes(900_000))
    with lv.KafkaConsumer(bootstrap_servers=wire.address, auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign([lv.TopicPartition("t", 0)])
        assert len(list(islice(consumer, 24))) == 24
    asked = [topic.partitions[0].partition_max_bytes for fetch in wire.of(FetchRequest) for topic in fetch.topics]
    assert asked[0] == 1 << 20
    assert max(asked) == most


def test_F9_no_more_is_asked_for_while_responses_are_slow(wire: Wire) -> None:
    """Otherwise a link that takes just request.timeout.ms for a small response would never bring a large one."""
    with lv.KafkaProducer(bootstrap_servers=wire.address) as producer:
        for _ in range(8):
            producer.send("t", bytes(900_000))
    wire.on_answer = lambda response: time.sleep(0.15) if isinstance(response, FetchResponse) else None
    with lv.KafkaConsumer(bootstrap_servers=wire.address, auto_offset_reset="earliest", request_timeout_ms=400) as consumer:
        consumer.assign([lv.TopicPartition("t", 0)])
        assert len(list(islice(consumer, 8))) == 8
    asked = [topic.partitions[0].partition_max_bytes for fetch in wire.of(FetchRequest) for topic in fetch.topics]
    assert set(asked) == {1 << 20}


def test_F9_little_is_asked_of_a_partition_that_has_little(wire: Wire) -> None:
    read_one(wire, "t", fetches=3, fetch_max_wait_ms=10)
    asked = [partition.partition_max_bytes for fetch in wire.of(FetchRequest) for topic in fetch.topics for partition in topic.partitions]
    assert set(asked) == {1 << 20}


def test_F14_a_fetch_has_the_offset_and_the_leader_epoch_of_its_position(wire: Wire) -> None:
    wire.kafka.create_topic("t", 1)
    wire.kafka.elect_leader("t")
    read_one(wire, "t")
    partition = wire.of(FetchRequest)[0].topics[0].partitions[0]
    assert (partition.fetch_offset, partition.current_leader_epoch) == (0, 1)


def test_F15_topics_are_named_by_id_when_all_ids_are_known(wire: Wire) -> None:
    topic_id = wire.kafka.create_topic("t", 1)
    read_one(wire, "t")
    frame = wire.frames_of(FetchRequest)[0]
    assert frame.version >= 13
    assert frame.request.topics[0].topic_id == topic_id  # type: ignore[attr-defined]


def test_F15_without_ids_version_12_is_the_newest(wire: Wire) -> None:
    wire.kafka.faults.cap_version("Metadata", 9)
    read_one(wire, "t")
    frame = wire.frames_of(FetchRequest)[0]
    assert frame.version == 12
    assert frame.request.topics[0].topic == "t"  # type: ignore[attr-defined]


class FetchSession:
    """A session for one partition beside a broker that has none: it gets whole requests, and its answers get the session's id."""

    ID = 77

    def __init__(self, wire: Wire) -> None:
        self._topics: list[Any] = []
        wire.on_request = self._complete
        wire.on_answer = self._name

    def _complete(self, frame: RequestFrame) -> None:
        request = frame.request
        if not isinstance(request, FetchRequest):
            return
        if request.topics or request.forgotten_topics_data:
            self._topics = request.topics
        request.topics = [] if request.session_epoch == -1 else self._topics
        request.session_id, request.session_epoch = 0, -1

    def _name(self, response: Response) -> None:
        if isinstance(response, FetchResponse):
            response.session_id = self.ID


def test_F22_close_ends_the_fetch_session(wire: Wire) -> None:
    FetchSession(wire)
    read_one(wire, "t", fetches=2, fetch_max_wait_ms=20)
    last = wire.of(FetchRequest)[-1]
    assert (last.session_id, last.session_epoch, last.topics) == (FetchSession.ID, -1, [])


# Metadata


def test_D8_a_consumer_that_must_not_create_topics_says_so(wire: Wire) -> None:
    wire.kafka.create_topic("t", 1)
    read_one(wire, "t", allow_auto_create_topics=False)
    consumers = [frame.request for frame in wire.frames_of(MetadataRequest) if "consumer" in (frame.client_id or "")]
    assert consumers
    assert not any(request.allow_auto_topic_creation for request in consumers if request.topics)  # type: ignore[attr-defined]


# Records that readers never see


def test_F5_poll_returns_when_a_position_passed_control_records_only(wire: Wire) -> None:
    wire.kafka.create_topic("t", 1)
    with lv.KafkaProducer(bootstrap_servers=wire.address, transactional_id="tx") as producer, producer.transaction():
        producer.send("t", b"v")
    tp = lv.TopicPartition("t", 0)
    with lv.KafkaConsumer(bootstrap_servers=wire.address, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 1)
        started = time.monotonic()
        assert not list(consumer.poll(timeout=PATIENCE_S))
        assert time.monotonic() - started < PATIENCE_S / 2
        assert consumer.position(tp) == 2
