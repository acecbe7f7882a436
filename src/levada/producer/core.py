"""The parts of a producer, connected to an engine. The public APIs only wait and convert types; this package makes all decisions.

Methods are called under the engine's lock. Flows run on the engine, which throws a TimeoutError into a flow at the deadline of the flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random
from typing import Any, Protocol

from levada.base.clock import Clock, ExponentialBackoff
from levada.base.flow import Flow, Wait
from levada.base.promise import Promise
from levada.client.driver_interface import Ended, Host, closed
from levada.client.engine import Engine
from levada.errors import KafkaError
from levada.logs import UNASKED
from levada.producer.append.buffer_pool import BufferPool
from levada.producer.append.partitioning import Partitioning
from levada.producer.append.producer_batch import Final, ProducerBatch
from levada.producer.append.record_accumulator import Flushing, RecordAccumulator
from levada.producer.append.slow_path import Appending
from levada.producer.counters import ProducerCounters
from levada.producer.delivery.delivery import Waiter
from levada.producer.delivery.failed_sends import FailedSends
from levada.producer.send.failures import Failures
from levada.producer.send.idempotence import Idempotence
from levada.producer.send.sender import Sender
from levada.producer.settings import ProducerSettings, TransactionalSettings
from levada.producer.transactions.coordinator_requests import CoordinatorRequests
from levada.producer.transactions.manager import TransactionManager
from levada.producer.transactions.marker_pause import MarkerPause
from levada.producer.transactions.records import ProducerRecords
from levada.producer.transactions.states import State


class ProducerHost(Host, Clock, Protocol):
    """The driver of a producer: it runs the engine in a thread or an event loop, and provides the clock."""

    def is_within(self) -> bool:
        """Whether the calling thread is in a step of the engine, or holds its lock."""
        ...


class ProducerCore:
    """The producer's logic without threads and sockets: appending, sending, transactions.

    host: the driver that runs the engine. random: for the jitter of retry.backoff.ms and the choice of sticky partitions.
    """

    def __init__(
        self, settings: ProducerSettings, engine: Engine, *, host: ProducerHost, random: Random, partitioning: Partitioning
    ) -> None:
        backoff = ExponentialBackoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, random)
        transactional = settings.transactional
        self._engine = engine
        self._host = host
        self._log, log = engine.deferred.log(__name__), engine.log(__name__)
        self.pool = BufferPool(settings.buffer_memory)
        is_transactional = transactional is not None
        self.idempotence = self._new_idempotence(backoff, is_transactional=is_transactional) if settings.enable_idempotence else None
        self.accumulator = RecordAccumulator(
            settings.accumulator,
            pool=self.pool,
            rng=random,
            defer=self._defer,
            settled=self._settled,
            log=log,
            lock=host.lock,
            clock=host,
            partitioning=partitioning,
            wake=self._wake,
        )
        self.failed_sends = FailedSends(
            self.pool, self.accumulator.unread_failures, log, defer=self._defer, settled=self._failed_send_settled
        )
        self._sender = Sender(
            accumulator=self.accumulator,
            idempotence=self.idempotence,
            engine=engine,
            backoff=backoff,
            settings=settings.sender,
            start=self._start,
        )
        self.appending = Appending(
            self.accumulator, self.failed_sends, self._sender.counters, engine, host, max_block_ms=settings.max_block_ms
        )
        self.transaction_manager = None if transactional is None else self._new_transaction_manager(transactional, backoff)
        self.append = self.accumulator.appender.send
        self._join(engine)

    def _join(self, engine: Engine) -> None:
        engine.add_poller(self)
        # As a holder, the producer is notified even when a bug stops the engine. It then refuses records, which would never be sent.
        engine.holders.append(self)

    def _new_idempotence(self, backoff: ExponentialBackoff, *, is_transactional: bool) -> Idempotence:
        def may_send(batch: ProducerBatch) -> bool:
            return self.transaction_manager is not None and self.transaction_manager.may_send(batch)

        return Idempotence(backoff=backoff, may_send=may_send if is_transactional else None, warn=self._warn)

    def _new_transaction_manager(self, settings: TransactionalSettings, backoff: ExponentialBackoff) -> TransactionManager:
        assert self.idempotence is not None, "transactions need idempotence"
        records = ProducerRecords(self.accumulator, self.failed_sends, self._sender.failures, self.idempotence)
        start = self._engine.flows.start
        pause = MarkerPause(settings.transactional_id, self._engine.now, start=start, over=records.look_again)
        manager = TransactionManager(
            settings.transactional_id,
            settings.timeout_ms,
            clamps_timeout=settings.clamps_timeout,
            coordinator=CoordinatorRequests(self._engine.coordinators, backoff),
            features=self._engine.network.features,
            records=records,
            pause=pause,
            start=start,
        )
        self._sender.transaction_manager = manager
        self._sender.failures.failed = self.failed_sends.failed = manager.failed
        self._sender.failures.transactional_id = settings.transactional_id
        self._sender.failures.transaction_waits_for = lambda: pause.waits_for or manager.last_failure
        return manager

    @property
    def partitioning(self) -> Partitioning:
        """The object that chooses the partitions of records."""
        return self.accumulator.partitioning

    @property
    def counters(self) -> ProducerCounters:
        """The counters from which the producer's metrics are computed."""
        return self._sender.counters

    def wait_with(self, waiter: Waiter) -> None:
        """Set the function that Delivery.result() and Delivery.exception() call to block until the record is acknowledged or has failed."""
        self.accumulator.appender.waiter = self.failed_sends.waiter = waiter

    def plain(self, *, keys: bool, values: bool) -> None:
        """Set whether append() may take keys and values as the program passed them. False: they need a serializer or an interceptor.

        Without plain keys append() returns None for records with a key, without plain values for all records. Its caller then runs the
        serializers and interceptors, and appends the record in another way.
        """
        self.accumulator.appender.plain_keys, self.accumulator.appender.plain_values = keys, values

    def poll(self, now_ms: int) -> int:
        """Run Sender.poll(). Return the time at which the engine has to call poll() again, in ms."""
        deadline_ms = self._sender.poll(now_ms)
        return deadline_ms if self.accumulator.going_to_sleep() else now_ms

    def _wake(self, due_now: bool) -> None:
        """Tell the engine about a new or full batch.

        due_now: whether a batch can be compressed or sent at once. Then this thread does both, unless it is in a step of the engine.
        """
        if not due_now or self._host.is_within():
            self._host.wakeup()
            return
        # The record is appended, so its Delivery reports an error of the client.
        try:
            with self._host.undisturbed():
                self._seal_full()
                self._host.change(lambda now_ms: None)
        except KafkaError:
            return

    def _seal_full(self) -> None:
        """Compress full batches in the calling thread, without the engine's lock, so that other threads can append records meanwhile."""
        while self.accumulator.full:
            with self._host.lock:
                batch = self.accumulator.claim_full()
            if batch is None:
                return
            try:
                batch.compress()
            finally:
                with self._host.lock:
                    self.accumulator.sealed(batch)

    # Outcomes

    def flushing(self) -> Flushing:
        """Return an object that waits until all records that were appended so far are acknowledged or have failed."""
        return Flushing(self.accumulator, self.failed_sends.promises)

    def finish(self) -> Flow[None]:
        """Call end_transaction(), then wait until all records are acknowledged or have failed. Raises as end_transaction() does."""
        yield from self.end_transaction()
        yield from self.flushing().run()

    def end_transaction(self) -> Flow[None]:
        """Wait until a transactional call of another thread or task has returned, then abort the transaction if it is still open.

        An abort without a response is sent again. Logs a warning first if a transaction with records or offsets is open. No effect without
        a transactional.id. Raises the error that prevents the abort.
        """
        if self.transaction_manager is not None:
            self._tell(self._aborted_by_close(self.transaction_manager))
            yield from end_transaction(self.transaction_manager)

    def _aborted_by_close(self, transaction: TransactionManager) -> str:
        count = self.unfinished()
        if not transaction.is_open or not (count or transaction.holds_anything):
            return ""
        return (
            f"the producer of transactional.id={transaction.transactional_id} is closed with a transaction open, which is aborted: "
            f"none of its records count, {count:,} of them were not acknowledged; call commit_transaction() first"
        )

    def end_by_itself(self, limit_ms: int) -> Flow[None]:
        """End a producer that the program has dropped without close(): abort its transaction, wait for its records, fail the others.

        limit_ms: the time limit of the abort and the wait. Logs warnings about failures that the program has not read, and about records
        that were not acknowledged.
        """
        self.close()
        self._tell(self.unasked())
        counts = {batch: batch.unsettled_count for batch in self.accumulator.incomplete}
        now_ms = self._host.now_ms()
        flushed = self._engine.flows.start(self.finish(), now_ms, deadline_ms=now_ms + limit_ms, describe="the last flush")
        with suppress(KafkaError):
            yield Wait(flushed)
        lost = sum(count for batch, count in counts.items() if not batch.succeeded and batch.final is not Final.SPLIT)
        if lost:
            text = "the producer was not closed: %d records were not acknowledged, and may be lost; call close() or flush()"
            self._log.warning(text, lost)
        self.abort()

    def unasked(self) -> str:
        """Return a text about the failed records whose errors the program has not read; "" if there are none.

        A failure is reported by one call only.
        """
        count, first = self.accumulator.unread_failures.take()
        if not count:
            return ""
        subject = "1 record failed and was" if count == 1 else f"{count:,} records failed and were"
        return f"{subject} {UNASKED}; the first: {first}"

    def _tell(self, text: str) -> None:
        if text:
            self._warn(text)

    def close(self, ended: Ended = closed) -> None:
        """Refuse further records, fail calls that wait for buffer.memory, and let the Sender send all batches before linger.ms is over.

        ended: makes the errors.
        """
        self.accumulator.close(ended)

    def unfinished(self) -> int:
        """Return how many records are neither acknowledged nor failed."""
        self.accumulator.adopt()
        return sum(batch.unsettled_count for batch in self.accumulator.incomplete)

    def drop_pending(self) -> int:
        """Fail every record that is not yet acknowledged; return the number of these records. The producer can still be used."""
        self.accumulator.adopt()
        count = self.unfinished()
        # The newest batch first: the sequence numbers of an unwritten batch can be used again only if no later number is in use.
        for batch in reversed(list(self.accumulator.incomplete)):
            self._sender.failures.drop(batch)
        return count

    def abort(self) -> None:
        """Fail all records that are not yet acknowledged. Their error is a ClosedError."""
        self.accumulator.abort(Failures.closed)

    def give_up(self, ended: Ended) -> None:
        """Fail all records that are not yet acknowledged, because the engine has ended.

        ended: makes the errors; `closed` if the program closed the client. If a bug stopped the engine, any record may have been written.
        """
        self.accumulator.abort(Failures.closed if ended is closed else lambda batch: ended(f"the delivery to {batch.tp}"))
        # After abort(): abort() must still see which batches are in flight, because those may have been written.
        self._sender.let_go()

    def _start(self, flow: Flow[Any], now_ms: int) -> Promise[Any]:
        return self._engine.flows.start(flow, now_ms, describe="InitProducerId")

    def _warn(self, text: str) -> None:
        self._log.warning("%s", text)

    def _defer(self, run: Callable[[], None]) -> None:
        self._engine.deferred.append(run)

    def _settled(self, batch: ProducerBatch) -> None:
        with self._host.lock:
            self.accumulator.settle(batch)
        self._host.look()

    def _failed_send_settled(self, called: Promise[Any]) -> None:
        with self._host.lock:
            self.failed_sends.settle(called)
        self._host.look()


