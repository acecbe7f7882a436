"""The clients that levada is compared with, each as two functions: write records to a partition, read a partition.

A record is (key, value, timestamp, headers). Everything goes to and comes from partition 0, in order.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple, cast

PATIENCE_S = 30
EPOCH_2020 = 1_577_836_800_000


class PeerRecord(NamedTuple):
    """What survives a trip through any client."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


def peer_records(count: int) -> list[PeerRecord]:
    """Nulls, empties, headers, every byte, text that compresses, noise that does not, and a value larger than a batch: `count` of them."""
    noise = Random(20_26)
    corners = [
        PeerRecord(None, b"value", EPOCH_2020, ()),
        PeerRecord(b"key", None, EPOCH_2020 + 1, ()),
        PeerRecord(b"", b"", EPOCH_2020 + 2, ()),
        PeerRecord(bytes(range(256)), bytes(range(256)), EPOCH_2020 + 3, (("a", b"1"), ("a", b"2"), ("empty", b""))),
        PeerRecord(b"key", b"out of order", EPOCH_2020 - 5, (("schlüssel ✓", "wert ✓".encode()),)),
        PeerRecord(b"large", b"0123456789" * 20_000, EPOCH_2020 + 4, ()),
        PeerRecord(b"noise", noise.randbytes(50_000), EPOCH_2020 + 5, ()),
    ]
    many = [PeerRecord(b"%d" % n, b"text %d " % n * (n % 30), EPOCH_2020 + n, (("n", b"%d" % n),)) for n in range(count - len(corners))]
    return corners + many


Write = Callable[..., None]
Read = Callable[..., list[PeerRecord]]


class Peer(NamedTuple):
    """write(bootstrap_servers, topic, codec, records); read(bootstrap_servers, topic, count). Both take settings of the client's own."""

    name: str
    write: Write
    read: Read


def _confluent_write(servers: str, topic: str, codec: str, records: Sequence[PeerRecord], **settings: Any) -> None:
    from confluent_kafka import Producer

    failures: list[object] = []
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 20, **settings})
    for key, value, timestamp, headers in records:
        producer.produce(
            topic,
            key=key,
            value=value,
            partition=0,
            timestamp=timestamp,
            headers=list(headers),
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(PATIENCE_S) == 0
    assert not failures


def _confluent_read(servers: str, topic: str, count: int, **settings: Any) -> list[PeerRecord]:
    from confluent_kafka import Consumer, TopicPartition

    group = {"group.id": uuid.uuid4().hex, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": servers, **group, "check.crcs": True, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[PeerRecord] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(found), timeout=1):
            assert message.error() is None, message.error()
            # Its stubs say what a producer may be given, not what comes back.
            headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
            found.append(PeerRecord(message.key(), message.value(), message.timestamp()[1], tuple(headers)))
    consumer.close()
    return found


def _aiokafka_write(servers: str, topic: str, codec: str, records: Sequence[PeerRecord], **settings: Any) -> None:
    from aiokafka import AIOKafkaProducer

    async def write() -> None:
        compression = None if codec == "none" else codec
        async with AIOKafkaProducer(bootstrap_servers=servers, compression_type=compression, linger_ms=20, **settings) as producer:
            sent = [
                await producer.send(topic, key=key, value=value, partition=0, timestamp_ms=timestamp, headers=list(headers))
                for key, value, timestamp, headers in records
            ]
            await asyncio.wait_for(asyncio.gather(*sent), PATIENCE_S)

    asyncio.run(write())


def _aiokafka_read(servers: str, topic: str, count: int, **settings: Any) -> list[PeerRecord]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> list[PeerRecord]:
        found: list[PeerRecord] = []
        async with AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", check_crcs=True, **settings) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            deadline = time.monotonic() + PATIENCE_S
            while len(found) < count and time.monotonic() < deadline:
                for messages in (await consumer.getmany(timeout_ms=500)).values():
                    found += [PeerRecord(m.key, m.value, m.timestamp, tuple(m.headers)) for m in messages]
        return found

    return asyncio.run(read())


def _kafka_python_write(servers: str, topic: str, codec: str, records: Sequence[PeerRecord], **settings: Any) -> None:
    from kafka import KafkaProducer

    compression = None if codec == "none" else codec
    producer = KafkaProducer(bootstrap_servers=servers, compression_type=compression, linger_ms=20, **settings)
    sent = [
        producer.send(topic, key=key, value=value, partition=0, timestamp_ms=timestamp, headers=list(headers))
        for key, value, timestamp, headers in records
    ]
    for future in sent:
        future.get(timeout=PATIENCE_S)
    producer.close()


def _kafka_python_read(servers: str, topic: str, count: int, **settings: Any) -> list[PeerRecord]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", check_crcs=True, **settings)
    consumer.assign([TopicPartition(topic, 0)])
    found: list[PeerRecord] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        for messages in consumer.poll(timeout_ms=500).values():
            found += [PeerRecord(m.key, m.value, m.timestamp, tuple(m.headers)) for m in messages]
    consumer.close()
    return found


PEERS = (
    Peer("confluent-kafka", _confluent_write, _confluent_read),
    Peer("aiokafka", _aiokafka_write, _aiokafka_read),
    Peer("kafka-python", _kafka_python_write, _kafka_python_read),
)
