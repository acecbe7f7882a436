"""Logs that real Kafka keeps of what Java's clients wrote, read whole: equal to what Kafka's own tools print of them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from java_kit import SOURCES, JavaProgram
from kafka_cluster import VERSIONS, KafkaCluster
from levada.record.columnar import ColumnDecoder
from levada.record.compression import Codec
from levada.types import TimestampType
from log_dump import batches_of, coordinator_records, coordinator_records_in_java, dump, dumped, dumped_aborted

# What both releases say is the same: the older one takes its turn in `make test-matrix`.
MARKS = {"3.9.2": pytest.mark.matrix}

pytestmark = pytest.mark.kafka

TOPICS: dict[str, tuple[int, dict[str, Any]]] = {
    "plain": (3, {}),
    "stamped": (3, {"message.timestamp.type": "LogAppendTime"}),
    "recompressed": (3, {"compression.type": "gzip"}),
    "compacted": (1, {"cleanup.policy": "compact", "segment.ms": 200, "min.cleanable.dirty.ratio": 0.0}),
}
GROUP_PROTOCOLS = {"4.4.0": ["classic", "consumer"], "3.9.2": ["classic"]}
PATIENCE_S = 30


class Logs(NamedTuple):
    """The log folder of a node that has been killed. in_java: the program that reads coordinators' logs."""

    version: str
    folder: Path
    in_java: JavaProgram

    def files(self, *topics: str, suffix: str = ".log") -> list[Path]:
        return sorted(file for topic in topics for file in self.folder.glob(f"{topic}-*/*{suffix}") if file.stat().st_size)

    def of_users(self) -> list[Path]:
        return self.files(*TOPICS)

    def of_kafka(self) -> list[Path]:
        # Kafka 4 begins with a snapshot of its metadata.
        snapshots = self.files("__cluster_metadata", suffix=".checkpoint")
        assert snapshots or self.version < "4"
        return [*self.files("__consumer_offsets", "__transaction_state", "__cluster_metadata"), *snapshots]


@pytest.fixture(scope="module", params=[pytest.param(version, id=f"kafka-{version}", marks=MARKS.get(version, ())) for version in VERSIONS])
def logs(
    request: pytest.FixtureRequest,
    java_program: Callable[[str, str], JavaProgram],
    start_real_kafka: Callable[..., AbstractContextManager[KafkaCluster]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Logs:
    folder = tmp_path_factory.mktemp("logs")
    in_java = java_program("CoordinatorLog", "4.4.0")
    with start_real_kafka(request.param) as cluster:
        for name, (partitions, config) in TOPICS.items():
            cluster.create_topic(name, partitions, config)
        with JavaProgram(SOURCES / "LogWriter.java", cluster.jars) as writer:
            writer.ask(" ".join((cluster.bootstrap_servers, *GROUP_PROTOCOLS[request.param])).encode())
        data = cluster.nodes[0].folder / "data"
        wait_until_compacted(data / "cleaner-offset-checkpoint", "compacted 0 ")
        cluster.nodes[0].kill()
        shutil.copytree(data, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.index", "*.timeindex"))
    return Logs(request.param, folder, in_java)


def wait_until_compacted(checkpoint: Path, partition: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not checkpoint.exists() or partition not in checkpoint.read_text():
        assert time.monotonic() < deadline, "the log cleaner has not come by"
        time.sleep(0.1)


def test_M8_segments_hold_what_kafkas_tool_prints(logs: Logs, note: Callable[[str], None]) -> None:
    files = logs.of_users()
    assert len(files) >= 11
    printed = dump(files, contents=True)
    assert {file: dumped(file, contents=True) for file in files} == printed
    lines = sum(map(len, printed.values()))
    note(f"log segments of Kafka {logs.version}: {len(files)} files, {lines} batches and records as Kafka's tool prints them")


def test_M20_M21_kafkas_own_segments_hold_what_its_tool_prints(logs: Logs) -> None:
    files = logs.of_kafka()
    assert {file.parent.name.rpartition("-")[0] for file in files} == {"__consumer_offsets", "__transaction_state", "__cluster_metadata"}
    assert {file: dumped(file, contents=False) for file in files} == dump(files, contents=False)


def test_M19_indexes_of_aborted_transactions_hold_what_kafkas_tool_prints(logs: Logs) -> None:
    files = logs.files(*TOPICS, suffix=".txnindex")
    assert files
    assert {file: dumped_aborted(file) for file in files} == dump(files, contents=True)


def test_the_segments_hold_every_kind_of_batch(logs: Logs) -> None:
    batches = [batch for file in logs.of_users() for batch in batches_of(file)]
    data = [batch for batch in batches if not batch.is_control]

    assert {batch.codec for batch in data} == set(Codec)
    assert {batch.timestamp_type for batch in data} == {TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME}
    assert {(batch.producer_id >= 0, batch.is_transactional) for batch in data} == {(False, False), (True, False), (True, True)}
    assert {batch.control_type() for batch in batches if batch.is_control} == {0, 1}
    assert any(len(batch.records()) > 1 and batch.records()[0].timestamp != batch.max_timestamp for batch in data)


def test_M11_compaction_left_its_traces(logs: Logs) -> None:
    batches = [batch for file in logs.files("compacted") for batch in batches_of(file)]
    empty = [batch for batch in batches if batch.records_count == 0]
    with_holes = [batch for batch in batches if 0 < batch.records_count <= batch.last_offset_delta]

    assert len(logs.files("compacted")) > 1
    assert empty
    assert all(batch.records() == [] and batch.next_offset > batch.base_offset for batch in empty)
    assert with_holes
    assert all(batch.base_offset <= record.offset < batch.next_offset for batch in with_holes for record in batch.records())
    assert any(batch.delete_horizon_ms is not None for batch in batches)
    assert any(later.base_offset > earlier.next_offset for earlier, later in pairwise(batches))


def test_M8_columns_hold_the_records_of_every_segment(logs: Logs) -> None:
    names = ("offset", "timestamp", "key", "value", "headers")
    for file in [*logs.of_users(), *logs.of_kafka()]:
        decoder = ColumnDecoder(names)
        batches = batches_of(file)
        for batch in batches:
            assert decoder.add(batch, "t", 0) == (len(batch.records()), batch.next_offset)
        rows = decoder.finish()

        records = [record for batch in batches for record in batch.records()]
        timestamps = rows["timestamp"].cast("int64").to_pylist()
        headers = [tuple((header["key"], header["value"]) for header in row or ()) for row in rows["headers"].to_pylist()]
        columns = (rows["offset"].to_pylist(), timestamps, rows["key"].to_pylist(), rows["value"].to_pylist(), headers)
        assert list(zip(*columns, strict=True)) == [tuple(record) for record in records]


@pytest.mark.parametrize(("kind", "topic"), [("group", "__consumer_offsets"), ("transaction", "__transaction_state")])
def test_coordinators_records_hold_what_kafka_reads_in_them(logs: Logs, kind: str, topic: str) -> None:
    files = logs.files(topic)
    ours = {file: list(coordinator_records(file, kind)) for file in files}
    assert ours == {file: coordinator_records_in_java(logs.in_java, file, kind) for file in files}
    assert sum(map(len, ours.values())) > 20
