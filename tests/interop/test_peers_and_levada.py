"""Other clients read what levada wrote and levada what they wrote, byte for byte, per codec: blocking and asyncio, embedded and real."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import levada as lv
from api_kit import WITH_SOCKETS, api_and_broker
from peer_clients import EPOCH_2020, PATIENCE_S, PEERS, Peer, PeerRecord, peer_records

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
each_peer = pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
each_codec = pytest.mark.parametrize("codec", CODECS)

SENT = peer_records(507)


@pytest.fixture(params=WITH_SOCKETS)
def kafka(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Every broker on a socket, with `lv` the blocking or the asyncio API."""
    yield from api_and_broker(request, monkeypatch)


def levada_write(servers: str, topic: str, codec: Any) -> None:
    with lv.KafkaProducer(bootstrap_servers=servers, compression_type=codec) as producer:
        for record in SENT:
            producer.send(topic, key=record.key, value=record.value, timestamp=record.timestamp, headers=record.headers, partition=0)


def levada_read(servers: str, topic: str, count: int) -> list[PeerRecord]:
    found: list[PeerRecord] = []
    with lv.KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([lv.TopicPartition(topic, 0)])
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            found += [PeerRecord(r.key, r.value, r.timestamp, tuple(r.headers)) for r in consumer.poll(timeout=0.5)]
    return found


def levada_read_columns(servers: str, topic: str) -> list[PeerRecord]:
    rows = lv.scan(topic, bootstrap_servers=servers, columns=["key", "value", "timestamp", "headers"]).to_table()
    stamps = rows["timestamp"].cast(pa.int64()).to_pylist()
    headers = [tuple((entry["key"], entry["value"]) for entry in row or ()) for row in rows["headers"].to_pylist()]
    return [PeerRecord(*row) for row in zip(rows["key"].to_pylist(), rows["value"].to_pylist(), stamps, headers, strict=True)]


@each_codec
def test_every_peer_reads_what_levada_wrote(kafka: Any, codec: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    levada_write(kafka.bootstrap_servers, topic, codec)
    assert {peer.name: peer.read(kafka.bootstrap_servers, topic, len(SENT)) == SENT for peer in PEERS} == {
        peer.name: True for peer in PEERS
    }


@each_codec
@each_peer
def test_levada_reads_what_a_peer_wrote(kafka: Any, peer: Peer, codec: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    peer.write(kafka.bootstrap_servers, topic, codec, SENT)
    assert levada_read(kafka.bootstrap_servers, topic, len(SENT)) == SENT
    assert levada_read_columns(kafka.bootstrap_servers, topic) == SENT


@each_codec
def test_every_peer_reads_the_columns_that_levada_wrote(kafka: Any, codec: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka)
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "k": pa.array([record.key for record in SENT], pa.binary()),
            "v": pa.array([record.value for record in SENT], pa.binary()),
            "t": pa.array([record.timestamp for record in SENT], pa.timestamp("ms", "UTC")),
            "h": pa.array([[{"key": key, "value": value} for key, value in record.headers] for record in SENT], header),
        }
    )
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, compression_type=codec) as producer:
        producer.send_arrow(topic, table, key="k", value="v", timestamp="t", headers="h").result(timeout=PATIENCE_S)
    assert {peer.name: peer.read(kafka.bootstrap_servers, topic, len(SENT)) == SENT for peer in PEERS} == {
        peer.name: True for peer in PEERS
    }


@pytest.mark.parametrize("name", ["confluent-kafka", "aiokafka"])
def test_a_header_without_a_value(kafka: Any, name: str, new_topic: Callable[..., str]) -> None:
    peer = next(peer for peer in PEERS if peer.name == name)
    topic = new_topic(kafka)
    sent = [PeerRecord(b"k", b"v", EPOCH_2020, (("null", None), ("empty", b"")))]
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(topic, key=b"k", value=b"v", timestamp=EPOCH_2020, headers=sent[0].headers).result(timeout=PATIENCE_S)
    assert peer.read(kafka.bootstrap_servers, topic, 1) == sent
    assert levada_read(kafka.bootstrap_servers, topic, 1) == sent


def test_keys_live_where_javas_partitioner_puts_them(kafka: Any, new_topic: Callable[..., str]) -> None:
    from confluent_kafka import Producer

    topic = new_topic(kafka, partitions=7)
    keys = [f"key-{n}".encode() for n in range(300)]
    theirs: dict[bytes | None, int | None] = {}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(topic, key=key, on_delivery=lambda _, message: theirs.update({message.key(): message.partition()}))
    assert producer.flush(PATIENCE_S) == 0

    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as ours:
        sent = {key: ours.send(topic, key=key, value=b"v") for key in keys}
        assert {key: delivery.result(timeout=PATIENCE_S).partition for key, delivery in sent.items()} == theirs
