"""How a query is planned, against a cluster without a network (spark.md 1.1, 2.4)."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest

from fake_cluster import ALL, KAFKA, FakeCluster, batch, begin, span, spans, stream
from levada.errors import ConfigError, DataLossError, UnknownTopicOrPartitionError
from levada.spark.options.options import source_options
from levada.spark.pyspark_versions import ReadMaxRows
from levada.spark.schema import record_schema
from levada.spark.source.cluster import View
from levada.spark.source.offsets import START
from levada.spark.source.stream import StreamReader
from levada.types import TopicPartition


def test_a_batch_reads_from_the_first_to_the_last_offset() -> None:
    cluster = FakeCluster(p0=(3, 10), p1=(0, 5), p2=(4, 4))
    assert spans(batch(cluster).partitions()) == [span(0, 3, 10), span(1, 0, 5)]
    assert cluster.closed


def test_a_batch_reads_between_offsets_in_json() -> None:
    cluster = FakeCluster(p0=(0, 10), p1=(0, 5))
    reader = batch(cluster, startingoffsets='{"t":{"0":4,"1":-2}}', endingoffsets='{"t":{"0":-1,"1":3}}')
    assert spans(reader.partitions()) == [span(0, 4, 10), span(1, 0, 3)]


def test_a_batch_without_records_reads_nothing() -> None:
    reader = batch(FakeCluster(p0=(4, 4)))
    (only,) = reader.partitions()
    assert list(reader.read(only)) == []


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_batch_does_not_begin_beyond_the_end_of_the_log(fails: str) -> None:
    reader = batch(FakeCluster(p0=(0, 10), p1=(0, 5)), startingoffsets='{"t":{"0":11,"1":5}}', failondataloss=fails)
    with pytest.raises(ConfigError, match=r"option 'startingOffsets': t-0 is to be read from offset 11, but its log ends at 10;"):
        reader.partitions()


def test_a_batch_does_not_end_before_it_starts() -> None:
    reader = batch(FakeCluster(p0=(5, 10)), endingoffsets='{"t":{"0":4}}')
    with pytest.raises(ConfigError, match="option 'endingOffsets' is before 'startingOffsets': t-0 from offset 5 to 4"):
        reader.partitions()


def test_a_stream_from_the_end_does_not_lose_batch_0_to_a_crash() -> None:
    cluster = FakeCluster(p0=(0, 35_105))
    first = stream(cluster)
    start = first.initialOffset()
    cluster.append(50)
    end = first.latestOffset(start, ALL)
    assert first.initialOffset() == start
    assert spans(first.partitions(start, end)) == [span(0, 35_105, 35_155)]

    cluster.append(43)
    after_crash = stream(cluster)
    later_start = after_crash.initialOffset()
    assert later_start != start
    assert spans(after_crash.partitions(later_start, end)) == [span(0, 35_105, 35_155)]
    assert spans(after_crash.partitions(end, after_crash.latestOffset(end, ALL))) == [span(0, 35_155, 35_198)]


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
        sizes.append(sum(span.size for span in spans(reader.partitions(start, end))))
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
    assert end == {"t": {"0": 5, "1": 4}, START: {"t": {"0": 5, "1": 0}}}
    assert spans(reader.partitions({"t": {"0": 5}}, end)) == [span(1, 0, 4)]


def test_where_a_new_partition_began_is_kept_for_a_replay(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster(p0=(0, 5))
    reader = stream(cluster, startingoffsets="earliest", failondataloss="false")
    first = begin(reader)
    cluster.logs[TopicPartition("t", 1)] = [2, 8]
    second = reader.latestOffset(first, ALL)
    assert "t-1 is new to this query, but begins at offset 2" in caplog.text
    cluster.logs[TopicPartition("t", 1)] = [6, 9]
    again = stream(cluster, startingoffsets="earliest", failondataloss="false")
    assert spans(again.partitions(first, second)) == [span(1, 2, 8)], "what retention has removed since is a loss, not another begin"
    third = again.latestOffset(second, ALL)
    assert third == {"t": {"0": 5, "1": 9}}


def test_a_partition_that_appears_with_lost_records_is_data_loss(caplog: Any) -> None:
    cluster = FakeCluster(p0=(0, 5), p1=(3, 8))
    with pytest.raises(DataLossError, match="t-1 is new to this query, but begins at offset 3"):
        stream(cluster).partitions({"t": {"0": 5}}, {"t": {"0": 5, "1": 8}})
    with caplog.at_level(logging.WARNING):
        tasks = stream(cluster, failondataloss="false").partitions({"t": {"0": 5}}, {"t": {"0": 5, "1": 8}})
    assert spans(tasks) == [span(1, 3, 8)]
    assert "t-1 is new to this query" in caplog.text


def test_a_partition_that_disappears_is_data_loss() -> None:
    cluster = FakeCluster(p0=(0, 5))
    with pytest.raises(DataLossError, match="t-1 was read up to offset 7 and does not exist any more"):
        stream(cluster).latestOffset({"t": {"0": 5, "1": 7}}, ALL)
    assert stream(cluster, failondataloss="false").latestOffset({"t": {"0": 4, "1": 7}}, ALL) == {"t": {"0": 5}}


def test_a_log_that_is_shorter_after_a_restart_counts_as_a_new_one_and_is_read_from_its_start(caplog: Any) -> None:
    cluster = FakeCluster(p0=(0, 5), p1=(0, 8))
    start = {"t": {"0": 9, "1": 6}}
    with pytest.raises(DataLossError, match="t-0 ends at offset 5, but was read up to 9: the topic was probably deleted and created again"):
        stream(cluster).latestOffset(start, ALL)
    reader = stream(cluster, failondataloss="false")
    noticed = reader.latestOffset(start, ALL)
    assert noticed == {"t": {"0": 0, "1": 8}}
    assert spans(reader.partitions(start, noticed)) == [span(1, 6, 8)]
    assert "t-0 is to be read from offset 9, but the micro-batch ends at 0; the query continues" in caplog.text
    assert spans(reader.partitions(noticed, reader.latestOffset(noticed, ALL))) == [span(0, 0, 5)]


@pytest.mark.parametrize("size", [5, 20])
def test_with_skip_the_new_log_is_read_from_its_present_end(size: int) -> None:
    cluster = FakeCluster(p0=(0, 9), p1=(0, 4))
    cluster.ids["t"] = "first"
    reader = stream(cluster, ondataloss="skip", startingoffsets="earliest")
    start = begin(reader)
    cluster.logs, cluster.ids["t"] = {TopicPartition("t", 0): [0, size], TopicPartition("t", 1): [0, 4]}, "second"
    noticed = reader.latestOffset(start, ALL)
    assert spans(stream(cluster, ondataloss="skip").partitions(start, noticed)) == []
    assert reader.latestOffset(noticed, ALL) == noticed
    cluster.append(3)
    assert spans(reader.partitions(noticed, reader.latestOffset(noticed, ALL))) == [span(0, size, size + 3)]


def test_a_topic_that_is_made_again_while_a_query_runs_is_noticed_by_its_id() -> None:
    cluster = FakeCluster(p0=(0, 5))
    cluster.ids["t"] = "first"
    for failing, reader in (("true", stream(cluster)), ("false", stream(cluster, failondataloss="false"))):
        cluster.logs, cluster.ids["t"] = {TopicPartition("t", 0): [0, 5]}, "first"
        start = reader.latestOffset(reader.initialOffset(), ALL)
        cluster.logs, cluster.ids["t"] = {TopicPartition("t", 0): [0, 50]}, "second"
        if failing == "true":
            with pytest.raises(DataLossError, match="t-0 was read up to offset 5, and its topic was deleted and created again since"):
                reader.latestOffset(start, ALL)
            continue
        noticed = reader.latestOffset(start, ALL)
        assert noticed == {"t": {"0": 0}}
        assert spans(reader.partitions(noticed, reader.latestOffset(noticed, ALL))) == [span(0, 0, 50)]


def test_a_log_that_lost_its_end_to_a_new_leader_goes_on_there() -> None:
    cluster = FakeCluster(p0=(0, 9))
    cluster.ids["t"] = "the same"
    reader = stream(cluster, failondataloss="false")
    start = reader.latestOffset(reader.initialOffset(), ALL)
    cluster.logs[TopicPartition("t", 0)] = [0, 7]
    noticed = reader.latestOffset(start, ALL)
    assert noticed == {"t": {"0": 7}}
    cluster.append(4)
    assert spans(reader.partitions(noticed, reader.latestOffset(noticed, ALL))) == [span(0, 7, 11)]


def test_an_end_that_only_seems_smaller_is_looked_at_again() -> None:
    """A broker that has just become the leader may know less for a moment."""
    cluster = FakeCluster(p0=(0, 9))
    ends = [4, 4, 9]
    cluster.latest = lambda partitions: dict.fromkeys(partitions, ends.pop(0))  # type: ignore[method-assign]
    assert stream(cluster).latestOffset({"t": {"0": 9}}, ALL) == {"t": {"0": 9}}
    assert not ends


def test_a_topic_that_is_deleted_while_a_query_runs_is_data_loss() -> None:
    cluster = FakeCluster(p0=(0, 5))
    reader = stream(cluster)
    start = reader.latestOffset(reader.initialOffset(), ALL)
    cluster.logs.clear()
    with pytest.raises(DataLossError, match="t-0 was read up to offset 5 and does not exist any more"):
        reader.latestOffset(start, ALL)


def test_a_micro_batch_that_ends_before_it_starts_is_data_loss() -> None:
    with pytest.raises(DataLossError, match="t-0 is to be read from offset 9, but the micro-batch ends at 5"):
        stream(FakeCluster(p0=(0, 5))).partitions({"t": {"0": 9}}, {"t": {"0": 5}})


def test_batch_0_of_another_source_is_not_replayed_without_a_word() -> None:
    """Only Spark's own connector knows where it began; ours would begin later, at what is the latest offset now."""
    cluster = FakeCluster(p0=(0, 120))
    reader = stream(cluster)
    with pytest.raises(DataLossError, match="the first micro-batch was planned by another source, whose start is not known"):
        reader.partitions(reader.initialOffset(), {"t": {"0": 100}})
    from_the_start = stream(cluster, startingoffsets="earliest")
    assert spans(from_the_start.partitions(from_the_start.initialOffset(), {"t": {"0": 100}})) == [span(0, 0, 100)]


