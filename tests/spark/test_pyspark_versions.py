"""What is made of a PySpark that lacks something: by Spark's calls, in the order in which 4.0.1 and 4.1.4 make them."""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

from fake_cluster import FakeCluster, batch, span, spans, stream
from levada.spark import pyspark_versions
from levada.spark.installation import why_too_old
from levada.spark.pyspark_versions import HAS_ADMISSION_CONTROL, DataSourceStreamArrowWriter, UntoldStreamReader, for_this_pyspark
from levada.spark.source import batch as batch_source


class Run:
    """One run of a query: what Spark 4.0 asks of a reader, through the JSON of its offsets. log: those of the checkpoint, by batch."""

    def __init__(self, cluster: FakeCluster, log: list[Any], is_committed: bool = True, **options: Any) -> None:
        self.reader = UntoldStreamReader(stream(cluster, startingoffsets="earliest", **options), options_said(options))
        self.log = log
        if log:
            # So Spark says what the newest offset of the checkpoint is.
            assert list(self.reader.partitions(stored(log[-1]), stored(log[-1]))) == []
        if not is_committed:
            self.replayed = self._plan(len(log) - 1)

    def micro_batch(self) -> Any:
        end = stored(self.reader.latestOffset())
        if self.log and end == self.log[-1]:
            return None
        self.log.append(end)
        return self._plan(len(self.log) - 1)

    def _plan(self, number: int) -> Any:
        start = self.log[number - 1] if number else self.reader.initialOffset()
        return spans(self.reader.partitions(stored(start), stored(self.log[number])))


def options_said(options: dict[str, Any]) -> bool | None:
    return options["availablenow"] == "true" if "availablenow" in options else None


def stored(offset: Any) -> Any:
    return json.loads(json.dumps(offset))


def test_a_run_reads_in_limited_micro_batches_until_there_is_nothing_new() -> None:
    cluster = FakeCluster(p0=(0, 10))
    run = Run(cluster, [], maxoffsetspertrigger="4")
    assert [run.micro_batch() for _ in range(4)] == [[span(0, 0, 4)], [span(0, 4, 8)], [span(0, 8, 10)], None]
    cluster.append(3)
    assert run.micro_batch() == [span(0, 10, 13)]


def test_the_next_run_goes_on_where_the_checkpoint_ends() -> None:
    cluster = FakeCluster(p0=(0, 10))
    first = Run(cluster, [], maxoffsetspertrigger="4")
    first.micro_batch()
    second = Run(cluster, first.log, maxoffsetspertrigger="4")
    assert [second.micro_batch() for _ in range(3)] == [[span(0, 4, 8)], [span(0, 8, 10)], None]


@pytest.mark.parametrize("planned", [1, 2])
def test_a_micro_batch_that_was_not_committed_is_read_again_and_then_what_follows(planned: int) -> None:
    cluster = FakeCluster(p0=(0, 10))
    first = Run(cluster, [], maxoffsetspertrigger="4")
    last = [first.micro_batch() for _ in range(planned)][-1]
    cluster.append(1)
    second = Run(cluster, first.log, is_committed=False, maxoffsetspertrigger="4")
    assert second.replayed == last
    assert second.micro_batch() == [span(0, 4 * planned, min(4 * planned + 4, 11))]


def test_batch_0_from_the_end_is_replayed_from_its_first_start() -> None:
    """Spark asks for an initial offset again; what was written between the two answers must not be left out."""
    cluster = FakeCluster(p0=(0, 5))
    first = UntoldStreamReader(stream(cluster, startingoffsets="latest"), None)
    first.initialOffset()
    cluster.append(4)
    end = stored(first.latestOffset())
    cluster.append(7)
    second = UntoldStreamReader(stream(cluster, startingoffsets="latest"), None)
    assert list(second.partitions(end, end)) == []
    assert spans(second.partitions(stored(second.initialOffset()), end)) == [span(0, 5, 9)]
    assert spans(second.partitions(end, stored(second.latestOffset()))) == [span(0, 9, 16)]


