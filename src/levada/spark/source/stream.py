"""The source of a streaming query.

Spark keeps one reader for planning, in a separate process, as long as a query runs. At every trigger Spark calls `latestOffset`, then
`partitions(start, end)`. The tasks get pickled copies of the reader, which never plan. Rules that follow from Spark's behaviour:

- Spark does not store the start of batch 0. So the end of batch 0 carries it (see `offsets`). The end of a batch after a skipped loss
  carries the start as well.
- Spark accepts any offset. This reader goes back to a lower offset only after a loss: the topic was created again, or a log is shorter.
- AvailableNow reads up to the end offsets at the query's beginning. They are fetched once.
- Spark passes a read limit to `latestOffset`. ReadAllAvailable (Trigger.Once) means to ignore the options. Spark has no limit like
  minOffsetsPerTrigger, so this reader checks that minimum itself.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from levada.errors import KafkaError, UnknownTopicOrPartitionError
from levada.spark.options.options import SourceOptions
from levada.spark.pyspark_versions import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from levada.spark.source.bounds import moves_with_time, resolve
from levada.spark.source.cluster import Cluster, KafkaCluster, missing_topic
from levada.spark.source.loss import OnLoss
from levada.spark.source.offsets import START, Offsets, StreamOffset, from_json, start_of, to_json, with_start
from levada.spark.source.planning import TaskSpans, plan
from levada.spark.source.query_group import QueryGroup
from levada.spark.source.range_reader import read
from levada.spark.source.trigger import Losses, TopicIds, backlog, backwards, deselected, findings, limit_rows, losses, lost_beginnings
from levada.types import TopicPartition

logger = logging.getLogger(__name__)

NEVER = float("-inf")
UNRESOLVED: StreamOffset = {START: {}}
"""Stands for an initial offset that could not be fetched."""
NO_LIMIT = 2**63 - 1


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver, reads them in the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType, connect: Callable[[Mapping[str, str]], Cluster] = KafkaCluster) -> None:
        self._options = options
        self._schema = schema
        self._connect = connect
        self._cluster: Cluster | None = None
        self._initial: StreamOffset | None = None
        self._why_unresolved: KafkaError | None = None
        self._target: Offsets | None = None
        self._newest: StreamOffset | None = None
        self._group = QueryGroup(options.group_id if options.commits_offsets else "")
        self._ids = TopicIds()
        self._gone: set[TopicPartition] = set()
        self._has_looked = False
        """Whether latestOffset() has looked for losses in this run of the query."""
        self._triggered_at = NEVER

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cluster": None, "_why_unresolved": None}

    def initialOffset(self) -> StreamOffset:
        """Return the offsets at which a query without a checkpoint begins. Repeated calls return the same offsets.

        Spark calls this method also when it replays an unfinished batch 0. The end of that batch contains its start, so the result is not
        needed then. Therefore this method raises no KafkaError, for example if Kafka does not answer. The later calls that need the start
        raise it.
        """
        if self._initial is None:
            try:
                self._initial = to_json(self._resolve_initial())
            except KafkaError as fault:
                self._initial, self._why_unresolved = UNRESOLVED, fault
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that Spark passes to latestOffset."""
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None and self._options.min_offsets_per_trigger is None else ReadMaxRows(most or NO_LIMIT)

    def prepareForTriggerAvailableNow(self) -> None:
        """Store the current end offsets. The query ends when it has read up to them."""
        view = self._kafka().view(self._options.selection)
        self._ids.learn(view.topic_ids)
        self._target = self._kafka().latest(view.partitions)

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:
        """Return the end of the next micro-batch. If there are no new records, this is `start`, except in batch 0 and after a loss.

        Reports losses since `start`, and with commitOffsets commits `start` for the query's group. Raises DataLossError, and
        UnknownTopicOrPartitionError for a missing topic.
        """
        self._check_resolved(start)
        whole = from_json(start)
        kept = {tp: offset for tp, offset in whole.items() if not self._options.selection.selects(tp)}
        begin = {tp: offset for tp, offset in whole.items() if tp not in kept}
        latest, lost = self._look(begin)
        self._group.follow({tp: offset for tp, offset in begin.items() if tp in latest}, self._kafka())
        if not self._has_looked:
            self._options.on_loss.report(deselected(kept), logger)
        self._options.on_loss.report(findings(lost, begin, latest, is_start=start == self._initial), logger)
        newest = latest if self._target is None else self._readable_target(self._target, begin, latest)
        self._newest = to_json(newest)
        self._has_looked = True
        after_loss = {**self._positions_after_loss(lost, latest), **self._ends_of_returned(lost, begin, latest)}
        starts, ends = self._between({**after_loss, **begin}, newest)
        # A partition that the options do not select any more keeps its position, in case that they select it again.
        end = {**self._limited(begin, starts, ends, limit), **after_loss, **kept}
        new = {tp: offset for tp, offset in starts.items() if tp in end and tp not in whole}
        if new or any(offset > begin.get(tp, 0) for tp, offset in after_loss.items()):
            # When Spark repeats the batch, the first offset of a new partition may have changed. And after a loss, offsets before the new
            # position belong to another log than the one that was read.
            return with_start(to_json(end), to_json({**whole, **new, **after_loss}))
        if start == self._initial:
            return with_start(to_json(end), start)
        return start if end == whole else to_json(end)

    def reportLatestOffset(self) -> StreamOffset | None:
        """Return the newest offsets seen, or None before the first, for the query's progress."""
        return self._newest

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        """Return the offset ranges of the tasks. New partitions are read from their beginning. Raises DataLossError."""
        self._check_resolved(start_of(start, end))
        begin, until = from_json(start_of(start, end)), from_json(end)
        self._options.on_loss.report(self._replay_without_start(start, end) or backwards(begin, until), logger)
        return list(plan(*self._between(begin, until), self._options.splitting))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task. Runs in the task."""
        assert isinstance(partition, TaskSpans)
        return read(partition, self._schema, self._options)

    def stop(self) -> None:
        """Close the driver's connections. Spark calls this at the end of the query."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    # Requests to Kafka

    def _kafka(self) -> Cluster:
        if self._cluster is None:
            self._cluster = self._connect(self._options.client)
        return self._cluster

    def _resolve_initial(self) -> Offsets:
        view = self._kafka().view(self._options.selection).checked(self._options.selection)
        self._ids.learn(view.topic_ids)
        found = resolve(self._options.starting, view.partitions, self._kafka(), self._options.starting_option)
        if self._target is not None and moves_with_time(self._options.starting):
            # Records that were written after the target was fetched are for the next run.
            return {tp: min(offset, self._target.get(tp, offset)) for tp, offset in found.items()}
        return found

    def _check_resolved(self, start: StreamOffset) -> None:
        if start == UNRESOLVED and self._why_unresolved is not None:
            raise self._why_unresolved

    def _look(self, begin: Offsets) -> tuple[Offsets, Losses]:
        """Return the end offset of each log, and the losses since the query has reached `begin`.

        A broker with old metadata may cause a false loss. So a loss is reported only if it remains after the retries.
        """
        left = self._options.fetch_offset_retries
        while True:
            try:
                view = self._kafka().view(self._options.selection)
                latest = self._kafka().latest(view.partitions)
            except UnknownTopicOrPartitionError:
                # The topic was deleted between the two requests.
                if not left:
                    raise
            else:
                remade, same = self._ids.compare(view.topic_ids, {tp.topic for tp in begin})
                lost = losses(begin, latest, remade_topics=remade, same_topics=same)
                if not (lost and left):
                    self._report_missing([name for name in view.missing(self._options.selection) if name not in {tp.topic for tp in begin}])
                    self._ids.learn(view.topic_ids)
                    return latest, lost
            left -= 1
            time.sleep(self._options.fetch_offset_interval_s)

    def _report_missing(self, topics: Sequence[str]) -> None:
        """Report topics that the options name, that do not exist, and that the query has never read.

        If the query fails on a loss, raise UnknownTopicOrPartitionError. Otherwise log a warning for each, but only at the first look.
        The name is probably wrong, or the topic was deleted long ago.
        """
        if topics and self._options.on_loss is OnLoss.FAIL:
            raise UnknownTopicOrPartitionError(missing_topic(topics[0]))
        if not self._has_looked:
            for topic in topics:
                logger.warning("%s", missing_topic(topic))

    def _readable_target(self, target: Offsets, begin: Offsets, latest: Offsets) -> Offsets:
        """Return the end offsets for AvailableNow: the target, limited to the current ends of the logs.

        A target beyond the end of its log is reported as a loss. If the options let a query begin after the target, the query reads nothing
        from this partition. Partitions of `begin` that did not exist when the target was fetched keep their position, so that the
        checkpoint does not lose it.
        """
        lost = losses(target, latest, remade_topics=(), same_topics={tp.topic for tp in target})
        self._options.on_loss.report(findings(lost, target, latest), logger)
        readable = {tp: min(max(offset, begin.get(tp, offset)), latest[tp]) for tp, offset in target.items() if tp in latest}
        returned = {tp: offset for tp, offset in begin.items() if tp in latest and tp not in target}
        return readable | returned

    # Decisions

    def _positions_after_loss(self, lost: Losses, latest: Offsets) -> Offsets:
        """Return the offsets at which reading continues after a loss, by partition.

        The current micro-batch reads nothing from these partitions. The next micro-batch begins at these offsets.
        """
        onward = {tp: latest[tp] for tp in (*lost.shorter, *lost.remade)}
        if lost.remade and self._options.on_loss is not OnLoss.SKIP:
            onward.update(self._kafka().earliest(lost.remade))
        return onward

    def _ends_of_returned(self, lost: Losses, begin: Offsets, latest: Offsets) -> Offsets:
        """Return the end offsets of partitions that were missing and exist again. Empty unless onDataLoss=skip skips their new logs.

        Also remember the partitions that are missing now.
        """
        returned = (self._gone & latest.keys()) - begin.keys()
        self._gone = (self._gone | set(lost.gone)) - returned
        return {tp: latest[tp] for tp in returned} if self._options.on_loss is OnLoss.SKIP else {}

    def _limited(self, begin: Offsets, starts: Offsets, ends: Offsets, limit: ReadLimit) -> Offsets:
        """Return the end offsets of the next micro-batch, by partition.

        begin: the positions that the query has reached. starts: `begin`, and the start offsets of new partitions. ends: the newest
        offsets. limit: anything but ReadMaxRows means that the batch ends at `ends`. While minOffsetsPerTrigger is not reached, the result
        is `begin`, so that the batch is empty.
        """
        if not isinstance(limit, ReadMaxRows):
            return ends
        if self._waits_for_more(starts, ends):
            return {tp: offset for tp, offset in begin.items() if tp in ends}
        self._triggered_at = time.monotonic()
        return limit_rows(starts, ends, self._options.max_offsets_per_trigger or NO_LIMIT)

    def _waits_for_more(self, starts: Offsets, newest: Offsets) -> bool:
        """Whether fewer than minOffsetsPerTrigger offsets are unread and maxTriggerDelay has not passed. AvailableNow never waits."""
        least = self._options.min_offsets_per_trigger
        if least is None or self._target is not None or backlog(starts, newest) >= least:
            return False
        return time.monotonic() - self._triggered_at < self._options.max_trigger_delay_s

    def _between(self, begin: Offsets, until: Offsets) -> tuple[Offsets, Offsets]:
        """Return the start and end offsets for planning. A partition of `until` that is not in `begin` is read from its beginning.

        Reports a loss if such a partition has lost its first records, or does not exist any more; in the latter case it is left out.
        """
        new = until.keys() - begin.keys()
        if not new:
            return begin, until
        earliest = self._earliest_of_new(new)
        lost = [f"{tp} was to be read up to offset {until[tp]} and does not exist any more" for tp in sorted(new - earliest.keys())]
        self._options.on_loss.report(lost_beginnings(earliest) + lost, logger)
        starts = {**begin, **earliest}
        return starts, {tp: offset for tp, offset in until.items() if tp in starts}

    def _earliest_of_new(self, new: Set[TopicPartition]) -> Offsets:
        """Return the first offsets of these logs. Partitions that do not exist are left out.

        A batch that is replayed may contain a topic that was deleted after the first attempt.
        """
        for left in range(self._options.fetch_offset_retries, -1, -1):
            try:
                return self._kafka().earliest(new)
            except UnknownTopicOrPartitionError:
                if left:
                    time.sleep(self._options.fetch_offset_interval_s)
        return self._kafka().earliest(new & self._kafka().view(self._options.selection).partitions)

    def _replay_without_start(self, start: StreamOffset, end: StreamOffset) -> list[str]:
        """Return a warning if this source replays a batch 0 that it has not planned itself, and does not know its start; otherwise [].

        A start that moves with time, such as "latest", was known only to the source that planned the batch.
        """
        is_first = not self._has_looked and START not in end and start == self._initial
        if not is_first or not moves_with_time(self._options.starting):
            return []
        return ["the first micro-batch was planned by another source, whose start is not known; records written before now are not read"]
