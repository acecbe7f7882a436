"""What a Spark query asks of which broker, on two real nodes in two racks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

import levada as lv
from levada.protocol.frame import encode_request_parts
from levada.spark.options.options import source_options
from levada.spark.pyspark_versions import ReadAllAvailable
from levada.spark.schema import record_schema
from levada.spark.source.planning import Span, TaskSpans
from levada.spark.source.range_reader import read
from levada.spark.source.stream import StreamReader
from levada.types import TopicPartition
from spark_topics import add_partitions

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

NEAREST = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
RECORDS = 2_000
TOPICS = 50


@pytest.fixture(scope="module")
def two_racks(start_real_kafka: Callable[..., AbstractContextManager[Any]]) -> Iterator[Any]:
    with start_real_kafka("4.4.0", nodes=2, heap="256m", properties=NEAREST, racks=("north", "south")) as cluster:
        yield cluster


def options(cluster: Any, **more: str) -> Any:
    return source_options({"kafka.bootstrap.servers": cluster.bootstrap_servers, "startingoffsets": "earliest", **more}, streaming=True)


def test_a_task_reads_from_the_replica_in_its_rack(two_racks: Any) -> None:
    """The rest is read while the leader stands still (KIP-392)."""
    two_racks.create_topic("near", 1)
    servers = two_racks.bootstrap_servers
    with lv.KafkaProducer(bootstrap_servers=servers, batch_size=2_000, linger_ms=100) as producer:
        for number in range(RECORDS):
            producer.send("near", b"%06d" % number + bytes(500))
    with lv.KafkaAdmin(bootstrap_servers=servers) as admin:
        leader = next(node for node in two_racks.nodes if node.id == admin.describe_topics(["near"])["near"].partitions[0].leader)
    (follower,) = (node for node in two_racks.nodes if node is not leader)
    given = options(
        two_racks,
        subscribe="near",
        **{"kafka.client.rack": follower.rack, "kafka.max.partition.fetch.bytes": "20000", "kafkaConsumer.pollTimeoutMs": "20000"},
    )
    task = TaskSpans((Span(TopicPartition("near", 0), 0, RECORDS),))
    # A follower learns from the leader how far records may be read; afterwards it knows for all of them.
    assert sum(batch.num_rows for batch in read(task, record_schema(False, ["value"]), given)) == RECORDS

    batches = read(task, record_schema(False, ["value"]), given)
    found = [next(batches)]
    leader.pause()
    try:
        found += batches
    finally:
        leader.resume()

    assert found[0].num_rows < RECORDS / 2, "nothing was left to be read"
    assert [int(value.as_py()[:6]) for batch in found for value in batch.column(0)] == list(range(RECORDS))


def test_a_trigger_over_50_topics_asks_each_leader_once(
    two_racks: Any, monkeypatch: pytest.MonkeyPatch, note: Callable[[str], None]
) -> None:
    names = [f"many{number}" for number in range(TOPICS)]
    with lv.KafkaAdmin(bootstrap_servers=two_racks.bootstrap_servers) as admin:
        admin.create_topics([lv.NewTopic(name, partitions=2, replication_factor=1) for name in names])
    reader = StreamReader(options(two_racks, subscribe=",".join(names)), record_schema(False))
    sent: Counter[str] = Counter()
    try:
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        assert len(end) == TOPICS + 1, "the topics, and where the query began"
        count_requests(monkeypatch, sent)
        began = time.perf_counter()
        reader.latestOffset(end, ReadAllAvailable())
        note(f"a trigger over {TOPICS} topics: {dict(sent)} in {(time.perf_counter() - began) * 1000:.0f} ms")
    finally:
        reader.stop()
    assert sent == {"DescribeTopicPartitionsRequest": 1, "ListOffsetsRequest": 2}


def test_a_partition_that_comes_later_is_found_by_the_next_trigger(two_racks: Any) -> None:
    two_racks.create_topic("growing", 1)
    reader = StreamReader(options(two_racks, subscribe="growing"), record_schema(False))
    try:
        end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        assert end["growing"] == {"0": 0}
        add_partitions(two_racks.bootstrap_servers, "growing", 2)
        assert reader.latestOffset(end, ReadAllAvailable())["growing"] == {"0": 0, "1": 0}
    finally:
        reader.stop()


def count_requests(monkeypatch: pytest.MonkeyPatch, sent: Counter[str]) -> None:
    def counting(request: Any, *arguments: Any) -> Any:
        sent[type(request).__name__] += 1
        return encode_request_parts(request, *arguments)

    monkeypatch.setattr("levada.client.network.network_client.encode_request_parts", counting)
