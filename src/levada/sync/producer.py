"""KafkaProducer: sends records and columns, from any number of threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Self
from uuid import UUID

from levada.api.arguments import plain_records, saying_how_many
from levada.api.engine_setup import Connector
from levada.api.keywords import check_formats, unknown_keyword
from levada.api.lifecycle import HoldsConnections
from levada.api.producing import LAST_CALLBACKS_S, Producing
from levada.api.record_offsets import OffsetsToCommit
from levada.api.transacting import Transacting
from levada.base.flow import CallerFlow
from levada.base.promise import Promise
from levada.base.unsupported_names import PRODUCER, lacks
from levada.config import ProducerConfig
from levada.errors import ClosedError, CrashedError, ForkedError, IllegalStateError
from levada.formats.arguments import WRITE_ARGUMENTS
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
    from levada.formats.arguments import WriteArguments


class DeliveryWait:
    """Lets threads of the program wait for deliveries. Handles refer to this object and not to the producer, which may be dropped.

    On the thread that runs callbacks, the methods raise an error.
    """

    def __init__(self, driver: Driver, producing: Producing) -> None:
        self._driver = driver
        self._producing = producing

    def one(self, promise: Promise[Any], timeout: float | None, what: str) -> None:
        """Wait until one record batch is acknowledged or has failed.

        timeout: seconds; None for no limit. what: the name of the call, for errors.
        """
        self._producing.refuse_in_callback("waiting for a delivery")
        self._driver.wait(promise, timeout, what)

    def all(self, promises: Sequence[Promise[Any]], timeout: float | None, what: str) -> None:
        """Wait until several record batches are acknowledged or have failed.

        timeout: seconds; None for no limit. what: the name of the call, for errors.
        """
        self._producing.refuse_in_callback("waiting for deliveries")
        self._driver.run(wait_for_all(promises), timeout, what)


@lacks(PRODUCER)
class KafkaProducer(Sending[K_in, V_in], HoldsConnections):
    """Sends records. By default it is idempotent with acks=all: records of a partition are written once and in order.

    Settings are Kafka's, dotted in a mapping or with underscores as keywords; see docs/CONFIGURATION.md. Any thread may call any method;
    timeouts are in seconds. Every method but close() raises ClosedError after close(), and ForkedError in a child process if the parent has
    used the producer. Leaving a `with` block closes the producer: it waits for all records, but after an exception at most 5 seconds, and
    then Ctrl-C ends it at once.

    Its type parameters are the types that the serializers take, by default Any: KafkaProducer[str, bytes].
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
        self._core = producing.core
        self._append = producing.append
        self._transacting = Transacting(parsed, producing.core, engine, driver)
        self._wait_for = DeliveryWait(driver, producing)
        self._core.wait_with(self._wait_for.one)
        driver.when_dropped = producing.end_by_itself
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

        records: any iterable of values, of tuples (key, value), of tuples (key, value, headers), or mixed; it is read while sending. A
        tuple always means one of these; write (None, value) for a value that is itself a tuple. partition, timestamp, on_delivery: for all
        records. headers: for records without their own. ack: an AckBuffer and one sequence for all records. It is marked when every record
        is written, and failed with the error of the first record that is not, or with what send_many() raises.

        Exceptions of the iterable, and those of send() for wrong arguments, have a note that says how many records were sent before.
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
        key: str | Sequence[str] | None = None,
        value: str | Sequence[str] | None = None,
        headers: str | None = None,
        timestamp: str | None = None,
        partition: str | None = None,
        ack: Ack | None = None,
        **formats: Unpack[WriteArguments],
    ) -> ArrowDelivery:
        """Send every row of Arrow data: a Table, a RecordBatch, a polars or pandas frame, a DuckDB query, anything with __arrow_c_stream__.

        Each of these arguments names a column, or is None:

        - key, value: binary or string; default: null
        - headers: list<struct<key, value>> or map; default: no headers
        - timestamp: any timestamp type, dates, or integer milliseconds since the epoch; default, and for null: now
        - partition: integers; default, and for null: chosen as in send()

        formats: value_format="avro", value_schema=... and others (docs/howto/formats.md): key or value names a typed column, mostly a
        struct, or several columns that become one. All rows are encoded before the first is sent.

        Columns may be sliced, chunked, dictionary-encoded, run-end-encoded or views. The data are read piece by piece. Serializers are not
        applied: a producer with a key_serializer takes no column of keys, and one with a value_serializer none of values.

        ack: an AckBuffer and one sequence for all rows. It is marked when every row is written, and failed with the error of the first row
        that is not, or with what send_arrow() raises.

        Rows share batches with the records of send(), and wait for linger.ms in the same way.

        Returns the outcomes of the rows. A row that cannot be sent (too large, no such partition, a negative time, a header without a key)
        fails alone, and its error names its number. The call waits for metadata and, with every batch, for room in buffer.memory, up to
        max.block.ms. Once that time was not enough, it does not wait again: rows without room fail with BufferExhaustedError.

        Raises at once, with nothing sent: TimeoutError, UnknownTopicOrPartitionError, ClosedError, SerializationError for columns of the
        wrong type, IllegalStateError for a column that a serializer is for, ValueError when neither key, value nor headers name a column,
        ConfigError for wrong formats. After the first rows were taken, such an error, for example of a close() meanwhile, fails the
        remaining rows, and those taken have their own outcomes. Exceptions of reading the data are raised as they are; rows read before may
        have been sent.
        """
        check_formats(self.send_arrow, formats, WRITE_ARGUMENTS)
        columns = {"key": key, "value": value, "headers": headers, "timestamp": timestamp, "partition": partition}
        delivery = ArrowDelivery(topic, self._wait_for.all)
        with failed_if_raised(ack):
            self._driver.call(self._producing.send_arrow(topic, data, columns, delivery, ack, formats))
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

        Arguments, partitions, compression and sizes are those of send_arrow(). The batches are what would be sent; rows without a timestamp
        get the current time. So work can be divided: one process seals, and another one sends, within its own transaction. Waits for
        metadata, up to max.block.ms. Raises what send_arrow() raises, also for a single row that cannot be sent; and IllegalStateError for
        a producer with interceptors, which could not see the records.
        """
        columns = {"key": key, "value": value, "headers": headers, "timestamp": timestamp, "partition": partition}
        return self._driver.call(self._producing.seal_arrow(topic, data, columns))

    def send_sealed(self, batches: Iterable[SealedBatch]) -> ArrowDelivery:
        """Send record batches that seal_arrow() of any producer has returned, each as a whole, after the partition's earlier records.

        They are sent as records of this producer: idempotent, and within its transaction. The rows of the outcome are numbered through all
        batches. Batches that are sent again, by this or another producer, are new records. Waits for metadata and for room in
        buffer.memory, up to max.block.ms. Raises CorruptRecordError for bytes that are no such batch, RecordTooLargeError for a batch above
        max.request.size, IllegalStateError for a producer with interceptors, which could not see the records, and what send() raises; the
        batches before the failed one are sent.
        """
        batches = list(batches)
        delivery = ArrowDelivery(", ".join(sorted({batch.topic for batch in batches})), self._wait_for.all)
        self._driver.call(self._producing.send_sealed(batches, delivery))
        return delivery

    def init_transactions(self, timeout: float | None = None) -> None:
        """Initialize transactions, once, before the first one. Needs the option transactional.id.

        Another producer with the same transactional.id is fenced, and its open transaction is aborted. timeout: seconds, by default
        max.block.ms. Raises TimeoutError, ConnectError, TransactionalIdAuthorizationError and other errors of the coordinator, after which
        the call may be repeated; IllegalStateError when it has been done before.
        """
        self._driver.call(self._transacting.initialize(timeout))

    @property
    def _keeps_identity(self) -> bool:
        """Whether a transaction can begin with the present producer id and epoch, without a request to the coordinator."""
        return self._transacting.keeps_identity

    def _forget_identity(self) -> None:
        """Forget the producer id and epoch, but keep connections and metadata; init_transactions() has to be called again.

        It is for a transactional.id that several producers use in turn: each fences the one before. Raises IllegalStateError while a
        transaction is open, or its outcome is not known.
        """
        self._driver.call(self._transacting.forget_identity())

    def begin_transaction(self, timeout: float | None = None) -> None:
        """Begin a transaction. Every record that is sent from now on belongs to it, until it is committed or aborted.

        It sends no request, unless the producer needs a new epoch, for example because the response to the previous transaction's end was
        lost: then it does what init_transactions() does (timeout: seconds for that, by default max.block.ms). Raises IllegalStateError
        while a transaction is open, and before init_transactions().
        """
        self._driver.call(self._transacting.begin(timeout))

    def send_offsets_to_transaction(
        self,
        offsets: OffsetsToCommit,
        group: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Commit offsets of a group within the transaction: they are committed when it is (KIP-98, KIP-447).

        Until the transaction has ended, consumers of the group cannot learn where to begin. So a program that may have been killed within a
        transaction calls init_transactions(), which aborts that transaction, before it reads.

        offsets: for each partition, the offset of the next record to read. group: a consumer's group_metadata(), or the id of a group
        without members. timeout: seconds, by default max.block.ms. Raises TransactionAbortableError when the offsets were refused, for
        example because the member has lost its partitions, or not stored in time: then the transaction can only be aborted. Raises
        IllegalStateError outside of a transaction.
        """
        self._driver.call(self._transacting.send_offsets(offsets, group, timeout))

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Wait until every record of the transaction is acknowledged, then commit it: readers with isolation.level=read_committed see all
        of it, or nothing.

        timeout: seconds, by default max.block.ms. Raises TransactionAbortableError when a record has failed, with that record's error as
        the cause: call abort_transaction(). ProducerFencedError: another producer has taken over, or the transaction was open for longer
        than transaction.timeout.ms; close this producer. TimeoutError: not every record was acknowledged in time; the transaction is still
        open. TransactionOutcomeUnknownError: it may be committed or not; repeat the call to find out, or continue with begin_transaction(),
        as the error says. On Kafka 4.0 or newer a fenced producer may learn that only from abort_transaction(), as in Java: until then its
        records, and this call, fail with errors that are not fatal.
        """
        self._driver.call(self._transacting.commit(timeout))

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction: readers with isolation.level=read_committed see nothing of it. Records that were not sent yet fail.

        timeout: seconds, by default max.block.ms. Raises ProducerFencedError when another producer has taken over, or the transaction was
        open for longer than transaction.timeout.ms; TimeoutError and TransactionOutcomeUnknownError (the transaction is not committed),
        after which the call may be repeated. After a commit with an unknown outcome it aborts the transaction, or raises IllegalStateError
        if that was committed; if the coordinator does not know any more, it raises ProducerFencedError, or a TransactionOutcomeUnknownError
        after which begin_transaction() is possible.
        """
        self._driver.call(self._transacting.abort(timeout))

    def transaction(self, timeout: float | None = None) -> Transaction:
        """Return a block: `with producer.transaction() as txn:` begins a transaction, commits it at the end, and aborts it on an exception.

        The first block calls init_transactions() if the program has not. A program that also reads with a group's committed offsets calls
        that before it reads: until then, a transaction that an earlier run left open keeps the offsets back, and no record arrives.

        timeout: seconds for each step, including offsets that are sent within the block; by default max.block.ms. The block raises the
        exceptions of these calls. An exception within the block passes through, unless it is an error of levada and the abort finds out
        that the producer is fenced: then that error is raised. Within the block commit_transaction() and detach_transaction() raise
        IllegalStateError; after abort_transaction() the end of the block does nothing.
        """
        return Transaction(self._driver, self._transacting, timeout)

    def detach_transaction(self, timeout: float | None = None) -> TransactionHandle:
        """Deliver every record of the transaction and leave it open. KafkaAdmin ends it, in this or another process.

        Returns the handle for commit_detached(handle) and abort_detached(handle) of KafkaAdmin. Afterwards this producer can only be
        closed; a repeated call returns the same handle. A consumer's offsets that were sent in the transaction are in doubt, as after an
        abort: consumer.seek_to_committed() waits until the transaction has ended. If nothing ends it, it is aborted after
        transaction.timeout.ms. timeout and errors: as in commit_transaction(), but TransactionOutcomeUnknownError is not raised.
        """
        return self._driver.call(self._transacting.hand_over(timeout))

    def partitions_for(self, topic: str, *, timeout: float | None = None) -> list[PartitionInfo]:
        """Describe a topic's partitions. Waits for metadata. Brokers with auto.create.topics.enable create a missing topic.

        timeout: seconds; default: max.block.ms. Raises UnknownTopicOrPartitionError if the topic still does not exist when the timeout is
        over, and TimeoutError if metadata has not arrived by then.
        """
        return self._driver.call(self._producing.partitions_for(topic, timeout))

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now, and wait until each record sent before is acknowledged or has failed.

        The handles and callbacks of the records report failures; one warning has the number of failures that the program has not looked at.
        timeout: seconds; None waits until all are done, which delivery.timeout.ms bounds. Raises FlushTimeout, whose `remaining` is the
        number of records that are not done and stay as they are; and IllegalStateError in an on_delivery callback, where it would wait for
        itself.
        """
        self._producing.refuse_in_callback("flush()")
        self._driver.call(self._producing.flush(timeout))

    def metrics(self) -> Metrics:
        """Return the producer's metrics under the names of Java's metrics: see docs/METRICS.md. Any thread may call it."""
        return self._producing.reporting.metrics()

    def client_instance_id(self, timeout: float | None = None) -> UUID:
        """Return the id that the cluster has given this client for telemetry, after waiting for it (KIP-714).

        timeout: seconds, by default default.api.timeout.ms. Raises IllegalStateError without enable.metrics.push=true, and TimeoutError,
        with the cause if it is known: a cluster without a plugin for telemetry gives no ids.
        """
        return self._driver.call(self._producing.reporting.client_instance_id(timeout))

    def abort_pending(self) -> int:
        """Fail every record that is neither acknowledged nor failed, and return the number of these records. The producer can still be
        used.

        They fail with AbortedError. Its `persisted` is "no" for records that were never sent or certainly not appended, and "unknown" for
        those that a broker may have: a request in flight cannot be withdrawn. Callbacks run soon after, on the client's own thread. Records
        of a send() that waits for memory or metadata in another thread are not failed.
        """
        return self._producing.abort_pending()

    def close(self, timeout: float | None = None) -> None:
        """Wait until all records are acknowledged or have failed, then close every connection. Idempotent.

        timeout: seconds; then the remaining records fail with ClosedError. None waits as long as delivery.timeout.ms allows. It does not
        wait in a callback, nor in a finalizer that interrupts the producer's own work; the records are still sent then. One warning has the
        number of failures that the program has not looked at. In a forked child it does nothing.

        An open transaction is aborted: none of its records count, those not sent yet fail, and one warning says so. A commit or abort of
        another thread is waited for. Both take at most max.block.ms in all; what is left then is logged, and the other thread's call raises
        TransactionOutcomeUnknownError.

        Then interceptors, serializers and the partitioner that have a close() are closed; exceptions of theirs are logged.
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
