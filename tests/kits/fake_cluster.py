"""A cluster without a network, for tests of planning in the Spark source."""

from __future__ import annotations

from typing import Any

from levada.spark.options.options import source_options
from levada.spark.pyspark_versions import ReadAllAvailable
from levada.spark.schema import record_schema
from levada.spark.source.batch import BatchReader
from levada.spark.source.cluster import Selection, View
from levada.spark.source.planning import Span
from levada.spark.source.stream import StreamReader
from levada.types import TopicPartition

KAFKA = {"kafka.bootstrap.servers": "localhost:9092"}
ALL = ReadAllAvailable()


class FakeCluster:
    """Implements levada.spark.source.cluster.Cluster. logs: start and end offset of each partition, which a test changes."""

    def __init__(self, **logs: Any) -> None:
        self.logs = {TopicPartition("t", int(name[1:])): list(ends) for name, ends in logs.items()}
        self.ids: dict[str, Any] = {}
        self.groups: dict[str, dict[TopicPartition, int]] = {}
        self.commits = 0
        self.refuses_commits: Any = None
        self.views = 0
        self.closed = False

    def view(self, selection: Selection) -> View:
        self.views += 1
        if selection.pattern is not None:
            found = {tp for tp in self.logs if selection.pattern.search(tp.topic)}
        else:
            found = {tp for tp in self.logs if tp in selection.partitions or tp.topic in selection.topics}
        return View(frozenset(found), {tp.topic: self.ids.get(tp.topic) for tp in self.logs if tp in found or selection.partitions})

    def at_times(self, times: Any) -> Any:
        """Look up offsets by time. The timestamp of each record equals its offset."""
        return {tp: max(time, self.logs[tp][0]) if time < self.logs[tp][1] else None for tp, time in times.items()}

    def earliest(self, partitions: Any) -> Any:
        return {tp: self.logs[tp][0] for tp in partitions}

    def latest(self, partitions: Any) -> Any:
        return {tp: self.logs[tp][1] for tp in partitions}

    def committed(self, group_id: str, partitions: Any) -> Any:
        return {tp: offset for tp, offset in self.groups.get(group_id, {}).items() if tp in partitions}

    def commit(self, group_id: str, offsets: Any) -> None:
        if self.refuses_commits is not None:
            raise self.refuses_commits
        self.commits += 1
        self.groups.setdefault(group_id, {}).update(offsets)

    def close(self) -> None:
        self.closed = True

    def append(self, count: Any, partition: Any = 0) -> None:
        self.logs[TopicPartition("t", partition)][1] += count


def span(partition: int, start: int, end: int) -> Span:
    return Span(TopicPartition("t", partition), start, end)


def spans(tasks: Any) -> list[Span]:
    """Return the spans of all tasks."""
    return [span for task in tasks for span in task.spans]


def stream(cluster: Any, **given: Any) -> Any:
    where = {} if "subscribepattern" in given else {"subscribe": "t"}
    options = source_options({**KAFKA, **where, "fetchoffset.retryintervalms": "0", **given}, streaming=True)
    return StreamReader(options, record_schema(False), connect=lambda client: cluster)


def begin(reader: StreamReader) -> Any:
    """Make the calls that Spark makes for the first micro-batch of a query, and return the end of this micro-batch."""
    return reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())


def batch(cluster: Any, **given: Any) -> Any:
    options = source_options({**KAFKA, "subscribe": "t", **given}, streaming=False)
    return BatchReader(options, record_schema(False), connect=lambda client: cluster)