def wait_for_all(promises: Iterable[Promise[Any]]) -> Flow[None]:
    """Return when all promises are resolved. Raises the error of the first one that was rejected."""
    for promise in promises:
        yield Wait(promise)


def needs_end(transactions: TransactionManager) -> bool:
    """Whether end_transaction() has to wait for a transactional call, or has to abort a transaction."""
    return transactions.is_in_call or transactions.is_open or _abort_is_unanswered(transactions)


def end_transaction(transactions: TransactionManager) -> Flow[None]:
    """Abort the open transaction of a producer that is being closed. Raises the error that prevents the abort.

    First waits for a transactional call of another thread or task, because the result of an interrupted commit would be unknown. An abort
    without a response is sent again. A commit without a response is not: init_transactions() of the next producer with this
    transactional.id completes it.
    """
    while transactions.is_in_call:
        yield Wait(transactions.call_over())
    if transactions.is_open or _abort_is_unanswered(transactions):
        yield from transactions.abort()


def left_behind(transactions: TransactionManager) -> str:
    """Return a text about the transaction that a producer would leave open, or in doubt, if it ended now.

    "" if no transaction is open or unanswered, and after a fatal error. A commit without a response may still be carried out.
    """
    ending = transactions.unanswered
    if transactions.state is State.FATAL_ERROR:
        return ""
    if ending is not None and ending.commits:
        return "a commit that was asked for and not answered, which may yet be carried out"
    if ending is not None:
        return "a transaction whose abort was not answered, which its coordinator aborts later"
    if transactions.is_in_call or transactions.is_open:
        return "a transaction open, which its coordinator aborts later"
    return ""


def _abort_is_unanswered(transactions: TransactionManager) -> bool:
    ending = transactions.unanswered
    return transactions.state is State.OUTCOME_UNKNOWN and ending is not None and not ending.commits