def test_a_later_batch_of_another_source_is_replayed() -> None:
    reader = stream(FakeCluster(p0=(0, 120)))
    reader.initialOffset()
    assert spans(reader.partitions({"t": {"0": 60}}, {"t": {"0": 100}})) == [span(0, 60, 100)]


def test_a_minimum_is_waited_for_until_the_delay_is_over(monkeypatch: Any) -> None:
    now = [1000.0]
    monkeypatch.setattr("levada.spark.source.stream.time.monotonic", lambda: now[0])
    cluster = FakeCluster(p0=(0, 3))
    reader = stream(cluster, startingoffsets="earliest", minoffsetspertrigger="10", maxtriggerdelay="1m")
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(reader.initialOffset(), limit)
    assert first["t"] == {"0": 3}, "the first trigger waits for nothing"
    cluster.append(9)
    assert reader.latestOffset(first, limit) == first
    now[0] += 61
    second = reader.latestOffset(first, limit)
    assert second == {"t": {"0": 12}}
    cluster.append(10)
    assert reader.latestOffset(second, limit) == {"t": {"0": 22}}
    cluster.append(1)
    assert reader.latestOffset({"t": {"0": 22}}, ALL) == {"t": {"0": 23}}


def test_available_now_waits_for_no_minimum() -> None:
    cluster = FakeCluster(p0=(0, 25))
    reader = stream(cluster, startingoffsets="earliest", minoffsetspertrigger="10", maxoffsetspertrigger="20")
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(20))
    assert first["t"] == {"0": 20}
    assert reader.latestOffset(first, ReadMaxRows(20)) == {"t": {"0": 25}}


