"""Records that failed before they were in a batch. Their callbacks run later, without the engine's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from levada.base.promise import Promise
from levada.errors import KafkaError
from levada.logs import Log
from levada.producer.append.buffer_pool import BufferPool
from levada.producer.append.producer_batch import DeliveryCallback
from levada.producer.append.record_accumulator import ToSend
from levada.producer.delivery.delivery import Delivery, FailedSend, Waiter
from levada.producer.delivery.unread_failures import UnreadFailures
from levada.types import RecordMetadata, TopicPartition

MEMORY_PER_RECORD = 1024
"""The bytes of buffer.memory charged for a failed record with a callback, until the callback has run."""


class FailedSends:
    """The failed sends of one producer.

    defer: runs a function later, without the engine's lock and in the order of the calls. settled: called after each callback, without the
    lock, with the promise of the record; it has to call settle(). log: logs the exceptions that callbacks raise.
    """

    def __init__(
        self,
        pool: BufferPool,
        unread: UnreadFailures,
        log: Log,
        *,
        defer: Callable[[Callable[[], None]], None],
        settled: Callable[[Promise[Any]], None],
    ) -> None:
        self.waiter: Waiter | None = None
        self.failed: Callable[[KafkaError], object] = lambda error: None
        """Called with the error of every failed record. In a transaction, the TransactionManager then makes the transaction fail."""
        self._pool = pool
        self._unread = unread
        self._defer = defer
        self._settled = settled
        self._log = log
        self._waiting: dict[Promise[Any], None] = {}

    @property
    def promises(self) -> list[Promise[Any]]:
        """The promises of the records whose callbacks have not run."""
        return list(self._waiting)

    def add(self, record: ToSend, error: KafkaError) -> Delivery:
        """Add a record that failed: fail its AckBuffer sequence, run its callback later, and return its Delivery."""
        self.failed(error)
        tp = TopicPartition(record.topic, -1 if record.partition is None else record.partition)
        called: Promise[Any] | None = None if record.callback is None else Promise()
        failed = FailedSend(tp, error, callback_promise=called, waiter=self.waiter)
        if record.ack is not None:
            buffer, sequence = record.ack
            buffer.fail(sequence, error)
            failed.error_of(0)
        if record.callback is None or called is None:
            self._unread.add(failed)
        else:
            self._defer_callback(record.callback, failed.metadata(0, record.timestamp), error, called)
        return Delivery(failed, 0, record.timestamp)

    def _defer_callback(self, callback: DeliveryCallback, metadata: RecordMetadata, error: KafkaError, called: Promise[Any]) -> None:
        self._waiting[called] = None
        self._pool.overdraw(MEMORY_PER_RECORD)
        self._defer(lambda: self._call_back(callback, metadata, error, called))

    def settle(self, called: Promise[Any]) -> None:
        """Resolve the promise of a record and release its memory, after its callback has run."""
        del self._waiting[called]
        self._pool.release(MEMORY_PER_RECORD)
        called.resolve(None)

    def _call_back(self, callback: DeliveryCallback, metadata: RecordMetadata, error: KafkaError, called: Promise[Any]) -> None:
        try:
            callback(metadata, error)
        except BaseException as raised:
            # Catch SystemExit, too: an exception in one callback must not end the thread that runs the callbacks of all records.
            tp = TopicPartition(metadata.topic, metadata.partition)
            self._log.error("%s: an on_delivery callback raised", tp, tp=tp, error=raised)
        finally:
            self._settled(called)
