"""What the embedded broker keeps on disk, as Kafka's own tool reads and checks it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import levada as lv
from java_kit import JavaProgram
from kafka_cluster import POMS
from kafka_jars import jars, java
from levada.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from levada.testing import EmbeddedKafka
from log_dump import coordinator_records, coordinator_records_in_java, dump, dumped, dumped_aborted
from share_kit import ACCEPT, REJECT, RELEASE, ShareMember, Told, got
from wire import Wire

pytestmark = pytest.mark.kafka

PATIENCE_S = 10
ROLLS = {"segment.bytes": "20000"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The logs of a broker that was written to with every codec, in transactions, and compacted."""
    path = tmp_path_factory.mktemp("data")
    with EmbeddedKafka(data_dir=path, log_cleaner_backoff_ms=50) as kafka:
        servers = kafka.bootstrap_servers
        kafka.create_topic("plain", 1, ROLLS)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            with lv.KafkaProducer(bootstrap_servers=servers, compression_type=codec, batch_size=4000) as producer:
                for number in range(1000):
                    producer.send("plain", b"value %d" % number * 3, key=b"key %d" % number, headers=[("n", b"%d" % number)])
        kafka.create_topic("compacted", 1, {**ROLLS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
        with lv.KafkaProducer(bootstrap_servers=servers, transactional_id="tx", batch_size=4000) as producer:
            producer.init_transactions()
            for turn in range(6):
                producer.begin_transaction()
                for number in range(400):
                    producer.send("compacted", b"value %d" % turn * 4 if number % 7 else None, key=b"key %d" % (number % 50))
                if turn % 2:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
                with lv.KafkaConsumer(bootstrap_servers=servers, group_id=f"group {turn}") as consumer:
                    consumer.commit({lv.TopicPartition("plain", 0): lv.OffsetAndMetadata(turn, metadata="so far")})
        for protocol in ("classic", "consumer"):
            for instance_id in ("i", None):
                read_by_a_group(servers, protocol, instance_id)
        share_records(servers)
        deadline = time.monotonic() + PATIENCE_S
        while not kafka.node.log("compacted").clean_until:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    yield path / "node-1"


def read_by_a_group(servers: str, protocol: Any, instance_id: str | None) -> None:
    """Have a group with a member for a while; a static one stays."""
    settings: dict[str, Any] = {"group_id": f"{protocol} {instance_id}", "group_protocol": protocol, "group_instance_id": instance_id}
    deadline = time.monotonic() + PATIENCE_S
    with lv.KafkaConsumer(bootstrap_servers=servers, **settings) as consumer:
        consumer.subscribe(["plain", "compacted"])
        while not consumer.assignment():
            consumer.poll(0.05)
            assert time.monotonic() < deadline


def share_records(servers: str) -> None:
    """Acquire records for a share group, and acknowledge them in every way."""
    member = ShareMember("sharing", "m", topics=["plain"])
    with Wire(servers) as wire:
        member.take(wire.ask(member.join(), 1))
        assert not wire.ask(member.fetch(), 2).error_code
        member.follow()
        wire.ask(AlterShareGroupOffsetsRequest(group_id="other", topics=[_altered("plain", 5)]), 0)
        with lv.KafkaProducer(bootstrap_servers=servers) as producer:
            for _ in range(8):
                producer.send("plain", b"shared")
        (topic,) = wire.ask(member.fetch(max_wait_ms=5_000), 2).responses
        (given,) = got(topic.partitions[0])
        member.follow()
        part = (topic.topic_id, 0)
        for first, kind in ((given.first + 1, RELEASE), (given.first + 3, REJECT), (given.first, ACCEPT)):
            answer = wire.ask(member.acknowledge({part: [Told(first, first, (kind,))]}), 2)
            member.follow()
            assert not answer.responses[0].partitions[0].error_code


def _altered(topic: str, offset: int) -> AlterShareGroupOffsetsRequestTopic:
    return AlterShareGroupOffsetsRequestTopic(
        topic_name=topic, partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)]
    )


def files(folder: Path, suffix: str, *topics: str) -> list[Path]:
    return sorted(path for topic in topics or ("plain", "compacted") for path in folder.glob(f"{topic}-0/*{suffix}") if path.stat().st_size)


def test_segments_hold_what_kafkas_tool_prints(folder: Path) -> None:
    logs = files(folder, ".log")
    assert len(logs) > 4
    assert {file: dumped(file, contents=True) for file in logs} == dump(logs, contents=True)


def test_indexes_agree_with_their_segments(folder: Path) -> None:
    indexes = files(folder, ".index") + files(folder, ".timeindex")
    assert len(indexes) > 6
    printed = tool("--deep-iteration", "--files", ",".join(map(str, indexes)))
    assert not [line for line in printed.splitlines() if "Found" in line or "mismatch" in line.lower() or "Could not" in line], printed
    assert printed.count("Dumping ") == len(indexes)
    assert printed.count("offset: ") > len(indexes)


def test_aborted_transactions_and_snapshots_are_read(folder: Path) -> None:
    aborted = files(folder, ".txnindex")
    assert aborted
    assert {file: dumped_aborted(file) for file in aborted} == dump(aborted, contents=True)
    snapshots = [path for path in files(folder, ".snapshot") if path.stat().st_size > 10]
    printed = tool("--files", ",".join(map(str, snapshots)))
    assert printed.count("producerId: ") >= len(snapshots)
    assert "corrupt" not in printed.lower()


@pytest.mark.parametrize(
    ("kind", "topic"), [("group", "__consumer_offsets"), ("transaction", "__transaction_state"), ("share", "__share_group_state")]
)
def test_what_coordinators_wrote_is_what_kafka_reads(
    folder: Path, kind: str, topic: str, java_program: Callable[[str, str], JavaProgram]
) -> None:
    logs = sorted((folder.parent / "coordinators").glob(f"{topic}-*/*.log"))
    ours = [list(coordinator_records(file, kind)) for file in logs]
    assert sum(map(len, ours)) >= 6
    if kind == "group":
        assert {record_type for records in ours for _, record_type, *_ in records} == {1, 2, 3, 5, 6, 7, 8}
    assert ours == [coordinator_records_in_java(java_program("CoordinatorLog", "4.4.0"), file, kind) for file in logs]


def tool(*arguments: str) -> str:
    command = [str(java()), "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp"]
    command += [f"{jars(POMS / 'pom-3.9.2.xml')}/*", "kafka.tools.DumpLogSegments", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert run.returncode == 0, run.stderr
    return run.stdout + run.stderr
