"""M-B20: librdkafka, aiokafka and kafka-python write to the embedded broker and read what they and each other wrote, byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import aiokafka
import confluent_kafka
import confluent_kafka.admin
import kafka as kafka_python
import kafka.admin
import pytest

from levada.testing import EmbeddedKafka
from peer_clients import PATIENCE_S, PEERS, Peer, PeerRecord

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_MS = 1_577_836_800_000
RECORDS = [
    PeerRecord(b"key", b"value", FIRST_MS, ()),
    PeerRecord(None, b"no key", FIRST_MS + 1, ()),
    PeerRecord(b"no value", None, FIRST_MS + 2, ()),
    PeerRecord(b"", b"", FIRST_MS - 5, ()),
    PeerRecord("schlüssel".encode(), bytes(range(256)), FIRST_MS + 3, (("trace", b"\x00\xff"), ("trace", b"again"), ("empty", b""))),
    PeerRecord(b"large", b"0123456789" * 30_000, FIRST_MS + 4, ()),
    *[PeerRecord(b"k%d" % n, b'{"n": %d, "text": "the same words over and over"}' % n, FIRST_MS + n, ()) for n in range(200)],
]

Send = Callable[[str, str, Sequence[PeerRecord], str, bool], None]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        yield running


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", PEERS, ids=lambda peer: peer.name)
def test_M_B20_what_one_peer_writes_all_peers_read(broker: EmbeddedKafka, writer: Peer, codec: str) -> None:
    topic = f"{writer.name}.{codec}"
    broker.create_topic(topic)

    writer.write(broker.bootstrap_servers, topic, codec, RECORDS)

    for reader in PEERS:
        assert reader.read(broker.bootstrap_servers, topic, len(RECORDS)) == RECORDS, reader.name


def librdkafka_send(servers: str, topic: str, records: Sequence[PeerRecord], acks: str, idempotent: bool) -> None:
    failures: list[object] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "enable.idempotence": idempotent, "acks": acks})
    for record in records:
        producer.produce(topic, record.value, record.key, 0, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(PATIENCE_S) == 0
    assert not failures


def aiokafka_send(servers: str, topic: str, records: Sequence[PeerRecord], acks: str, idempotent: bool) -> None:
    async def send() -> None:
        wanted = acks if acks == "all" else int(acks)
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=idempotent, acks=wanted) as producer:
            sent = [await producer.send(topic, value=record.value, key=record.key, partition=0) for record in records]
            await asyncio.wait_for(asyncio.gather(*sent), PATIENCE_S)

    asyncio.run(send())


def kafka_python_send(servers: str, topic: str, records: Sequence[PeerRecord], acks: str, idempotent: bool) -> None:
    wanted = acks if acks == "all" else int(acks)
    producer = kafka_python.KafkaProducer(bootstrap_servers=servers, enable_idempotence=idempotent, acks=wanted)
    sent = [producer.send(topic, value=record.value, key=record.key, partition=0) for record in records]
    for future in sent:
        future.get(PATIENCE_S)
    producer.close()


each_sender = pytest.mark.parametrize("send", [librdkafka_send, aiokafka_send, kafka_python_send])


def values_in(broker: EmbeddedKafka, topic: str) -> list[bytes | None]:
    return [record.value for record in PEERS[0].read(broker.bootstrap_servers, topic, broker.end_offset(topic))]


@each_sender
def test_M_B20_I15_an_idempotent_peer_whose_acknowledgement_is_lost_writes_once(broker: EmbeddedKafka, send: Send) -> None:
    topic = f"{send.__name__}.idempotent"
    broker.create_topic(topic)
    broker.faults.disconnect("Produce", applied=True)

    send(broker.bootstrap_servers, topic, RECORDS, "all", True)

    assert values_in(broker, topic) == [record.value for record in RECORDS]


@pytest.mark.parametrize("acks", ["0", "1"])
@each_sender
def test_M_B20_peers_write_with_fewer_acknowledgements(broker: EmbeddedKafka, send: Send, acks: str) -> None:
    topic = f"{send.__name__}.acks{acks}"
    broker.create_topic(topic)

    send(broker.bootstrap_servers, topic, RECORDS, acks, False)

    found = PEERS[0].read(broker.bootstrap_servers, topic, len(RECORDS))
    assert [record.value for record in found] == [record.value for record in RECORDS]


@each_sender
def test_E11_a_peer_that_writes_to_a_missing_topic_creates_it(broker: EmbeddedKafka, send: Send) -> None:
    send(broker.bootstrap_servers, f"{send.__name__}.created", RECORDS[:1], "all", False)

    assert broker.end_offset(f"{send.__name__}.created") == 1


def test_librdkafka_admin_creates_and_deletes_a_topic(broker: EmbeddedKafka) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    wanted = confluent_kafka.admin.NewTopic("made-by-librdkafka", 3, 1, config={"retention.ms": "1000"})  # type: ignore[attr-defined]
    admin.create_topics([wanted])["made-by-librdkafka"].result(PATIENCE_S)
    assert len(admin.list_topics(timeout=PATIENCE_S).topics["made-by-librdkafka"].partitions) == 3

    wrong = confluent_kafka.admin.NewTopic("refused", 1, 1, config={"retention.msx": "1"})  # type: ignore[attr-defined]
    with pytest.raises(confluent_kafka.KafkaException, match="unknown topic config name: retention"):
        admin.create_topics([wrong])["refused"].result(PATIENCE_S)

    admin.delete_topics(["made-by-librdkafka"])["made-by-librdkafka"].result(PATIENCE_S)
    assert "made-by-librdkafka" not in admin.list_topics(timeout=PATIENCE_S).topics


def test_kafka_python_admin_creates_and_deletes_a_topic(broker: EmbeddedKafka) -> None:
    admin = kafka.admin.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    admin.create_topics([kafka.admin.NewTopic("made-by-kafka-python", 2, 1)])
    assert "made-by-kafka-python" in admin.list_topics()
    admin.delete_topics(["made-by-kafka-python"])
    assert "made-by-kafka-python" not in admin.list_topics()
    admin.close()


def test_peers_find_offsets_by_time_and_at_the_ends(broker: EmbeddedKafka) -> None:
    broker.create_topic("times")
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    for stamp in (1000, 2000, 3000):
        producer.produce("times", b"x", partition=0, timestamp=stamp)
        producer.flush(PATIENCE_S)

    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused"})
    (found,) = consumer.offsets_for_times([confluent_kafka.TopicPartition("times", 0, 1500)], timeout=PATIENCE_S)
    ends = consumer.get_watermark_offsets(confluent_kafka.TopicPartition("times", 0), timeout=PATIENCE_S)
    consumer.close()
    assert (found.offset, ends) == (1, (0, 3))

    other = kafka_python.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    partition = kafka_python.TopicPartition("times", 0)
    assert other.offsets_for_times({partition: 2001})[partition].offset == 2
    assert other.end_offsets([partition]) == {partition: 3}
    other.close()
