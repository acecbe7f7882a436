"""KafkaConsumer on asyncio: reads records and columns from partitions that a group or the program chooses."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, Self, TypeVar
from uuid import UUID

from levada.aio.acks import Acks
from levada.aio.connect import connect, start
from levada.aio.dead_letters import posting
from levada.aio.driver import Driver
from levada.aio.tasks import SoleTask
from levada.api.arguments import checked_timeout, positive, topic_names
from levada.api.consumer.acking import Acking, AckSettings, ack_settings
from levada.api.consumer.consuming import CLOSE_TIMEOUT_S, Consuming, Offsets, OnReset, ToCommit
from levada.api.consumer.dead_letters import of_decode_errors
from levada.api.consumer.looping import Loop
from levada.api.consumer.subscribing import OnRebalance
from levada.api.engine_setup import Connector
from levada.api.keywords import check_formats, unknown_keyword
from levada.api.lifecycle import HoldsConnections
from levada.base.flow import CallerFlow
from levada.base.unsupported_names import CONSUMER, asynchronous, lacks
from levada.client.driver_interface import ENDED
from levada.client.requests.group_offsets import Committed
from levada.config import ConsumerConfig
from levada.consumer.acks.record import AckRecord
from levada.consumer.acks.unacked import Ordering
from levada.consumer.health import ConsumerHealth
from levada.dead_letter import DeadLetter
from levada.errors import ConcurrentUseError
from levada.groups import RebalanceListener, SubscriptionPattern
from levada.metrics import Metrics
from levada.types import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    ConsumerRecords,
    K,
    OffsetAndMetadata,
    OffsetSpec,
    PartitionInfo,
    TopicPartition,
    V,
)

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from typing import Unpack

    import pyarrow as pa

    from levada.config.typed import ConsumerSettings
    from levada.formats.arguments import FormatArguments

T = TypeVar("T")


@asynchronous
@lacks(CONSUMER)
class KafkaConsumer(HoldsConnections, Generic[K, V]):
    """Reads records as a member of a group, or of assigned partitions. See levada.KafkaConsumer; calls that wait are coroutines.

    It is created in a running event loop, and one task of that loop at a time may use it (calls that wait raise ConcurrentUseError
    otherwise); wakeup() and metrics() may be called from anywhere. on_reset is called in the event loop. A cancelled call neither skips nor
    repeats records. Data of more than 512 KiB are decoded in the loop's executor, and schema registries are asked there.
    """

    @ConsumerConfig.in_help
    def __init__(
        self,
        config: Mapping[str, Any] | str | None = None,
        /,
        *topics: str,
        on_reset: OnReset | None = None,
        _connect: Connector[Driver] = connect,
        **settings: Unpack[ConsumerSettings[K, V]],
    ) -> None:
        if isinstance(config, str):
            topics, config = (config, *topics), None
        parsed = ConsumerConfig.parse(config, **settings)
        parsed.check_may_subscribe(topic_names(topics))
        post = posting(of_decode_errors(parsed, awaited=True))
        self._engine, self._driver = _connect(parsed, "consumer")
        self._consuming = Consuming(parsed, self._engine, self._driver, random=self._engine.random, on_reset=on_reset, post=post)
        self._sole = SoleTask()
        self._driver.when_dropped = self._consuming.core.end_by_itself
        start(self, self._driver)
        if topics:
            self.subscribe(topics)

    # What is read

    def assign(self, partitions: Iterable[TopicPartition | PartitionInfo], ends: Mapping[TopicPartition, int] | None = None) -> None:
        """Read exactly these partitions, for example those that partitions_for() returns. Raises IllegalStateError while the consumer is
        subscribed.

        Partitions that were assigned before keep their positions. Others begin where seek() says, else at the committed offset of the
        group.id, else by auto.offset.reset.

        ends: the offsets to read up to, for example from end_offsets(); records at or after them are neither fetched nor returned. When all
        partitions have reached their ends, poll() returns at once and a loop over the consumer ends. auto.offset.reset never moves the
        position of a partition with an end: if its records are gone, OffsetOutOfRangeError is raised.
        """
        self._consuming.assign(partitions, ends)

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        listener: RebalanceListener | None = None,
        *,
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        on_assigned: OnRebalance | None = None,
        on_revoked: OnRebalance | None = None,
        on_lost: OnRebalance | None = None,
        **unknown: Never,
    ) -> None:
        """Join the group.id as a member that reads these topics; replaces an earlier subscription.

        The next poll() joins, and each poll() takes part in the group's rebalances. So call poll() within max.poll.interval.ms; otherwise
        the partitions go to other members until the next call.

        topics: their names; a topic that does not exist yet is read once it does. pattern: a Python regular expression for whole names,
        matched by this client; new topics are found after metadata.max.age.ms at the latest. With group.protocol=consumer, a
        SubscriptionPattern is matched by the brokers.

        listener: called about rebalances in the task of poll(), unsubscribe() and close(); its methods may be coroutines. Or pass
        functions, which are called with a list of TopicPartition; without on_lost, lost partitions go to on_revoked.

        Raises IllegalStateError after assign(), InvalidGroupIdError without a group.id.
        """
        if unknown:
            raise unknown_keyword(self.subscribe, unknown)
        self._consuming.subscribe(topics, listener, pattern, on_assigned, on_revoked, on_lost)

    async def unsubscribe(self) -> None:
        """Give up all partitions and leave the group, without waiting for the coordinator's answer; also ends assign().

        With enable.auto.commit it commits before. The rebalance listener is called, and its errors are raised.
        """
        await self._call(self._consuming.unsubscribe())

    def subscription(self) -> set[str]:
        """Return the topics that were given to subscribe() or that match its pattern; empty without a subscription."""
        return self._consuming.subscribing.subscription()

    def enforce_rebalance(self, reason: str = "the program asked for it") -> None:
        """Request a rebalance with the next poll(), for example when something has changed that the assignor uses. No effect with
        group.protocol=consumer, where the brokers decide.

        reason: for the brokers' logs. Raises IllegalStateError without a subscription.
        """
        self._consuming.subscribing.enforce_rebalance(reason)

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        return self._consuming.assignment()

    def finished(self) -> set[TopicPartition]:
        """Return the partitions whose records were all returned, up to the ends that were given to assign()."""
        return self._consuming.finished()

    def seek(self, tp: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Move the position of a partition. Raises IllegalStateError if the partition is not assigned, ValueError for a negative offset.

        offset: the offset of the next record to read, as a number or as an OffsetAndMetadata from committed(). With the leader epoch of an
        OffsetAndMetadata, the consumer notices if the log was truncated since (KIP-320).
        """
        self._consuming.seek(tp, offset)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Move positions to the start of the log, which is looked up when it is needed. No partitions: all assigned ones.

        Raises IllegalStateError for a partition that is not assigned.
        """
        self._consuming.seek_to(partitions, OffsetSpec.EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Move positions to the end of the log, which is looked up when it is needed. No partitions: all assigned ones.

        With isolation.level=read_committed, the end is the last stable offset. Raises IllegalStateError for a partition that is not
        assigned.
        """
        self._consuming.seek_to(partitions, OffsetSpec.LATEST)

    def seek_to_committed(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Move positions to the committed offsets of the group.id, which are looked up when they are needed. No partitions: all assigned
        ones.

        Without a committed offset, auto.offset.reset decides; with "none" the next poll() raises NoOffsetForPartitionError. Raises
        InvalidGroupIdError without a group.id, IllegalStateError for a partition that is not assigned. Call it after an aborted
        transaction, so that its records are read again.
        """
        self._consuming.seek_to_committed(partitions)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching and returning records of these partitions, until resume() or until they are revoked. Positions and fetched records
        are kept.

        Raises IllegalStateError for a partition that is not assigned.
        """
        self._consuming.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch and return records of paused partitions again, from their positions on.

        Raises IllegalStateError for a partition that is not assigned.
        """
        self._consuming.resume(partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        return self._consuming.paused()

    # Reading

    async def poll(self, timeout: float | None = 1.0, max_records: int | None = None, **unknown: Never) -> ConsumerRecords[K, V]:
        """Return the next records, waiting up to `timeout` seconds for the first one (None: without limit).

        max_records: the maximum number of records, by default max.poll.records. The result is empty when the time is over, when a position
        has moved past records that are not visible, such as aborted ones, and while brokers cannot be reached or do not answer; then a
        warning with the cause is logged once.

        Errors that waiting does not help against are raised: a topic that may not be read; a partition of assign() that does not exist and
        is not created; an address at which no Kafka broker answers; a group that does not accept the consumer. Damaged data
        (CorruptRecordError) and records that do not deserialize (RecordDeserializationError) are raised after the records before them were
        returned, and again until seek() moves past them. With a dead-letter topic, DeadLetterError is raised instead if the record cannot
        be written there; the next poll() tries to write it again. With auto.offset.reset=none, positions that are missing or not valid
        raise NoOffsetForPartitionError, OffsetOutOfRangeError, LogTruncationError or TopicRecreatedError.

        Also raises WakeupError, errors of a rebalance listener, and IllegalStateError if there is nothing to read or while acks() is open.
        """
        if unknown:
            raise unknown_keyword(self.poll, unknown)
        return await self._hand_out(self._consuming.poll(timeout, max_records))

    async def poll_arrow(
        self,
        timeout: float | None = 1.0,
        max_records: int | None = None,
        max_bytes: int | None = None,
        columns: Sequence[str] | None = None,
        text: Sequence[str] = (),
        **formats: Unpack[FormatArguments],
    ) -> pa.RecordBatch:
        """Wait for records as poll() does, and return them as an Arrow record batch, without rows if there are none.

        Deserializers are not applied. timeout: seconds; None waits without limit. max_records: None for no limit.

        columns: any of key, value, topic, partition, offset, timestamp (these by default), timestamp_type, headers, leader_epoch. text:
        which of key and value are UTF-8 and become strings; for a record that is not UTF-8, RecordDeserializationError is raised after the
        records before it were returned. max_bytes: add no more record batches once the columns have this size; by default 16 MiB. With
        max_records, successive results may be slices of the same memory, and each slice keeps all of it: copy rows that you keep for long.

        formats: value_format="confluent-avro", schema_registry_url=..., and others that docs/howto/formats.md lists: keys or values become
        typed columns, mostly a struct. With mode="FAILFAST" a value that cannot be decoded raises RecordDeserializationError, and the next
        call returns the same records; seek past the error's record, or take another mode. With "DROPMALFORMED" a result may be empty
        before the time is over.

        Raises as poll() does, and IllegalStateError for an interceptor without on_consume_arrow().
        """
        check_formats(self.poll_arrow, formats)
        return await self._hand_out(self._consuming.poll_arrow(timeout, max_records, max_bytes, columns, text, formats))

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
        """Yield record after record, without end, or up to the ends that were given to assign(). Raises as poll() does.

        With stop.at.end the loop ends at the end that each log had when the loop began to read it; with consumer.timeout.ms, when no record
        has come for that time. After a loop was left, the next loop continues after the last record that was yielded.

        The loop is done with a record when it asks for the next one. So when the consumer is closed after `break`, the automatic commit
        leaves the last record out, and the group gets it again, unless the program called commit() for it.
        """
        loop = Loop(self._consuming)
        try:
            while not loop.is_over:
                iteration = await self._hand_out(loop.poll(self._driver.now_ms()))
                try:
                    for record in iteration.coming:
                        yield record
                finally:
                    if not iteration.is_over:
                        self._consuming.end_iteration()
        finally:
            loop.leave()

    def wakeup(self) -> None:
        """End the running call that waits, or the next one, with WakeupError. May be called from any thread and from signal handlers."""
        self._consuming.wakeup()

    # Acknowledging one by one

    def acks(
        self,
        *,
        max_unacked: int = 1_000,
        lanes: int | None = None,
        ordering: Ordering = "key",
        dead_letter: DeadLetter | None = None,
    ) -> Acks[K, V]:
        """Return a context manager that returns records, which the program acknowledges one by one and in any order.

        max_unacked: how many records each partition is read ahead of its first record that is not done. lanes: the maximum number of
        records that the program has at a time; None for no limit. ordering: with "key", records with the same key are returned one after
        the other, with "partition", records of the same partition; with "none", and for records without a key, there is no order.
        dead_letter: the producer and the topic for rejected records.

        Each record is a ConsumerRecord with ack(), nack(delay), reject(reason) and fail(error). No automatic commit, and no commit()
        without arguments, passes a record that is not done. Call seek_to_committed() after an aborted transaction: records acknowledged for
        it are returned again. Before partitions are revoked, the consumer waits for records in progress, at most nine tenths of
        max.poll.interval.ms.

        Raises IllegalStateError without a subscription or assignment, or while another acks() is open; ConfigError for a producer that
        cannot be used for dead letters.
        """
        return self._acks(ack_settings(max_unacked, lanes, ordering, dead_letter, awaited=True))

    def _acks(self, settings: AckSettings) -> Acks[K, V]:
        with self._sole:
            acking = Acking(self._consuming, self._driver, settings, posting(settings.dead_letter))
        return Acks(self, self._driver, self._sole, acking)

    async def process(
        self,
        handler: Callable[[AckRecord[K, V]], object],
        *,
        concurrency: int = 10,
        ordering: Ordering = "key",
        max_unacked: int = 1_000,
        retries: int | None = 0,
        retry_delay: float | Callable[[int], float] = 1.0,
        handler_timeout: float | None = None,
        dead_letter: DeadLetter | None = None,
        executor: Literal["thread", "process"] | Executor | None = None,
    ) -> None:
        """Call the handler with every record, many at a time, and commit the records that are done. No other call uses the consumer
        meanwhile.

        handler: a coroutine function, called with an AckRecord in a task; with an executor, a plain function. A record is done when the
        handler returns, unless it has called the record's nack() or reject(). If it raises, it gets the record again, up to `retries` times
        (None: without limit), each time after `retry_delay` seconds, or after what a function of the attempt's number returns; then the
        record is written to the topic of `dead_letter`, or, without one, ProcessingError is raised. The handler's result is dropped. From a
        process, HandlerError replaces an exception that cannot be pickled.

        handler_timeout: seconds for each call. Then the handler is cancelled, or with "process" interrupted, which counts as raising. A
        thread, or your own executor, cannot be interrupted, and a coroutine may still run 5 s after it was cancelled; then ProcessingError
        ends process(). concurrency: how many handlers run at a time. ordering, max_unacked: as in acks(). executor: "thread", "process"
        (spawned; handler and records are pickled, so leave deserializing to the handler), or your own.

        It ends as a loop over the consumer does, or by wakeup() with WakeupError. Then, and after an error, running handlers are waited
        for, up to max.poll.interval.ms, and then cancelled. When this call is cancelled, they are cancelled at once. Cancelled handlers
        have 5 s to end. Worker processes end with the program, however it ends. Raises ConfigError for a group.id with
        enable.auto.commit=false; TypeError for a handler that cannot run there; ProcessingError when a worker process dies, the executor
        breaks or retry_delay returns something other than seconds; and the errors of acks().
        """
        # Imported here: executors and processes take as long to load as all of the consumer.
        from levada.aio.processing import Processing
        from levada.api.consumer.processing import executor_for, handler_seconds, outcomes, refuse_generator_function, work_limit

        log = self._consuming.log
        wanted = outcomes(self._consuming.config, retries, retry_delay, may_reject=dead_letter is not None)
        limit, seconds = positive("concurrency", concurrency), handler_seconds(handler_timeout)
        settings = ack_settings(max_unacked, limit, ordering, dead_letter, awaited=True)._replace(limit=work_limit(seconds, executor))
        finish_s = self._consuming.config.max_poll_interval_ms / 1000
        async with self._acks(settings) as acks:
            if executor is None:
                refuse_generator_function(handler)
                await Processing(acks, handler, wanted.settle, seconds, log).until_over(finish_s)
                return
            with executor_for(executor, limit, handler, seconds, lambda: acks.is_idle) as submit:
                processing = Processing(acks, lambda record: asyncio.wrap_future(submit(record)), wanted.executed, None, log)
                await processing.until_over(finish_s)

    # Committing

    async def commit(self, offsets: ToCommit | None = None, *, timeout: float | None = None, **unknown: Never) -> None:
        """Commit offsets for the group.id, and wait until the brokers have stored them.

        offsets: one record or several records that poll() or a loop has returned; for each partition, the offset after the last of these
        records is committed. Or, by partition, the offset of the next record to read, as a number or OffsetAndMetadata. By default, the
        offsets after all returned records, including those that the program has not processed yet; with acks(), for each partition that of
        the first record that is not done.

        It waits for earlier commits too, and retries retriable errors until `timeout`, in seconds, by default default.api.timeout.ms.
        Raises InvalidGroupIdError without a group.id; CommitFailedError and RebalanceInProgressError after a rebalance; other BrokerErrors;
        TimeoutError (the offsets may have been committed all the same); WakeupError; IllegalStateError for records of partitions that are
        not assigned, for records that an earlier assignment returned from before the position at which this one began, and for records
        while acks() is open.
        """
        if unknown:
            raise unknown_keyword(self.commit, unknown)
        await self._call(self._consuming.commit(offsets, timeout))

    def commit_async(self, offsets: ToCommit | None = None) -> asyncio.Future[None]:
        """Send a commit once, and return a future of its outcome, which need not be awaited. offsets: as in commit(). Commits arrive in the
        order in which they were made.

        After an error that is `retriable` (RetriableCommitError) the program may commit again; the client does not retry, because that
        could overwrite a newer commit. Raises InvalidGroupIdError without a group.id, IllegalStateError as commit().
        """
        with self._sole:
            return self._driver.future(self._consuming.commit_async(offsets, _nothing))

    async def committed(
        self, partitions: Iterable[TopicPartition | PartitionInfo], *, timeout: float | None = None, **unknown: Never
    ) -> Committed:
        """Return the group's committed offset of each of these partitions; None for a partition without one.

        Waits for open transactions that may change the offsets (Kafka since 2.5). Raises InvalidGroupIdError without a group.id,
        BrokerError, TimeoutError.
        """
        if unknown:
            raise unknown_keyword(self.committed, unknown)
        return await self._call(self._consuming.committed(partitions, timeout))

    def consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offset that commit() would commit for each partition: the offset after all returned records; with acks(), that of the
        first record that is not done. Partitions without a position are left out. No broker is asked.

        The result and that of group_metadata() are the arguments of send_offsets_to_transaction() of a producer.
        """
        return self._consuming.consumed_offsets()

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group and the member for which offsets are committed (KIP-447), for send_offsets_to_transaction().

        A subscribed consumer that is no longer a member keeps its last generation, so that brokers refuse offsets of partitions that other
        members may own by now. Raises InvalidGroupIdError without a group.id.
        """
        return self._consuming.group_metadata()

    # Positions and offsets

    async def position(self, tp: TopicPartition, *, timeout: float | None = None, **unknown: Never) -> int:
        """Return the offset of the next record that poll() will return. If there is no position yet, it is looked up.

        Raises IllegalStateError for a partition that is not assigned, NoOffsetForPartitionError with auto.offset.reset=none, BrokerError,
        TimeoutError.
        """
        if unknown:
            raise unknown_keyword(self.position, unknown)
        return await self._call(self._consuming.position(tp, timeout))

    def metrics(self) -> Metrics:
        """Return the consumer's metrics under the names of Java's metrics: see docs/METRICS.md. Does not wait; any thread may call it."""
        return self._consuming.reporting.metrics()

    async def client_instance_id(self, timeout: float | None = None) -> UUID:
        """Return the id that the cluster has given this client for telemetry, as levada.KafkaConsumer.client_instance_id()."""
        return await self._call(self._consuming.reporting.client_instance_id(timeout))

    async def health(self, *, timeout: float | None = None) -> ConsumerHealth:
        """Return the reason why no records arrive, for each partition, and the most important one for the consumer.

        If records wait for the end of an open transaction (isolation.level=read_committed), leaders are asked for its producer, and
        coordinators for its transactional id (KIP-664), within `timeout` seconds, by default default.api.timeout.ms. If these requests
        fail, `detail` says why. If no records wait for a transaction, no broker is asked. `print(await consumer.health())` shows all of it.
        """
        return await self._call(self._consuming.health(timeout))

    def current_lag(self, tp: TopicPartition) -> int | None:
        """Return how many offsets the position is behind the end of the log, as of the last fetch; None before a fetch. No broker is asked.

        With isolation.level=read_committed, the end is the last stable offset. Raises IllegalStateError for a partition that is not
        assigned.
        """
        return self._consuming.current_lag(tp)

    def current_lead(self, tp: TopicPartition) -> int | None:
        """Return how many offsets the position is after the start of the log, as of the last fetch; None before a fetch (KIP-223).

        A small lead means that retention may soon delete records that were not read. No broker is asked. Raises IllegalStateError for a
        partition that is not assigned.
        """
        return self._consuming.current_lead(tp)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition], *, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Return the first offset of each partition's log. Raises TimeoutError, UnknownTopicOrPartitionError."""
        return await self._call(self._consuming.ends(partitions, OffsetSpec.EARLIEST, timeout))

    async def end_offsets(self, partitions: Iterable[TopicPartition], *, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Return the end offset of each partition: the high watermark; with isolation.level=read_committed, the last stable offset.

        Raises TimeoutError, UnknownTopicOrPartitionError.
        """
        return await self._call(self._consuming.ends(partitions, OffsetSpec.LATEST, timeout))

    async def offsets_for_times(self, times: Mapping[TopicPartition, datetime | int], *, timeout: float | None = None) -> Offsets:
        """Return, for each partition, the first offset whose timestamp is at or after a time; None if there is none (ListOffsets, KIP-79).

        times: an aware datetime, or milliseconds since the epoch. Raises ValueError for a negative time or a naive datetime, TimeoutError,
        UnknownTopicOrPartitionError, and UnsupportedVersionError on brokers before 0.10.1.
        """
        return await self._call(self._consuming.offsets_for_times(times, timeout))

    # Topics

    async def partitions_for(self, topic: str, *, timeout: float | None = None) -> list[PartitionInfo]:
        """Describe the partitions of a topic. With allow.auto.create.topics, the default, the brokers may create a missing topic.

        Raises UnknownTopicOrPartitionError if the topic does not exist and is not created, InvalidTopicError, TopicAuthorizationError,
        TimeoutError.
        """
        return await self._call(self._consuming.partitions_for(topic, timeout))

    async def list_topics(self, *, timeout: float | None = None) -> dict[str, list[PartitionInfo]]:
        """Describe every topic that this user may describe, also internal ones. Return the partitions by topic."""
        return await self._call(self._consuming.list_topics(timeout))

    async def _call(self, flow: CallerFlow[T]) -> T:
        with self._sole:
            return await self._driver.call(flow)

    # Its end

    async def close(self, timeout: float | None = None, *, leave_group: bool | None = None, **unknown: Never) -> None:
        """Stop reading, leave the group and close the connections; with enable.auto.commit, commit before. Idempotent.

        timeout: seconds for the last commit, earlier commits and leaving, by default 30. leave_group (KIP-1092): True leaves the group,
        also as a static member. False does not leave: the group keeps the partitions until the member's session ends; only a static member
        that comes back before then gets them. By default dynamic members leave, and static ones do not. A commit that fails is logged.
        Errors of a rebalance listener are raised. Raises IllegalStateError in another event loop.

        The end of an `async with` block closes, too. If a loop over the consumer was left by `break` or an exception, the last commit
        leaves out the last record that the loop got, so that the group gets it again. In any case, interceptors and deserializers that have
        a close() are closed at the end; exceptions of theirs are logged.
        """
        if unknown:
            raise unknown_keyword(self.close, unknown)
        await self._close(CLOSE_TIMEOUT_S if timeout is None else checked_timeout(timeout), leave_group)

    async def _close(self, limit_s: float, leave_group: bool | None = None) -> None:
        if self._driver.has_ended():
            self._consuming.handed_over.close()
            return
        try:
            await self._driver.call(self._consuming.close(limit_s, leave_group))
        except ENDED:
            # The close request cannot be sent; brokers drop a fetch session by themselves.
            pass
        finally:
            self._driver.close()
            self._consuming.handed_over.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._close(CLOSE_TIMEOUT_S)


def _nothing(offsets: object, error: object) -> None:
    """Ignore the result of a commit, because the future reports it."""
