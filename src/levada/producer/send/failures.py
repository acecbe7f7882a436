"""Fails batches: makes the error for the program, which says whether the records may be in the log (`persisted`)."""

from __future__ import annotations

from collections.abc import Callable

from levada.acls import ResourceType
from levada.base.permissions import refused
from levada.client.metadata.metadata import Metadata
from levada.client.network.network_client import NetworkClient
from levada.error_codes import ErrorCode
from levada.errors import (
    AbortedError,
    ClosedError,
    DeliveryTimeout,
    KafkaError,
    OutOfOrderSequenceError,
    Persisted,
    RecordTooLargeError,
    TransactionAbortedError,
    UnsupportedRecordFormatError,
    broker_error,
)
from levada.producer.append.producer_batch import Final, ProducerBatch
from levada.producer.append.record_accumulator import RecordAccumulator
from levada.producer.counters import ProducerCounters
from levada.producer.send.idempotence import Idempotence
from levada.protocol.messages.produce import PartitionProduceResponse, ProduceRequest

ADVICE = {
    ErrorCode.INVALID_PRODUCER_EPOCH: "its epoch has passed: another producer took over the transactional id, or the coordinator aborted",
    ErrorCode.UNSUPPORTED_VERSION: "client and broker share no suitable version of Produce",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the broker does not know the codec; choose another compression.type",
    ErrorCode.INVALID_TIMESTAMP: "a timestamp is further from the broker's clock than the topic allows",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "the broker no longer knows whether it has the batch",
    ErrorCode.RECORD_LIST_TOO_LARGE: "the batch is larger than the topic's segment.bytes; lower batch.size",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the producer cannot go on; create a new one once this user may use the id",
    ErrorCode.NETWORK_EXCEPTION: "the connection was lost before the answer",
}


