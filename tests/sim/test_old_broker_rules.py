"""V9, V12, M15, C2 to C4: what client, producer and consumer do with brokers of before Kafka 0.11, in virtual time."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from levada.client.network.broker_fallback import versions_of
from levada.error_codes import ErrorCode
from levada.errors import (
    BootstrapError,
    CorruptRecordError,
    Persisted,
    RecordTooLargeError,
    UnknownTopicOrPartitionError,
    UnsupportedCompressionError,
    UnsupportedRecordFormatError,
    UnsupportedVersionError,
)
from levada.protocol.frame import RequestFrame
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from levada.protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from levada.record.batch import RecordBatch
from levada.record.builder import RecordBatchBuilder
from levada.record.compression import Codec
from levada.record.legacy.conversion import down_convert
from levada.record.memory_records import read_batches
from levada.sync.consumer import KafkaConsumer
from levada.testing import Simulation
from levada.types import NewTopic, TopicPartition
from producer_kit import SimProducer
from sim_kit import HOST, PORT, ScriptedServer, SimClient, one_node, server, versions_reply

TP = TopicPartition("t", 0)
KAFKA_0_10_2 = {0: (0, 2), 1: (0, 3), 2: (0, 1), 3: (0, 2), 18: (0, 0)}
KAFKA_0_10_0 = {0: (0, 2), 1: (0, 2), 2: (0, 0), 3: (0, 1), 18: (0, 0)}
KAFKA_0_9 = {0: (0, 1), 1: (0, 1), 2: (0, 0), 3: (0, 0), 18: (0, 0)}
KAFKA_2_0 = {0: (0, 6), 1: (0, 8), 2: (0, 3), 3: (0, 6), 18: (0, 2), 22: (0, 1)}


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=8) as sim:
        yield sim


def described(*names: str, leader: int = 1) -> list[MetadataResponseTopic]:
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader, replica_nodes=[1], isr_nodes=[1])
    return [MetadataResponseTopic(name=name, partitions=[partition]) for name in names]


class OldBroker:
    """A broker of topic t that speaks certain versions; what it is sent is kept as it came."""

    def __init__(self, sim: Simulation, spoken: dict[int, tuple[int, int]]) -> None:
        self.errors: list[ErrorCode] = []
        self.log: list[RecordBatch] = []
        self.asked: ScriptedServer = server(
            sim,
            {
                ApiVersionsRequest: lambda frame: versions_reply(spoken),
                MetadataRequest: lambda frame: one_node(topics=described("other", "t")),
                ProduceRequest: self._produce,
            },
        )

    def on(self, request: type[Any], handler: Callable[[RequestFrame], Any]) -> None:
        self.asked.handlers[request] = handler

    def requests(self, kind: type[Any]) -> list[Any]:
        return [frame for frame in self.asked.asked if isinstance(frame.request, kind)]

    def _produce(self, frame: Any) -> ProduceResponse | None:
        data = frame.request.topic_data[0].partition_data[0].records
        batches = list(read_batches(bytes(data)))
        code = self.errors.pop(0) if self.errors else ErrorCode.NONE
        offset = sum(batch.records_count for batch in self.log)
        self.log += batches if code is ErrorCode.NONE else []
        answer = PartitionProduceResponse(index=0, error_code=code, base_offset=offset, log_append_time_ms=77)
        responses = [TopicProduceResponse(name="t", partition_responses=[answer])]
        return ProduceResponse(responses=responses) if frame.request.acks else None

    def values(self) -> list[bytes | None]:
        return [record.value for batch in self.log for record in batch.records()]


def producer(sim: Simulation, **settings: Any) -> SimProducer:
    return SimProducer(sim, **{"enable_idempotence": False, "linger_ms": 10, **settings})


# What is asked


def test_C2_with_the_option_nothing_is_asked_and_the_table_holds(sim: Simulation) -> None:
    broker = OldBroker(sim, {})
    client = SimClient(sim, fallback=versions_of("0.9.0"))
    assert client.updated()
    assert [(type(frame.request), frame.version) for frame in broker.asked.asked] == [(MetadataRequest, 0)]
    with pytest.raises(UnsupportedVersionError, match=r"kafka:9092: the broker does not know InitProducerId"):
        client.ask(InitProducerIdRequest())


@pytest.mark.parametrize("hangs_up", [True, False], ids=["0.8 hangs up", "0.9 is silent"])
def test_C2_without_the_option_the_error_names_it(sim: Simulation, hangs_up: bool) -> None:
    kafka = server(sim)
    kafka.handlers[ApiVersionsRequest] = lambda frame: kafka.hang_up(kafka.connected[-1]) if hangs_up else None
    with pytest.raises(BootstrapError, match=r"a broker older than 0\.10 \(then name its release, as broker\.version\.fallback="):
        SimClient(sim).ask(MetadataRequest(topics=[]), timeout_s=20)


def test_C2_a_broker_that_is_not_that_old_hangs_up_and_the_cause_says_why(sim: Simulation) -> None:
    kafka = server(sim)
    kafka.handlers[MetadataRequest] = lambda frame: kafka.hang_up(kafka.connected[-1])
    client = SimClient(sim, fallback=versions_of("0.9.0"))
    sim.advance(1000)
    assert "is broker.version.fallback right" in client.network.failures()["kafka:9092"]


def test_C2_an_answer_that_cannot_be_read_asks_whether_the_fallback_is_right(sim: Simulation) -> None:
    kafka = server(sim)
    kafka.handlers[MetadataRequest] = lambda frame: struct.pack(">ii", 24, frame.correlation_id) + b"\x7f" * 20
    client = SimClient(sim, fallback=versions_of("0.10.0"))
    sim.advance(1000)
    cause = client.network.failures()["kafka:9092"]
    assert "an answer cannot be read (MetadataResponse v1" in cause
    assert "is broker.version.fallback right" in cause


def test_TR4_every_topic_is_an_empty_list_in_version_0(sim: Simulation) -> None:
    broker = OldBroker(sim, KAFKA_0_9)
    client = SimClient(sim)
    client.metadata.set_topics(None, sim.now_ms)
    assert client.updated()
    assert broker.requests(MetadataRequest)[0].request.topics == []
    assert set(client.metadata.snapshot.topics) == {"other", "t"}


def test_TR4_every_topic_is_null_from_version_1_on(sim: Simulation) -> None:
    broker = OldBroker(sim, KAFKA_0_10_0)
    client = SimClient(sim)
    client.metadata.set_topics(None, sim.now_ms)
    assert client.updated()
    assert [(frame.version, frame.request.topics) for frame in broker.requests(MetadataRequest)] == [(1, None)]


@pytest.mark.parametrize("spoken", [KAFKA_0_9, KAFKA_0_10_2], ids=["version 0", "version 2"])
def test_a_topic_is_not_created_unless_that_is_asked_for(sim: Simulation, spoken: dict[int, tuple[int, int]]) -> None:
    broker = OldBroker(sim, spoken)
    client = SimClient(sim, allow_auto_create_topics=False)
    client.metadata.set_topics({"t", "missing"}, sim.now_ms)
    assert client.updated()
    assert not any(frame.request.topics for frame in broker.requests(MetadataRequest)), "asking by name creates a topic"
    topics = client.metadata.snapshot.topics
    assert {name: topic.error for name, topic in topics.items()} == {"t": ErrorCode.NONE, "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_reader_describes_the_topic_it_asked_for(sim: Simulation) -> None:
    broker = OldBroker(sim, KAFKA_0_9)
    reader = consumer(sim, allow_auto_create_topics=False)
    assert [info.topic for info in reader.partitions_for("t")] == ["t"]
    with pytest.raises(UnknownTopicOrPartitionError):
        reader.partitions_for("missing")
    reader.close()
    assert not any(frame.request.topics for frame in broker.requests(MetadataRequest))


def test_an_administrator_looks_and_does_not_touch(sim: Simulation) -> None:
    broker = OldBroker(sim, KAFKA_0_9)
    with sim.admin(bootstrap_servers=f"{HOST}:{PORT}") as admin:
        assert admin.list_topics() == ["other", "t"]
        assert [info.leader for info in admin.describe_topics(["t"])["t"].partitions] == [1]
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.describe_topics(["missing"])
        assert [node.id for node in admin.describe_cluster().nodes] == [1]
        with pytest.raises(UnsupportedVersionError, match="the broker does not know CreateTopics"):
            admin.create_topics([NewTopic("new", 1, 1)])
    assert not any(frame.request.topics for frame in broker.requests(MetadataRequest))


# Producing


@pytest.mark.parametrize(("spoken", "version", "magic"), [(KAFKA_0_9, 1, 0), (KAFKA_0_10_2, 2, 1), (KAFKA_2_0, 6, 2)])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_M15_the_negotiated_version_says_what_is_sent(
    sim: Simulation, spoken: dict[int, tuple[int, int]], version: int, magic: int, codec: Codec
) -> None:
    broker = OldBroker(sim, spoken)
    sender = producer(sim, codec=codec)
    sent = [sender.send("t", b"%d" % n, key=b"k", partition=0) for n in range(5)]
    sender.flush()
    assert {frame.version for frame in broker.requests(ProduceRequest)} == {version}
    assert {batch.magic for batch in broker.log} == {magic}
    assert {batch.codec for batch in broker.log} == {codec}
    assert broker.values() == [b"%d" % n for n in range(5)]
    assert [delivery.result(0).offset for delivery in sent] == list(range(5))
    assert (sent[0].result(0).timestamp == 77) is (version >= 2), "version 2 answers with the append time"


def test_M15_the_same_batch_is_converted_again_for_another_attempt(sim: Simulation) -> None:
    broker = OldBroker(sim, KAFKA_0_10_2)
    broker.errors = [ErrorCode.NOT_ENOUGH_REPLICAS]
    sender = producer(sim)
    delivery = sender.send("t", b"v", partition=0)
    sender.flush()
    assert delivery.result(0).offset == 0
    first, second = (frame.request.topic_data[0].partition_data[0].records for frame in broker.requests(ProduceRequest))
    assert bytes(first) == bytes(second)


def test_M15_a_batch_moves_to_a_broker_of_another_release(sim: Simulation) -> None:
    old, new = OldBroker(sim, KAFKA_0_10_2), ScriptedServer()
    old.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 10
    taken: list[RecordBatch] = []

    def produce(frame: Any) -> ProduceResponse:
        taken.extend(read_batches(bytes(frame.request.topic_data[0].partition_data[0].records)))
        answer = PartitionProduceResponse(index=0, base_offset=5)
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[answer])])

    def moved(frame: RequestFrame) -> MetadataResponse:
        leads = one_node("new").brokers[0]
        leads.node_id = 2
        brokers = [*one_node().brokers, leads]
        return one_node(brokers=brokers, topics=described("t", leader=2 if old.requests(ProduceRequest) else 1))

    new.handlers.update({ApiVersionsRequest: lambda frame: versions_reply(KAFKA_2_0), MetadataRequest: moved, ProduceRequest: produce})
    old.on(MetadataRequest, moved)
    sim.network.add_server(new, "new", PORT)
    sender = producer(sim)
    delivery = sender.send("t", b"v", partition=0)
    sender.flush()
    assert delivery.result(0).offset == 5
    assert [batch.magic for batch in taken] == [2]


def test_M15_a_message_set_that_is_too_large_is_split(sim: Simulation) -> None:
    broker = OldBroker(sim, KAFKA_0_10_2)
    broker.errors = [ErrorCode.MESSAGE_TOO_LARGE]
    sender = producer(sim)
    sent = [sender.send("t", b"%d" % n * 100, partition=0) for n in range(4)]
    sender.flush()
    assert broker.values() == [b"%d" % n * 100 for n in range(4)]
    assert [delivery.result(0).offset for delivery in sent] == [0, 1, 2, 3]


def test_V3_acks_0_has_no_answer(sim: Simulation) -> None:
    broker = OldBroker(sim, KAFKA_0_10_2)
    sender = producer(sim, acks=0)
    delivery = sender.send("t", b"v", partition=0)
    sender.flush()
    assert delivery.result(0).offset == -1
    sim.advance(100)
    assert broker.values() == [b"v"]


def test_M15_headers_fail_their_batch_and_nothing_else(sim: Simulation) -> None:
    broker = OldBroker(sim, KAFKA_0_10_2)
    sender = producer(sim, batch_size=1, linger_ms=0)
    before = sender.send("t", b"before", partition=0)
    sender.flush()
    with_headers = sender.send("t", b"h", partition=0, headers=(("h", b"1"),))
    after = sender.send("t", b"after", partition=0)
    sim.advance(100)
    error = with_headers.exception(0)
    assert isinstance(error, UnsupportedRecordFormatError)
    assert "t-0: record headers need Kafka 0.11" in str(error)
    assert "persisted: no" in str(error)
    assert error.persisted is Persisted.NO
    assert after.done(), "no answer comes that would bring the sender back to it"
    assert (before.result(0).offset, after.result(0).offset) == (0, 1)
    assert broker.values() == [b"before", b"after"]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_M15_records_without_headers_go_without_those_that_have_some(sim: Simulation, codec: Codec) -> None:
    broker = OldBroker(sim, KAFKA_0_10_2)
    sender = producer(sim, codec=codec)
    some = (("h", b"1"),)
    headers = [(), some, some, (), (), some]
    sent = [sender.send("t", b"%d" % n, partition=0, headers=each) for n, each in enumerate(headers)]
    sender.flush()
    assert [delivery.exception(0) is None for delivery in sent] == [not each for each in headers]
    for delivery in (sent[1], sent[2], sent[5]):
        error = delivery.exception(0)
        assert isinstance(error, UnsupportedRecordFormatError)
        assert error.persisted is Persisted.NO
    assert [sent[n].result(0).offset for n in (0, 3, 4)] == [0, 1, 2]
    assert broker.values() == [b"0", b"3", b"4"]


def test_M15_idempotence_ends_the_producer_and_says_what_to_do(sim: Simulation) -> None:
    broker = OldBroker(sim, KAFKA_0_10_2)
    sender = SimProducer(sim, enable_idempotence=True)
    delivery = sender.send("t", b"v", partition=0)
    sender.flush()
    error = delivery.exception(0)
    assert isinstance(error, UnsupportedVersionError)
    assert "set enable.idempotence=false" in str(error)
    assert error.persisted is Persisted.NO
    assert not broker.requests(ProduceRequest)


@pytest.mark.parametrize("spoken", [KAFKA_0_9, KAFKA_2_0], ids=["0.9", "2.0"])
def test_zstd_needs_Produce_7(sim: Simulation, spoken: dict[int, tuple[int, int]]) -> None:
    broker = OldBroker(sim, spoken)
    sender = producer(sim, codec=Codec.ZSTD)
    delivery = sender.send("t", b"v", partition=0)
    sender.flush()
    error = delivery.exception(0)
    assert isinstance(error, UnsupportedCompressionError)
    assert "compression.type=zstd needs brokers of Kafka 2.1" in str(error)
    assert error.persisted is Persisted.NO
    assert not broker.requests(ProduceRequest)


# Consuming


def stored(magic: int, *values: bytes) -> bytes:
    builder = RecordBatchBuilder(Codec.NONE, None, 1 << 20)
    for value in values:
        builder.append(1000, b"k", value, ())
    batch = RecordBatch(memoryview(builder.build()))
    return bytes(down_convert(batch, magic) if magic < 2 else batch.data)


def fetched(records: bytes, code: ErrorCode = ErrorCode.NONE) -> FetchResponse:
    data = PartitionData(partition_index=0, error_code=code, high_watermark=9, records=records)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])


def consumer(sim: Simulation, **settings: Any) -> KafkaConsumer:
    reader = sim.consumer(bootstrap_servers=f"{HOST}:{PORT}", **settings)
    reader.assign([TP])
    return reader


@pytest.mark.parametrize(("spoken", "version", "magic"), [(KAFKA_0_9, 1, 0), (KAFKA_0_10_0, 2, 1), (KAFKA_0_10_2, 3, 1), (KAFKA_2_0, 8, 2)])
def test_V10_message_sets_are_read_at_the_negotiated_version(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch, spoken: dict[int, tuple[int, int]], version: int, magic: int
) -> None:
    broker = OldBroker(sim, spoken)
    sets = [stored(magic, b"a", b"b")]
    broker.on(FetchRequest, lambda frame: fetched(sets.pop() if sets else b""))
    reader = consumer(sim)
    reader.seek(TP, 0)
    assert [(record.offset, record.value, record.timestamp) for record in reader.poll(timeout=5)] == [
        (0, b"a", 1000 if magic else -1),
        (1, b"b", 1000 if magic else -1),
    ]
    assert broker.requests(FetchRequest)[0].version == version
    reader.close()


@pytest.mark.parametrize("size", [5, 20], ids=["in its header", "in its message"])
def test_V9_a_message_that_never_comes_whole_is_an_error_with_the_place_and_the_option(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    broker = OldBroker(sim, KAFKA_0_10_0)
    broker.on(FetchRequest, lambda frame: fetched(stored(1, b"x" * 100)[:size]))
    reader = consumer(sim, max_partition_fetch_bytes=size)
    reader.seek(TP, 7)
    for _ in range(2):
        with pytest.raises(RecordTooLargeError, match=rf"t-0 at offset 7: .*max\.partition\.fetch\.bytes={size}, .*raise the option"):
            reader.poll(timeout=5)
    assert len(broker.requests(FetchRequest)) <= 4, "it does not ask again and again"
    whole = stored(1, b"x")

    def answer(frame: Any) -> FetchResponse:
        return fetched(whole if frame.request.topics[0].partitions[0].fetch_offset == 0 else b"")

    broker.on(FetchRequest, answer)
    reader.seek(TP, 0)
    assert [record.value for record in reader.poll(timeout=5)] == [b"x"]
    reader.close()


def test_V9_a_bounded_read_asks_for_enough_where_a_first_message_may_come_cut(sim: Simulation) -> None:
    broker = OldBroker(sim, KAFKA_0_10_0)

    def answer(frame: Any) -> FetchResponse:
        return fetched(stored(1, b"x" * 10_000)[: frame.request.topics[0].partitions[0].partition_max_bytes])

    broker.on(FetchRequest, answer)
    reader = consumer(sim)
    reader.assign([TP], ends={TP: 1})
    reader.seek(TP, 0)
    assert [record.offset for record in reader] == [0]
    reader.close()


def test_V9_from_version_3_on_it_is_the_brokers_fault(sim: Simulation) -> None:
    broker = OldBroker(sim, KAFKA_0_10_2)
    broker.on(FetchRequest, lambda frame: fetched(stored(1, b"x" * 100)[:20]))
    reader = consumer(sim)
    reader.seek(TP, 0)
    with pytest.raises(CorruptRecordError, match="no complete record batch"):
        reader.poll(timeout=5)
    reader.close()


def test_zstd_below_Fetch_10_is_an_error_of_the_brokers(sim: Simulation) -> None:
    broker = OldBroker(sim, KAFKA_2_0)
    broker.on(FetchRequest, lambda frame: fetched(b"", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE))
    reader = consumer(sim)
    reader.seek(TP, 0)
    with pytest.raises(UnsupportedCompressionError, match="t-0: fetch at offset 0"):
        reader.poll(timeout=5)
    reader.close()


def offsets(frame: Any) -> ListOffsetsResponse:
    asked = frame.request.topics[0].partitions[0]
    offset = {-1: 9, -2: 4}.get(asked.timestamp, 6)
    answer = ListOffsetsPartitionResponse(
        partition_index=0, **({"old_style_offsets": [offset]} if frame.version == 0 else {"offset": offset})
    )
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[answer])])


@pytest.mark.parametrize(("spoken", "version"), [(KAFKA_0_9, 0), (KAFKA_0_10_2, 1)], ids=["0.9", "0.10.2"])
def test_C4_the_ends_of_the_log(sim: Simulation, monkeypatch: pytest.MonkeyPatch, spoken: dict[int, tuple[int, int]], version: int) -> None:
    broker = OldBroker(sim, spoken)
    broker.on(ListOffsetsRequest, offsets)
    reader = consumer(sim)
    assert (reader.beginning_offsets([TP]), reader.end_offsets([TP])) == ({TP: 4}, {TP: 9})
    assert {frame.version for frame in broker.requests(ListOffsetsRequest)} == {version}
    reader.close()


def test_C4_a_time_is_not_looked_up_by_segment(sim: Simulation) -> None:
    broker = OldBroker(sim, KAFKA_0_10_0)
    broker.on(ListOffsetsRequest, offsets)
    reader = consumer(sim)
    with pytest.raises(UnsupportedVersionError, match="ListOffsets: versions 1 to"):
        reader.offsets_for_times({TP: 1000})
    assert not broker.requests(ListOffsetsRequest)
    reader.close()


def test_a_committed_end_is_asked_of_brokers_that_know_transactions(sim: Simulation) -> None:
    broker = OldBroker(sim, KAFKA_0_10_2)
    broker.on(ListOffsetsRequest, offsets)
    reader = consumer(sim, isolation_level="read_committed")
    with pytest.raises(UnsupportedVersionError, match="ListOffsets: versions 2 to"):
        reader.end_offsets([TP])
    reader.close()