def test_what_available_now_was_to_read_and_is_gone_is_data_loss() -> None:
    cluster = FakeCluster(p0=(0, 20), p1=(0, 20))
    reader = stream(cluster, startingoffsets="earliest", maxoffsetspertrigger="10")
    reader.prepareForTriggerAvailableNow()
    first = reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    cluster.logs[TopicPartition("t", 1)] = [0, 12]
    with pytest.raises(DataLossError, match="t-1 ends at offset 12, but was read up to 20"):
        reader.latestOffset(first, ReadMaxRows(10))


def test_a_pattern_finds_topics_that_come_later() -> None:
    cluster = FakeCluster(p0=(0, 5))
    reader = stream(cluster, subscribepattern="^t$|sal", startingoffsets="earliest")
    first = reader.latestOffset(reader.initialOffset(), ALL)
    cluster.logs[TopicPartition("sales", 0)] = [0, 3]
    cluster.logs[TopicPartition("other", 0)] = [0, 3]
    assert reader.latestOffset(first, ALL) == {
        "t": {"0": 5},
        "sales": {"0": 3},
        START: {"t": {"0": 5}, "sales": {"0": 0}},
    }


def test_times_are_looked_up_and_missing_ones_have_a_strategy() -> None:
    cluster = FakeCluster(p0=(0, 10), p1=(2, 5))
    assert stream(cluster, startingtimestamp="4").initialOffset() == {"t": {"0": 4, "1": 4}}
    by_partition = '{"t":{"0":7,"1":1}}'
    assert stream(cluster, startingoffsetsbytimestamp=by_partition).initialOffset() == {"t": {"0": 7, "1": 2}}
    with pytest.raises(ConfigError, match=r"option 'startingTimestamp': t-1 has no record from 6 ms on; choose an earlier time, or set"):
        begin(stream(cluster, startingtimestamp="6"))
    late = stream(cluster, startingtimestamp="6", startingoffsetsbytimestampstrategy="latest")
    assert late.initialOffset() == {"t": {"0": 6, "1": 5}}


