"""KafkaConsumer: records and columns from partitions the program chooses."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from levada.client.group_offsets import Committed
from levada.config import ConsumerConfig
from levada.consumer.commits import OnCommit
from levada.consumer.subscription_state import OffsetSpec
from levada.errors import ConcurrentUseError, KafkaError
from levada.face.arguments import checked_timeout
from levada.face.consuming import CLOSE_TIMEOUT_S, ITERATION_POLL_S, Consuming, Offsets, OffsetsToCommit, OnReset
from levada.face.engines import Connector
from levada.face.process import HoldsConnections
from levada.face.signals import DeferredSignals
from levada.flow import CallerFlow
from levada.metrics import Metrics
from levada.not_yet import CONSUMER, lacks
from levada.sync.connect import connect
from levada.sync.driver import Driver
from levada.sync.dropped import start
from levada.types import ConsumerGroupMetadata, ConsumerRecord, ConsumerRecords, K, OffsetAndMetadata, PartitionInfo, TopicPartition, V

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow as pa

    from levada.config.typed import ConsumerSettings

T = TypeVar("T")


@lacks(CONSUMER)
class KafkaConsumer(HoldsConnections, Generic[K, V]):
    """Reads records from assigned partitions.

    Settings are Kafka's, dotted in a mapping or with underscores as keywords; see docs/CONFIGURATION.md. One thread at a time may use a
    consumer (ConcurrentUseError otherwise); wakeup() alone may be called from any. Timeouts are in seconds; those of calls that ask the
    brokers default to default.api.timeout.ms. Every method but close() raises ClosedError after close(), ForkedError in a child process.

    To type checkers its parameters are the types that the deserializers return, bytes without them: KafkaConsumer[str, Order] says what is
    read where the deserializers come in the mapping.

    on_reset: called on the client's own thread with a PositionReset when a position could not be kept and auto.offset.reset moved it.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        on_reset: OnReset | None = None,
        _connect: Connector[Driver] = connect,
        **settings: Unpack[ConsumerSettings[K, V]],
    ) -> None:
        parsed = ConsumerConfig.parse(config, **settings)
        self._engine, self._driver = _connect(parsed, "consumer", allow_auto_create_topics=parsed.allow_auto_create_topics)
        self._consuming = Consuming(parsed, self._engine, self._driver, random=self._engine.random, on_reset=on_reset)
        self._sole = _SoleThread(self._driver)
        start(self, self._driver)

    # What is read

    def assign(self, partitions: Iterable[TopicPartition | PartitionInfo], ends: Mapping[TopicPartition, int] | None = None) -> None:
        """Read exactly these partitions, such as partitions_for() returns.

        Those that stay keep their positions. Others begin where seek() says, else at what the group.id has committed, else by
        auto.offset.reset.
        ends: offsets to read up to, such as end_offsets() returns; nothing at or after them is fetched or handed out. When all partitions
        are read to their ends, poll() returns at once and a loop over the consumer ends. auto.offset.reset never moves the position of a
        partition with an end: where its records are gone, OffsetOutOfRangeError is raised.
        """
        with self._sole:
            self._consuming.assign(partitions, ends)

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions now assigned."""
        with self._sole:
            return self._consuming.assignment()

    def finished(self) -> set[TopicPartition]:
        """Return the partitions whose records up to the end given to assign() were all handed out."""
        with self._sole:
            return self._consuming.finished()

    def seek(self, tp: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on at this offset. Raises IllegalStateError when the partition is not assigned, ValueError for a negative offset.

        offset: of the next record to read, a number or an OffsetAndMetadata as committed() returns. With the leader epoch of the latter a
        log that was truncated since then is noticed (KIP-320).
        """
        with self._sole:
            self._consuming.seek(tp, offset)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Go on at the start of the log, looked up when needed; without partitions, of all assigned ones."""
        with self._sole:
            self._consuming.seek_to(partitions, OffsetSpec.EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Go on at the end of the log (with read_committed: of the decided part), looked up when needed."""
        with self._sole:
            self._consuming.seek_to(partitions, OffsetSpec.LATEST)

    def seek_to_committed(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Go on at the offsets that the group.id has committed, looked up when needed; without partitions, of all assigned ones.

        Where nothing is committed auto.offset.reset decides; with "none" the next poll() raises NoOffsetForPartitionError. Raises
        InvalidGroupIdError without a group.id. For programs that read again after an aborted transaction.
        """
        with self._sole:
            self._consuming.seek_to_committed(partitions)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these partitions until resume(); positions and what is fetched already stay."""
        with self._sole:
            self._consuming.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on where pause() stopped."""
        with self._sole:
            self._consuming.resume(partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        with self._sole:
            return self._consuming.paused()

    # Reading

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        """Return the next records, waiting up to `timeout` seconds for the first (None: without limit).

        max_records: over all partitions, default max.poll.records. Empty when the time is over, or when a position moved past records
        that are hidden, such as aborted ones. Empty too while brokers cannot be reached or do not answer; a warning
        says so once, with the cause. What time cannot mend is raised: a topic that does not exist or may not be read, an address at which
        something else than Kafka listens. Damaged data (CorruptRecordError) and records that do not deserialize
        (RecordDeserializationError) are raised once the records before them are out, and again until seek() moves past them.
        So are, with auto.offset.reset=none, positions that do not hold: OffsetOutOfRangeError, LogTruncationError, TopicRecreatedError.
        """
        return self._hand_out(self._consuming.poll(timeout, max_records))

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
        max_bytes: stop adding record batches once the columns take this much; default 16 MiB. With max_records, successive
        results may be slices of the same memory: to keep a few rows for a long time, copy them.
        """
        return self._hand_out(self._consuming.poll_arrow(timeout, max_records, max_bytes, columns, text))

    def _hand_out(self, poll: CallerFlow[T]) -> T:
        # Before all else: in a forked child nothing may wait for the lock.
        self._driver.check_usable()
        call = self._consuming.next_call
        try:
            # Nothing is called between the end of `with` and the caller's getting the result, so no signal handler runs there.
            with self._sole:
                return self._driver.call(poll)
        except ConcurrentUseError:
            raise
        except BaseException:
            with DeferredSignals():
                self._consuming.take_back(call)
            raise

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Yield record after record, until all partitions are read to the ends given to assign(), or without end.

        A loop that is left goes on, next time, after the last record it was given.
        """
        while True:
            iteration = self._consuming.iterate(self.poll(ITERATION_POLL_S))
            if not iteration.records and self._consuming.is_finished:
                return
            try:
                for record in iteration.records:
                    iteration.given += 1
                    yield record
                    if iteration.is_over:
                        break
            finally:
                if not iteration.is_over:
                    with self._sole:
                        self._consuming.end_iteration()

    def wakeup(self) -> None:
        """End the running call that waits, or the next one, with WakeupError. Any thread and any signal handler may call it."""
        self._consuming.wakeup()

    # Committing

    def commit(self, offsets: OffsetsToCommit | None = None, *, timeout: float | None = None) -> None:
        """Commit offsets for the group.id, and wait until the brokers have them.

        offsets: of the next record to read, by partition, as numbers or OffsetAndMetadata; default: the positions after everything that
        was handed out. Waits for commits made before, repeats what may yet succeed until `timeout`, in seconds. Raises InvalidGroupIdError
        without a group.id, BrokerError, TimeoutError (what was not confirmed may be committed all the same), WakeupError.
        """
        self._call(self._consuming.commit(offsets, timeout))

    def commit_async(self, offsets: OffsetsToCommit | None = None, callback: OnCommit | None = None) -> None:
        """Send a commit at once, once, and do not wait for it. offsets: as commit() has them.

        callback: called with the offsets and the error, None for none, in the order of the commits, inside a later poll(), commit() or
        close(). Without one a failure is logged. An error that is `retriable` (RetriableCommitError) may be met by committing again;
        nothing is repeated here, since that could overtake a newer commit. Raises InvalidGroupIdError without a group.id.
        """
        with self._sole:
            self._consuming.commit_async(offsets, callback)

    def committed(self, partitions: Iterable[TopicPartition | PartitionInfo], *, timeout: float | None = None) -> Committed:
        """Return what the group has committed for each of these partitions, None for nothing; transactions under way are waited for.

        Raises InvalidGroupIdError without a group.id, BrokerError, TimeoutError.
        """
        return self._call(self._consuming.committed(partitions, timeout))

    def consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions after everything that was handed out, as commit() would commit them; no broker is asked.

        With group_metadata() it is what send_offsets_to_transaction() of a producer takes.
        """
        with self._sole:
            return self._consuming.consumed_offsets()

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return on whose behalf offsets are committed (KIP-447). Raises InvalidGroupIdError without a group.id."""
        with self._sole:
            return self._consuming.group_metadata()

    # Positions and offsets

    def position(self, tp: TopicPartition, *, timeout: float | None = None) -> int:
        """Return the offset of the next record poll() will return, looking it up where auto.offset.reset has to say."""
        return self._call(self._consuming.position(tp, timeout))

    def metrics(self) -> Metrics:
        """Return what the consumer has counted so far, under the names of Java's metrics: see docs/METRICS.md. From any thread."""
        return self._consuming.metrics()

    def current_lag(self, tp: TopicPartition) -> int | None:
        """Return how many offsets the position is behind the end known from the last fetch; None before one. No broker is asked."""
        with self._sole:
            return self._consuming.current_lag(tp)

    def beginning_offsets(self, partitions: Iterable[TopicPartition], *, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Return the first offset of each partition's log."""
        return self._call(self._consuming.ends(partitions, OffsetSpec.EARLIEST, timeout))

    def end_offsets(self, partitions: Iterable[TopicPartition], *, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Return the offset after the last readable record: the high watermark, with read_committed the last stable offset."""
        return self._call(self._consuming.ends(partitions, OffsetSpec.LATEST, timeout))

    def offsets_for_times(self, times: Mapping[TopicPartition, datetime | int], *, timeout: float | None = None) -> Offsets:
        """Find the earliest offset whose timestamp is at or after a time, per partition (ListOffsets, KIP-79).

        times: an aware datetime, or milliseconds since the epoch. A partition without such a record maps to None. Raises ValueError for a
        negative time or a naive datetime, TimeoutError, UnknownTopicOrPartitionError.
        """
        return self._call(self._consuming.offsets_for_times(times, timeout))

    # Topics

    def partitions_for(self, topic: str, *, timeout: float | None = None) -> list[PartitionInfo]:
        """Describe a topic's partitions. Raises UnknownTopicOrPartitionError when it does not exist and is not created by asking."""
        return self._call(self._consuming.partitions_for(topic, timeout))

    def list_topics(self, *, timeout: float | None = None) -> dict[str, list[PartitionInfo]]:
        """Describe every topic this user may see."""
        return self._call(self._consuming.list_topics(timeout))

    def _call(self, flow: CallerFlow[T]) -> T:
        with self._sole:
            return self._driver.call(flow)

    # Its end

    def close(self, timeout: float | None = None) -> None:
        """Stop reading and close the connections, with enable.auto.commit after a last commit; idempotent. timeout: seconds, default 30.

        The end of a `with` block closes, too. When an exception leaves the block, the last commit leaves out the record that a loop over
        the consumer was given last, so that the group is given it again.
        """
        self._close(CLOSE_TIMEOUT_S if timeout is None else checked_timeout(timeout))

    def _close(self, limit_s: float, *, after_error: bool = False) -> None:
        try:
            self._driver.check_usable()
        except KafkaError:
            # Closed already, stopped by a bug, in a forked child, or in a finalizer that cannot wait: the fetch sessions are left.
            self._driver.close(limit_s)
            return
        with self._sole:
            try:
                self._driver.call(self._consuming.close(limit_s, after_error=after_error))
            except KafkaError:
                # The brokers cannot be told; they forget a fetch session by themselves.
                pass
            finally:
                self._driver.close(limit_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close(CLOSE_TIMEOUT_S, after_error=error is not None)


class _SoleThread:
    """Lets one thread in at a time, and says so to a second one instead of letting it wait (F1)."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lock = threading.RLock()
        self._owner = 0

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            # In a forked child it is held for ever, by a thread that did not come along.
            self._driver.check_usable()
            raise ConcurrentUseError(
                f"another thread ({self._owner}) is using this consumer; one thread at a time may, wakeup() alone is for others"
            )
        self._owner = threading.get_ident()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lock.release()
