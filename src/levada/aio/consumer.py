"""KafkaConsumer on asyncio: records and columns from partitions the program chooses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from levada.aio.connect import connect, start
from levada.aio.driver import Driver
from levada.client.group_offsets import Committed
from levada.config import ConsumerConfig
from levada.consumer.subscription_state import OffsetSpec
from levada.errors import ConcurrentUseError, KafkaError
from levada.face.arguments import checked_timeout
from levada.face.consuming import CLOSE_TIMEOUT_S, ITERATION_POLL_S, Consuming, Offsets, OffsetsToCommit, OnReset
from levada.face.engines import Connector
from levada.face.process import HoldsConnections
from levada.flow import CallerFlow
from levada.metrics import Metrics
from levada.not_yet import CONSUMER, lacks
from levada.types import ConsumerGroupMetadata, ConsumerRecord, ConsumerRecords, K, OffsetAndMetadata, PartitionInfo, TopicPartition, V

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow as pa

    from levada.config.typed import ConsumerSettings

T = TypeVar("T")


@lacks(CONSUMER)
class KafkaConsumer(HoldsConnections, Generic[K, V]):
    """Reads records from assigned partitions: levada.KafkaConsumer, awaited.

    To be made within a running event loop, and used in that loop by one task at a time (ConcurrentUseError otherwise); wakeup() may be
    called from anywhere. A cancelled call neither skips nor repeats records. Pieces over 256 KiB are decoded in the loop's executor.
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
        self._sole = _SoleTask()
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
        self._consuming.assign(partitions, ends)

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions now assigned."""
        return self._consuming.assignment()

    def finished(self) -> set[TopicPartition]:
        """Return the partitions whose records up to the end given to assign() were all handed out."""
        return self._consuming.finished()

    def seek(self, tp: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on at this offset. Raises IllegalStateError when the partition is not assigned, ValueError for a negative offset.

        offset: of the next record to read, a number or an OffsetAndMetadata as committed() returns. With the leader epoch of the latter a
        log that was truncated since then is noticed (KIP-320).
        """
        self._consuming.seek(tp, offset)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Go on at the start of the log, looked up when needed; without partitions, of all assigned ones."""
        self._consuming.seek_to(partitions, OffsetSpec.EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Go on at the end of the log (with read_committed: of the decided part), looked up when needed."""
        self._consuming.seek_to(partitions, OffsetSpec.LATEST)

    def seek_to_committed(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Go on at the offsets that the group.id has committed, looked up when needed; without partitions, of all assigned ones.

        Where nothing is committed auto.offset.reset decides; with "none" the next poll() raises NoOffsetForPartitionError. Raises
        InvalidGroupIdError without a group.id. For programs that read again after an aborted transaction.
        """
        self._consuming.seek_to_committed(partitions)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these partitions until resume(); positions and what is fetched already stay."""
        self._consuming.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on where pause() stopped."""
        self._consuming.resume(partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        return self._consuming.paused()

    # Reading

    async def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        """Return the next records, waiting up to `timeout` seconds for the first (None: without limit).

        max_records: over all partitions, default max.poll.records. Empty when the time is over, or when a position moved past records
        that are hidden, such as aborted ones. Empty too while brokers cannot be reached or do not answer; a warning
        says so once, with the cause. What time cannot mend is raised: a topic that does not exist or may not be read, an address at which
        something else than Kafka listens. Damaged data (CorruptRecordError) and records that do not deserialize
        (RecordDeserializationError) are raised once the records before them are out, and again until seek() moves past them.
        So are, with auto.offset.reset=none, positions that do not hold: OffsetOutOfRangeError, LogTruncationError, TopicRecreatedError.
        """
        return await self._hand_out(self._consuming.poll(timeout, max_records))

    async def poll_arrow(
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
        return await self._hand_out(self._consuming.poll_arrow(timeout, max_records, max_bytes, columns, text))

    async def _hand_out(self, poll: CallerFlow[T]) -> T:
        # Before all else: in a forked child nothing may wait for the lock.
        self._driver.check_usable()
        call = self._consuming.next_call
        try:
            with self._sole:
                return await self._driver.call(poll)
        except ConcurrentUseError:
            raise
        except BaseException:
            self._consuming.take_back(call)
            raise

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Yield record after record, until all partitions are read to the ends given to assign(), or without end.

        A loop that is left goes on, next time, after the last record it was given.
        """
        while True:
            iteration = self._consuming.iterate(await self.poll(ITERATION_POLL_S))
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
                    self._consuming.end_iteration()

    def wakeup(self) -> None:
        """End the running call that waits, or the next one, with WakeupError. Any thread and any signal handler may call it."""
        self._consuming.wakeup()

    # Committing

    async def commit(self, offsets: OffsetsToCommit | None = None, *, timeout: float | None = None) -> None:
        """Commit offsets for the group.id, and wait until the brokers have them.

        offsets: of the next record to read, by partition, as numbers or OffsetAndMetadata; default: the positions after everything that
        was handed out. Waits for commits made before, repeats what may yet succeed until `timeout`, in seconds. Raises InvalidGroupIdError
        without a group.id, BrokerError, TimeoutError (what was not confirmed may be committed all the same), WakeupError.
        """
        await self._call(self._consuming.commit(offsets, timeout))

    def commit_async(self, offsets: OffsetsToCommit | None = None) -> asyncio.Future[None]:
        """Send a commit at once, once, and return a future of its outcome, which need not be awaited. offsets: as commit() has them.

        Commits arrive in the order in which they were made. An error that is `retriable` (RetriableCommitError) may be met by committing
        again; nothing is repeated here, since that could overtake a newer commit. Raises InvalidGroupIdError without a group.id.
        """
        with self._sole:
            return self._driver.future(self._consuming.commit_async(offsets, _nothing))

    async def committed(self, partitions: Iterable[TopicPartition | PartitionInfo], *, timeout: float | None = None) -> Committed:
        """Return what the group has committed for each of these partitions, None for nothing; transactions under way are waited for.

        Raises InvalidGroupIdError without a group.id, BrokerError, TimeoutError.
        """
        return await self._call(self._consuming.committed(partitions, timeout))

    def consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions after everything that was handed out, as commit() would commit them; no broker is asked.

        With group_metadata() it is what send_offsets_to_transaction() of a producer takes.
        """
        return self._consuming.consumed_offsets()

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return on whose behalf offsets are committed (KIP-447). Raises InvalidGroupIdError without a group.id."""
        return self._consuming.group_metadata()

    # Positions and offsets

    async def position(self, tp: TopicPartition, *, timeout: float | None = None) -> int:
        """Return the offset of the next record poll() will return, looking it up where auto.offset.reset has to say."""
        return await self._call(self._consuming.position(tp, timeout))

    def metrics(self) -> Metrics:
        """Return what the consumer has counted so far, under the names of Java's metrics: see docs/METRICS.md. Waits for nothing."""
        return self._consuming.metrics()

    def current_lag(self, tp: TopicPartition) -> int | None:
        """Return how many offsets the position is behind the end known from the last fetch; None before one. No broker is asked."""
        return self._consuming.current_lag(tp)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition], *, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Return the first offset of each partition's log."""
        return await self._call(self._consuming.ends(partitions, OffsetSpec.EARLIEST, timeout))

    async def end_offsets(self, partitions: Iterable[TopicPartition], *, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Return the offset after the last readable record: the high watermark, with read_committed the last stable offset."""
        return await self._call(self._consuming.ends(partitions, OffsetSpec.LATEST, timeout))

    async def offsets_for_times(self, times: Mapping[TopicPartition, datetime | int], *, timeout: float | None = None) -> Offsets:
        """Find the earliest offset whose timestamp is at or after a time, per partition (ListOffsets, KIP-79).

        times: an aware datetime, or milliseconds since the epoch. A partition without such a record maps to None. Raises ValueError for a
        negative time or a naive datetime, TimeoutError, UnknownTopicOrPartitionError.
        """
        return await self._call(self._consuming.offsets_for_times(times, timeout))

    # Topics

    async def partitions_for(self, topic: str, *, timeout: float | None = None) -> list[PartitionInfo]:
        """Describe a topic's partitions. Raises UnknownTopicOrPartitionError when it does not exist and is not created by asking."""
        return await self._call(self._consuming.partitions_for(topic, timeout))

    async def list_topics(self, *, timeout: float | None = None) -> dict[str, list[PartitionInfo]]:
        """Describe every topic this user may see."""
        return await self._call(self._consuming.list_topics(timeout))

    async def _call(self, flow: CallerFlow[T]) -> T:
        with self._sole:
            return await self._driver.call(flow)

    # Its end

    async def close(self, timeout: float | None = None) -> None:
        """Stop reading and close the connections, with enable.auto.commit after a last commit; idempotent.

        timeout: seconds for that commit and for earlier ones, default 30. Raises IllegalStateError in another event loop.
        The end of an `async with` block closes, too. When an exception leaves the block, the last commit leaves out the record that a loop
        over the consumer was given last, so that the group is given it again.
        """
        await self._close(CLOSE_TIMEOUT_S if timeout is None else checked_timeout(timeout))

    async def _close(self, limit_s: float, *, after_error: bool = False) -> None:
        if self._driver.has_ended():
            return
        try:
            await self._driver.call(self._consuming.close(limit_s, after_error=after_error))
        except KafkaError:
            # The brokers cannot be told; they forget a fetch session by themselves.
            pass
        finally:
            self._driver.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._close(CLOSE_TIMEOUT_S, after_error=error is not None)


def _nothing(offsets: object, error: object) -> None:
    """The future tells."""


class _SoleTask:
    """Lets one task in at a time, and says so to a second one instead of letting it wait."""

    def __init__(self) -> None:
        self._owner: asyncio.Task[Any] | None = None

    def __enter__(self) -> None:
        if self._owner is not None:
            raise ConcurrentUseError(f"another task ({self._owner.get_name()}) is using this consumer; one at a time may, but for wakeup()")
        self._owner = asyncio.current_task()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._owner = None
