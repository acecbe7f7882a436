"""compression.type of topics: the embedded broker keeps, refuses and answers what Kafka 4.4 does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from broker_kit import START_MS, make_batch, produce_request
from kafka_cluster import KafkaCluster
from levada.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from levada.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from levada.record.compression import Codec
from levada.record.header import HEADER_SIZE, seal
from levada.testing import EmbeddedKafka
from raw_fetch import batches_of
from wire import Wire

pytestmark = pytest.mark.kafka

TYPES = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
TOPIC, SET = 2, 0
TIMES = [START_MS, START_MS + 7, START_MS + 3]


@pytest.fixture(scope="module")
def embedded_kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        yield running


@pytest.fixture
def both(kafka44: KafkaCluster, embedded_kafka: EmbeddedKafka) -> list[Any]:
    """The real broker, then the embedded one."""
    return [kafka44, embedded_kafka]


def made(kafka: Any, config: dict[str, str]) -> str:
    """Create a topic that every thread of the broker knows."""
    name = f"compressed-{uuid4().hex}"
    kafka.create_topic(name, 1, config)
    while produced(kafka, name, b"")[0] == 3:
        pass
    return name


def produced(kafka: Any, topic: str, batch: bytes) -> tuple[int, int]:
    with Wire(kafka.bootstrap_servers) as wire:
        answer = wire.ask(produce_request(topic, batch), 12).responses[0].partition_responses[0]
    return answer.error_code, answer.base_offset


def kept(kafka: Any, topic: str) -> list[Any]:
    """What stands in the headers of a topic's batches, and their records. The size, of batches whose bytes no library has compressed."""
    for batch in batches_of(kafka.bootstrap_servers, topic):
        batch.verify_crc()
    return [
        (
            batch.attributes,
            batch.base_offset,
            batch.last_offset_delta,
            batch.base_timestamp,
            batch.max_timestamp,
            batch.producer_id,
            batch.base_sequence,
            batch.size_bytes if batch.codec is Codec.NONE else None,
            [tuple(record) for record in batch.records()],
        )
        for batch in batches_of(kafka.bootstrap_servers, topic)
    ]


@pytest.mark.parametrize("name", TYPES)
def test_batches_of_every_codec_are_kept_alike(both: list[Any], name: str) -> None:
    def told(kafka: Any) -> Any:
        topic = made(kafka, {"compression.type": name})
        answers = []
        for number, codec in enumerate(Codec):
            plain = make_batch(b"a" * 300, b"b" * 300, None, codec=codec, timestamp=TIMES)
            answers.append(produced(kafka, topic, plain))
            sequenced = make_batch(b"a" * 300, b"c", codec=codec, producer=(4_000_000 + number, 0, 0))
            answers += [produced(kafka, topic, sequenced), produced(kafka, topic, sequenced)]
        return answers, kept(kafka, topic)

    real, ours = map(told, both)
    assert ours == real


@pytest.mark.parametrize("name", TYPES)
def test_limits_are_applied_alike(both: list[Any], name: str) -> None:
    limits = (
        ({"max.message.bytes": "1000"}, make_sizes(5000, 300)),
        ({"segment.bytes": "1048576", "max.message.bytes": "5000000"}, make_sizes(1_500_000)),
        (
            {"max.decompressed.message.bytes": "1000"},
            [*make_sizes(5000, 300), *[make_batch(*[b"a" * 300] * 5, codec=codec) for codec in Codec]],
        ),
    )

    def told(kafka: Any) -> Any:
        answers = []
        for limit, batches in limits:
            topic = made(kafka, {"compression.type": name, **limit})
            answers.append([produced(kafka, topic, batch) for batch in batches])
        return answers

    real, ours = map(told, both)
    assert ours == real


def make_sizes(*sizes: int) -> list[bytes]:
    return [make_batch(b"a" * size, codec=codec) for size in sizes for codec in Codec]


def test_damaged_records_are_refused_alike(both: list[Any]) -> None:
    def told(kafka: Any) -> list[tuple[int, int]]:
        topic = made(kafka, {"compression.type": "uncompressed"})
        return [produced(kafka, topic, damaged(codec)) for codec in Codec if codec is not Codec.NONE]

    real, ours = map(told, both)
    assert ours == real


def damaged(codec: Codec) -> bytes:
    batch = bytearray(make_batch(b"abc" * 100, codec=codec))
    batch[HEADER_SIZE + 8 :] = bytes(byte ^ 0x5A for byte in batch[HEADER_SIZE + 8 :])
    seal(batch)
    return bytes(batch)


@pytest.mark.parametrize("name", ["gzip", "lz4", "zstd"])
def test_levels_make_batches_smaller_alike(both: list[Any], name: str) -> None:
    levels = {"gzip": ("1", "9"), "lz4": ("9", "17"), "zstd": ("-50", "22")}[name]
    batch = make_batch(*(str(number * number).encode() * 3 for number in range(500)))

    def told(kafka: Any) -> list[int]:
        sizes = []
        for level in levels:
            topic = made(kafka, {"compression.type": name, f"compression.{name}.level": level})
            produced(kafka, topic, batch)
            sizes.append(batches_of(kafka.bootstrap_servers, topic)[0].size_bytes)
        return sizes

    real, ours = map(told, both)
    assert ours == pytest.approx(real, rel=0.05)


VALUES = {
    "compression.type": (*TYPES, "none", "Gzip", ""),
    "compression.gzip.level": ("-2", "-1", "0", "1", "9", "10", "x"),
    "compression.lz4.level": ("0", "1", "17", "18"),
    "compression.zstd.level": ("-131073", "-131072", "0", "22", "23"),
    "remote.storage.enable": ("true", "TRUE", "false", "x"),
    "remote.log.copy.disable": ("true", "false", "x"),
    "remote.log.delete.on.disable": ("true", "false", "x"),
    "remote.copy.lag.ms": ("-2", "-1", "0", "1"),
    "remote.copy.lag.bytes": ("-2", "-1", "0", "1"),
    "local.retention.ms": ("-3", "-2", "-1", "0", "100", "9999999999999999"),
    "local.retention.bytes": ("-3", "-2", "-1", "0", "100", "99999999999"),
    "max.decompressed.message.bytes": ("-1", "0", "1", "2147483639", "2147483640"),
    "errors.deadletterqueue.group.enable": ("true", "x"),
}


def test_settings_of_topics_are_checked_alike(both: list[Any]) -> None:
    changes = [{name: value} for name, values in VALUES.items() for value in values]
    changes += [
        {"retention.ms": "1000", "local.retention.ms": "2000"},
        {"retention.bytes": "1000", "local.retention.bytes": "2000"},
        {"remote.storage.enable": "true", "cleanup.policy": "compact"},
        {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"},
    ]

    def told(kafka: Any) -> list[Any]:
        topic = made(kafka, {})
        with Wire(kafka.bootstrap_servers) as wire:
            return [(change, altered(wire, topic, change), created(wire, change)) for change in changes]

    real, ours = map(told, both)
    assert ours == real


def altered(wire: Wire, topic: str, change: dict[str, str]) -> int:
    configs = [AlterableConfig(name=name, config_operation=SET, value=value) for name, value in change.items()]
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=configs)
    return int(wire.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=True), 1).responses[0].error_code)


def created(wire: Wire, config: dict[str, str]) -> int:
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in config.items()]
    topic = CreatableTopic(name=f"c-{uuid4().hex}", num_partitions=1, replication_factor=1, configs=configs)
    return int(wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000, validate_only=True), 7).topics[0].error_code)
