"""The consumer group of a query: where it begins, and how it follows (commitOffsets, startingOffsets=group)."""

from __future__ import annotations

from typing import Any

import pytest

import levada as lv
from fake_cluster import ALL, KAFKA, FakeCluster, batch, begin, span, spans, stream
from levada.cli.top.look import look_at
from levada.errors import ConfigError, TimeoutError, broker_error
from levada.spark import read_kafka, write_kafka
from levada.spark.options.options import source_options
from levada.spark.pyspark_versions import ReadMaxRows
from levada.spark.source import query_group
from levada.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = {"kafka.group.id": "g"}
FOLLOWED = {**GROUP, "commitoffsets": "true", "startingoffsets": "earliest"}


def test_a_query_begins_where_the_group_stands() -> None:
    cluster = FakeCluster(p0=(2, 9), p1=(3, 7))
    cluster.groups["g"] = {T0: 5}
    reader = stream(cluster, **GROUP, startingoffsets="Group")
    assert reader.initialOffset() == {"t": {"0": 5, "1": 3}}
    assert spans(batch(cluster, **GROUP, startingoffsets="group").partitions()) == [span(0, 5, 9), span(1, 3, 7)]
    assert cluster.commits == 0


def test_a_replay_of_the_first_batch_begins_where_the_group_stood() -> None:
    cluster = FakeCluster(p0=(0, 9))
    cluster.groups["g"] = {T0: 5}
    end = begin(stream(cluster, **GROUP, startingoffsets="group"))
    cluster.groups["g"] = {T0: 8}
    again = stream(cluster, **GROUP, startingoffsets="group")
    assert spans(again.partitions(again.initialOffset(), end)) == [span(0, 5, 9)]


def test_the_group_follows_one_batch_behind_and_is_told_only_what_is_new() -> None:
    cluster = FakeCluster(p0=(0, 5), p1=(0, 4))
    reader = stream(cluster, **FOLLOWED, maxoffsetspertrigger="4")
    first = reader.latestOffset(reader.initialOffset(), ReadMaxRows(4))
    assert cluster.groups["g"] == {T0: 0, T1: 0}
    second = reader.latestOffset(first, ReadMaxRows(4))
    assert cluster.groups["g"] == {T0: first["t"]["0"], T1: first["t"]["1"]}
    third = reader.latestOffset(second, ReadMaxRows(4))
    while reader.latestOffset(third, ReadMaxRows(4)) != third:
        third = reader.latestOffset(third, ReadMaxRows(4))
    assert cluster.groups["g"] == {T0: 5, T1: 4}
    commits = cluster.commits
    reader.latestOffset(third, ReadMaxRows(4))
    assert cluster.commits == commits


@pytest.mark.parametrize(
    ("refusal", "advice"),
    [
        (broker_error(25, "group 'g' has members"), "a consumer of this group is running"),
        (broker_error(30, "group 'g'"), "tried again in 60 s"),
        (TimeoutError("not done within 5 s"), "tried again in 60 s"),
    ],
)
def test_a_group_that_takes_no_offsets_is_a_warning(refusal: Any, advice: str, caplog: Any, monkeypatch: Any) -> None:
    cluster = FakeCluster(p0=(0, 5))
    cluster.refuses_commits = refusal
    reader = stream(cluster, **FOLLOWED)
    end = begin(reader)
    reader.latestOffset(end, ALL)
    assert caplog.text.count("the offsets of group 'g' stay behind the query") == 1
    assert advice in caplog.text
    cluster.refuses_commits = None
    reader.latestOffset(end, ALL)
    assert cluster.commits == 0, "it is left alone for a while"
    monkeypatch.setattr(query_group, "PAUSE_S", 0.0)
    reader.latestOffset(end, ALL)
    assert cluster.groups["g"] == {T0: 5}


def test_without_the_option_nothing_is_committed(caplog: Any) -> None:
    cluster = FakeCluster(p0=(0, 5))
    reader = stream(cluster, **GROUP, startingoffsets="earliest")
    reader.latestOffset(begin(reader), ALL)
    assert cluster.groups == {}
    assert "these options have no effect: levada uses no consumer group and no Java client: kafka.group.id" in caplog.text


@pytest.mark.parametrize(
    "given", [{"startingOffsets": "group"}, {"commitOffsets": "true"}, {"commitOffsets": "true", "kafka.group.id": ""}]
)
def test_a_group_has_to_be_named(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"needs the option 'kafka\.group\.id'"):
        source_options({**KAFKA, "subscribe": "t", **given}, streaming=True)


def test_the_end_of_a_batch_query_is_no_group() -> None:
    with pytest.raises(ConfigError, match="option 'endingOffsets'"):
        source_options({**KAFKA, "subscribe": "t", **GROUP, "endingOffsets": "group"}, streaming=False)


@pytest.mark.spark
@pytest.mark.kafka
def test_clients_and_queries_take_over_from_one_another(spark: Any, kafka44: Any, new_topic: Any, tmp_path: Any) -> None:
    servers, topic, target = kafka44.bootstrap_servers, new_topic(kafka44, 2), new_topic(kafka44)
    group = f"{topic}-group"

    def produce(*values: bytes) -> None:
        with lv.KafkaProducer(bootstrap_servers=servers) as producer:
            for number, value in enumerate(values):
                producer.send(topic, value, partition=number % 2)

    def consume(count: int) -> list[Any]:
        with lv.KafkaConsumer(bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([topic])
            found: list[Any] = []
            while len(found) < count:
                found += [record.value for record in consumer.poll(1.0)]
            consumer.commit()
        return sorted(found)

    produce(b"a", b"b")
    assert consume(2) == [b"a", b"b"]
    produce(b"c", b"d")
    rows = read_kafka(
        spark, servers, stream=True, subscribe=topic, startingOffsets="group", commitOffsets=True, kafka={"group_id": group}
    ).select("value")
    query = write_kafka(rows, servers, stream=True, topic=target).option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    query.start().awaitTermination(90)
    assert sorted(record.value or b"" for record in lv.scan(target, bootstrap_servers=servers)) == [b"c", b"d"]
    with lv.KafkaAdmin(bootstrap_servers=servers) as admin:
        committed = admin.list_consumer_group_offsets(group)
        seen = look_at(admin, internal=False).groups[group]
    assert {tp.partition: at and at.offset for tp, at in committed.items()} == {0: 2, 1: 2}
    assert seen.of_spark, "levada top lists it among Spark queries"
    produce(b"e")
    assert consume(1) == [b"e"]