def test_a_batch_does_not_end_at_an_earlier_time_than_it_starts() -> None:
    reader = batch(FakeCluster(p0=(0, 10)), endingtimestamp="3", startingoffsetsbytimestamp='{"t":{"0":4}}')
    with pytest.raises(ConfigError, match="option 'endingTimestamp' is before 'startingOffsetsByTimestamp': t-0 from offset 4 to 3"):
        reader.partitions()


def test_a_batch_ends_at_a_time_or_at_the_end_of_the_log() -> None:
    reader = batch(FakeCluster(p0=(0, 10), p1=(2, 5)), endingtimestamp="6")
    assert spans(reader.partitions()) == [span(0, 0, 6), span(1, 2, 5)]


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
        begin(stream(FakeCluster()))


class Deleting(FakeCluster):
    """A cluster that raises UnknownTopicOrPartitionError for offsets of deleted topics, as brokers do."""

    def earliest(self, partitions: Any) -> Any:
        self._check(partitions)
        return super().earliest(partitions)

    def latest(self, partitions: Any) -> Any:
        self._check(partitions)
        return super().latest(partitions)

    def _check(self, partitions: Any) -> None:
        if missing := [tp for tp in partitions if tp not in self.logs]:
            raise UnknownTopicOrPartitionError(f"{missing[0]} does not exist")


def test_a_batch_0_that_was_planned_is_replayed_though_its_start_cannot_be_found_out_again() -> None:
    cluster = FakeCluster(p0=(0, 9))
    end = begin(stream(cluster, startingoffsets='{"t":{"0":2}}'))
    cluster.logs[TopicPartition("t", 1)] = [0, 0]
    again = stream(cluster, startingoffsets='{"t":{"0":2}}')
    start = again.initialOffset()
    assert spans(again.partitions(start, end)) == [span(0, 2, 9)]
    assert again.latestOffset(end, ALL) == {"t": {"0": 9, "1": 0}, START: {"t": {"0": 9, "1": 0}}}
    with pytest.raises(ConfigError, match="must name every partition that is read; missing: t-1"):
        again.latestOffset(start, ALL)
    with pytest.raises(ConfigError, match="must name every partition that is read; missing: t-1"):
        again.partitions(start, {"t": {"0": 9}})


def test_available_now_goes_on_after_a_topic_is_deleted() -> None:
    cluster = FakeCluster(p0=(0, 9))
    reader = stream(cluster, subscribe="t,u", failondataloss="false")
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset({"t": {"0": 4}, "u": {"0": 3}}, ALL) == {"t": {"0": 9}}
    with pytest.raises(DataLossError, match="u-0 was read up to offset 3 and does not exist any more"):
        failing = stream(cluster, subscribe="t,u")
        failing.prepareForTriggerAvailableNow()
        failing.latestOffset({"t": {"0": 4}, "u": {"0": 3}}, ALL)


def test_available_now_that_begins_behind_its_target_reads_nothing() -> None:
    cluster = FakeCluster(p0=(0, 9))
    reader = stream(cluster, startingoffsets='{"t":{"0":12}}')
    reader.prepareForTriggerAvailableNow()
    cluster.append(6)
    start = reader.initialOffset()
    assert spans(reader.partitions(start, reader.latestOffset(start, ALL))) == []


def test_a_start_behind_the_end_of_the_log_is_said_to_be_one() -> None:
    with pytest.raises(DataLossError, match="t-0 is to be read from offset 7, but ends at 5"):
        begin(stream(FakeCluster(p0=(0, 5)), startingoffsets='{"t":{"0":7}}'))


def test_a_topic_that_is_deleted_between_two_questions_is_asked_about_again() -> None:
    cluster = Deleting(p0=(0, 9))
    reader = stream(cluster, subscribepattern="t|s", failondataloss="false")
    start = begin(reader)
    gone = TopicPartition("s", 0)
    views = [{gone, TopicPartition("t", 0)}, {TopicPartition("t", 0)}]
    cluster.view = lambda selection: View(frozenset(views.pop(0)), {"t": None})  # type: ignore[method-assign]
    assert reader.latestOffset(start, ALL)["t"] == {"0": 9}
    assert not views


