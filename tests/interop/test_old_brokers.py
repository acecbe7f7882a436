"""V10, M15, C2 to C4: every broker from Kafka 0.8.2 to 4.4, for real (`make test-matrix`).

On each, levada and its peers write and read the same records through the versions that broker speaks, and what it cannot do ends in an
error that says so. One broker runs at a time; a line at its end says what was negotiated, and what came back equal.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import kafka_cluster
import levada as lv
import zookeeper_kafka
from levada.base.flow import Call, Flow
from levada.client.network.api_versions import BrokerVersions
from levada.client.network.broker_fallback import RELEASES, versions_of
from levada.config import AdminConfig
from levada.errors import (
    BootstrapError,
    DeliveryTimeout,
    Persisted,
    UnsupportedCompressionError,
    UnsupportedRecordFormatError,
    UnsupportedVersionError,
)
from levada.protocol.messages.fetch import FetchRequest
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.messages.produce import ProduceRequest
from levada.sync.connect import connect
from peer_clients import EPOCH_2020, PEERS, Peer, PeerRecord, peer_records

pytestmark = [pytest.mark.kafka, pytest.mark.matrix, pytest.mark.timeout(600)]

VERSIONS = (*zookeeper_kafka.VERSIONS, "3.3.2", "3.7.2", "3.9.2", "4.3.0", "4.4.0")
SHOWN = (ProduceRequest, FetchRequest, MetadataRequest)
PATIENCE_S = 30
RECORDS = 1000
NO_TIMESTAMP = -1
QUIET = {"log_level": 2}


@dataclass
class Broker:
    """A running broker, what its release knows, and what was seen of it."""

    kafka: Any
    version: str
    spoken: BrokerVersions = field(default_factory=lambda: BrokerVersions({}))
    equal: Counter[str] = field(default_factory=Counter)
    """How often all records came back equal, by codec; each time another pair of clients, or rows and columns."""

    @property
    def servers(self) -> str:
        return str(self.kafka.bootstrap_servers)

    def is_at_least(self, release: str) -> bool:
        return _numbers(self.version) >= _numbers(release)

    @property
    def release(self) -> str:
        return self.version.rpartition(".")[0]

    @property
    def says_what_it_speaks(self) -> bool:
        return self.is_at_least("0.10")

    @property
    def has_timestamps(self) -> bool:
        return self.is_at_least("0.10")

    @property
    def has_batches(self) -> bool:
        """Record batches instead of message sets: headers, idempotence."""
        return self.is_at_least("0.11")

    @property
    def codecs(self) -> tuple[str, ...]:
        return ("none", "gzip", "snappy", "lz4", *(["zstd"] if self.is_at_least("2.1") else []))

    @property
    def settings(self) -> dict[str, Any]:
        """What any levada client needs here."""
        return {"bootstrap_servers": self.servers, **({} if self.says_what_it_speaks else {"broker_version_fallback": self.release})}

    def producer(self, **settings: Any) -> lv.KafkaProducer:
        return lv.KafkaProducer(**{**self.settings, "enable_idempotence": self.has_batches, **settings})

    def consumer(self, topic: str, **settings: Any) -> lv.KafkaConsumer:
        consumer = lv.KafkaConsumer(**{**self.settings, "auto_offset_reset": "earliest", **settings})
        consumer.assign([lv.TopicPartition(topic, 0)])
        return consumer

    def topic(self, name: str, **config: Any) -> str:
        self.kafka.create_topic(name, config=config)
        return name

    def records(self) -> list[PeerRecord]:
        """A thousand records with nulls, empties, every byte, large ones, and headers and timestamps where the release has them."""
        return [self.stored(record) for record in SENT]

    def stored(self, record: PeerRecord) -> PeerRecord:
        """What the broker keeps of a record."""
        return record._replace(
            timestamp=record.timestamp if self.has_timestamps else NO_TIMESTAMP, headers=record.headers if self.has_batches else ()
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


SENT = peer_records(RECORDS)


@pytest.fixture(scope="module", params=VERSIONS)
def broker(
    request: pytest.FixtureRequest, start_real_kafka: Callable[..., AbstractContextManager[Any]], note: Callable[[str], None]
) -> Iterator[Broker]:
    """Each version in turn, and its line in the report."""
    with start_real_kafka(request.param) as kafka:
        running = Broker(kafka, request.param)
        # 0.8 names no broker before there is a topic.
        running.topic("first")
        running.spoken = spoken_by(running)
        yield running
    note(line(running))


def line(broker: Broker) -> str:
    versions = " ".join(f"{api.NAME} v{broker.spoken.version_for(api)}".ljust(12) for api in SHOWN)
    equal = ", ".join(f"{codec} {ways}x" for codec, ways in broker.equal.items())
    return f"Kafka {broker.version:<8}  {versions} {RECORDS:,} records came back equal: {equal or 'never'}"


def spoken_by(broker: Broker) -> BrokerVersions:
    """Return what levada believes that the broker speaks, once it has talked to it."""

    def ask() -> Flow[int]:
        response = yield Call(MetadataRequest(topics=[]))
        node = response.brokers[0].node_id
        yield Call(MetadataRequest(topics=[]), node=node)
        return int(node)

    engine, driver = connect(AdminConfig.parse(**broker.settings), "asker")
    driver.start()
    try:
        versions = engine.network.versions(driver.run(ask(), PATIENCE_S, "asking"))
    finally:
        driver.close(5)
    assert versions is not None
    return versions


def write(broker: Broker, topic: str, codec: str) -> None:
    with broker.producer(compression_type=codec) as producer:
        sent = [
            producer.send(
                topic,
                key=record.key,
                value=record.value,
                timestamp=record.timestamp,
                headers=record.headers if broker.has_batches else (),
                partition=0,
            )
            for record in SENT
        ]
        producer.flush(PATIENCE_S)
    assert [delivery.result(0).offset for delivery in sent] == list(range(len(SENT)))


def read(broker: Broker, topic: str, count: int = RECORDS) -> list[PeerRecord]:
    found: list[PeerRecord] = []
    with broker.consumer(topic) as consumer:
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            found += [PeerRecord(r.key, r.value, r.timestamp, tuple(r.headers)) for r in consumer.poll(timeout=0.5)]
    return found


def read_columns(broker: Broker, topic: str) -> list[PeerRecord]:
    rows = lv.scan(topic, **broker.settings, columns=["key", "value", "timestamp", "headers"]).to_table()
    stamps = rows["timestamp"].cast(pa.int64()).to_pylist()
    headers = [tuple((entry["key"], entry["value"]) for entry in row or ()) for row in rows["headers"].to_pylist()]
    stamps = [NO_TIMESTAMP if stamp is None else stamp for stamp in stamps]
    return [PeerRecord(*row) for row in zip(rows["key"].to_pylist(), rows["value"].to_pylist(), stamps, headers, strict=True)]


def peers(broker: Broker, codec: str) -> Iterator[tuple[Peer, dict[str, Any], dict[str, Any]]]:
    """Yield each peer that speaks to the broker in this codec, with its settings for writing and for reading."""
    confluent, _, kafka_python = PEERS
    old: dict[str, Any] = {} if broker.says_what_it_speaks else {"api.version.request": "false", "broker.version.fallback": broker.release}
    yield confluent, {**QUIET, **old}, {**QUIET, **old}
    # kafka-python does not get its lz4 past brokers of before 0.10.
    if broker.says_what_it_speaks or codec != "lz4":
        old = {} if broker.says_what_it_speaks else {"api_version": _numbers(broker.release)}
        yield kafka_python, {**old, "enable_idempotence": broker.has_batches}, old


def with_no_time(broker: Broker, records: list[PeerRecord]) -> list[PeerRecord]:
    """Peers have different words for a timestamp that was never there."""
    return records if broker.has_timestamps else [record._replace(timestamp=NO_TIMESTAMP) for record in records]


def test_what_levada_wrote_is_read_by_all(broker: Broker) -> None:
    for codec in broker.codecs:
        topic = broker.topic(f"ours-{codec}")
        write(broker, topic, codec)
        wanted = broker.records()
        assert read(broker, topic) == wanted, codec
        assert read_columns(broker, topic) == wanted, codec
        broker.equal[codec] += 2
        for peer, _, reading in peers(broker, codec):
            assert with_no_time(broker, peer.read(broker.servers, topic, RECORDS, **reading)) == wanted, (codec, peer.name)
            broker.equal[codec] += 1


def test_what_peers_wrote_is_read_by_levada(broker: Broker) -> None:
    for codec in broker.codecs:
        for peer, writing, _ in peers(broker, codec):
            topic = broker.topic(f"{peer.name}-{codec}")
            peer.write(broker.servers, topic, codec, [record._replace(headers=broker.stored(record).headers) for record in SENT], **writing)
            assert read(broker, topic) == broker.records(), (codec, peer.name)
            assert read_columns(broker, topic) == broker.records(), (codec, peer.name)
            broker.equal[codec] += 2


def test_C2_a_broker_that_says_nothing_needs_the_option(broker: Broker) -> None:
    if broker.says_what_it_speaks:
        assert broker.spoken.ranges[18][1] >= 0
        return
    with (
        pytest.raises(BootstrapError, match=r"name its release, as broker\.version\.fallback="),
        lv.KafkaAdmin(bootstrap_servers=broker.servers) as admin,
    ):
        admin.list_topics(timeout=3)


def test_the_fallback_table_is_what_the_broker_says(broker: Broker) -> None:
    if broker.says_what_it_speaks and broker.release in RELEASES:
        ours = versions_of(broker.release).ranges
        assert ours == {key: span for key, span in broker.spoken.ranges.items() if key in ours}


def test_C3_other_brokers_take_and_give_message_sets_too(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    topic = broker.topic("downgraded")
    old: dict[str, Any] = {
        "bootstrap_servers": broker.servers,
        "broker_version_fallback": "0.9.0" if broker.is_at_least("0.9") else "0.8.2",
    }
    soon: dict[str, Any] = {"delivery_timeout_ms": 3000, "request_timeout_ms": 3000, "linger_ms": 0}
    with lv.KafkaProducer(**old, enable_idempotence=False, compression_type="gzip", **soon) as producer:
        sent = [producer.send(topic, key=b"k", value=b"%d" % n, timestamp=EPOCH_2020) for n in range(100)]
        producer.flush(PATIENCE_S)
    if broker.is_at_least("4.0"):
        assert all(isinstance(delivery.exception(0), DeliveryTimeout) for delivery in sent)
        assert "is broker.version.fallback right" in caplog.text
        return
    with lv.KafkaConsumer(**old, auto_offset_reset="earliest") as consumer:
        consumer.assign([lv.TopicPartition(topic, 0)])
        assert [(r.offset, r.value) for r in consumer.poll(timeout=PATIENCE_S)] == [(n, b"%d" % n) for n in range(100)]
    assert [(r.value, r.timestamp) for r in read(broker, topic, 100)] == [(b"%d" % n, NO_TIMESTAMP) for n in range(100)]


def test_V10_a_topic_in_an_older_format_than_its_broker(broker: Broker) -> None:
    if not broker.has_timestamps or broker.is_at_least("3.0"):
        return
    topic = broker.topic("old-format", **{"message.format.version": "0.9.0"})
    with broker.producer(enable_idempotence=False, compression_type="lz4") as producer:
        for n in range(100):
            producer.send(topic, key=b"k", value=b"%d" % n, timestamp=EPOCH_2020)
        producer.flush(PATIENCE_S)
    assert [(r.value, r.timestamp) for r in read(broker, topic, 100)] == [(b"%d" % n, NO_TIMESTAMP) for n in range(100)]


def test_several_partitions(broker: Broker) -> None:
    broker.kafka.create_topic("many", partitions=3)
    keys = [b"key-%d" % n for n in range(300)]
    with broker.producer() as producer:
        sent = [producer.send("many", key=key, value=key) for key in keys]
        producer.flush(PATIENCE_S)
        wanted = sorted((delivery.result(0).partition, delivery.result(0).offset, key) for delivery, key in zip(sent, keys, strict=True))
    rows = lv.scan("many", **broker.settings, columns=["partition", "offset", "value"]).to_table().to_pylist()
    assert sorted((row["partition"], row["offset"], row["value"]) for row in rows) == wanted
    assert {partition for partition, _, _ in wanted} == {0, 1, 2}


def test_M15_idempotence(broker: Broker) -> None:
    topic = broker.topic("idempotence")
    with broker.producer(enable_idempotence=True) as producer:
        delivery = producer.send(topic, b"v")
        if broker.has_batches:
            assert delivery.result(PATIENCE_S).offset == 0
            return
        with pytest.raises(UnsupportedVersionError, match=r"set enable\.idempotence=false") as raised:
            delivery.result(PATIENCE_S)
    assert raised.value.persisted is Persisted.NO


def test_M15_headers(broker: Broker) -> None:
    topic = broker.topic("headers")
    with broker.producer() as producer:
        delivery = producer.send(topic, b"v", headers=[("h", b"1")])
        if broker.has_batches:
            assert delivery.result(PATIENCE_S).offset == 0
        else:
            with pytest.raises(UnsupportedRecordFormatError, match=r"record headers need Kafka 0\.11.*persisted: no") as raised:
                delivery.result(PATIENCE_S)
            assert raised.value.persisted is Persisted.NO
        plain = producer.send(topic, b"goes on").result(PATIENCE_S)
    assert plain.offset == int(broker.has_batches)


def test_zstd(broker: Broker) -> None:
    topic = broker.topic("zstd")
    with broker.producer(compression_type="zstd") as producer:
        delivery = producer.send(topic, b"v")
        if "zstd" in broker.codecs:
            assert delivery.result(PATIENCE_S).offset == 0
            return
        with pytest.raises(UnsupportedCompressionError, match=r"needs brokers of Kafka 2\.1.*persisted: no"):
            delivery.result(PATIENCE_S)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_V3_every_kind_of_acknowledgement(broker: Broker, acks: str) -> None:
    topic = broker.topic(f"acks-{acks}")
    with broker.producer(acks=acks, enable_idempotence=False) as producer:
        delivery = producer.send(topic, b"v", timestamp=EPOCH_2020)
        producer.flush(PATIENCE_S)
        assert delivery.result(0).offset == (-1 if acks == "0" else 0)
        # Before 0.10.1 a broker forgets what a client sent and nobody waits for when the connection ends at once.
        assert [record.value for record in read(broker, topic, 1)] == [b"v"]


def test_V5_LogAppendTime_comes_back_with_the_acknowledgement(broker: Broker) -> None:
    if not broker.has_timestamps:
        return
    topic = broker.topic("append-time", **{"message.timestamp.type": "LogAppendTime"})
    with broker.producer(compression_type="gzip") as producer:
        written = producer.send(topic, b"v", timestamp=EPOCH_2020).result(PATIENCE_S)
    with broker.consumer(topic) as consumer:
        record = consumer.poll(timeout=PATIENCE_S)[0]
    assert record.timestamp == written.timestamp > EPOCH_2020
    assert record.timestamp_type == 1


def test_V9_a_message_larger_than_the_fetch(broker: Broker) -> None:
    topic = broker.topic("large")
    with broker.producer() as producer:
        producer.send(topic, b"x" * 100_000).result(PATIENCE_S)
        producer.send(topic, b"small").result(PATIENCE_S)
    with broker.consumer(topic, max_partition_fetch_bytes=10_000) as consumer:
        if broker.is_at_least("0.10.1"):
            assert consumer.poll(timeout=PATIENCE_S)[0].value == b"x" * 100_000
            return
        with pytest.raises(lv.errors.RecordTooLargeError, match=r"large-0 at offset 0: .*max\.partition\.fetch\.bytes=10000"):
            consumer.poll(timeout=PATIENCE_S)
        consumer.seek(lv.TopicPartition(topic, 0), 1)
        assert [record.value for record in consumer.poll(timeout=PATIENCE_S)] == [b"small"]


def test_C4_offsets(broker: Broker) -> None:
    topic = broker.topic("offsets")
    tp = lv.TopicPartition(topic, 0)
    with broker.producer() as producer:
        for n in range(3):
            producer.send(topic, b"v", timestamp=EPOCH_2020 + n * 1000).result(PATIENCE_S)
    with broker.consumer(topic) as consumer:
        assert consumer.beginning_offsets([tp]) == {tp: 0}
        assert consumer.end_offsets([tp]) == {tp: 3}
        times = {tp: datetime.fromtimestamp(EPOCH_2020 / 1000 + 1, UTC)}
        if broker.is_at_least("0.10.1"):
            found = consumer.offsets_for_times(times)[tp]
            assert found is not None
            assert (found.offset, found.timestamp) == (1, EPOCH_2020 + 1000)
        else:
            with pytest.raises(UnsupportedVersionError, match="ListOffsets"):
                consumer.offsets_for_times(times)


def test_X3_X6_X8_groups(broker: Broker) -> None:
    """A group of one member, as far as the release has groups: with members since 0.9, in the admin's hands since 1.1."""
    topic, group = broker.topic("groups"), "group"
    listing = lv.GroupListing(group, lv.GroupType.CLASSIC, "consumer", lv.GroupState.STABLE)
    with lv.KafkaAdmin(**broker.settings) as admin:
        if not broker.is_at_least("0.9"):
            with pytest.raises(UnsupportedVersionError, match="the broker does not know ListGroups"):
                admin.list_groups()
            return
        with lv.KafkaConsumer(**broker.settings, group_id=group, enable_auto_commit=False, session_timeout_ms=10_000) as member:
            member.subscribe([topic])
            deadline = time.monotonic() + PATIENCE_S
            while not member.assignment():
                member.poll(0.1)
                assert time.monotonic() < deadline
            member.commit({lv.TopicPartition(topic, 0): 0})
            assert listing in admin.list_groups()
            assert listing in admin.list_groups(states=["Stable"], types=["Classic"], protocol_types=["consumer"])
            assert listing not in admin.list_groups(states=["Empty"])
            assert listing not in admin.list_groups(types=["Share"])
            described = admin.describe_consumer_groups([group])[group]
            assert (described.state, described.partition_assignor) == (lv.GroupState.STABLE, "range")
            assert [found.assignment for found in described.members] == [{lv.TopicPartition(topic, 0)}]
        offsets = admin.list_consumer_group_offsets({group: [lv.TopicPartition(topic, 0)]})
        assert offsets[group][lv.TopicPartition(topic, 0)] == lv.OffsetAndMetadata(0)
        if broker.is_at_least("2.5"):
            assert admin.list_consumer_group_offsets({group: [lv.TopicPartition(topic, 0)]}, require_stable=True) == offsets
        else:
            with pytest.raises(UnsupportedVersionError, match=r"cannot wait for transactions .* since Kafka 2\.5"):
                admin.list_consumer_group_offsets(group, require_stable=True)
        with pytest.raises(lv.errors.GroupError, match="there is no such group"):
            admin.describe_consumer_groups(["nobody-made-this"])
        if broker.is_at_least("1.1"):
            admin.delete_consumer_groups([group])
            assert group not in {one.group_id for one in admin.list_groups()}
        else:
            with pytest.raises(UnsupportedVersionError, match="the broker does not know DeleteGroups"):
                admin.delete_consumer_groups([group])


def test_topics(broker: Broker) -> None:
    with lv.KafkaAdmin(**broker.settings) as admin:
        if broker.is_at_least("0.10.1"):
            # Brokers before 2.4 have no defaults for these numbers.
            admin.create_topics([lv.NewTopic("created", partitions=1, replication_factor=1)])
        else:
            with pytest.raises(UnsupportedVersionError, match="the broker does not know CreateTopics"):
                admin.create_topics([lv.NewTopic("created", partitions=1, replication_factor=1)])
        assert "first" in admin.list_topics()
        assert [info.leader for info in admin.describe_topics(["first"])["first"].partitions] == [1]
        with pytest.raises(lv.errors.UnknownTopicOrPartitionError):
            admin.describe_topics(["nobody-made-this"])
        assert "nobody-made-this" not in admin.list_topics()
        assert len(admin.describe_cluster().nodes) == 1


def test_every_kit_is_part_of_the_matrix() -> None:
    assert {pom.stem.removeprefix("pom-") for pom in kafka_cluster.POMS.glob("pom-[0-9]*.xml")} == set(VERSIONS)
