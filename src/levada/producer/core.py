"""A producer's parts, wired to an engine. Faces wait and convert; everything that decides is below here.

Methods are called under the engine's lock. The flows among them are run on the engine, which throws a TimeoutError in at their deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from random import Random
from typing import Any

from levada.client.backoff import ExponentialBackoff
from levada.client.engine import Engine
from levada.error_codes import ErrorCode
from levada.errors import (
    FINAL_TOPIC_ERRORS,
    BootstrapError,
    KafkaError,
    MetadataTimeout,
    TimeoutError,
    UnknownTopicOrPartitionError,
    topic_error,
)
from levada.flow import Flow, Wait
from levada.producer.buffer_pool import BufferPool
from levada.producer.delivery import Delivery, FailedSend
from levada.producer.failures import Failures
from levada.producer.partition_queue import TopicQueues
from levada.producer.producer_batch import DeliveryCallback, ProducerBatch
from levada.producer.record_accumulator import RecordAccumulator, ToSend
from levada.producer.sender import Sender, SenderSettings
from levada.producer.transaction_manager import TransactionManager
from levada.promise import Promise
from levada.types import PartitionInfo, RecordMetadata, TopicPartition


class ProducerCore:
    """Takes records and sees them delivered.

    lock: what guards the engine. wakeup: has the engine look again. around_callbacks: runs user callbacks for us, outside the lock.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        lock: AbstractContextManager[object],
        random: Random,
        sending: SenderSettings,
        wakeup: Callable[[], None] = lambda: None,
        around_callbacks: Callable[[Callable[[], None]], None] = lambda run: run(),
        enable_idempotence: bool = True,
        buffer_memory: int = 33_554_432,
        linger_ms: int = 5,
        max_request_size: int = 1_048_576,
        delivery_timeout_ms: int = 120_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1000,
        adaptive_partitioning: bool = True,
        availability_timeout_ms: int = 0,
        ignore_keys: bool = False,
    ) -> None:
        backoff = ExponentialBackoff(retry_backoff_ms, retry_backoff_max_ms, random)
        self._engine = engine
        self._lock = lock
        self._wakeup = wakeup
        self._around_callbacks = around_callbacks
        self._now_ms = 0
        self._failed_sends: dict[Promise[Any], None] = {}
        self.pool = BufferPool(buffer_memory)
        self.transactions = TransactionManager(backoff=backoff) if enable_idempotence else None
        self.accumulator = RecordAccumulator(
            pool=self.pool,
            rng=random,
            defer=self._defer,
            settled=self._settled,
            batch_size=sending.batch_size,
            linger_ms=linger_ms,
            max_request_size=max_request_size,
            delivery_timeout_ms=delivery_timeout_ms,
            codec=sending.codec,
            level=sending.level,
            adaptive=adaptive_partitioning,
            availability_timeout_ms=availability_timeout_ms,
            ignore_keys=ignore_keys,
        )
        self._sender = Sender(
            accumulator=self.accumulator,
            transactions=self.transactions,
            metadata=engine.metadata,
            network=engine.network,
            backoff=backoff,
            settings=sending,
            start=self._start,
        )
        self.try_append = self.accumulator.try_append
        self.append = self.accumulator.append
        engine.add_poller(self)

    def poll(self, now_ms: int) -> int:
        """Let the Sender have its turn."""
        self._now_ms = now_ms
        return self._sender.poll(now_ms)

    # Topics

    def topic(self, name: str) -> TopicQueues:
        """Return the queues of a topic, known to metadata or not."""
        return self.accumulator.topic(name, self._engine.metadata.snapshot)

    def await_topic(self, name: str, partition: int | None, limit: str) -> Flow[TopicQueues]:
        """Return a topic's queues when metadata knows it, and the partition (K3). limit: names the time allowed, in errors."""
        metadata = self._engine.metadata
        topic = self.topic(name)
        try:
            while topic.count <= (partition or 0):
                self._check_topic(name)
                metadata.add_topic(name, self._now_ms)
                yield Wait(metadata.await_update(metadata.request_update()))
                topic.refresh(metadata.snapshot)
        except BootstrapError:
            raise
        except TimeoutError:
            raise self._unknown(name, partition, limit) from None
        return topic

    def partitions_for(self, name: str, limit: str) -> Flow[list[PartitionInfo]]:
        """Describe a topic's partitions, from metadata."""
        yield from self.await_topic(name, None, limit)
        known = self._engine.metadata.topic(name)
        return [] if known is None else list(known.partitions)

    def _check_topic(self, name: str) -> None:
        known = self._engine.metadata.topic(name)
        if known is not None and known.error in FINAL_TOPIC_ERRORS:
            raise topic_error(known.error, name)

    def _unknown(self, name: str, partition: int | None, limit: str) -> KafkaError:
        known = self._engine.metadata.topic(name)
        if known is not None and known.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return UnknownTopicOrPartitionError(
                f"topic '{name}': the broker says it does not exist, and it did not appear within {limit}; "
                "create it, or set auto.create.topics.enable=true on the broker"
            )
        if known is not None and partition is not None and known.partitions:
            count = len(known.partitions)
            return UnknownTopicOrPartitionError(
                f"{name}-{partition} does not exist, and did not appear within {limit}; the topic has partitions 0 to {count - 1}"
            )
        return MetadataTimeout(f"topic '{name}': no metadata within {limit}" + (f" ({known.error.name})" if known is not None else ""))

    # Outcomes

    def fail_send(self, record: ToSend, error: KafkaError) -> Delivery:
        """Report a record that did not get into a batch, through its delivery and its callback (K6)."""
        tp = TopicPartition(record.topic, -1 if record.partition is None else record.partition)
        if record.callback is None:
            return Delivery(FailedSend(tp, error), 0, record.timestamp)
        called: Promise[Any] = Promise()
        failed = FailedSend(tp, error, callback_promise=called, waiter=self.accumulator.waiter)
        self._failed_sends[called] = None
        callback, metadata = record.callback, failed.metadata(0, record.timestamp)
        self._defer(lambda: self._call_back(callback, metadata, error, called))
        return Delivery(failed, 0, record.timestamp)

    def _call_back(self, callback: DeliveryCallback, metadata: RecordMetadata, error: KafkaError, called: Promise[Any]) -> None:
        try:
            callback(metadata, error)
        finally:
            with self._lock:
                del self._failed_sends[called]
                called.resolve(None)
            self._wakeup()

    def flush(self) -> Flow[None]:
        """Return when all records sent so far are done, their callbacks included (A22, A25)."""
        self.accumulator.flushes += 1
        batches = (*self.accumulator.unsettled, *self.accumulator.incomplete)
        try:
            yield from wait_for_all([*self._failed_sends, *(batch.promise for batch in batches)])
        finally:
            self.accumulator.flushes -= 1

    def close(self) -> None:
        """Take no more records; what is there is sent without lingering."""
        self.accumulator.close()

    def abort(self) -> None:
        """Fail what is not done (A23)."""
        self.accumulator.abort(Failures.closed)

    def _start(self, flow: Flow[Any], now_ms: int) -> Promise[Any]:
        return self._engine.flows.start(flow, now_ms, describe="InitProducerId")

    def _defer(self, run: Callable[[], None]) -> None:
        self._engine.deferred.append(lambda: self._around_callbacks(run))

    def _settled(self, batch: ProducerBatch) -> None:
        with self._lock:
            self.accumulator.settle(batch)
        self._wakeup()


def wait_for_all(promises: Iterable[Promise[Any]]) -> Flow[None]:
    """Return when all promises are settled."""
    for promise in promises:
        yield Wait(promise)
