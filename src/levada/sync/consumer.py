"""KafkaConsumer: records and columns from partitions the program chooses."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from levada.consumer.position_resetter import PositionReset
from levada.consumer.subscription_state import OffsetSpec
from levada.errors import ClosedError, ConcurrentUseError, IllegalStateError
from levada.face.arguments import column_names, topic_name, topic_partition, topic_partitions, whole
from levada.face.process import HoldsConnections
from levada.face.times import epoch_ms
from levada.not_yet import CONSUMER, lacks
from levada.sync.dropped import start
from levada.sync.reader import Reader, decoder, settings_of
from levada.types import AnyRecord, ConsumerRecords, OffsetAndTimestamp, PartitionInfo, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

ITERATION_POLL_S = 60.0
ARROW_BYTES = 16 << 20
CLOSE_TIMEOUT_S = 30.0

Offsets: TypeAlias = dict[TopicPartition, OffsetAndTimestamp | None]


@lacks(CONSUMER)
class KafkaConsumer(HoldsConnections):
    """Reads records from assigned partitions.

    Settings are Kafka's, dotted in a mapping or with underscores as keywords; see docs/CONFIGURATION.md. One thread at a time may use a
    consumer (ConcurrentUseError otherwise); wakeup() alone may be called from any. Timeouts are in seconds; those of calls that ask the
    brokers default to default.api.timeout.ms. Every method but close() raises ClosedError after close(), ForkedError in a child process.

    on_reset: called on the client's own thread with a PositionReset when a position could not be kept and auto.offset.reset moved it.
    """

    def __init__(
        self, config: Mapping[str, Any] | None = None, /, *, on_reset: Callable[[PositionReset], None] | None = None, **settings: Any
    ) -> None:
        self._config = settings_of(config, settings)
        self._reader = Reader(self._config, "consumer", on_reset=partial(_report_reset, on_reset))
        self._sole = _SoleThread()
        self._decoders: dict[tuple[tuple[str, ...] | None, tuple[str, ...]], Any] = {}
        start(self, self._reader.driver)

    # What is read

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions. Those that stay keep their positions; others begin by auto.offset.reset, unless seek() says."""
        wanted = topic_partitions(partitions)
        with self._sole:
            self._reader.change(lambda core, now_ms: core.assign(wanted, now_ms))

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions now assigned."""
        with self._sole:
            return set(self._reader.look(lambda core: core.subscription.assignment))

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Go on at this offset. Raises IllegalStateError when the partition is not assigned, ValueError for a negative offset."""
        place = topic_partition(tp), whole("offset", offset)
        with self._sole:
            self._reader.change(lambda core, _: core.seek(*place))

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Go on at the start of the log, looked up when needed; without partitions, of all assigned ones."""
        self._seek_to(partitions, OffsetSpec.EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Go on at the end of the log (with read_committed: of the decided part), looked up when needed."""
        self._seek_to(partitions, OffsetSpec.LATEST)

    def _seek_to(self, partitions: Iterable[TopicPartition], to: OffsetSpec) -> None:
        wanted = topic_partitions(partitions)
        with self._sole:
            self._reader.change(lambda core, _: core.seek_to(wanted, to))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these partitions until resume(); positions and what is fetched already stay."""
        wanted = topic_partitions(partitions)
        with self._sole:
            self._reader.change(lambda core, _: core.subscription.pause(wanted))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on where pause() stopped."""
        wanted = topic_partitions(partitions)
        with self._sole:
            self._reader.change(lambda core, now_ms: core.subscription.resume(wanted, now_ms))

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        with self._sole:
            return set(self._reader.look(lambda core: core.subscription.paused))

    # Reading

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> ConsumerRecords[Any, Any]:
        """Return the next records, waiting up to `timeout` seconds for the first (None: for ever).

        max_records: over all partitions, default max.poll.records. Empty when the time is over, or when a position moved past records
        nobody may see, such as aborted ones. Trouble that keeps records away is raised: a topic that does not exist, brokers that cannot be
        reached, nothing heard of a partition for default.api.timeout.ms. Damaged data (CorruptRecordError) and records that do not
        deserialize (RecordDeserializationError) are raised once the records before them are out, and again until seek() moves past them.
        So are, with auto.offset.reset=none, positions that do not hold: OffsetOutOfRangeError, LogTruncationError, TopicRecreatedError.
        """
        with self._sole:
            self._check_assigned()
            limit = self._config.max_poll_records if max_records is None else _positive("max_records", max_records)
            return ConsumerRecords(self._reader.records(timeout, limit))

    def poll_arrow(
        self,
        timeout: float | None = 1.0,
        max_records: int | None = None,
        max_bytes: int | None = None,
        columns: Sequence[str] | None = None,
        text: Sequence[str] = (),
    ) -> pa.RecordBatch:
        """Return the next records as columns, as poll() does; with no rows when there are none. Deserializers are not applied.

        columns: of key, value, topic, partition, offset, timestamp (the default), timestamp_type, headers, leader_epoch. text: which of key
        and value are UTF-8 and wanted as strings; a record that is not raises RecordDeserializationError, once those before it are out.
        max_bytes: stop adding record batches once the columns take this much; default 16 MiB.
        """
        with self._sole:
            self._check_assigned()
            limit = None if max_records is None else _positive("max_records", max_records)
            sink = self._decoder(columns, text)
            most = ARROW_BYTES if max_bytes is None else _positive("max_bytes", max_bytes)
            self._reader.columns(timeout, sink, limit, lambda: sink.nbytes >= most)
            return sink.finish()

    def __iter__(self) -> Iterator[AnyRecord]:
        """Yield record after record, for ever. A loop that is left goes on, next time, after the last record it was given."""
        subscription = self._reader.core.subscription
        while True:
            batch = self.poll(ITERATION_POLL_S)
            changes, generations = subscription.changes, self._reader.look(lambda core: core.subscription.generations)
            given = 0
            try:
                for record in batch:
                    given += 1
                    yield record
                    if subscription.changes != changes:
                        break
            finally:
                if given < len(batch):
                    self._take_back(batch[given:], generations)

    def _take_back(self, records: list[AnyRecord], generations: Mapping[TopicPartition, int]) -> None:
        with suppress(ClosedError), self._sole:
            self._reader.change(lambda core, _: core.rewind(records, generations))

    def wakeup(self) -> None:
        """End the running call that waits, or the next one, with WakeupError. Any thread and any signal handler may call it."""
        self._reader.wakeup()

    # Positions and offsets

    def position(self, tp: TopicPartition, *, timeout: float | None = None) -> int:
        """Return the offset of the next record poll() will return, looking it up where auto.offset.reset has to say."""
        wanted = topic_partition(tp)
        with self._sole:
            return self._reader.run(lambda core, now_ms: core.position(wanted, now_ms), timeout, f"position of {wanted}")

    def current_lag(self, tp: TopicPartition) -> int | None:
        """Return how many offsets the position is behind the end known from the last fetch; None before one. Asks nobody."""
        wanted = topic_partition(tp)
        with self._sole:
            return self._reader.look(lambda core: core.lag(wanted))

    def beginning_offsets(self, partitions: Iterable[TopicPartition], *, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Return the first offset of each partition's log."""
        return self._ends(partitions, OffsetSpec.EARLIEST, timeout, "beginning offsets")

    def end_offsets(self, partitions: Iterable[TopicPartition], *, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Return the offset after the last readable record: the high watermark, with read_committed the last stable offset."""
        return self._ends(partitions, OffsetSpec.LATEST, timeout, "end offsets")

    def _ends(self, partitions: Iterable[TopicPartition], spec: OffsetSpec, timeout: float | None, what: str) -> dict[TopicPartition, int]:
        found = self._find(dict.fromkeys(topic_partitions(partitions), int(spec)), timeout, what)
        return {tp: 0 if at is None else at.offset for tp, at in found.items()}

    def offsets_for_times(self, times: Mapping[TopicPartition, datetime | int], *, timeout: float | None = None) -> Offsets:
        """Find the earliest offset whose timestamp is at or after a time, per partition (ListOffsets, KIP-79).

        times: an aware datetime, or milliseconds since the epoch. A partition without such a record maps to None. Raises ValueError for a
        negative time or a naive datetime, TimeoutError, UnknownTopicOrPartitionError.
        """
        return self._find({topic_partition(tp): epoch_ms(time) for tp, time in times.items()}, timeout, "offsets for times")

    def _find(self, wanted: Mapping[TopicPartition, int], timeout: float | None, what: str) -> Offsets:
        with self._sole:
            return self._reader.run(lambda core, now_ms: core.find_offsets(wanted, now_ms), timeout, what)

    # Topics

    def partitions_for(self, topic: str, *, timeout: float | None = None) -> list[PartitionInfo]:
        """Describe a topic's partitions. Raises UnknownTopicOrPartitionError when it does not exist and is not created by asking."""
        topic_name(topic)
        may_create = self._config.allow_auto_create_topics
        with self._sole:
            return self._reader.run(lambda core, _: core.partitions_for(topic, may_create=may_create), timeout, f"partitions of '{topic}'")

    def list_topics(self, *, timeout: float | None = None) -> dict[str, list[PartitionInfo]]:
        """Describe every topic this user may see."""
        with self._sole:
            return self._reader.run(lambda core, _: core.list_topics(), timeout, "list topics")

    # Its end

    def close(self, timeout: float | None = None) -> None:
        """Stop reading and close the connections; idempotent. timeout: seconds, default 30."""
        with self._sole:
            self._reader.close(CLOSE_TIMEOUT_S if timeout is None else timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _check_assigned(self) -> None:
        self._reader.driver.check_usable()
        if not len(self._reader.core.subscription):
            raise IllegalStateError("nothing is assigned; assign() partitions before poll()")

    def _decoder(self, columns: Sequence[str] | None, text: Sequence[str]) -> Any:
        # Used again, so that rows a Ctrl-C kept from one call come with the next.
        key = (None if columns is None else column_names(columns), column_names(text))
        if key not in self._decoders:
            self._decoders[key] = decoder(*key, self._config)
        return self._decoders[key]


def _report_reset(on_reset: Callable[[PositionReset], None] | None, reset: PositionReset) -> None:
    log.warning("%s at offset %d: %s; going on at %d", reset.partition, reset.asked_offset, reset.reason, reset.offset)
    if on_reset is not None:
        on_reset(reset)


def _positive(name: str, number: int) -> int:
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}")
    return number


class _SoleThread:
    """Lets one thread in at a time, and says so to a second one instead of letting it wait (F1)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._depth = 0

    def __enter__(self) -> None:
        me = threading.get_ident()
        if self._owner != me and not self._lock.acquire(blocking=False):
            raise ConcurrentUseError(
                f"another thread ({self._owner}) is using this consumer; one thread at a time may, wakeup() alone is for others"
            )
        self._owner = me
        self._depth += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = 0
            self._lock.release()
