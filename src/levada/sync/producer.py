"""KafkaProducer: records and columns into topics, from any number of threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Self
from uuid import UUID

from levada.api.arguments import plain_records, saying_how_many
from levada.api.engines import Connector
from levada.api.keywords import unknown_keyword
from levada.api.lifecycle import HoldsConnections
from levada.api.producing import LAST_CALLBACKS_S, Producing, engine_settings
from levada.api.record_offsets import OffsetsToCommit
from levada.api.transacting import Transacting
from levada.base.flow import CallerFlow
from levada.base.not_yet import PRODUCER, lacks
from levada.base.promise import Promise
from levada.config import ProducerConfig
from levada.errors import ClosedError, CrashedError, ForkedError, IllegalStateError
from levada.metrics import Metrics
from levada.producer.append.producer_batch import Ack, DeliveryCallback
from levada.producer.core import wait_for_all
from levada.producer.delivery.arrow_delivery import ArrowDelivery
from levada.producer.delivery.delivery import Delivery
from levada.producer.delivery.joint_ack import failed_if_raised
from levada.serialization import K_in, Plain, V_in
from levada.sync.connect import connect, start
from levada.sync.driver import Driver
from levada.sync.sending import Sending
from levada.sync.transaction import Transaction
from levada.types import ConsumerGroupMetadata, HeadersIn, PartitionInfo, SealedBatch, TransactionHandle

if TYPE_CHECKING:
    from typing import Unpack

    from levada.config.typed import ProducerSettings


class DeliveryWait:
    """Waits on a driver, but not on the thread that runs callbacks."""

    def __init__(self, driver: Driver, producing: Producing) -> None:
        self._driver = driver
        self._producing = producing

    def one(self, promise: Promise[Any], timeout: float | None, what: str) -> None:
        """Wait for one batch."""
        self._producing.refuse_in_callback("waiting for a delivery")
        self._driver.wait(promise, timeout, what)

    def all(self, promises: Sequence[Promise[Any]], timeout: float | None, what: str) -> None:
        """Wait for several batches."""
        self._producing.refuse_in_callback("waiting for deliveries")
        self._driver.run(wait_for_all(promises), timeout, what)


@lacks(PRODUCER)
class KafkaProducer(Sending[K_in, V_in], HoldsConnections):
    """Sends records. Idempotent and acks=all unless told otherwise; records of a partition are written once and in order.

    Settings are Kafka's, dotted in a mapping or with underscores as keywords; see docs/CONFIGURATION.md. All methods may be called from
    any thread; timeouts are in seconds. Every method but close() raises ClosedError after close(), ForkedError in a child process.
    Leaving a `with` block closes the producer: it waits for all records, after an exception for at most 5 seconds, and Ctrl-C then ends it
    at once.

    To type checkers its parameters are the types that the serializers take, or Any: KafkaProducer[str, bytes] says what is sent.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        _connect: Connector[Driver] = connect,
        **settings: Unpack[ProducerSettings[K_in, V_in]],
    ) -> None:
        parsed = ProducerConfig.parse(config, **settings)
        engine, driver = _connect(parsed, "producer", **engine_settings(parsed))
        self._driver = driver
        self._producing = producing = Producing(parsed, engine, driver, random=engine.random)
        self._core = producing.core
        self._append = producing.append
        self._transacting = Transacting(parsed, producing.core, engine, driver)
        self._wait_for = DeliveryWait(driver, producing)
        self._core.wait_with(self._wait_for.one)
        driver.when_dropped = lambda: producing.end_by_itself(driver.name)
        start(self, driver)

    def send_many(
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
        """Send records one after another, as send() does; return their handles, in order.

        records: any iterable, read as it is sent: of values, of tuples (key, value), of tuples (key, value, headers), or mixed. A tuple is
        always taken for one of these; a value that is itself a tuple is given as (None, value). partition, timestamp, on_delivery: of all
        of them; headers: of those without their own. ack: an AckBuffer and one sequence for all records: marked when every record is
        written, failed with the error of the first that is not, or with what send_many() raises.

        What iterating raises, and wrong arguments as in send(), come out with a note that says how many records were sent before.
        """
        append = self._append
        sent: list[Delivery] = []
        with failed_if_raised(ack):
            if unknown:
                raise unknown_keyword(self.send_many, unknown)
            self._producing.check_ack(ack)
            with saying_how_many(sent):
                for value, key, own in plain_records(records, headers):
                    sent.append(
                        append(topic, value, key, partition, timestamp, own, on_delivery)
                        or self.send(topic, value, key, partition=partition, timestamp=timestamp, headers=own, on_delivery=on_delivery)
                    )
            if ack is not None:
                self._producing.settle_all(ack, sent)
        return sent

    def send_arrow(
        self,
        topic: str,
        data: Any,
        *,
        key: str | None = None,
        value: str | None = None,
        headers: str | None = None,
        timestamp: str | None = None,
        partition: str | None = None,
        ack: Ack | None = None,
    ) -> ArrowDelivery:
        """Send every row of Arrow data: a Table, a RecordBatch, a polars or pandas frame, a DuckDB query, anything with __arrow_c_stream__.

        key ... partition: names of columns; what is not named, or null, is null, none, now, or chosen as in send(). Keys and values are
        binary or string, headers list<struct<key, value>> or map, timestamps those of any unit and zone, dates or integer milliseconds,
        partitions integers; each may be sliced, chunked, behind a dictionary, in runs or views. Data are read piece by piece.

        ack: an AckBuffer and one sequence for all rows: marked when every row is written, failed with the error of the first that is not,
        or with what send_arrow() raises.

        Rows share batches with the records of send(), and wait for linger.ms as they do.

        Returns the rows' outcomes. A row that cannot be sent (too large, no such partition, a negative time, a header without key) fails
        alone, named by its number. Waits for metadata and, with every batch, for room in buffer.memory, up to max.block.ms. When that was
        not enough once, it waits no more: rows for which there is no room fail with BufferExhaustedError.
        Raises at once, with nothing sent: TimeoutError, UnknownTopicOrPartitionError, ClosedError, SerializationError for columns that do
        not fit, ValueError when neither key, value nor headers name a column. Once rows were taken, the rest fails with such an error, as
        after a close() meanwhile, and those taken have their own outcomes. What reading the data raises comes through as it is; rows read
        before may have been sent by then.
        """
        columns = {"key": key, "value": value, "headers": headers, "timestamp": timestamp, "partition": partition}
        delivery = ArrowDelivery(topic, self._wait_for.all)
        with failed_if_raised(ack):
            self._driver.call(self._producing.send_arrow(topic, data, columns, delivery, ack))
        return delivery

    def seal_arrow(
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
        """Turn every row of Arrow data into record batches for send_sealed(), and send nothing.

        Arguments, partitions, compression and sizes are those of send_arrow(); rows are in the batches as they would be sent, and rows
        without a timestamp get the present time. So work may be divided: one process seals, another one sends, within its own transaction.
        Waits for metadata, up to max.block.ms. Raises what send_arrow() raises, also for a row that cannot be sent: nothing is returned
        then; and IllegalStateError for a producer with interceptors, which could not see the records.
        """
        columns = {"key": key, "value": value, "headers": headers, "timestamp": timestamp, "partition": partition}
        return self._driver.call(self._producing.seal_arrow(topic, data, columns))

    def send_sealed(self, batches: Iterable[SealedBatch]) -> ArrowDelivery:
        """Send record batches that seal_arrow() of any producer has returned, each as a whole, behind what its partition has.

        They are sent as records of this producer: idempotent, and within its transaction. Rows of the outcome are numbered through all
        batches. The same batches may be sent again, by this or another producer; then they are other records.
        Waits for metadata and for room in buffer.memory, up to max.block.ms. Raises CorruptRecordError for bytes that are no such batch,
        RecordTooLargeError for a batch above max.request.size, and what send() raises; batches before the one at fault go their way.
        """
        batches = list(batches)
        delivery = ArrowDelivery(", ".join(sorted({batch.topic for batch in batches})), self._wait_for.all)
        self._driver.call(self._producing.send_sealed(batches, delivery))
        return delivery

    def init_transactions(self, timeout: float | None = None) -> None:
        """Get ready for transactions, once, before the first of them. Needs the option transactional.id.

        A producer of the same transactional.id that is still there is fenced, and the transaction it left open aborted.
        timeout: seconds, default max.block.ms. Raises TimeoutError and ConnectError, TransactionalIdAuthorizationError and other errors of
        the coordinator, after which the call may be repeated, and IllegalStateError when it was done before.
        """
        self._driver.call(self._transacting.initialize(timeout))

    def _forget_identity(self) -> None:
        """Become as a new producer is, which init_transactions() initializes, but keep connections and metadata.

        For a transactional.id that several producers use in turn: each fences the one before, and goes on after it was fenced in between.
        Raises IllegalStateError while a transaction is open, or its outcome is not known.
        """
        self._driver.call(self._transacting.forget_identity())

    def begin_transaction(self, timeout: float | None = None) -> None:
        """Begin a transaction; every record that is sent from now on belongs to it, until it is committed or aborted.

        Sends no request, but when the answer to the end of the transaction before was lost: then it first does as init_transactions()
        (timeout: seconds for that, default max.block.ms). Raises IllegalStateError while one is open.
        """
        self._driver.call(self._transacting.begin(timeout))

    def send_offsets_to_transaction(
        self,
        offsets: OffsetsToCommit,
        group: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Commit offsets of a group within the transaction: they count once it is committed (KIP-98, KIP-447).

        Until it is ended, consumers of the group are not told where to begin: a program that may have been killed within a transaction
        calls init_transactions() before it reads, which aborts that one.

        offsets: of the next record to read, per partition. group: a consumer's group_metadata(), or the id of a group that has no members.
        timeout: seconds, default max.block.ms. Raises TransactionAbortableError when the offsets were refused, as those of a member that
        its group has lost, or not taken in time: the transaction can only be aborted then. Raises IllegalStateError outside of one.
        """
        self._driver.call(self._transacting.send_offsets(offsets, group, timeout))

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Wait until every record of the transaction is acknowledged, then commit it: readers see all of it, or nothing.

        timeout: seconds, default max.block.ms. Raises TransactionAbortableError when a record has failed, with that record's error as the
        cause: call abort_transaction(). ProducerFencedError: another producer took over, close this one. TimeoutError: not every record was
        acknowledged in time; the transaction is still open. TransactionOutcomeUnknownError: it may be committed or not; repeat the call to
        learn it, or go on with begin_transaction(), as the error says. On brokers of Kafka 4.0 or newer a producer that was fenced may
        learn that from abort_transaction() only, as in Java: until then its records, and this call, fail with errors that are not fatal.
        """
        self._driver.call(self._transacting.commit(timeout))

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction: readers with isolation.level=read_committed see nothing of it. Records not sent yet fail.

        timeout: seconds, default max.block.ms. Raises ProducerFencedError when another producer took over, and TimeoutError and
        TransactionOutcomeUnknownError (the transaction is not committed), after which the call may be repeated. After a commit whose
        outcome is not known it aborts the transaction, or raises IllegalStateError where it was committed; and where the coordinator can no
        longer tell, ProducerFencedError or a TransactionOutcomeUnknownError that leads to begin_transaction().
        """
        self._driver.call(self._transacting.abort(timeout))

    def transaction(self, timeout: float | None = None) -> Transaction:
        """Return a block: `with producer.transaction() as txn:` begins a transaction, commits it at the end, and aborts it on an exception.

        The first one does init_transactions(), where the program has not. One that reads with a group's offsets, too, calls that before it
        reads: until then a transaction that an earlier run left open keeps the offsets back, and no record arrives.

        timeout: seconds for each step, offsets that are sent within the
        block included, default max.block.ms. What the calls raise comes out of the block; an exception within it passes through, unless it
        is an error of levada and the abort learns that the producer is fenced: then that comes out. Within the block commit_transaction()
        and detach_transaction() raise IllegalStateError; after abort_transaction() its end does nothing.
        """
        return Transaction(self._driver, self._transacting, timeout)

    def detach_transaction(self, timeout: float | None = None) -> TransactionHandle:
        """Deliver every record of the transaction and leave it open, to be ended by KafkaAdmin, in this or another process.

        Returns what ends it: commit_detached(handle) and abort_detached(handle) of KafkaAdmin. This producer can only be closed then;
        repeated, the call returns the same handle. Offsets of a consumer that were sent in it are in doubt for the consumer, as after an
        abort: consumer.seek_to_committed() waits until the transaction has ended.
        A transaction that nobody ends is aborted after transaction.timeout.ms. timeout and errors: those of commit_transaction().
        """
        return self._driver.call(self._transacting.hand_over(timeout))

    def partitions_for(self, topic: str, *, timeout: float | None = None) -> list[PartitionInfo]:
        """Describe a topic's partitions, waiting for metadata. Brokers that create topics by being asked for them create this one.

        timeout: seconds, default max.block.ms. Raises UnknownTopicOrPartitionError when the topic has not appeared by then, TimeoutError.
        """
        return self._driver.call(self._producing.partitions_for(topic, timeout))

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until each record sent before is acknowledged or has failed.

        The handles and callbacks of the records report failures. One warning gives the number of failures that the program has not looked
        at. timeout: seconds; None waits until all are done, which delivery.timeout.ms bounds. Raises FlushTimeout, whose `remaining` says
        how many records are not done and which changes nothing about them, and IllegalStateError in an on_delivery callback, where it
        would wait for itself.
        """
        self._producing.refuse_in_callback("flush()")
        self._driver.call(self._producing.flush(timeout))

    def metrics(self) -> Metrics:
        """Return what the producer has counted so far, under the names of Java's metrics: see docs/METRICS.md. From any thread."""
        return self._producing.reporting.metrics()

    def client_instance_id(self, timeout: float | None = None) -> UUID:
        """Return the id under which the cluster knows this client's telemetry, waiting until a broker has given it (KIP-714).

        timeout: seconds, default default.api.timeout.ms. Raises IllegalStateError without enable.metrics.push=true, and TimeoutError, with
        the cause as far as it is known: a cluster without a plugin for telemetry gives no ids.
        """
        return self._driver.call(self._producing.reporting.client_instance_id(timeout))

    def abort_pending(self) -> int:
        """Give up every record that is neither acknowledged nor failed, and return how many there were; the producer can be used on.

        They fail with AbortedError. Its `persisted` is "no" for what was never sent, or certainly not appended, and "unknown" for what a
        broker may have: an attempt that is under way is not called back. Callbacks run soon after, on the client's own thread. Records of
        a send() that waits for memory or metadata in another thread are not among them.
        """
        return self._producing.abort_pending()

    def close(self, timeout: float | None = None) -> None:
        """Wait until all records are acknowledged or have failed, then close every connection. Idempotent.

        A transaction that is open is aborted first: none of its records count, those not sent yet fail, and one warning says so.

        timeout: seconds; then what is left fails with ClosedError. None leaves it to delivery.timeout.ms. From a callback nothing is waited
        for; nor in a finalizer that interrupts the producer's own work, after which the records are still sent. One warning gives the
        number of failures that the program has not looked at. In a forked child this does nothing.

        In a transaction: a commit or abort that another thread has under way is waited for, and a transaction that is open is aborted,
        for at most max.block.ms in all. What is left then is logged; the other thread's call raises TransactionOutcomeUnknownError.

        Then interceptors, serializers and the partitioner are closed, those that have a close(); what one of them raises is logged.
        """
        self._end(self._producing.close(timeout), timeout)

    def _end(self, closing: CallerFlow[float | None], timeout: float | None) -> None:
        try:
            self._driver.check_usable()
        except (ForkedError, ClosedError):
            return
        except CrashedError:
            self._producing.log.warning("the producer had stopped before it was closed; unsent records are lost")
            self._driver.close(timeout)
        except IllegalStateError:
            # What has to be waited for is this thread's own work. The client's thread sends what is left, and then closes.
            self._driver.abandon()
            return
        else:
            self._driver.close(self._driver.call(closing))
        self._producing.handed_over.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self._leave()
            return
        try:
            self.close()
        except BaseException:
            # Ctrl-C, or another signal's handler that raises, broke the wait off.
            self._leave()
            raise

    def _leave(self) -> None:
        try:
            self._end(self._producing.leave(), LAST_CALLBACKS_S)
        except BaseException:
            self._driver.close(LAST_CALLBACKS_S)
            self._producing.handed_over.close()
            raise
