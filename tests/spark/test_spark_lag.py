"""How far queries are behind: computed from canned answers, and reported for a real query."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

import levada as lv
from levada.base.clock import SystemClock
from levada.errors import ConfigError, TimeoutError
from levada.spark import Lag, LagListener, PartitionLag, read_kafka, write_kafka
from levada.spark.lag_listener import ProgressLine, progress_line
from levada.spark.source.cluster import KafkaCluster, Selection, View
from levada.spark.source.lag import behind, positions, still_there, unread
from levada.types import TopicPartition

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
QUERY, RUN = uuid.UUID(int=1), uuid.UUID(int=2)


# Pure


def test_positions_are_read_from_the_offsets_of_a_progress() -> None:
    first = json.dumps({"t": {"0": 7, "1": 9}, "$start": {"t": {"0": 1, "1": 2}}})
    assert positions([first]) == {T0: 7, T1: 9}


def test_of_two_sources_the_one_further_behind_counts() -> None:
    assert positions(['{"t": {"0": 7, "1": 9}}', '{"t": {"0": 8, "1": 3, "2": 4}}']) == {T0: 7, T1: 3, T2: 4}


@pytest.mark.parametrize("other", ["None", "5", '{"logOffset": 3}', "2024-01-01T00:00:00Z", '{"a": {"b": "c"}}', "[1]", ""])
def test_sources_that_are_not_of_kafka_are_left_out(other: str) -> None:
    assert positions([other, '{"t": {"0": 7}}']) == {T0: 7}


def test_a_name_that_no_topic_can_have_is_left_out() -> None:
    assert positions(['{"file:/a": {"0": 7}, "..": {"0": 7}, "t": {"0": 7}}', '{"": {"0": 1}}']) == {T0: 7}


def test_the_first_unread_record_is_looked_for_where_retention_left_it() -> None:
    begin = still_there({T0: 5, T1: 5, T2: 0}, {T0: 0, T1: 8, T2: 10})
    assert begin == {T0: 5, T1: 8, T2: 10}
    assert unread(begin, {T0: 10, T1: 10, T2: 10}) == {T0: 5, T1: 8}


def test_seconds_are_those_of_the_next_unread_record() -> None:
    found = behind({T0: 5, T1: 10, T2: 1}, {T0: 10, T1: 10, T2: 4}, {T0: 97_500, T2: None}, now_ms=100_000)
    assert found == {T0: PartitionLag(5, 2.5), T1: PartitionLag(0, 0.0), T2: PartitionLag(3, None)}


def test_odd_times_and_ends() -> None:
    found = behind({T0: 5, T1: 5, T2: 9}, {T0: 6, T1: 6, T2: 8}, {T0: 200_000, T1: -1}, now_ms=100_000)
    assert found == {T0: PartitionLag(1, 0.0), T1: PartitionLag(1, None), T2: PartitionLag(0, 0.0)}


def test_a_lag_in_all_and_as_the_connectors_metrics() -> None:
    lag = a_lag({T0: PartitionLag(1500, 2.5), T1: PartitionLag(0, 0.0), T2: PartitionLag(30, None)})
    assert (lag.offsets, lag.seconds) == (1530, 2.5)
    assert lag.metrics == {
        "minOffsetsBehindLatest": 0,
        "maxOffsetsBehindLatest": 1500,
        "avgOffsetsBehindLatest": 510.0,
        "maxSecondsBehindLatest": 2.5,
    }
    assert str(lag) == "1,530 offsets and 2.5 s behind, most in t-0: 1,500"


def test_a_lag_in_words() -> None:
    assert str(a_lag({T0: PartitionLag(0, 0.0)})) == "at the end"
    assert str(a_lag({T0: PartitionLag(3, None)})) == "3 offsets behind"
    empty = a_lag({})
    assert (str(empty), empty.seconds, empty.metrics["avgOffsetsBehindLatest"]) == ("at the end", None, 0.0)


def a_lag(partitions: Any) -> Lag:
    return Lag("q", "r", None, 0, partitions)


# The listener, with canned answers


class FakeCluster:
    """Partitions 0 and 1 of topic t."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.ends = {T0: 10, T1: 20}
        self.first = {T0: 0, T1: 0}
        self.fails = False
        self.closed = False
        self.asked_for_records: list[Any] = []

    def view(self, selection: Selection) -> View:
        if self.fails:
            raise TimeoutError("nobody answers")
        return View(frozenset(tp for tp in self.ends if tp.topic in selection.topics), {})

    def earliest(self, partitions: Any) -> Any:
        return {tp: self.first[tp] for tp in partitions}

    def latest(self, partitions: Any) -> Any:
        return {tp: self.ends[tp] for tp in partitions}

    def at_times(self, times: Any) -> Any:
        raise NotImplementedError

    def next_times(self, begin: Any, end: Any, timeout_s: float) -> Any:
        self.asked_for_records.append((begin, end))
        now_ms = SystemClock().wall_ms()
        return dict.fromkeys(begin, now_ms - 60_000)

    def committed(self, group_id: str, partitions: Any) -> Any:
        raise NotImplementedError

    def commit(self, group_id: str, offsets: Any) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


