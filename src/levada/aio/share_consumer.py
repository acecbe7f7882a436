"""KafkaShareConsumer on asyncio: records of a share group, acknowledged one by one or as columns (KIP-932)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Never, Self, TypeVar
from uuid import UUID

from levada.aio.connect import connect, start
from levada.aio.driver import Driver
from levada.aio.tasks import SoleTask
from levada.api.arguments import checked_timeout
from levada.api.consumer.consuming import CLOSE_TIMEOUT_S
from levada.api.engine_setup import Connector
from levada.api.keywords import unknown_keyword
from levada.api.lifecycle import HoldsConnections
from levada.api.share_consumer import Kind, OnAcknowledge, Sharing
from levada.base.flow import CallerFlow
from levada.base.unsupported_names import SHARE_CONSUMER, asynchronous, lacks
from levada.config import ShareConsumerConfig
from levada.errors import ConcurrentUseError
from levada.metrics import Metrics
from levada.types import AcknowledgeType, K, ShareRecord, ShareRecords, TopicPartition, V

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow as pa

    from levada.config.typed import ShareConsumerSettings

T = TypeVar("T")


@asynchronous
@lacks(SHARE_CONSUMER)
class KafkaShareConsumer(HoldsConnections, Generic[K, V]):
    """Reads records of a share group. See levada.KafkaShareConsumer; calls that wait are coroutines.

    It is created in a running event loop, and one task of that loop at a time may use it (otherwise ConcurrentUseError); wakeup() and
    metrics() may be called from anywhere. A cancelled call neither skips nor repeats records. Data of more than 512 KiB are decoded in the
    loop's executor.
    """

    @ShareConsumerConfig.in_help
    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        _connect: Connector[Driver] = connect,
        **settings: Unpack[ShareConsumerSettings[K, V]],
    ) -> None:
        parsed = ShareConsumerConfig.parse(config, **settings)
        self._engine, self._driver = _connect(parsed, "share-consumer")
        self._sharing = Sharing(parsed, self._engine, self._driver, random=self._engine.random)
        self._sole = SoleTask()
        start(self, self._driver)

    # What is read

    def subscribe(self, topics: Iterable[str]) -> None:
        """Join the group.id as a member that gets records of these topics; replaces an earlier subscription.

        The next poll() joins. A topic that does not exist yet is read once it does.
        """
        with self._sole:
            self._sharing.subscribe(topics)

    def subscription(self) -> set[str]:
        """Return the topics that were given to subscribe(); empty without a subscription."""
        with self._sole:
            return self._sharing.subscription()

    def unsubscribe(self) -> None:
        """Leave the group, without waiting for the coordinator's answer. Records that were returned may still be acknowledged."""
        with self._sole:
            self._sharing.unsubscribe()

    # Reading

    async def poll(self, timeout: float | None = 1.0, max_records: int | None = None, **unknown: Never) -> ShareRecords[K, V]:
        """Return the next records, as levada.ShareRecord with a delivery_count, waiting up to `timeout` seconds (None: without limit).

        First it acknowledges: with share.acknowledgement.mode=implicit, all records returned before are accepted; with explicit, it raises
        IllegalStateError unless all of them were acknowledged. Records whose locks were renewed come again, before others. max_records: the
        maximum number of records, by default max.poll.records. The result is empty when the time is over, and while brokers cannot be
        reached.

        Errors that waiting does not help against are raised, such as UnsupportedVersionError by brokers without share groups. A record that
        does not deserialize raises RecordDeserializationError after the records before it were returned; the record is released, unless the
        program acknowledges error.record in another way. A damaged batch raises CorruptRecordError, and is rejected. Also raises
        WakeupError, and IllegalStateError without a subscription.
        """
        if unknown:
            raise unknown_keyword(self.poll, unknown)
        return await self._hand_out(self._sharing.poll(timeout, max_records))

    async def poll_arrow(
        self,
        timeout: float | None = 1.0,
        max_records: int | None = None,
        max_bytes: int | None = None,
        columns: Sequence[str] | None = None,
        text: Sequence[str] = (),
    ) -> pa.RecordBatch:
        """Wait for records as poll() does, and return them as an Arrow record batch, without rows if there are none.

        Deserializers are not applied.

        columns: as in KafkaConsumer.poll_arrow(), and delivery_count, which is also a default column. text: which of key and value are
        UTF-8 and become strings. max_records: by default all acquired records; raise max.poll.records for more. max_bytes: add no more
        record batches once the columns have this size; by default 16 MiB.
        """
        return await self._hand_out(self._sharing.poll_arrow(timeout, max_records, max_bytes, columns, text))

    async def _hand_out(self, poll: CallerFlow[T]) -> T:
        # Before all else: in a forked child nothing may wait for the lock.
        self._driver.check_usable()
        call = self._sharing.next_call
        try:
            with self._sole:
                return await self._driver.call(poll)
        except ConcurrentUseError:
            raise
        except BaseException:
            self._sharing.take_back(call)
            raise

    async def __aiter__(self) -> AsyncIterator[ShareRecord[K, V]]:
        """Yield record after record, without end; with consumer.timeout.ms, until none has come for that time.

        A record counts as returned once it is yielded. The next call returns the records that a loop was not given before it was left, as
        long as their locks hold. With share.acknowledgement.mode=implicit, records are accepted when the loop asks for records beyond those
        of one poll(), and by commit(): so a program that takes long for each record sets max.poll.records low. After `break`, close()
        accepts the yielded records except the last one, which is released, and delivered again.
        """
        since_ms = self._driver.now_ms()
        while True:
            iteration = await self._hand_out(self._sharing.iterate(since_ms))
            if iteration.is_over:
                return
            try:
                for record in iteration.coming:
                    yield record
            finally:
                if not iteration.is_over:
                    self._sharing.end_iteration()
            if iteration.records:
                since_ms = self._driver.now_ms()

    def wakeup(self) -> None:
        """End the running call that waits, or the next one, with WakeupError. May be called from any thread and from signal handlers."""
        self._sharing.wakeup()

    # Acknowledging

    def acknowledge(self, records: ShareRecord[Any, Any] | Iterable[ShareRecord[Any, Any]], type: Kind = AcknowledgeType.ACCEPT) -> None:
        """Acknowledge one record, or several records from poll(), if share.acknowledgement.mode=explicit.

        type: an AcknowledgeType or its name. "renew" restarts the lock (Kafka 4.2): the next poll() returns the record again, and the
        record still needs an acknowledgement of another type. The next poll(), commit(), commit_async() or close() sends the
        acknowledgement; until then, another call replaces it. Raises IllegalStateError, and changes nothing, for records that this consumer
        does not hold, and if the mode is implicit.
        """
        with self._sole:
            self._sharing.acknowledge(records, type)

    def acknowledge_offsets(self, tp: TopicPartition, offsets: int | Iterable[int], type: Kind = AcknowledgeType.ACCEPT) -> None:
        """Acknowledge records of a partition by their offsets: one offset, a range, a list or an array. Like acknowledge()."""
        with self._sole:
            self._sharing.acknowledge_offsets(tp, offsets, type)

    def acknowledge_arrow(self, batch: pa.RecordBatch | pa.Table, type: Kind = AcknowledgeType.ACCEPT, mask: Any = None) -> None:
        """Acknowledge the rows of a record batch or table by its columns topic, partition and offset. Like acknowledge().

        mask: booleans, one per row, that select the rows to acknowledge; None for all rows.
        """
        with self._sole:
            self._sharing.acknowledge_arrow(batch, type, mask)

    async def commit(self, *, timeout: float | None = None, **unknown: Never) -> None:
        """Send acknowledgements, and wait until the brokers have accepted them. With implicit acknowledgement, accept all returned records.

        timeout: seconds, by default default.api.timeout.ms. Raises AcknowledgeError, with the outcome of each partition, if an
        acknowledgement was refused; TimeoutError (acknowledgements may have been accepted nevertheless); WakeupError.
        """
        if unknown:
            raise unknown_keyword(self.commit, unknown)
        with self._sole:
            await self._driver.call(self._sharing.commit(timeout))

    def commit_async(self) -> asyncio.Future[None]:
        """Send acknowledgements like commit(), and return a future of the result, which need not be awaited."""
        with self._sole:
            return self._driver.future(self._sharing.commit_async())

    def set_acknowledgement_commit_callback(self, callback: OnAcknowledge | None) -> None:
        """Set the function to call with the results of acknowledgements, inside a later poll(), commit(), commit_async() or close(). None
        removes it.

        It is called with the offsets by partition, and with the error; None if the brokers have accepted the acknowledgements. Without a
        callback, failures are logged, unless commit() raises them.
        """
        if not (callback is None or callable(callback)):
            raise TypeError(f"a callback is called with offsets by partition and an error or None, got {callback!r}")
        with self._sole:
            self._sharing.on_acknowledge = callback

    def acquisition_lock_timeout(self) -> float | None:
        """Return for how many seconds brokers lock records, as in their last response; None before the first records."""
        with self._sole:
            return self._sharing.lock_timeout()

    # About itself

    def metrics(self) -> Metrics:
        """Return the consumer's metrics under the names of Java's metrics: see docs/METRICS.md. Does not wait; any thread may call it."""
        return self._sharing.reporting.metrics()

    async def client_instance_id(self, timeout: float | None = None) -> UUID:
        """Return the id that the cluster has given this client for telemetry, as levada.KafkaConsumer.client_instance_id()."""
        with self._sole:
            return await self._driver.call(self._sharing.reporting.client_instance_id(timeout))

    # Its end

    async def close(self, timeout: float | None = None) -> None:
        """Acknowledge for the last time, leave the group and close the connections. Idempotent. As levada.KafkaShareConsumer.close().

        timeout: seconds, by default 30. Raises IllegalStateError in another event loop. The end of an `async with` block closes, too.
        """
        await self._close(CLOSE_TIMEOUT_S if timeout is None else checked_timeout(timeout))

    async def _close(self, limit_s: float, *, after_error: bool = False) -> None:
        if self._driver.has_ended():
            self._sharing.handed_over.close()
            return
        try:
            await self._driver.call(self._sharing.close(limit_s, after_error=after_error))
        finally:
            self._driver.close()
            self._sharing.handed_over.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._close(CLOSE_TIMEOUT_S, after_error=error is not None)
