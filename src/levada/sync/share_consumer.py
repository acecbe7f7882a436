"""KafkaShareConsumer: records of a share group, acknowledged one by one or as columns (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Never, Self, TypeVar
from uuid import UUID

from levada.api.arguments import checked_timeout
from levada.api.consumer.consuming import CLOSE_TIMEOUT_S
from levada.api.engine_setup import Connector
from levada.api.keywords import unknown_keyword
from levada.api.lifecycle import HoldsConnections
from levada.api.share_consumer import Kind, OnAcknowledge, Sharing
from levada.base.flow import CallerFlow
from levada.base.signals import DeferredSignals
from levada.base.unsupported_names import SHARE_CONSUMER, lacks
from levada.config import ShareConsumerConfig
from levada.errors import ConcurrentUseError, CrashedError, KafkaError
from levada.metrics import Metrics
from levada.sync.connect import connect, start
from levada.sync.driver import Driver
from levada.sync.waiter import SoleThread
from levada.types import AcknowledgeType, K, ShareRecord, ShareRecords, TopicPartition, V

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow as pa

    from levada.config.typed import ShareConsumerSettings

T = TypeVar("T")


@lacks(SHARE_CONSUMER)
class KafkaShareConsumer(HoldsConnections, Generic[K, V]):
    """Reads records of a share group, whose members share partitions and acknowledge each record (KIP-932; Kafka 4.2, preview in 4.1).

    Brokers lock the records that this consumer gets, for the group's share.record.lock.duration.ms (30 s). Records that it accepts or
    rejects are not delivered again. Records that it releases, or does not acknowledge in time, go to another member, up to the group's
    share.delivery.count.limit (5 deliveries). Records are in order only within one partition of one call's result.

    Settings are Kafka's, dotted in a mapping or with underscores as keywords; see docs/CONFIGURATION.md. One thread at a time may use a
    consumer (otherwise ConcurrentUseError); only wakeup() and metrics() may be called from any. Timeouts are in seconds. Every method but
    close() raises ClosedError after close(), and ForkedError in a child process.
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
        self._sole = SoleThread(self._driver.check_usable)
        start(self, self._driver)
        # The member has its id already, which children made by fork() would share.
        self._driver.start()

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

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None, **unknown: Never) -> ShareRecords[K, V]:
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
        return self._hand_out(self._sharing.poll(timeout, max_records))

    def poll_arrow(
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
        return self._hand_out(self._sharing.poll_arrow(timeout, max_records, max_bytes, columns, text))

    def _hand_out(self, poll: CallerFlow[T]) -> T:
        # Before all else: in a forked child nothing may wait for the lock.
        self._driver.check_usable()
        call = self._sharing.next_call
        try:
            # Nothing is called between the end of `with` and the caller's getting the result, so no signal handler runs there.
            with self._sole:
                return self._driver.call(poll)
        except ConcurrentUseError:
            raise
        except BaseException:
            with DeferredSignals():
                self._sharing.take_back(call)
            raise

    def __iter__(self) -> Iterator[ShareRecord[K, V]]:
        """Yield record after record, without end; with consumer.timeout.ms, until none has come for that time.

        A record counts as returned once it is yielded. The next call returns the records that a loop was not given before it was left, as
        long as their locks hold. With share.acknowledgement.mode=implicit, records are accepted when the loop asks for records beyond those
        of one poll(), and by commit(): so a program that takes long for each record sets max.poll.records low. After `break`, close()
        accepts the yielded records except the last one, which is released, and delivered again.
        """
        since_ms = self._driver.now_ms()
        while True:
            iteration = self._hand_out(self._sharing.iterate(since_ms))
            if iteration.is_over:
                return
            try:
                yield from iteration.coming
            finally:
                if not iteration.is_over:
                    with self._sole:
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

    def commit(self, *, timeout: float | None = None, **unknown: Never) -> None:
        """Send acknowledgements, and wait until the brokers have accepted them. With implicit acknowledgement, accept all returned records.

        timeout: seconds, by default default.api.timeout.ms. Raises AcknowledgeError, with the outcome of each partition, if an
        acknowledgement was refused; TimeoutError (acknowledgements may have been accepted nevertheless); WakeupError.
        """
        if unknown:
            raise unknown_keyword(self.commit, unknown)
        with self._sole:
            self._driver.call(self._sharing.commit(timeout))

    def commit_async(self) -> None:
        """Send acknowledgements like commit(), without waiting. The function of set_acknowledgement_commit_callback() is called with the
        results later.
        """
        with self._sole:
            self._sharing.commit_async()

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
        """Return the consumer's metrics under the names of Java's metrics: see docs/METRICS.md. Any thread may call it."""
        return self._sharing.reporting.metrics()

    def client_instance_id(self, timeout: float | None = None) -> UUID:
        """Return the id that the cluster has given this client for telemetry, as levada.KafkaConsumer.client_instance_id()."""
        with self._sole:
            return self._driver.call(self._sharing.reporting.client_instance_id(timeout))

    # Its end

    def close(self, timeout: float | None = None) -> None:
        """Acknowledge for the last time, leave the group and close the connections. Idempotent.

        With implicit acknowledgement, all returned records are accepted, except the last one of a loop that was left. Brokers give records
        that are not acknowledged then to other members at once. timeout: seconds, by default 30. The end of a `with` block closes, too;
        when an exception leaves the block, nothing more is accepted. Then deserializers that have a close() are closed.
        """
        self._close(CLOSE_TIMEOUT_S if timeout is None else checked_timeout(timeout))

    def _close(self, limit_s: float, *, after_error: bool = False) -> None:
        try:
            self._driver.check_usable()
        except KafkaError as error:
            # Closed already, stopped by a bug, in a forked child, or in a finalizer that cannot wait: brokers end sessions by themselves.
            self._driver.close(limit_s)
            if isinstance(error, CrashedError):
                self._sharing.handed_over.close()
            return
        with self._sole:
            try:
                self._driver.call(self._sharing.close(limit_s, after_error=after_error))
            finally:
                self._driver.close(limit_s)
                self._sharing.handed_over.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close(CLOSE_TIMEOUT_S, after_error=error is not None)
