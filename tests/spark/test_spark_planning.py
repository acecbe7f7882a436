"""How a query is planned, against a cluster without a network (spark.md 1.1, 2.4)."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from levada.errors import ConfigError, DataLossError, UnknownTopicOrPartitionError
from levada.spark.batch_source import BatchReader
from levada.spark.options import source_options
from levada.spark.range_reader import OffsetRange
from levada.spark.schema import record_schema
from levada.spark.stream_source import StreamReader
from levada.types import TopicPartition

KAFKA = {"kafka.bootstrap.servers": "localhost:9092"}
ALL = ReadAllAvailable()


class FakeCluster:
    """Partitions with a first and a last offset, which a test moves."""

    def __init__(self, **logs: Any) -> None:
        self.logs = {TopicPartition("t", int(name[1:])): list(ends) for name, ends in logs.items()}
        self.closed = False

    def partitions(self, topics: Any) -> Any:
        found = {tp for tp in self.logs if tp.topic in topics}
        if not found:
            raise UnknownTopicOrPartitionError("topic 't' does not exist")
        return found

    def earliest(self, partitions: Any) -> Any:
        return {tp: self.logs[tp][0] for tp in partitions}

    def latest(self, partitions: Any) -> Any:
        return {tp: self.logs[tp][1] for tp in partitions}

    def close(self) -> None:
        self.closed = True

    def append(self, count: Any, partition: Any = 0) -> None:
        self.logs[TopicPartition("t", partition)][1] += count


def stream(cluster: Any, **given: Any) -> Any:
    options = source_options({**KAFKA, "subscribe": "t", **given}, streaming=True)
    return StreamReader(options, record_schema(False), connect=lambda client: cluster)


def batch(cluster: Any, **given: Any) -> Any:
    options = source_options({**KAFKA, "subscribe": "t", **given}, streaming=False)
    return BatchReader(options, record_schema(False), connect=lambda client: cluster)


def test_a_batch_reads_from_the_first_to_the_last_offset() -> None:
    cluster = FakeCluster(p0=(3, 10), p1=(0, 5), p2=(4, 4))
    assert batch(cluster).partitions() == [OffsetRange("t", 0, 3, 10), OffsetRange("t", 1, 0, 5)]
    assert cluster.closed


def test_a_batch_reads_between_offsets_in_json() -> None:
    cluster = FakeCluster(p0=(0, 10), p1=(0, 5))
    reader = batch(cluster, startingoffsets='{"t":{"0":4,"1":-2}}', endingoffsets='{"t":{"0":-1,"1":3}}')
    assert reader.partitions() == [OffsetRange("t", 0, 4, 10), OffsetRange("t", 1, 0, 3)]


def test_a_batch_without_records_reads_nothing() -> None:
    reader = batch(FakeCluster(p0=(4, 4)))
    (only,) = reader.partitions()
    assert list(reader.read(only)) == []


def test_a_batch_from_beyond_the_end_of_the_log_is_data_loss(caplog: Any) -> None:
    beyond = {"startingoffsets": '{"t":{"0":11,"1":5}}'}
    with pytest.raises(
        DataLossError, match=r"t-0 is to be read from offset 11, but ends at 10\. Records may have been lost\. Set the option"
    ):
        batch(FakeCluster(p0=(0, 10), p1=(0, 5)), **beyond).partitions()
    (nothing,) = batch(FakeCluster(p0=(0, 10), p1=(0, 5)), failondataloss="false", **beyond).partitions()
    assert nothing.end <= nothing.start
    assert "t-0 is to be read from offset 11, but ends at 10; going on, as failOnDataLoss is false" in caplog.text


def test_a_batch_does_not_end_before_it_starts() -> None:
    reader = batch(FakeCluster(p0=(0, 10)), startingoffsets='{"t":{"0":7}}', endingoffsets='{"t":{"0":4}}')
    with pytest.raises(ConfigError, match=r"'endingOffsets' is before 'startingOffsets': t-0 from 7 to 4"):
        reader.partitions()


def test_a_stream_from_the_end_does_not_lose_batch_0_to_a_crash() -> None:
    cluster = FakeCluster(p0=(0, 35_105))
    first = stream(cluster)
    start = first.initialOffset()
    cluster.append(50)
    end = first.latestOffset(start, ALL)
    assert first.initialOffset() == start
    assert first.partitions(start, end) == [OffsetRange("t", 0, 35_105, 35_155)]

    cluster.append(43)
    after_crash = stream(cluster)
    later_start = after_crash.initialOffset()
    assert later_start != start
    assert after_crash.partitions(later_start, end) == [OffsetRange("t", 0, 35_105, 35_155)]
    assert after_crash.partitions(end, after_crash.latestOffset(end, ALL)) == [OffsetRange("t", 0, 35_155, 35_198)]


def test_only_batch_0_carries_its_start() -> None:
    cluster = FakeCluster(p0=(0, 5))
    reader = stream(cluster)
    first = reader.latestOffset(reader.initialOffset(), ALL)
    assert first == {"t": {"0": 5}, "$start": {"t": {"0": 5}}}
    assert reader.latestOffset(first, ALL) == first
    cluster.append(2)
    assert reader.latestOffset(first, ALL) == {"t": {"0": 7}}


def test_offsets_are_the_connectors_own() -> None:
    reader = stream(FakeCluster(p0=(2, 9), p1=(0, 1)), startingoffsets="earliest")
    assert reader.initialOffset() == {"t": {"0": 2, "1": 0}}
    assert reader.latestOffset({"t": {"0": 3, "1": 0}}, ALL) == {"t": {"0": 9, "1": 1}}
    assert reader.reportLatestOffset() == {"t": {"0": 9, "1": 1}}


def test_a_limit_is_handed_to_spark_and_taken_from_it() -> None:
    reader = stream(FakeCluster(p0=(0, 1000), p1=(0, 0)), startingoffsets="earliest", maxoffsetspertrigger="400")
    assert reader.getDefaultReadLimit() == ReadMaxRows(400)
    assert reader.latestOffset({"t": {"0": 0, "1": 0}}, ReadMaxRows(400)) == {
        "t": {"0": 400, "1": 0},
    }
    assert reader.latestOffset({"t": {"0": 400, "1": 0}}, ALL) == {"t": {"0": 1000, "1": 0}}


def test_without_a_limit_everything_is_read() -> None:
    assert stream(FakeCluster(p0=(0, 1))).getDefaultReadLimit() == ALL


def test_available_now_ends_where_the_log_ended_when_it_began() -> None:
    cluster = FakeCluster(p0=(0, 1000))
    reader = stream(cluster, startingoffsets="earliest", maxoffsetspertrigger="400")
    reader.prepareForTriggerAvailableNow()
    start, sizes = reader.initialOffset(), []
    while (end := reader.latestOffset(start, ReadMaxRows(400))) != start:
        cluster.append(50)
        sizes.append(sum(part.end - part.start for part in reader.partitions(start, end)))
        start = end
    assert sizes == [400, 400, 200]


def test_available_now_begins_and_ends_at_the_same_end() -> None:
    cluster = FakeCluster(p0=(0, 10))
    reader = stream(cluster)
    reader.prepareForTriggerAvailableNow()
    cluster.append(5)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert reader.partitions(start, end) == []
    assert reader.latestOffset(end, ALL) == end


def test_a_partition_that_appears_is_read_from_its_beginning() -> None:
    cluster = FakeCluster(p0=(0, 5))
    reader = stream(cluster, startingoffsets="earliest", maxoffsetspertrigger="4")
    cluster.logs[TopicPartition("t", 1)] = [0, 8]
    end = reader.latestOffset({"t": {"0": 5}}, ReadMaxRows(4))
    assert end == {"t": {"0": 5, "1": 4}}
    assert reader.partitions({"t": {"0": 5}}, end) == [OffsetRange("t", 1, 0, 4)]


def test_a_partition_that_appears_with_lost_records_is_data_loss(caplog: Any) -> None:
    cluster = FakeCluster(p0=(0, 5), p1=(3, 8))
    with pytest.raises(DataLossError, match="t-1 is new to this query, but begins at offset 3"):
        stream(cluster).partitions({"t": {"0": 5}}, {"t": {"0": 5, "1": 8}})
    with caplog.at_level(logging.WARNING):
        ranges = stream(cluster, failondataloss="false").partitions({"t": {"0": 5}}, {"t": {"0": 5, "1": 8}})
    assert ranges == [OffsetRange("t", 1, 3, 8)]
    assert "t-1 is new to this query" in caplog.text


def test_a_partition_that_disappears_is_data_loss() -> None:
    cluster = FakeCluster(p0=(0, 5))
    with pytest.raises(DataLossError, match="t-1 was read up to offset 7 and does not exist any more"):
        stream(cluster).latestOffset({"t": {"0": 5, "1": 7}}, ALL)
    assert stream(cluster, failondataloss="false").latestOffset({"t": {"0": 4, "1": 7}}, ALL) == {"t": {"0": 5}}


def test_offsets_never_go_back_even_when_the_log_does() -> None:
    cluster = FakeCluster(p0=(0, 5))
    start = {"t": {"0": 9}}
    with pytest.raises(DataLossError, match="t-0 ends at offset 5, but was read up to 9"):
        stream(cluster).latestOffset(start, ALL)
    assert stream(cluster, failondataloss="false").latestOffset(start, ALL) == start


def test_assigned_partitions_are_taken_as_they_are() -> None:
    cluster = FakeCluster(p0=(0, 5), p1=(0, 6))
    options = source_options({**KAFKA, "assign": '{"t":[1]}', "startingoffsets": "earliest"}, streaming=True)
    reader = StreamReader(options, record_schema(False), connect=lambda client: cluster)
    assert reader.latestOffset(reader.initialOffset(), ALL)["t"] == {"1": 6}


def test_a_reader_travels_without_its_connections() -> None:
    options = source_options({**KAFKA, "subscribe": "t"}, streaming=True)
    reader = StreamReader(options, record_schema(False))
    reader._cluster = FakeCluster()
    assert pickle.loads(pickle.dumps(reader))._cluster is None


def test_stop_closes_the_connections() -> None:
    cluster = FakeCluster(p0=(0, 5))
    reader = stream(cluster)
    reader.initialOffset()
    reader.stop()
    reader.stop()
    assert cluster.closed


def test_a_missing_topic_is_named() -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="topic 't' does not exist"):
        stream(FakeCluster()).initialOffset()