def test_the_option_available_now_reads_everything_at_once(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(FakeCluster(p0=(0, 10)), [], maxoffsetspertrigger="4", availablenow="true")
    assert run.micro_batch() == [span(0, 0, 10)]
    assert not caplog.records


def test_what_a_limit_leaves_is_warned_of_once_where_the_trigger_is_not_known(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(FakeCluster(p0=(0, 10), p1=(0, 0)), [], maxoffsetspertrigger="4")
    with caplog.at_level(logging.WARNING):
        while run.micro_batch():
            pass
    (record,) = caplog.records
    assert "maxOffsetsPerTrigger leaves 6 offsets for the next micro-batch" in record.getMessage()
    assert "availableNow" in record.getMessage()


@pytest.mark.parametrize("options", [{"maxoffsetspertrigger": "4", "availablenow": "false"}, {"maxoffsetspertrigger": "10"}, {}])
def test_nothing_is_warned_of_where_nothing_is_left_or_the_trigger_is_known(options: Any, caplog: pytest.LogCaptureFixture) -> None:
    Run(FakeCluster(p0=(0, 10)), [], **options).micro_batch()
    assert not caplog.records


def test_waiting_for_a_minimum_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster(p0=(0, 10))
    run = Run(cluster, [], minoffsetspertrigger="5", maxtriggerdelay="1h")
    assert run.micro_batch() == [span(0, 0, 10)]
    cluster.append(4)
    assert run.micro_batch() is None
    cluster.append(1)
    assert run.micro_batch() == [span(0, 10, 15)]
    assert not caplog.records


def test_a_reader_closes_its_connections_and_goes_to_the_tasks() -> None:
    cluster = FakeCluster(p0=(0, 1))
    reader = UntoldStreamReader(stream(cluster), None)
    reader.initialOffset()
    reader.stop()
    assert cluster.closed
    told = UntoldStreamReader(stream(FakeCluster()), None)
    told._reader._connect = None  # type: ignore[attr-defined]
    assert isinstance(pickle.loads(pickle.dumps(told)), UntoldStreamReader)


def test_spark_gets_the_reader_that_it_can_call() -> None:
    reader = stream(FakeCluster())
    given = for_this_pyspark(reader, None)
    assert given is reader if HAS_ADMISSION_CONTROL else isinstance(given, UntoldStreamReader)


def test_the_stream_writer_is_what_spark_hands_arrow_batches_to() -> None:
    assert issubclass(DataSourceStreamArrowWriter, DataSourceStreamWriter)
    if DataSourceStreamArrowWriter.__module__ == pyspark_versions.__name__:
        assert issubclass(DataSourceStreamArrowWriter, DataSourceArrowWriter)


def test_filters_that_never_come_are_warned_of(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(batch_source, "PUSH_FILTERS", None)
    reader = batch(FakeCluster(p0=(0, 3)), pushfilters="true")
    assert "pushFilters" not in vars(reader)
    assert "option 'pushFilters' has no effect" in caplog.text


@pytest.mark.parametrize("version", ["4.0.1", "4.0.5", "4.1.0.dev0", "4.3.0", "5.0.0"])
def test_versions_that_will_do(version: str) -> None:
    assert why_too_old(version, {}) is None


@pytest.mark.parametrize("version", ["3.5.9", "4.0.0", "4.0.0.dev2"])
def test_versions_that_are_too_old(version: str) -> None:
    assert f"needs PySpark 4.0.1 or newer, and this is PySpark {version}" in (why_too_old(version, {}) or "")


def test_databricks_counts_in_another_way() -> None:
    environment = {"DATABRICKS_RUNTIME_VERSION": "17.3"}
    assert why_too_old("4.0.0", environment) is None
    assert why_too_old("3.5.2", environment) is not None


def test_importing_levada_spark_beside_an_older_pyspark_says_so(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("__version__ = '3.5.9'\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    program = [sys.executable, "-W", "ignore", "-c", "import levada.spark"]
    done = subprocess.run(program, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert "ImportError: levada.spark needs PySpark 4.0.1 or newer, and this is PySpark 3.5.9" in done.stderr
