"""scan(): read a bounded piece of topics, and end by itself.

What is read is settled once, before the first record: per partition a start and an end offset, the end exclusive. A topic that is being
written to does not keep a scan running, and reading the same scan again reads the same records. A partition is done when its position has
reached the end, not when a certain record came: that record may have been compacted away.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from levada.config import ConsumerConfig
from levada.consumer.core import ConsumerCore
from levada.consumer.subscription_state import OffsetSpec
from levada.errors import (
    ConfigError,
    DataLossError,
    KafkaError,
    LogTruncationError,
    OffsetOutOfRangeError,
    TimeoutError,
    TopicRecreatedError,
)
from levada.face.arguments import column_names
from levada.sync.dropped import start
from levada.sync.reader import Reader, decoder
from levada.sync.scan_range import Bound, Range, Ranges, resolve
from levada.types import AnyRecord, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

log = logging.getLogger(__name__)

SLICE_S = 1.0
"""How long one wait lasts, before looking whether anything still moves."""
RECORDS_AT_ONCE = 5_000
PARTITION_FETCH_BYTES = 8 << 20


class Loss(NamedTuple):
    """Records that a scan with on_data_loss="skip" passed over because they are gone: [asked_offset, next_offset).

    After a truncation next_offset may be the smaller one: the records from there on that had come out are gone, and those that are there
    instead come out as well.
    """

    partition: TopicPartition
    asked_offset: int
    next_offset: int


class Scan:
    """A bounded read, made by scan(). Each iteration reads it from the start over connections of its own.

    losses: what the last iteration had to skip.
    """

    def __init__(
        self,
        ranges: Ranges,
        config: ConsumerConfig,
        columns: Sequence[str] | None,
        rows: int,
        size: int,
        *,
        text: Sequence[str] = (),
        skips: bool,
    ) -> None:
        self.losses: list[Loss] = []
        self._wanted = ranges
        self._config = config
        self._columns = None if columns is None else column_names(columns)
        self._text = column_names(text)
        self._rows = rows
        self._size = size
        self._skips = skips
        self._ranges: Mapping[TopicPartition, Range] | None = None

    def __iter__(self) -> Iterator[AnyRecord]:
        """Yield the records, in order within each partition."""
        with closing(_Reading(self)) as reading:
            for records in reading.until_done(lambda: reading.reader.records(SLICE_S, RECORDS_AT_ONCE)):
                yield from records

    def arrow(self) -> Iterator[pa.RecordBatch]:
        """Yield the records as columns, as many per Arrow batch as batch_rows and batch_bytes allow."""
        sink = decoder(self._columns, self._text, self._config)

        def is_full() -> bool:
            return bool(sink.rows >= self._rows or sink.nbytes >= self._size)

        with closing(_Reading(self)) as reading:
            try:
                for _ in reading.until_done(lambda: reading.reader.columns(SLICE_S, sink, self._rows - sink.rows, is_full)):
                    if is_full():
                        yield sink.finish()
            except KafkaError:
                # What came before the error is out before it.
                if sink.rows:
                    yield sink.finish()
                raise
            if sink.rows:
                yield sink.finish()

    def to_table(self) -> pa.Table:
        """Return all records as one table."""
        empty = decoder(self._columns, self._text, self._config).schema.empty_table()
        return type(empty).from_batches(self.arrow(), empty.schema)

    def settle(self, reader: Reader) -> Mapping[TopicPartition, Range]:
        """Return what is to be read of each partition, found out the first time."""
        if self._ranges is None:
            self._ranges = resolve(self._wanted, reader, skips=self._skips)
        return self._ranges

    @property
    def config(self) -> ConsumerConfig:
        """The settings of its connections."""
        return self._config

    @property
    def skips(self) -> bool:
        """Whether lost records are passed over."""
        return self._skips


def scan(
    topics: str | Iterable[str] | None = None,
    config: Mapping[str, Any] | None = None,
    /,
    *,
    start: Bound | Mapping[Any, Bound] = "earliest",
    end: Bound | Mapping[Any, Bound] = "latest",
    assignments: Mapping[TopicPartition, tuple[Bound, Bound]] | None = None,
    columns: Sequence[str] | None = None,
    text: Sequence[str] = (),
    batch_rows: int = 65_536,
    batch_bytes: int = 16 << 20,
    on_data_loss: str = "raise",
    **settings: Any,
) -> Scan:
    """Read a piece of topics that has an end.

    Iterate the result for records, its arrow() for pyarrow.RecordBatch, or take its to_table(). start and end: "earliest", "latest", an
    aware datetime (the first record at or after it), or a mapping from partition (a TopicPartition, or a number where there is one topic)
    to one of these or to an offset; partitions a mapping leaves out are read from "earliest", to "latest". end is exclusive and found out
    once, when reading begins. assignments names exactly the partitions to read, with start and end each, instead of topics.

    columns, text: as poll_arrow() has them. batch_rows, batch_bytes: when an Arrow batch is full. on_data_loss: "raise" raises
    DataLossError when records between start and end are gone, "skip" goes on behind them and notes it in Scan.losses. Where a new leader
    replaced records (KIP-320), it goes on with the first that differs, so offsets may come twice, as far as the new log goes; where that
    cannot be told, and in a topic that was created again, the rest of the range counts as gone. Other settings are the consumer's;
    max.partition.fetch.bytes is 8 MiB unless given. TimeoutError is raised when nothing moves for default.api.timeout.ms.
    """
    if on_data_loss not in ("raise", "skip"):
        raise ConfigError(f"on_data_loss must be 'raise' or 'skip', got {on_data_loss!r}")
    if (topics is None) == (assignments is None):
        raise ConfigError("give either topics or assignments")
    ranges = Ranges.of_assignments(assignments) if assignments is not None else Ranges.of_topics(topics or (), start, end)
    return Scan(ranges, _config(config, settings), columns, batch_rows, batch_bytes, text=text, skips=on_data_loss == "skip")


def _config(config: Mapping[str, Any] | None, settings: Mapping[str, Any]) -> ConsumerConfig:
    given = ConsumerConfig.parse(config, **settings).given
    if "auto.offset.reset" in given:
        raise ConfigError("'auto.offset.reset' does not apply to a scan; see start and on_data_loss")
    own = {"allow.auto.create.topics": False, "max.partition.fetch.bytes": PARTITION_FETCH_BYTES, "auto.offset.reset": "none"}
    return ConsumerConfig.parse({**(config or {}), **{key: value for key, value in own.items() if key not in given}}, **settings)


class _Reading:
    """One iteration of a scan."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self.reader = Reader(scan.config, "scan", on_reset=lambda reset: None)
        start(self, self.reader.driver)
        scan.losses = []

    def close(self) -> None:
        """Close the connections."""
        self.reader.close(None)

    def until_done(self, read: Callable[[], T]) -> Iterator[T]:
        """Yield what `read` returns, unless it is nothing, until every partition is read to its end."""
        ranges = {tp: (start, end) for tp, (start, end) in self._scan.settle(self.reader).items() if start < end}
        self.reader.change(lambda core, now_ms: core.assign_ranges(ranges, now_ms))
        moved_ms = self.reader.driver.now_ms()
        while not self._is_done():
            try:
                found = read()
            except OffsetOutOfRangeError as gone:
                self._lost(gone)
                continue
            now_ms = self.reader.driver.now_ms()
            if found or self.reader.core.has_moved:
                moved_ms = now_ms
            elif now_ms - moved_ms >= self._scan.config.default_api_timeout_ms:
                raise self._stuck()
            if found:
                yield found
                moved_ms = self.reader.driver.now_ms()

    def _is_done(self) -> bool:
        return self.reader.look(lambda core: all(state.finished for state in core.subscription))

    def _lost(self, gone: OffsetOutOfRangeError) -> None:
        """Records are gone: say so, or go on at what is left of the range."""
        tp, asked = gone.partition, gone.offset
        if tp is None or asked is None:
            raise gone
        stop = self.reader.look(lambda core: core.subscription.state(tp).stop_offset) or asked
        if self._scan.skips and isinstance(gone, LogTruncationError) and gone.divergent_offset is not None:
            self._read_replaced(tp, asked, gone.divergent_offset, stop, gone.reason)
            return
        log_start = self._offset(tp, OffsetSpec.EARLIEST)
        is_other = isinstance(gone, LogTruncationError | TopicRecreatedError)
        is_behind = is_other or log_start <= asked
        why = gone.reason if is_other else "the log ends before that" if is_behind else f"the log now starts at {log_start}"
        onward = stop if is_behind else min(log_start, stop)
        if not self._scan.skips:
            raise DataLossError(f"{tp}: records [{asked}, {onward}) are gone: asked for offset {asked}, {why}") from gone
        self._skip(Loss(tp, asked, onward), why)
        self._go_on(tp, onward, stop)

    def _read_replaced(self, tp: TopicPartition, asked: int, divergent: int, stop: int, why: str) -> None:
        """Go on with the records that stand where others were read, up to the end of the new log if that comes first."""
        start, _ = self._scan.settle(self.reader)[tp]
        end = min(self._offset(tp, OffsetSpec.LATEST), stop)
        onward = min(max(start, divergent), end)
        self._skip(Loss(tp, asked, onward), why)
        if end < stop:
            self._skip(Loss(tp, end, stop), "the log ends before that")
        self._go_on(tp, onward, end)

    def _skip(self, loss: Loss, why: str) -> None:
        log.warning("%s: asked for offset %d, going on at %d: %s", *loss, why)
        self._scan.losses.append(loss)

    def _go_on(self, tp: TopicPartition, offset: int, stop: int) -> None:
        def change(core: ConsumerCore, _: int) -> None:
            core.seek(tp, offset)
            core.subscription.state(tp).stop_offset = stop

        self.reader.change(change)

    def _offset(self, tp: TopicPartition, end: OffsetSpec) -> int:
        found = self.reader.run(lambda core, now_ms: core.find_offsets({tp: int(end)}, now_ms), None, "the ends of a log")
        at = found[tp]
        return 0 if at is None else at.offset

    def _stuck(self) -> KafkaError:
        seconds = self._scan.config.default_api_timeout_ms / 1000

        def describe(core: ConsumerCore) -> list[str]:
            left = [state for state in core.subscription if not state.finished]
            return [f"  {state.tp}: at offset {state.position} of {state.stop_offset}; readable up to {core.end(state)}" for state in left]

        lines = self.reader.look(describe)
        return TimeoutError("\n".join([f"no partition moved for {seconds:.1f} s", *lines]))
