"""KafkaProducer on asyncio: sends records and columns, in transactions too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Never, Self
from uuid import UUID

from levada.aio.asking import Asking, Serializers
from levada.aio.connect import connect, start
from levada.aio.delivery import ArrowDelivery, Delivery
from levada.aio.driver import Driver
from levada.api.arguments import plain_records, saying_how_many
from levada.api.engine_setup import Connector
from levada.api.keywords import check_formats, unknown_keyword
from levada.api.lifecycle import HoldsConnections
from levada.api.producing import Producing
from levada.api.record_offsets import OffsetsToCommit, RecordsToCommit
from levada.api.transacting import Block, Transacting
from levada.base.flow import CallerFlow
from levada.base.unsupported_names import PRODUCER, asynchronous, lacks
from levada.config import ProducerConfig
from levada.errors import IllegalStateError, not_written
from levada.formats.arguments import WRITE_ARGUMENTS
from levada.metrics import Metrics
from levada.producer.append.producer_batch import Ack, DeliveryCallback
from levada.producer.delivery.joint_ack import fail_refused, failed_if_raised
from levada.serialization import K_in, Plain, V_in
from levada.types import ConsumerGroupMetadata, HeadersIn, PartitionInfo, SealedBatch, TransactionHandle

if TYPE_CHECKING:
    from typing import Unpack

    from levada.aio.consumer import KafkaConsumer
    from levada.config.typed import ProducerSettings
    from levada.formats.arguments import WriteArguments


@asynchronous
@lacks(PRODUCER)
class KafkaProducer(HoldsConnections, Generic[K_in, V_in]):
    """Sends records. See levada.KafkaProducer; calls that wait are coroutines.

    It is created in a running event loop, and any task of that loop may use it.
    """

    @ProducerConfig.in_help
    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        _connect: Connector[Driver] = connect,
        **settings: Unpack[ProducerSettings[K_in, V_in]],
    ) -> None:
        parsed = ProducerConfig.parse(config, **settings)
        engine, driver = _connect(parsed, "producer")
        self._driver = driver
        self._producing = producing = Producing(parsed, engine, driver, random=engine.random)
        self._append = producing.append
        self._asking = Asking.of(driver.loop, producing.serializers)
        self._transacting = Transacting(parsed, producing.core, engine, driver)
        driver.when_dropped = producing.end_by_itself
        start(self, driver)

    async def send(
        self,
        topic: str,
        value: V_in | None = None,
        key: K_in | None = None,
        *,
        partition: int | None = None,
        timestamp: int | datetime | None = None,
        headers: HeadersIn | None = None,
        on_delivery: DeliveryCallback | None = None,
        ack: Ack | None = None,
        **unknown: Never,
    ) -> Delivery:
        """Send a record; return a handle, to be awaited for the RecordMetadata.

        It suspends only for metadata of a new topic or partition and while buffer.memory is full, up to max.block.ms, and while a
        serializer's schema registry is asked. Arguments, outcomes and exceptions are those of levada.KafkaProducer.send(); on_delivery is
        called in the event loop.

        A coroutine whose task is cancelled before its first step never runs, so the sequence of `ack` stays as it is, and the program has
        to fail it. The same holds for send_many() and send_arrow().
        """
        try:
            if unknown:
                raise unknown_keyword(self.send, unknown)
            sent = self._append(topic, value, key, partition, timestamp, headers, on_delivery, ack)
            if sent is None:
                serializers = None
                if self._asking is not None and (serializers := self._asking.known(key, value)) is None:
                    serializers = await self._ask(self._asking, topic, key, value)
                record = self._producing.record(topic, value, key, partition, timestamp, headers, on_delivery, ack, serializers)
                sent = self._producing.try_append(record)
                if sent is None:
                    sent = await self._driver.call(self._producing.send(record))
        except BaseException as error:
            fail_refused(ack, error)
            raise
        return Delivery(sent, self._driver)

    async def _ask(self, asking: Asking, topic: str, key: Any, value: Any) -> Serializers:
        """Return serializers once schema registries have answered. A record of a transaction that ended meanwhile is refused."""
        self._producing.check_usable()
        appending = self._producing.core.appending
        transaction = appending.transaction_number
        serializers = await asking.find(key, value)
        try:
            appending.check_transaction(topic, transaction)
        except IllegalStateError as late:
            raise not_written(late) from None
        return serializers

    async def send_many(
        self,
        topic: str,
        records: Iterable[Plain[K_in, V_in]],
        *,
        partition: int | None = None,
        timestamp: int | datetime | None = None,
        headers: HeadersIn | None = None,
        on_delivery: DeliveryCallback | None = None,
        ack: Ack | None = None,
        **unknown: Never,
    ) -> list[Delivery]:
        """Send records one after another, as send() does; return their handles, in order. Like levada.KafkaProducer.send_many().

        records: values, tuples (key, value), or tuples (key, value, headers). The task is suspended only where send() would suspend it. A
        cancellation ends the call between two records.
        """
        sent: list[Delivery] = []
        with failed_if_raised(ack):
            if unknown:
                raise unknown_keyword(self.send_many, unknown)
            self._producing.check_ack(ack)
            with saying_how_many(sent):
                for value, key, own in plain_records(records, headers):
                    sent.append(
                        await self.send(topic, value, key, partition=partition, timestamp=timestamp, headers=own, on_delivery=on_delivery)
                    )
            if ack is not None:
                self._producing.settle_all(ack, [delivery._delivery for delivery in sent])
        return sent

    async def send_arrow(
        self,
        topic: str,
        data: Any,
        *,
        key: str | Sequence[str] | None = None,
        value: str | Sequence[str] | None = None,
        headers: str | None = None,
        timestamp: str | None = None,
        partition: str | None = None,
        ack: Ack | None = None,
        **formats: Unpack[WriteArguments],
    ) -> ArrowDelivery:
        """Send every row of Arrow data; return a handle for the results, to be awaited. Like levada.KafkaProducer.send_arrow().

        key, value, headers, timestamp, partition: names of columns of `data`. ack: an AckBuffer and one sequence for all rows. formats: how
        typed columns are encoded, in the loop's executor.
        """
        check_formats(self.send_arrow, formats, WRITE_ARGUMENTS)
        columns = {"key": key, "value": value, "headers": headers, "timestamp": timestamp, "partition": partition}
        delivery = ArrowDelivery(topic, self._driver)
        with failed_if_raised(ack):
            await self._driver.call(self._producing.send_arrow(topic, data, columns, delivery, ack, formats))
        return delivery

    async def seal_arrow(
        self,
        topic: str,
        data: Any,
        *,
        key: str | None = None,
        value: str | None = None,
        headers: str | None = None,
        timestamp: str | None = None,
        partition: str | None = None,
    ) -> list[SealedBatch]:
        """Turn every row of Arrow data into record batches for send_sealed(), and send nothing. Like levada.KafkaProducer.seal_arrow().

        key, value, headers, timestamp, partition: names of columns of `data`.
        """
        columns = {"key": key, "value": value, "headers": headers, "timestamp": timestamp, "partition": partition}
        return await self._driver.call(self._producing.seal_arrow(topic, data, columns))

    async def send_sealed(self, batches: Iterable[SealedBatch]) -> ArrowDelivery:
        """Send record batches that seal_arrow() has returned; return a handle for the results of their records, to be awaited.

        Like levada.KafkaProducer.send_sealed().
        """
        batches = list(batches)
        delivery = ArrowDelivery(", ".join(sorted({batch.topic for batch in batches})), self._driver)
        await self._driver.call(self._producing.send_sealed(batches, delivery))
        return delivery

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Initialize transactions, once, before the first one. Like levada.KafkaProducer.init_transactions()."""
        await self._driver.call(self._transacting.initialize(timeout))

    async def begin_transaction(self, timeout: float | None = None) -> None:
        """Begin a transaction. Every record that is sent from now on belongs to it, whichever task sends the record.

        Like levada.KafkaProducer.begin_transaction().
        """
        await self._driver.call(self._transacting.begin(timeout))

    async def send_offsets_to_transaction(
        self,
        offsets: OffsetsToCommit,
        group: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Commit offsets of a group within the transaction. Like levada.KafkaProducer.send_offsets_to_transaction()."""
        await self._driver.call(self._transacting.send_offsets(offsets, group, timeout))

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Wait until every record of the transaction is acknowledged, then commit it. Like levada.KafkaProducer.commit_transaction()."""
        await self._driver.call(self._transacting.commit(timeout))

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction. Like levada.KafkaProducer.abort_transaction()."""
        await self._driver.call(self._transacting.abort(timeout))

    def transaction(self, timeout: float | None = None) -> Transaction:
        """Return a block: `async with producer.transaction() as txn:` commits at its end, and aborts on an exception or cancellation.

        Like levada.KafkaProducer.transaction().
        """
        return Transaction(self._driver, self._transacting, timeout)

    async def detach_transaction(self, timeout: float | None = None) -> TransactionHandle:
        """Deliver every record of the transaction and leave it open. KafkaAdmin ends it, in this or another process.

        Returns the handle for that. Afterwards this producer can only be closed. Like levada.KafkaProducer.detach_transaction().
        """
        return await self._driver.call(self._transacting.hand_over(timeout))

    async def partitions_for(self, topic: str, *, timeout: float | None = None) -> list[PartitionInfo]:
        """Describe a topic's partitions. Waits for metadata. Brokers with auto.create.topics.enable create a missing topic.

        timeout: seconds; default: max.block.ms. Raises UnknownTopicOrPartitionError if the topic still does not exist when the timeout is
        over, and TimeoutError if metadata has not arrived by then.
        """
        return await self._driver.call(self._producing.partitions_for(topic, timeout))

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything now, and wait until each record sent before is acknowledged or has failed.

        The handles and callbacks of the records report failures; one warning has the number of failures that the program has not looked at.
        timeout: seconds; None waits until all are done. Raises FlushTimeout, whose `remaining` is the number of records that are not done
        and stay as they are.
        """
        await self._driver.call(self._producing.flush(timeout))

    def metrics(self) -> Metrics:
        """Return the producer's metrics under the names of Java's metrics: see docs/METRICS.md. Does not wait; any thread may call it."""
        return self._producing.reporting.metrics()

    async def client_instance_id(self, timeout: float | None = None) -> UUID:
        """Return the id that the cluster has given this client for telemetry, as levada.KafkaProducer.client_instance_id()."""
        return await self._driver.call(self._producing.reporting.client_instance_id(timeout))

    def abort_pending(self) -> int:
        """Fail every record that is neither acknowledged nor failed, and return the number of these records. Does not wait.

        Like levada.KafkaProducer.abort_pending(); callbacks run in the event loop soon after.
        """
        return self._producing.abort_pending()

    async def close(self, timeout: float | None = None) -> None:
        """Wait until all records are acknowledged or have failed, then close every connection. Idempotent.

        timeout: seconds; then the remaining records fail with ClosedError. None waits as long as delivery.timeout.ms allows. An open
        transaction, and another task's commit, end as in levada.KafkaProducer.close(). Then interceptors, serializers and the partitioner
        that have a close() are closed; exceptions of theirs are logged. Raises IllegalStateError in another event loop.
        """
        await self._end(self._producing.close(timeout))

    async def _end(self, closing: CallerFlow[float | None]) -> None:
        if not self._driver.has_ended():
            await self._driver.call(closing)
            self._driver.close()
        self._producing.handed_over.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            await self._leave()
            return
        try:
            await self.close()
        except BaseException:
            # The task was cancelled while it waited.
            await self._leave()
            raise

    async def _leave(self) -> None:
        try:
            await self._end(self._producing.leave())
        except BaseException:
            self._driver.close()
            self._producing.handed_over.close()
            raise


@asynchronous
class Transaction:
    """A transaction that is committed at the end of the block, and aborted on an exception or a cancellation."""

    def __init__(self, driver: Driver, transacting: Transacting, timeout: float | None) -> None:
        self._driver = driver
        self._block = Block(transacting, timeout)

    async def send_offsets(self, consumer: KafkaConsumer[Any, Any], records: RecordsToCommit | None = None) -> None:
        """Commit offsets of a consumer's group.id within the transaction: after the last of `records`; for None, those that the consumer's
        consumed_offsets() returns.

        Like levada.Transaction.send_offsets().
        """
        await self._driver.call(self._block.send_offsets(consumer, records))

    async def __aenter__(self) -> Self:
        await self._run(self._block.enter())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._run(self._block.leave(error))

    async def _run(self, step: CallerFlow[None]) -> None:
        try:
            await self._driver.call(step)
        except BaseException as broken_off:
            if self._block.is_open:
                await self._driver.call(self._block.leave(broken_off))
            raise
