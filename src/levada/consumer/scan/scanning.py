"""Reads bounded ranges of topics: which records are read, when reading ends, and what happens if records are lost.

The ranges are resolved once, before the first record: a start and an end offset per partition, without the end. So a scan of a topic that
is being written to ends, and reading the same plan again reads the same records. A partition is done when its position has reached the end,
not when a certain record was read: compaction may have removed that record.

These are flows in the caller's context, built on those of `consumer_flows`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from levada.base.flow import CallerFlow
from levada.client.driver_interface import DeferredLog, Host
from levada.client.engine import Engine
from levada.consumer.consumer_flows import ConsumerFlows
from levada.consumer.core import ConsumerCore
from levada.consumer.fetch.columns_ahead import BatchSink
from levada.consumer.positions.subscription_state import PartitionState
from levada.consumer.scan.bounds import Moment, Time, moment
from levada.consumer.scan.ranges import Range, Ranges, resolve
from levada.errors import DataLossError, KafkaError, LogTruncationError, OffsetOutOfRangeError, TimeoutError, TopicRecreatedError
from levada.types import AnyRecord, OffsetSpec, TopicPartition


class RecordFilter(NamedTuple):
    """Selects the records that a scan returns, by key and by timestamp. It is applied before records are deserialized.

    keys: the serialized keys to return, with None for a null key; None instead of a set returns all keys. first: the earliest time to
    return. end: the time from which on records are not returned.
    """

    keys: frozenset[bytes | None] | None = None
    first: Time | None = None
    end: Time | None = None

    def as_of(self, wall_ms: int) -> RecordFilter:
        """Return the same filter, with times relative to now turned into points in time. wall_ms: now, in ms since the epoch."""
        first, end = (None if time is None else moment(time, wall_ms) for time in (self.first, self.end))
        return self._replace(first=first, end=end)

    @property
    def span_ms(self) -> tuple[int | None, int | None]:
        """The times `first` and `end` in milliseconds since the epoch; None for no limit. Only for a filter that as_of() has returned."""
        assert not any(time is not None and not isinstance(time, Moment) for time in (self.first, self.end))
        return self.first and self.first.ms, self.end and self.end.ms

    def keeps(self, record: AnyRecord) -> bool:
        """Return whether the scan returns a record. The record is not deserialized yet."""
        first_ms, end_ms = self.span_ms
        if first_ms is not None and record.timestamp < first_ms:
            return False
        if end_ms is not None and record.timestamp >= end_ms:
            return False
        return self.keys is None or record.key in self.keys


T = TypeVar("T")

SLICE_MS = 1_000
"""How long one wait lasts, before checking whether positions still move."""
RECORDS_AT_ONCE = 5_000


class Loss(NamedTuple):
    """The lost records that a scan with on_data_loss="skip" has skipped: from asked_offset to before next_offset.

    After log truncation next_offset may be less than asked_offset. Records from next_offset on were returned before they were lost, and the
    records that replace them are returned as well.
    """

    partition: TopicPartition
    asked_offset: int
    next_offset: int


class ScanProgress(NamedTuple):
    """The progress of a scan.

    records: the number of returned records. offsets: how many offsets were read, including hidden and filtered records. of: the number of
    all offsets to read. partitions: how many partitions were read to their ends. of_partitions: the number of all partitions.
    """

    records: int
    offsets: int
    of: int
    partitions: int
    of_partitions: int


class ScanPlan:
    """The plan of a scan, which may be carried out several times: the ranges, the filter, and whether lost records are skipped.

    losses: the records that the last run has skipped.
    """

    def __init__(self, wanted: Ranges, kept: RecordFilter | None = None, *, skips: bool) -> None:
        self.skips = skips
        self.losses: list[Loss] = []
        self._wanted = wanted
        self._kept = kept
        self._wall_ms: int | None = None
        """The time that counts as now, set at the first use."""
        self._ranges: Mapping[TopicPartition, Range] | None = None

    def kept(self, wall_ms: int) -> RecordFilter | None:
        """Return the filter; None without one. wall_ms: the time that counts as now. The first call sets it for all later ones."""
        self._wall_ms = self._wall_ms or wall_ms
        return None if self._kept is None else self._kept.as_of(self._wall_ms)

    def settle(self, reading: ConsumerFlows, log: DeferredLog) -> CallerFlow[Mapping[TopicPartition, Range]]:
        """Return the range of each partition. The first call looks it up."""
        if self._ranges is None:
            kept = self.kept(reading.wall_ms())
            assert self._wall_ms is not None
            oldest = None if kept is None else kept.span_ms[0]
            self._ranges = yield from resolve(self._wanted, reading, log, skips=self.skips, wall_ms=self._wall_ms, not_before_ms=oldest)
        return self._ranges


class Scanning:
    """One run of a plan, from the start of its ranges. Call records() or batch() until it returns None."""

    def __init__(self, plan: ScanPlan, reading: ConsumerFlows, engine: Engine, host: Host) -> None:
        self._plan = plan
        self._reading = reading
        self._log = engine.deferred.log(__name__)
        self._host = host
        self._ranges: Mapping[TopicPartition, Range] | None = None
        self._moved_ms = 0
        self._error: KafkaError | None = None

    def records(self) -> CallerFlow[list[AnyRecord] | None]:
        """Return the next records, in order within each partition; None when every partition is read to its end.

        Raises TimeoutError if no position moves for default.api.timeout.ms, and DataLossError for lost records that are not skipped.
        """
        return (yield from self._next_some(self._read_records))

    def batch(self, sink: BatchSink, most_rows: int, most_bytes: int) -> CallerFlow[Any]:
        """Return the next Arrow batch, as full as possible; None at the end. Raises as records() does, after returning the rows before the
        error.
        """
        if self._error is not None:
            raise self._error

        def is_full() -> bool:
            return sink.rows >= most_rows or sink.nbytes >= most_bytes

        def read() -> CallerFlow[bool]:
            return self._reading.columns(
                self._host.now_ms() + SLICE_MS, sink, most_rows - sink.rows, most_bytes, partial(_has_more, sink, sink.rows)
            )

        try:
            while not is_full() and (yield from self._next_some(read)):
                pass
        except KafkaError as error:
            if not sink.rows:
                raise
            self._error = error
        return sink.finish() if sink.rows else None

    def settle(self) -> CallerFlow[Mapping[TopicPartition, Range]]:
        """Return the range of each partition."""
        return self._plan.settle(self._reading, self._log)

    def progress(self, records: int) -> ScanProgress:
        """Return the progress. records: how many records were returned to the program."""
        ranges = self._ranges or {}
        left = self._reading.look(lambda core: {state.tp: _left(state) for state in core.subscription})
        whole = sum(max(end - start, 0) for start, end in ranges.values())
        return ScanProgress(records, whole - sum(left.values()), whole, len(ranges) - sum(map(bool, left.values())), len(ranges))

    def _read_records(self) -> CallerFlow[list[AnyRecord]]:
        return self._reading.records(self._host.now_ms() + SLICE_MS, RECORDS_AT_ONCE)

    def _next_some(self, read: Callable[[], CallerFlow[T]]) -> CallerFlow[T | None]:
        """Call `read` until it returns records, and return its result; None when every partition is read to its end. Raises as records()
        does.
        """
        yield from self._begin()
        while not self._is_done():
            try:
                found = yield from read()
            except OffsetOutOfRangeError as gone:
                yield from self._lost(gone)
                continue
            now_ms = self._host.now_ms()
            if found or self._reading.core.has_moved:
                self._moved_ms = now_ms
            elif now_ms - self._moved_ms >= self._reading.default_api_timeout_ms:
                raise self._stuck()
            if found:
                return found
        return None

    def _begin(self) -> CallerFlow[None]:
        """Resolve the ranges and assign them, at the first call. Each call restarts the time after which the scan counts as stuck."""
        if self._ranges is None:
            self._plan.losses = []
            settled = yield from self.settle()
            ranges = {tp: (start, end) for tp, (start, end) in settled.items() if start < end}
            self._reading.change(lambda core, now_ms: core.assign_ranges(ranges, now_ms))
            self._ranges = settled
        self._moved_ms = self._host.now_ms()

    def _is_done(self) -> bool:
        return self._reading.look(lambda core: core.subscription.is_finished)

    # Lost records

    def _lost(self, gone: OffsetOutOfRangeError) -> CallerFlow[None]:
        """Raise DataLossError, or skip the lost records and continue with the rest of the range."""
        tp, asked = gone.partition, gone.offset
        if tp is None or asked is None:
            raise gone
        stop = self._reading.look(lambda core: core.subscription.state(tp).stop_offset) or asked
        if self._plan.skips and isinstance(gone, LogTruncationError) and gone.divergent_offset is not None:
            yield from self._read_replaced(tp, asked, gone.divergent_offset, stop, gone.reason)
            return
        log_start = yield from self._offset(tp, OffsetSpec.EARLIEST)
        is_other = isinstance(gone, LogTruncationError | TopicRecreatedError)
        is_behind = is_other or log_start <= asked
        why = gone.reason if is_other else "the log ends before that" if is_behind else f"the log now starts at {log_start}"
        onward = stop if is_behind else min(log_start, stop)
        if not self._plan.skips:
            raise DataLossError(f"{tp}: records [{asked}, {onward}) are gone: asked for offset {asked}, {why}") from gone
        self._skip(Loss(tp, asked, onward), why)
        self._go_on(tp, onward, stop)

    def _read_replaced(self, tp: TopicPartition, asked: int, divergent: int, stop: int, why: str) -> CallerFlow[None]:
        """After log truncation, continue where the new log differs from the old one, up to the end of the new log or of the range.

        asked: the offset that could not be read. divergent: the offset from which the logs differ. stop: the end of the range. why: the
        reason of the loss, for the report.
        """
        assert self._ranges is not None
        start, _ = self._ranges[tp]
        end = min((yield from self._offset(tp, OffsetSpec.LATEST)), stop)
        onward = min(max(start, divergent), end)
        self._skip(Loss(tp, asked, onward), why)
        if end < stop:
            self._skip(Loss(tp, end, stop), "the log ends before that")
        self._go_on(tp, onward, end)

    def _skip(self, loss: Loss, why: str) -> None:
        self._log.warning("%s: asked for offset %d, going on at %d: %s", *loss, why, tp=loss[0], offset=loss[1])
        self._plan.losses.append(loss)

    def _go_on(self, tp: TopicPartition, offset: int, stop: int) -> None:
        def change(core: ConsumerCore, _: int) -> None:
            core.seek(tp, offset)
            core.subscription.state(tp).stop_at(stop)

        self._reading.change(change)

    def _offset(self, tp: TopicPartition, end: OffsetSpec) -> CallerFlow[int]:
        found = yield from self._reading.run(lambda core, now_ms: core.find_offsets({tp: int(end)}, now_ms), None, "the ends of a log")
        at = found[tp]
        return 0 if at is None else at.offset

    def _stuck(self) -> KafkaError:
        seconds = self._reading.default_api_timeout_ms / 1000
        now_ms = self._host.now_ms()
        lines = self._reading.look(lambda core: core.describe_standstill(now_ms))
        return TimeoutError("\n".join([f"no partition moved for {seconds:.1f} s", *lines]))


def _left(state: PartitionState) -> int:
    return 0 if state.stop_offset is None else max(state.stop_offset - state.position, 0)


def _has_more(sink: BatchSink, before: int) -> bool:
    return sink.rows > before