class Listened:
    """A listener, the clusters it made and the lags it told."""

    def __init__(self, **arguments: Any) -> None:
        self.clusters: list[FakeCluster] = []
        self.told: list[Lag] = []
        self.listener = LagListener("a:1", on_lag=self.told.append, line=False, _connect=self.connect, **arguments)

    def connect(self, settings: Any) -> FakeCluster:
        self.clusters.append(FakeCluster(settings))
        return self.clusters[-1]

    def progress(self, *ends: str, batch: int = 3, run: uuid.UUID = RUN, name: str | None = "copy") -> None:
        sources = [SimpleNamespace(endOffset=end) for end in ends]
        self.send("Progress", progress=SimpleNamespace(id=QUERY, runId=run, name=name, batchId=batch, sources=sources))

    def idle(self) -> None:
        self.send("Idle", runId=RUN)

    def terminated(self, run: uuid.UUID = RUN) -> None:
        self.send("Terminated", runId=run)

    def send(self, kind: str, **event: Any) -> None:
        getattr(self.listener, f"onQuery{kind}")(SimpleNamespace(**event))


@pytest.fixture
def listened() -> Listened:
    return Listened()


def test_each_progress_is_told_and_logged(listened: Listened, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "levada.spark.lag_listener")
    listened.progress('{"t": {"0": 10, "1": 5}}')
    (lag,) = listened.told
    assert lag == Lag(str(QUERY), str(RUN), "copy", 3, lag.partitions)
    assert lag.partitions[T0] == PartitionLag(0, 0.0)
    assert lag.partitions[T1].offsets == 15
    assert lag.partitions[T1].seconds == pytest.approx(60, abs=20)
    assert listened.listener.lags == [lag]
    assert listened.clusters[0].asked_for_records == [({T1: 5}, {T1: 20})]
    whole = caplog.records[0]
    assert whole.getMessage() == f"query copy {QUERY}, batch 3: {lag}"
    assert vars(whole)["context"] == {"query_id": str(QUERY), "run_id": str(RUN), "batch_id": "3"}
    assert "t-1 is 15 offsets and" in caplog.records[2].getMessage()


def test_at_the_end_no_record_is_asked_for(listened: Listened) -> None:
    listened.progress('{"t": {"0": 10, "1": 20}}')
    assert listened.clusters[0].asked_for_records == []
    assert str(listened.told[0]) == "at the end"


def test_topics_of_other_clusters_and_other_sources_are_left_out(listened: Listened) -> None:
    listened.progress('{"elsewhere": {"0": 1}, "t": {"0": 4}}', "5")
    assert listened.told[0].partitions.keys() == {T0}
    listened.progress("5")
    assert len(listened.told) == 1


def test_an_idle_query_falls_behind(listened: Listened) -> None:
    listened.idle()
    assert listened.told == []
    listened.progress('{"t": {"0": 10}}')
    listened.clusters[0].ends[T0] = 12
    listened.idle()
    assert [lag.offsets for lag in listened.told] == [0, 2]


def test_brokers_that_do_not_answer_are_a_warning_and_are_left_alone_for_a_while(
    listened: Listened, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("levada.spark.lag_listener.time.monotonic", lambda: now[0])
    listened.progress('{"t": {"0": 9}}')
    listened.clusters[0].fails = True
    for batch in (4, 5, 6):
        listened.progress('{"t": {"0": 10}}', batch=batch)
    assert f"query copy {QUERY}, batch 4: its lag is not known: nobody answers; the brokers are asked again" in caplog.text
    assert (len(caplog.records), len(listened.told)) == (1, 1)
    listened.clusters[0].fails = False
    now[0] += 61
    listened.idle()
    assert [lag.batch_id for lag in listened.told] == [3, 6]


def test_the_end_of_the_last_query_closes_the_connections(listened: Listened) -> None:
    other = uuid.UUID(int=9)
    listened.progress('{"t": {"0": 9}}')
    listened.progress('{"t": {"1": 9}}', run=other)
    assert len(listened.clusters) == 1
    listened.terminated()
    assert (listened.clusters[0].closed, [lag.run_id for lag in listened.listener.lags]) == (False, [str(other)])
    listened.terminated(other)
    assert (listened.clusters[0].closed, listened.listener.lags) == (True, [])
    listened.progress('{"t": {"0": 9}}', run=uuid.UUID(int=10))
    assert len(listened.clusters) == 2
    listened.listener.close()
    assert listened.clusters[1].closed


def test_an_event_that_comes_after_the_end_of_its_query_is_nothing_new(listened: Listened) -> None:
    listened.progress('{"t": {"0": 9}}')
    listened.terminated()
    listened.progress('{"t": {"0": 10}}')
    assert (len(listened.clusters), len(listened.told), listened.listener.lags) == (1, 1, [])


def test_what_retention_removed_is_not_behind(listened: Listened) -> None:
    listened.progress('{"t": {"0": 10}}')
    cluster = listened.clusters[0]
    cluster.ends[T0] = cluster.first[T0] = 15
    listened.idle()
    assert (str(listened.told[-1]), cluster.asked_for_records) == ("at the end", [])


def test_settings_are_checked_at_once() -> None:
    listened = Listened(kafka={"isolation_level": "read_committed", "default_api_timeout_ms": 500})
    listened.progress('{"t": {"0": 9}}')
    expected = {"bootstrap.servers": "a:1", "isolation.level": "read_committed", "default.api.timeout.ms": "500"}
    assert expected.items() <= listened.clusters[0].settings.items()
    with pytest.raises(ConfigError, match=r"did you mean 'isolation.level'"):
        LagListener("a:1", kafka={"isolation_levl": "read_committed"})  # type: ignore[arg-type]


# The line


def test_a_line_is_written_over_and_cut() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream, width=10)
    line.show("a long line of text")
    line.show("short")
    line.end()
    line.end()
    assert stream.getvalue() == "\ra long l…" + "\rshort    " + "\n"