class Failures:
    """Fails batches: makes the error, updates sequence numbers and counters, and gives the records their outcome.

    fatal() and closed() only return an error; RecordAccumulator.abort() fails the batches then.
    """

    def __init__(
        self,
        accumulator: RecordAccumulator,
        idempotence: Idempotence | None,
        metadata: Metadata,
        network: NetworkClient,
        counters: ProducerCounters,
    ) -> None:
        self._accumulator = accumulator
        self._idempotence = idempotence
        self._metadata = metadata
        self._network = network
        self._counters = counters
        self.failed: Callable[[KafkaError], object] = lambda error: None
        """Called with the error of each batch that this object fails. The TransactionManager then makes an open transaction fail."""
        self.transaction_waits_for: Callable[[], str] = lambda: ""
        """Returns a text about the reason why the batches of a transaction are delayed; "" if there is none."""
        self.transactional_id: str | None = None

    def expire(self, batch: ProducerBatch) -> None:
        """Fail a batch that is older than delivery.timeout.ms."""
        limit = f"within delivery.timeout.ms={self._accumulator.delivery_timeout_ms}"
        if batch.attempts:
            last = "no answer yet" if batch.on_the_wire and not batch.last_error else batch.last_error
            text = f"{batch.tp}: not acknowledged {limit} ({_attempts(batch)}, last: {last})"
        else:
            text = f"{batch.tp}: not sent {limit} ({self._why_not_sent(batch)})"
        self._end(batch, DeliveryTimeout(text, batch.persisted()))

    def refuse(self, batch: ProducerBatch, answer: PartitionProduceResponse, node: int) -> None:
        """Fail a batch with the error of its response, because it is not retried, or not any more.

        answer: the response for its partition, or the one that the Sender made because there was none. node: the broker's id.
        """
        code = ErrorCode.of(answer.error_code)
        # Some brokers begin the message with the partition, which the text below has already.
        name = f"{batch.tp}: "
        said = (answer.error_message or ADVICE.get(code) or "the broker refused the batch").removeprefix(name)
        # The broker may have appended an earlier attempt that got no response, if the topic accepted such records at that time.
        persisted = batch.persisted()
        errors = {
            record.batch_index: _with(broker_error(code, name + (record.batch_index_error_message or said).removeprefix(name)), persisted)
            for record in answer.record_errors
        }
        text = f"{name}{said} (node {node}, {_attempts(batch)})"
        if errors:
            text = f"{name}refused because other records of its batch were"
        asked_for = {ResourceType.TOPIC: batch.tp.topic}
        if self.transactional_id is not None:
            asked_for[ResourceType.TRANSACTIONAL_ID] = self.transactional_id
        self._fail(batch, refused(ProduceRequest.NAME, answer.error_code, text, asked_for), errors)

    def unfit(self, batch: ProducerBatch, error: UnsupportedRecordFormatError, node: int) -> None:
        """Fail a batch because no record format of the node can hold its records."""
        self._fail(batch, UnsupportedRecordFormatError(f"{batch.tp}: {error} (node {node})"))

    def too_large(self, batch: ProducerBatch) -> None:
        """Fail a batch with a single record that is too large for the topic."""
        text = (
            f"{batch.tp}: the broker refuses a record that takes {batch.size} bytes; raise the topic's max.message.bytes "
            f"(broker: message.max.bytes) or send smaller records"
        )
        self._fail(batch, RecordTooLargeError(text))

    def lose(self, batch: ProducerBatch) -> None:
        """Fail a batch that may have been written under the old sequence, because its partition starts a new sequence."""
        text = f"{batch.tp}: the broker lost this producer's sequence while the batch was unanswered ({_attempts(batch)})"
        self._fail(batch, OutOfOrderSequenceError(text))

    def drop(self, batch: ProducerBatch) -> None:
        """Fail a batch because the program has called abort_pending()."""
        sent = f"unanswered so far ({_attempts(batch)})" if batch.attempts else "not sent yet"
        self._fail(batch, AbortedError(f"{batch.tp}: given up by abort_pending(), {sent}"))

    def abort(self, batch: ProducerBatch, cause: KafkaError | None) -> None:
        """Fail a batch because its transaction is aborted, or has to be.

        cause: the error of the transaction; None if the program aborts it.
        """
        sent = f"after {_attempts(batch)}" if batch.attempts else "before it was sent"
        why = "" if cause is None else f"; the transaction failed with: {cause}"
        error = TransactionAbortedError(f"{batch.tp}: aborted with its transaction, {sent}{why}")
        error.__cause__ = cause
        # Do not report the failure as unread if the program itself aborts: it drops the records on purpose.
        self._fail(batch, error, final=Final.ABORTED if cause is None else Final.FAILED)

    def fatal(self, batch: ProducerBatch) -> KafkaError:
        """Return the error for a batch of a producer that has a fatal error, or no permission for idempotent writes."""
        error = self._idempotence.error if self._idempotence is not None else None
        code = getattr(error, "code", ErrorCode.UNKNOWN_SERVER_ERROR)
        why = getattr(error, "reason", error)
        lasting = self._idempotence is None or not self._idempotence.was_denied
        text = f"{batch.tp}: the producer cannot go on: {why}" if lasting else f"{batch.tp}: {why}"
        return _with(broker_error(code, text), batch.persisted())

    @staticmethod
    def closed(batch: ProducerBatch) -> KafkaError:
        """Return the error for a batch that close() did not wait for."""
        text = f"{batch.tp}: the producer was closed before the record was acknowledged"
        return _with(ClosedError(text), batch.persisted())

    def _fail(
        self, batch: ProducerBatch, error: KafkaError, record_errors: dict[int, KafkaError] | None = None, final: Final = Final.FAILED
    ) -> None:
        self._end(batch, _with(error, batch.persisted()), record_errors, final)

    def _end(
        self, batch: ProducerBatch, error: KafkaError, record_errors: dict[int, KafkaError] | None = None, final: Final = Final.FAILED
    ) -> None:
        if batch.final is not None:
            # The batch has failed already: another batch has made its transaction fail.
            return
        if self._idempotence is not None:
            self._idempotence.gave_up(batch, error.persisted)
        self._counters.failed(batch.tp.topic, batch.unsettled_count)
        self._accumulator.fail(batch, error, final=final, record_errors=record_errors)
        self.failed(error)

    def _why_not_sent(self, batch: ProducerBatch) -> str:
        leader = self._metadata.snapshot.leader(batch.tp)
        failures = self._network.failures()
        if leader is None:
            return "; ".join(["its leader is not known", *(f"{address}: {cause}" for address, cause in failures.items())])
        if leader.address in failures:
            return f"its leader, node {leader.id} at {leader.address}: {failures[leader.address]}"
        if self._idempotence is not None and self._idempotence.needs_identity:
            return f"waiting for {self._idempotence.waiting_for or 'a producer id'}"
        if waits_for := self.transaction_waits_for():
            return f"waiting for {waits_for}"
        return f"waiting behind earlier batches to node {leader.id}"


def _attempts(batch: ProducerBatch) -> str:
    return f"{batch.attempts} attempt{'s' if batch.attempts != 1 else ''}"


def _with(error: KafkaError, persisted: Persisted) -> KafkaError:
    """Set `persisted` of an error, and append it to the error text."""
    error.persisted = persisted
    error.args = (f"{error}; persisted: {persisted.value}",)
    return error
