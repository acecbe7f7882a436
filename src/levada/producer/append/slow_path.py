"""The part of send() and send_arrow() that may wait: for the metadata of a new topic, and for memory.

The calls are flows that a driver runs in the caller's thread or task (levada.base.flow.CallerFlow). They hold the engine's lock only
briefly, compress batches without the lock, and yield where they wait. If Ctrl-C or a cancelled task interrupts a flow, closing the flow
gives back its memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from levada.base.flow import CallerFlow, Compute, Until
from levada.base.promise import Promise
from levada.client.driver_interface import Host
from levada.client.engine import Engine
from levada.client.metadata.known_topics import FINAL_TOPIC_ERRORS, topic_error
from levada.client.network.network_client import timeout_error
from levada.error_codes import ErrorCode
from levada.errors import (
    BufferExhaustedError,
    ClosedError,
    IllegalStateError,
    KafkaError,
    MetadataTimeout,
    TimeoutError,
    TransactionAbortableError,
    UnknownTopicOrPartitionError,
    not_written,
)
from levada.producer.append.buffer_pool import Ticket
from levada.producer.append.partition_queue import TopicQueues
from levada.producer.append.record_accumulator import RecordAccumulator, RowsOfPartition, ToSend
from levada.producer.append.sealed import Sealed
from levada.producer.counters import ProducerCounters
from levada.producer.delivery.arrow_delivery import ArrowOutcomes
from levada.producer.delivery.delivery import Delivery, FailedSend
from levada.producer.delivery.failed_sends import FailedSends
from levada.types import PartitionInfo, TopicPartition

T = TypeVar("T")

MISSING_TOLD_MS = 900
"""After how many ms a wait for a topic or partition that does not exist is logged."""
RAISED = (ClosedError, IllegalStateError, TransactionAbortableError)
"""Errors that do not concern a single record. send() raises these and fatal errors; other errors are reported by the Delivery."""


class Limit(NamedTuple):
    """The time limit of a call. text: for error messages, such as "max.block.ms=60000"."""

    text: str
    seconds: float


class Appending:
    """The flows of send(), send_arrow() and partitions_for().

    max.block.ms limits the total wait of one send(), and the wait of send_arrow() for each batch. may_wait: False if the calling thread
    must not wait, because it is the thread that would end the wait, as in a callback. Then a call that would wait fails at once.
    """

    def __init__(
        self,
        accumulator: RecordAccumulator,
        failed_sends: FailedSends,
        counters: ProducerCounters,
        engine: Engine,
        host: Host,
        *,
        max_block_ms: int,
    ) -> None:
        self._accumulator = accumulator
        self._failed_sends = failed_sends
        self._counters = counters
        self._network = engine.network
        self._metadata = engine.metadata
        self._host = host
        self._max_block_ms = max_block_ms
        self._limit = Limit(f"max.block.ms={max_block_ms}", max_block_ms / 1000)
        self._log = engine.deferred.log(__name__)
        self._told_ms: dict[str, int] = {}
        """When a warning was logged about a missing topic or partition. Other calls that wait at the same time log none."""

    @property
    def transaction_number(self) -> int:
        """How many transactions this producer has begun so far. It identifies the current transaction."""
        return self._accumulator.transactions_begun

    def deadline_ms(self, *, may_wait: bool = True) -> int:
        """Return the deadline in ms of a call that begins now: after max.block.ms, or now if may_wait is False."""
        return self._host.now_ms() + (self._max_block_ms if may_wait else 0)

    def send(self, record: ToSend, place: Callable[[ToSend, int], ToSend] | None = None, *, may_wait: bool = True) -> CallerFlow[Delivery]:
        """Append a record, and wait for metadata or memory if needed.

        If the record is refused, the Delivery has the error. Raises fatal errors and the types in RAISED. place: called with the record and
        the topic's number of partitions before the record is appended; returns the record with its partition. What it raises is raised.
        """
        deadline_ms, transaction_number = self.deadline_ms(may_wait=may_wait), self.transaction_number
        placing = False
        try:
            if place is not None:
                queues = yield from self.await_topic(record.topic, None, deadline_ms)
                placing = True
                record = place(record, queues.count)
                placing = False
            append = partial(self._accumulator.append, record)
            return (yield from self._append(append, (record.topic, record.partition), deadline_ms, transaction_number))
        except KafkaError as error:
            if placing or error.fatal or isinstance(error, RAISED):
                not_written(error)
                raise
            failure = error
        if record.callback is not None:
            yield from self._await_credit(deadline_ms)
        with self._host.lock:
            self._counters.failed(record.topic, 1)
            delivery = self._failed_sends.add(record, failure)
        self._host.look()
        return delivery

    def send_rows(
        self, topic: TopicQueues, rows: RowsOfPartition, outcomes: ArrowOutcomes, transaction_number: int, *, may_wait: bool = True
    ) -> CallerFlow[bool]:
        """Append rows to their partition, and add the outcome of every row to `outcomes`. Return False if an error stopped this early.

        transaction_number: the number of the transaction in which the call began; the rows are appended only while it is the current one.
        Raises a KafkaError only if `outcomes` is still empty and the error is no TimeoutError. Otherwise the remaining rows of this
        partition get the error as their outcome. may_wait: whether to wait for metadata and memory, up to max.block.ms.
        """
        tp = TopicPartition(topic.name, rows.partition)
        first = 0
        while first < len(rows.rows):
            append = partial(self._accumulator.append_rows, topic.name, rows, first)
            try:
                batch, index, end = yield from self._append(append, tp, self.deadline_ms(may_wait=may_wait), transaction_number)
            except KafkaError as error:
                if outcomes.is_empty and not isinstance(error, TimeoutError):
                    not_written(error)
                    raise
                refused = FailedSend(tp, error, records_count=len(rows.rows) - first)
                with self._host.lock:
                    self._counters.failed(topic.name, refused.records_count)
                    self._accumulator.unread_failures.add(refused)
                    self._failed_sends.failed(error)
                outcomes.add(refused, 0, rows.rows[first:])
                return False
            outcomes.add(batch, index, rows.rows[first:end])
            first = end
        return True

    def send_sealed(
        self, sealed: Sealed, first_row: int, outcomes: ArrowOutcomes, transaction_number: int, *, may_wait: bool = True
    ) -> CallerFlow[None]:
        """Queue a batch from seal_arrow(), and add the outcomes of its records to `outcomes`. first_row: row number of the first record.

        Raises a KafkaError if the batch cannot be queued. transaction_number: the transaction in which the call began; the batch is queued
        only while it is the current one.
        """
        append = partial(self._accumulator.append_sealed, sealed)
        try:
            batch = yield from self._append(append, sealed.tp, self.deadline_ms(may_wait=may_wait), transaction_number)
        except KafkaError as error:
            not_written(error)
            raise
        outcomes.add(batch, 0, range(first_row, first_row + sealed.records_count))

    # Metadata

    def topic(self, name: str) -> TopicQueues:
        """Return the queues of a topic, and make them if needed. Their `count` is 0 if the topic is not in metadata."""
        return self._accumulator.topic(name, self._metadata.snapshot)

    def await_topic(
        self, name: str, partition: int | None = None, deadline_ms: int | None = None, limit: Limit | None = None
    ) -> CallerFlow[TopicQueues]:
        """Return a topic's queues once metadata has the topic and the partition.

        partition: None waits for the topic only. deadline_ms: None means max.block.ms from now. limit: the time limit that error messages
        name; None means max.block.ms. Raises errors with persisted=NO: MetadataTimeout, UnknownTopicOrPartitionError, a permanent error of
        the topic, or the error that ends all waits for metadata, such as BootstrapError, AuthenticationError or ClosedError.
        """
        metadata, limit = self._metadata, limit or self._limit
        deadline_ms = self.deadline_ms() if deadline_ms is None else deadline_ms
        was_asked, began_ms = False, self._host.now_ms()
        while True:
            with self._host.lock:
                topic = self.topic(name)
                if topic.count > (partition or 0):
                    self._told_ms.pop(name, None)
                    return topic
                now_ms = self._host.now_ms()
                if now_ms - began_ms >= MISSING_TOLD_MS:
                    self._tell_of_missing(name, partition, limit, now_ms)
                self._check_topic(name, is_news=was_asked or not metadata.may_ask(now_ms) or deadline_ms <= now_ms)
                was_asked = True
                # A new topic needs only a metadata request for itself; a known one needs a full update.
                is_new = metadata.add_topic(name, now_ms)
                update = metadata.await_update(metadata.version if is_new else metadata.request_update())
            try:
                with self._counters.calls.timing("metadata-wait", self._host):
                    came = yield from self._until(update, deadline_ms)
                if not came:
                    raise self._unknown(name, partition, limit)
                update.result()
            except KafkaError as error:
                not_written(error)
                raise

    def partitions_for(self, name: str, deadline_ms: int | None = None, limit: Limit | None = None) -> CallerFlow[list[PartitionInfo]]:
        """Wait for a topic's metadata and return its partitions. deadline_ms, limit: as for await_topic()."""
        yield from self.await_topic(name, None, deadline_ms, limit)
        known = self._metadata.topic(name)
        return [] if known is None else list(known.partitions)

    def _check_topic(self, name: str, *, is_news: bool) -> None:
        """Raise the permanent error that metadata has for a topic, if any.

        is_news: whether to raise TOPIC_AUTHORIZATION_FAILED as well, because this call has fetched metadata already or cannot fetch any.
        """
        known = self._metadata.topic(name)
        if known is None or known.error not in FINAL_TOPIC_ERRORS:
            return
        if known.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            # The permission may have been granted since the last metadata response, so fetch metadata before metadata.max.age.ms is over.
            if not is_news:
                return
            self._metadata.request_update()
            self._metadata.add_topic(name, self._host.now_ms())
        raise not_written(topic_error(known.error, name))

    def _tell_of_missing(self, name: str, partition: int | None, limit: Limit, now_ms: int) -> None:
        """Log a warning if a call waits for a topic or a partition that does not exist, at most once per topic in max.block.ms."""
        known = self._metadata.topic(name)
        if known is None or now_ms - self._told_ms.get(name, now_ms - self._max_block_ms) < self._max_block_ms:
            return
        if known.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            what = f"topic '{name}' does not exist"
        elif partition is not None and known.partitions:
            what = f"{name}-{partition} does not exist; the topic has partitions 0 to {len(known.partitions) - 1}"
        else:
            return
        self._told_ms[name] = now_ms
        text = "%s; the producer waits for it up to %s: create it, or check the name"
        self._log.warning(text, what, limit.text, topic=name)

    def _unknown(self, name: str, partition: int | None, limit: Limit) -> KafkaError:
        known = self._metadata.topic(name)
        if known is not None and known.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return UnknownTopicOrPartitionError(
                f"topic '{name}': the broker says it does not exist, and it did not appear within {limit.text}; "
                "create it, or set auto.create.topics.enable=true on the broker"
            )
        if known is not None and partition is not None and known.partitions:
            count = len(known.partitions)
            return UnknownTopicOrPartitionError(
                f"{name}-{partition} does not exist, and did not appear within {limit.text}; the topic has partitions 0 to {count - 1}; "
                "send() waits because partitions may be added"
            )
        because = f" ({known.error.name})" if known is not None else ""
        error = MetadataTimeout(f"topic '{name}': no metadata within {limit.text}{because}")
        return timeout_error(self._network, error, limit.seconds)

    # Memory

    def _append(
        self,
        append: Callable[[int, Ticket | None], T | Ticket | None],
        tp: tuple[str, int | None],
        deadline_ms: int,
        transaction_number: int,
    ) -> CallerFlow[T]:
        """Call `append` until it succeeds. Wait for memory if it returns a Ticket, and for metadata if it returns None.

        Raises IllegalStateError if the transaction with that number is not the current one any more.

        append: called with the present time in ms, and with the ticket that it returned last, None at first. deadline_ms: when to stop
        waiting.
        """
        ticket: Ticket | None = None
        try:
            while True:
                with self._host.lock:
                    self.check_transaction(tp[0], transaction_number)
                    got = append(self._host.now_ms(), ticket)
                    if isinstance(got, Ticket):
                        ticket = got
                # A batch may be full. Compressing it here takes time of the calling thread, not of the engine.
                yield from self._seal_full()
                if isinstance(got, Ticket):
                    yield from self._await_memory(got, tp[0], deadline_ms)
                elif got is None:
                    yield from self.await_topic(*tp, deadline_ms)
                else:
                    return got
        finally:
            if ticket is not None:
                self._cancel(ticket)
            self._host.look()

    def check_transaction(self, topic: str, number: int) -> None:
        """Raise IllegalStateError if the transaction with this number is not the current one any more."""
        if number != self.transaction_number:
            raise IllegalStateError(
                f"topic {topic!r}: the transaction in which this call began has ended, and another one has begun, before all of the call's "
                "records were taken; those left do not go into that one; let the call return before the transaction is ended"
            )

    def _cancel(self, ticket: Ticket) -> None:
        """Give back the memory of a ticket, because another thread may be waiting for memory."""
        with self._host.lock:
            self._accumulator.pool.cancel(ticket)

    def _await_memory(self, ticket: Ticket, topic: str, deadline_ms: int) -> CallerFlow[None]:
        began_ms = self._host.now_ms()
        may_wait = deadline_ms > began_ms
        came = yield from self._until(ticket.promise, deadline_ms)
        with self._host.lock:
            self._counters.waited(self._host.now_ms() - began_ms, without_effect=not came)
        if came:
            ticket.promise.result()
            return
        if not self._network.ever_answered and may_wait:
            raise self._network.bootstrap_error(self._max_block_ms / 1000)
        why = "records come faster than the brokers take them" if may_wait else "a callback cannot wait for memory that callbacks give back"
        what = f"topic {topic!r}: {ticket.size} bytes of buffer.memory={self._accumulator.pool.total}"
        raise BufferExhaustedError(f"{what} did not become free within {self._limit.text}; {why}; persisted: no")

    def _await_credit(self, deadline_ms: int) -> CallerFlow[None]:
        """Wait until the deadline while more than buffer.memory is charged, because records fail faster than their callbacks run."""
        if self._accumulator.pool.available >= 0 or self._host.now_ms() >= deadline_ms:
            return
        with self._host.lock:
            ticket = self._accumulator.pool.enqueue(0)
        try:
            yield from self._until(ticket.promise, deadline_ms)
        finally:
            self._cancel(ticket)

    def _until(self, promise: Promise[Any], deadline_ms: int) -> CallerFlow[bool]:
        """Let the engine act, and wait for a promise. Return False if the deadline comes first."""
        if promise.done or deadline_ms <= self._host.now_ms():
            return promise.done
        self._host.look()
        settled: bool = yield Until(promise, deadline_ms)
        return settled

    def _seal_full(self) -> CallerFlow[None]:
        while self._accumulator.full:
            with self._host.lock:
                batch = self._accumulator.claim_full()
            if batch is None:
                return
            try:
                yield Compute(batch.compress, batch.size)
            finally:
                with self._host.lock:
                    self._accumulator.sealed(batch)