def test_a_replayed_batch_goes_on_without_a_new_partition_that_was_deleted_since(caplog: Any) -> None:
    cluster = Deleting(p0=(0, 9))
    planned = {"t": {"0": 9}, "u": {"0": 5}}
    reader = stream(cluster, subscribe="t,u", failondataloss="false")
    with caplog.at_level(logging.WARNING):
        assert spans(reader.partitions({"t": {"0": 4}}, planned)) == [span(0, 4, 9)]
    assert "u-0 was to be read up to offset 5 and does not exist any more; the query continues" in caplog.text
    with pytest.raises(DataLossError, match="u-0 was to be read up to offset 5"):
        stream(cluster, subscribe="t,u").partitions({"t": {"0": 4}}, planned)


@pytest.mark.parametrize(
    ("sizes", "wanted", "tasks"), [((100, 100), 5, 6), ((140, 140, 140, 140, 240), 8, 8), ((30, 30, 4), 4, 5), ((1, 1, 1), 9, 3)]
)
def test_min_partitions_cuts_as_sparks_connector_does(sizes: tuple[int, ...], wanted: int, tasks: int) -> None:
    logs = {f"p{number}": (0, size) for number, size in enumerate(sizes)}
    assert len(batch(FakeCluster(**logs), minpartitions=str(wanted)).partitions()) == tasks


def test_with_skip_a_topic_that_was_gone_for_a_trigger_is_read_from_its_present_end() -> None:
    kept, removed = TopicPartition("t", 0), TopicPartition("t", 1)
    cluster = FakeCluster(p0=(0, 9), p1=(0, 4))
    reader = stream(cluster, ondataloss="skip", startingoffsets="earliest")
    start = begin(reader)
    cluster.logs = {kept: [0, 9]}
    without = reader.latestOffset(start, ALL)
    assert without == {"t": {"0": 9}}
    cluster.logs[removed] = [0, 60]
    returned = reader.latestOffset(without, ALL)
    assert spans(reader.partitions(without, returned)) == []
    cluster.append(3, partition=1)
    assert spans(reader.partitions(returned, reader.latestOffset(returned, ALL))) == [span(1, 60, 63)]


def test_what_is_not_selected_any_more_is_said_and_keeps_its_position(caplog: Any) -> None:
    cluster = FakeCluster(p0=(0, 9))
    cluster.logs[TopicPartition("u", 0)] = [0, 5]
    start = {"t": {"0": 4}, "u": {"0": 3}}
    with pytest.raises(DataLossError, match="u-0 was read up to offset 3, and the options of the query do not select it any more"):
        stream(cluster).latestOffset(start, ALL)
    reader = stream(cluster, failondataloss="false")
    end = reader.latestOffset(start, ALL)
    assert end == {"t": {"0": 9}, "u": {"0": 3}}
    assert spans(reader.partitions(start, end)) == [span(0, 4, 9)]
    assert reader.latestOffset(end, ALL) is end
    assert caplog.text.count("do not select it any more") == 1


def test_a_topic_that_is_named_wrongly_on_a_restart_costs_no_position(caplog: Any) -> None:
    cluster = FakeCluster(p0=(0, 9))
    with pytest.raises(UnknownTopicOrPartitionError, match="topic 'tt' does not exist"):
        stream(cluster, subscribe="tt").latestOffset({"t": {"0": 4}}, ALL)
    misnamed = stream(cluster, subscribe="tt", failondataloss="false")
    assert misnamed.latestOffset({"t": {"0": 4}}, ALL) == {"t": {"0": 4}}
    assert "topic 'tt' does not exist, or may not be seen by this user" in caplog.text


def test_a_partition_that_was_gone_when_available_now_was_prepared_keeps_its_position() -> None:
    back = TopicPartition("t", 1)
    cluster = FakeCluster(p0=(0, 9), p1=(0, 8))
    reader = stream(cluster)
    del cluster.logs[back]
    reader.prepareForTriggerAvailableNow()
    cluster.logs[back] = [0, 8]
    start = {"t": {"0": 4, "1": 5}}
    for limit in (ALL, ReadMaxRows(100)):
        end = reader.latestOffset(start, limit)
        assert end == {"t": {"0": 9, "1": 5}}
        assert spans(reader.partitions(start, end)) == [span(0, 4, 9)]
        assert reader.latestOffset(end, limit) == end