def test_a_line_needs_somebody_who_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert progress_line() is None
    with pytest.raises(ConfigError, match="line=True: standard error is not a terminal"):
        LagListener("a:1", line=True)
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert progress_line() is not None


def test_the_line_has_every_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := io.StringIO())
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    listener = LagListener("a:1", _connect=FakeCluster)
    for number, name in enumerate(["copy", None]):
        source = SimpleNamespace(endOffset='{"t": {"0": 10}}')
        run = SimpleNamespace(id=QUERY, runId=uuid.UUID(int=number), name=name, batchId=0, sources=[source])
        listener.onQueryProgress(SimpleNamespace(progress=run))  # type: ignore[arg-type]
    assert terminal.getvalue().endswith(f"\rcopy: at the end | {QUERY}: at the end")


# With a broker


def test_the_times_of_the_next_records_are_read(embedded: Any, new_topic: Any) -> None:
    topic = new_topic(embedded, partitions=3)
    partitions = [TopicPartition(topic, number) for number in range(3)]
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        for number in range(300):
            producer.send(topic, value=b"x" * 1000, partition=number % 3, timestamp=1_700_000_000_000 + number)
    cluster = KafkaCluster({"bootstrap.servers": embedded.bootstrap_servers, "max.partition.fetch.bytes": "1000"})
    try:
        ends = cluster.latest(partitions)
        found = cluster.next_times(dict(zip(partitions, (0, 50, 99), strict=True)), ends, timeout_s=30)
        assert found == dict(zip(partitions, (1_700_000_000_000, 1_700_000_000_151, 1_700_000_000_299), strict=True))
        beyond = {partitions[0]: ends[partitions[0]] + 1}
        assert cluster.next_times({partitions[0]: 100}, beyond, timeout_s=0.3) == {partitions[0]: None}
    finally:
        cluster.close()


@pytest.mark.spark
def test_a_real_query_is_behind_and_then_at_its_end(spark: Any, embedded: Any, new_topic: Any, tmp_path: Any) -> None:
    servers, origin, target = embedded.bootstrap_servers, new_topic(embedded, partitions=2), new_topic(embedded)
    long_ago_ms = SystemClock().wall_ms() - 3_600_000
    with lv.KafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(20):
            producer.send(origin, value=b"v", partition=number % 2, timestamp=long_ago_ms)
    told: list[Lag] = []
    is_at_the_end = threading.Event()

    def tell(lag: Lag) -> None:
        told.append(lag)
        if not lag.offsets:
            is_at_the_end.set()

    listener = LagListener(servers, on_lag=tell)
    spark.streams.addListener(listener)
    try:
        rows = read_kafka(spark, servers, stream=True, subscribe=origin, startingOffsets="earliest", maxOffsetsPerTrigger=10)
        writer = write_kafka(rows.select("value"), servers, stream=True, topic=target).option("checkpointLocation", str(tmp_path))
        query = writer.queryName("behind").start()
        assert is_at_the_end.wait(90)
        query.stop()
    finally:
        spark.streams.removeListener(listener)
        listener.close()
    first, last = told[0], told[-1]
    assert (first.name, first.batch_id, first.offsets) == ("behind", 0, 10)
    assert first.partitions.keys() == {TopicPartition(origin, 0), TopicPartition(origin, 1)}
    assert 3_600 <= (first.seconds or 0) < 3_800
    assert (last.offsets, last.seconds) == (0, 0.0)
