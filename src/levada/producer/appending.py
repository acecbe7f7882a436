"""What a caller goes through to have a record taken: metadata of a new topic, and memory (K3, K4).

These are flows under the engine's lock (client.locked_flow), on the thread or task of who called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from levada.client.locked_flow import LockedFlow, Unlocked, WaitUntil
from levada.client.metadata import Metadata
from levada.error_codes import ErrorCode
from levada.errors import (
    FINAL_TOPIC_ERRORS,
    BootstrapError,
    BufferExhaustedError,
    ClosedError,
    IllegalStateError,
    KafkaError,
    MetadataTimeout,
    TimeoutError,
    UnknownTopicOrPartitionError,
    topic_error,
)
from levada.producer.buffer_pool import Ticket
from levada.producer.delivery import Delivery, FailedSend
from levada.producer.failed_sends import FailedSends
from levada.producer.partition_queue import TopicQueues
from levada.producer.producer_batch import ProducerBatch
from levada.producer.record_accumulator import RecordAccumulator, ToSend
from levada.types import PartitionInfo, TopicPartition

T = TypeVar("T")


class Appending:
    """The flows of send(), send_arrow() and partitions_for(); max.block.ms bounds all waits of one of them together.

    may_wait: False where waiting would be for the calling thread itself, as in a callback: what would wait fails at once.
    """

    def __init__(self, accumulator: RecordAccumulator, metadata: Metadata, failed_sends: FailedSends, *, max_block_ms: int) -> None:
        self._accumulator = accumulator
        self._metadata = metadata
        self._failed_sends = failed_sends
        self._max_block_ms = max_block_ms
        self._limit = f"max.block.ms={max_block_ms}"

    def deadline_ms(self, now_ms: int, *, may_wait: bool = True) -> int:
        """Return until when a call that begins now may wait."""
        return now_ms + self._max_block_ms if may_wait else now_ms

    def send(self, record: ToSend, now_ms: int, *, may_wait: bool = True) -> LockedFlow[Delivery]:
        """Append a record where that takes metadata, memory or a new batch; what is against it is told by the delivery (K6)."""
        deadline_ms = self.deadline_ms(now_ms, may_wait=may_wait)
        tp = (record.topic, record.partition)
        try:
            return (yield from self._append(lambda now, ticket: self._accumulator.append(record, now, ticket), tp, now_ms, deadline_ms))
        except (ClosedError, IllegalStateError):
            raise
        except KafkaError as error:
            failure = error
        if record.callback is not None:
            yield from self._await_credit(now_ms, deadline_ms)
        return self._failed_sends.add(record, failure)

    def send_sealed(
        self, topic: TopicQueues, partition: int, data: bytearray, count: int, now_ms: int, *, may_wait: bool
    ) -> LockedFlow[ProducerBatch | FailedSend]:
        """Queue an encoded batch."""
        tp = TopicPartition(topic.name, partition)
        deadline_ms = self.deadline_ms(now_ms, may_wait=may_wait)
        append = partial(self._accumulator.append_sealed, topic.name, partition, data, count)
        try:
            return (yield from self._append(append, tp, now_ms, deadline_ms))
        except TimeoutError as error:
            return FailedSend(tp, error)

    # Metadata

    def topic(self, name: str) -> TopicQueues:
        """Return the queues of a topic, known to metadata or not."""
        return self._accumulator.topic(name, self._metadata.snapshot)

    def await_topic(self, name: str, partition: int | None, now_ms: int, deadline_ms: int | None = None) -> LockedFlow[TopicQueues]:
        """Return a topic's queues when metadata knows it, and the partition (K3). deadline_ms: None allows max.block.ms."""
        yield from self._await_topic(name, partition, now_ms, self.deadline_ms(now_ms) if deadline_ms is None else deadline_ms)
        return self.topic(name)

    def _await_topic(self, name: str, partition: int | None, now_ms: int, deadline_ms: int) -> LockedFlow[int]:
        metadata = self._metadata
        try:
            while self.topic(name).count <= (partition or 0):
                self._check_topic(name)
                # A topic that was not asked for before takes a small update, about itself; one that was, a full one.
                is_new = metadata.add_topic(name, now_ms)
                update = metadata.await_update(metadata.version if is_new else metadata.request_update())
                now_ms = yield WaitUntil(update, deadline_ms, f"metadata of topic {name!r}")
        except BootstrapError:
            raise
        except TimeoutError as error:
            raise self._unknown(name, partition, error) from None
        return now_ms

    def partitions_for(self, name: str, now_ms: int) -> LockedFlow[list[PartitionInfo]]:
        """Describe a topic's partitions, from metadata."""
        yield from self.await_topic(name, None, now_ms)
        known = self._metadata.topic(name)
        return [] if known is None else list(known.partitions)

    def _check_topic(self, name: str) -> None:
        known = self._metadata.topic(name)
        if known is not None and known.error in FINAL_TOPIC_ERRORS:
            raise topic_error(known.error, name)

    def _unknown(self, name: str, partition: int | None, timeout: TimeoutError) -> KafkaError:
        known = self._metadata.topic(name)
        if known is not None and known.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return UnknownTopicOrPartitionError(
                f"topic '{name}': the broker says it does not exist, and it did not appear within {self._limit}; "
                "create it, or set auto.create.topics.enable=true on the broker"
            )
        if known is not None and partition is not None and known.partitions:
            count = len(known.partitions)
            return UnknownTopicOrPartitionError(
                f"{name}-{partition} does not exist, and did not appear within {self._limit}; the topic has partitions 0 to {count - 1}"
            )
        because = f" ({known.error.name})" if known is not None else ""
        # What is wrong with which broker, if the driver knows.
        _, newline, causes = str(timeout).partition("\n")
        return MetadataTimeout(f"topic '{name}': no metadata within {self._limit}{because}{newline}{causes}")

    # Memory

    def _append(
        self,
        append: Callable[[int, Ticket | None], T | Ticket | None],
        tp: tuple[str, int | None],
        now_ms: int,
        deadline_ms: int,
    ) -> LockedFlow[T]:
        """Call append until it succeeds, and wait for what it lacks."""
        ticket: Ticket | None = None
        try:
            while True:
                got = append(now_ms, ticket)
                # A batch may have been filled: compressed here, the time is the sender's own.
                yield from self._seal_full()
                if isinstance(got, Ticket):
                    ticket = got
                    now_ms = yield from self._await_memory(ticket, tp[0], now_ms, deadline_ms)
                elif got is None:
                    now_ms = yield from self._await_topic(*tp, now_ms, deadline_ms)
                else:
                    return got
        finally:
            if ticket is not None:
                self._accumulator.pool.cancel(ticket)

    def _await_memory(self, ticket: Ticket, topic: str, now_ms: int, deadline_ms: int) -> LockedFlow[int]:
        pool = self._accumulator.pool
        may_wait = deadline_ms > now_ms
        try:
            if ticket.promise.done or may_wait:
                now_ms = yield WaitUntil(ticket.promise, deadline_ms, f"buffer.memory for topic {topic!r}")
                return now_ms
        except BootstrapError:
            raise
        except TimeoutError:
            pass
        why = "records come faster than the brokers take them" if may_wait else "a callback cannot wait for memory that callbacks give back"
        what = f"topic {topic!r}: {ticket.size} bytes of buffer.memory={pool.total}"
        raise BufferExhaustedError(f"{what} did not become free within {self._limit}; {why}; persisted: no")

    def _await_credit(self, now_ms: int, deadline_ms: int) -> LockedFlow[None]:
        """Wait while failed records alone hold more than all memory: callbacks run slower than records fail."""
        pool = self._accumulator.pool
        if pool.available >= 0 or now_ms >= deadline_ms:
            return
        ticket = pool.enqueue(0)
        try:
            yield WaitUntil(ticket.promise, deadline_ms, "callbacks of failed records")
        except TimeoutError:
            return
        finally:
            pool.cancel(ticket)

    def _seal_full(self) -> LockedFlow[None]:
        while (batch := self._accumulator.claim_full()) is not None:
            try:
                yield Unlocked(batch.seal)
            finally:
                self._accumulator.sealed(batch)
