# cython: annotation_typing=False, wraparound=False
"""The fast path of send(): one call, from the arguments of send() to the Delivery. Nearly every record takes it.

It chooses the partition, appends to the open batch, opens the next batch when that is full, and charges buffer.memory for the growth of a
batch. It returns None for everything else, which RecordAccumulator.append() then does: wait, read metadata, move the sticky partition,
refuse a record, call a serializer or a partitioner.

Why it needs no lock: if this module is compiled and the interpreter has a GIL, a call is atomic as long as no Python code runs in it, not
even a finalizer, which an allocation may trigger. So a call first makes all objects that it may need. Then it reads and changes the state
without allocating an object. Such calls happen between the bytecodes of the engine's thread. So that thread takes a batch from its
partition in one step (close_tail), and gets opened and filled batches through two lists that it takes over completely (take_opened,
take_filled). If calls are not atomic, interpreted or without a GIL, a call takes the engine's lock.

A [c] module; the C types are in appender.pxd.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

from levada.ack_buffer import AckWindow
from levada.base.clock import Clock, SystemClock
from levada.producer.append.buffer_pool import BufferPool
from levada.producer.append.partition_queue import PartitionQueue, TopicQueues
from levada.producer.append.partitioning import Partitioning
from levada.producer.append.producer_batch import Ack, DeliveryCallback, ProducerBatch
from levada.producer.delivery.delivery import Delivery
from levada.record.builder import NO_MEMORY, NO_ROOM, RecordBatchBuilder, RowWriter
from levada.record.compression import Codec
from levada.types import Headers
from levada.wire.murmur2 import partition_for_key

FULL, STARVED = NO_ROOM, NO_MEMORY
BATCH_OVERHEAD = 1024
"""The memory of the objects around a batch, in bytes."""
CALLBACK_SIZE = 128
"""The memory of a callback or an AckBuffer sequence that waits for its record, in bytes."""
CALLBACKS_AHEAD = 8
"""How many callbacks a batch is charged for at once."""
FIRST_SIZE = 512
"""The initial size of a batch, in bytes."""
RECORD_OVERHEAD = 96
"""The largest size of a batch header and of a record without key, value and headers, in bytes."""
NO_PARTITION = -1
NO_HEADERS: tuple[()] = ()
# The results of an append. From DUE_LATER on, the engine has to be woken.
UNABLE, OPEN, AGAIN, APPENDED, DUE_LATER, DUE_NOW = -2, -1, 0, 1, 2, 3

FORKS = 0


def _forked() -> None:
    """Handle a fork: a child process has the appenders of its parent, but no thread that sends their batches."""
    global FORKS
    FORKS += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def batch_memory(allowance: int, callback: Any = None, ack: Any = None) -> int:
    """Return the memory to charge for a new batch. callback, ack: those of its first record."""
    return BATCH_OVERHEAD + allowance + (0 if callback is None and ack is None else CALLBACKS_AHEAD * CALLBACK_SIZE)


def is_ack(ack: Any) -> bool:
    """Whether this is a pair of an AckBuffer and a sequence that its put() returned."""
    if type(ack) is not tuple:
        return False
    pair: tuple[Any, ...] = ack
    if len(pair) != 2 or not isinstance(pair[0], AckWindow) or type(pair[1]) is not int:
        return False
    buffer: AckWindow = pair[0]
    try:
        return buffer._was_put(pair[1])
    except OverflowError:  # Compiled, it is a C integer.
        return False


def runs_in_one_piece() -> bool:
    """Whether compiled code that calls no Python code is atomic."""
    has_gil: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    return bool(cython.compiled) and has_gil()


class Appender:
    """The fast path of one producer. topics: those of the accumulator. wake: wakes the engine, now or soon, depending on due_now."""

    def __init__(
        self,
        topics: dict[str, TopicQueues],
        pool: BufferPool,
        partitioning: Partitioning,
        *,
        lock: AbstractContextManager[object],
        clock: Clock,
        wake: Callable[[bool], None],
        batch_size: int,
        linger_ms: int,
        codec: Codec,
        level: int | None,
    ) -> None:
        """batch_size: the largest size of a batch in bytes, except a batch of one record."""
        self.takes_records = True
        self._forks = FORKS
        self.plain_keys = True
        self.plain_values = True
        self.waiter: Any = None
        self._topics = topics
        self._pool = pool
        self._chooses = partitioning.partitioner is not None
        self._ignores_keys = partitioning.ignores_keys
        self._lock = None if runs_in_one_piece() else lock
        self._system_clock = type(getattr(clock.wall_ms, "__self__", None)) is SystemClock and bool(cython.compiled)
        self._now_ms = clock.now_ms
        self._wall_ms = clock.wall_ms
        self._wake = wake
        self._batch_size = batch_size
        self._linger_ms = linger_ms
        self._codec = codec
        self._level = level
        self._compresses = bool(codec)
        self.full: deque[ProducerBatch] = deque()
        self._opened: list[ProducerBatch] = []
        self._filled: list[PartitionQueue] = []

    def send(
        self,
        topic: Any,
        value: Any,
        key: Any,
        partition: Any,
        timestamp: Any,
        headers: Any,
        callback: DeliveryCallback | None,
        ack: Ack | None = None,
    ) -> Delivery | None:
        """Append a record with the arguments of KafkaProducer.send(). None if that needs more than the fast path does."""
        if not self.takes_records or headers or type(topic) is not str or self._forks != FORKS:
            return None
        if not (callback is None or callable(callback)):
            return None
        if ack is not None and not is_ack(ack):
            return None
        if type(value) is not bytes:
            if type(value) is not str or not value.isascii():
                return None
            value = value.encode()
        if key is not None and type(key) is not bytes:
            return None
        if not (self.plain_values and (self.plain_keys or key is None)) or (self._chooses and partition is None):
            return None
        if partition is None:
            number = NO_PARTITION
        elif type(partition) is int and 0 <= partition < 1 << 31:
            number = partition
        else:
            return None
        if timestamp is None:
            when = self.wall_clock()
        elif type(timestamp) is int and 0 <= timestamp < 1 << 62:
            when = timestamp
        else:
            return None
        return self.append(topic, number, key, value, NO_HEADERS, when, callback, ack)

    def wall_clock(self) -> int:
        """Return the milliseconds since the epoch."""
        if cython.compiled and self._system_clock:
            now_ms: int = wall_ms()  # type: ignore[name-defined]  # noqa: F821 - C, see appender.pxd
            return now_ms
        return self._wall_ms()

    def append(
        self,
        topic_name: Any,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp: int,
        callback: DeliveryCallback | None,
        ack: Ack | None,
    ) -> Delivery | None:
        """Append a record. partition: -1 means by key. None if that is not possible at once. Raises the errors of the builder."""
        delivery = Delivery.__new__(Delivery)
        while True:
            if self._lock is None:
                outcome = self.try_append(delivery, topic_name, partition, key, value, headers, timestamp, callback, ack)
            else:
                outcome = self.locked_append(delivery, topic_name, partition, key, value, headers, timestamp, callback, ack)
            if outcome == OPEN:
                outcome = self.open(delivery, topic_name, partition, key, value, headers, timestamp, callback, ack)
            if outcome != AGAIN:
                break
        if outcome >= DUE_LATER:
            self._wake(outcome == DUE_NOW)
        return None if outcome == UNABLE else delivery

    def locked_append(
        self,
        delivery: Delivery,
        topic_name: Any,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp: int,
        callback: DeliveryCallback | None,
        ack: Ack | None,
    ) -> int:
        """Append to the open batch, with the lock."""
        with self._lock:  # type: ignore[union-attr]
            return self.try_append(delivery, topic_name, partition, key, value, headers, timestamp, callback, ack)

    def find(self, topic_name: Any, partition: int, key: bytes | None) -> PartitionQueue | None:
        """Return the partition of a record; None if it is unknown, or the sticky partition has to move."""
        topic = self._topics.get(topic_name)
        if topic is None:
            return None
        number = partition
        if number < 0:
            if key is None or self._ignores_keys:
                number = topic.sticky.current
                # Only between two batches, so that no batch is closed early.
                is_due = topic.sticky.produced >= topic.sticky.limit
                if number < 0 or number >= topic.count or (is_due and topic.partitions[number].tail is None):
                    return None
            elif topic.count > 0:
                number = partition_for_key(key, topic.count)
        if number < 0 or number >= topic.count:
            return None
        return topic.partitions[number]

    def try_append(
        self,
        delivery: Delivery,
        topic_name: Any,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp: int,
        callback: DeliveryCallback | None,
        ack: Ack | None,
    ) -> int:
        """Append to the open batch, atomically."""
        queue = self.find(topic_name, partition, key)
        if queue is None or not self.takes_records:
            return UNABLE
        batch = queue.tail
        if batch is None:
            return OPEN
        told = (callback is not None) + (ack is not None)
        if batch.callback_room < told and not self.charge_callbacks(batch):
            return UNABLE
        index = batch.builder.append_if_room(timestamp, key, value, headers)
        if index == STARVED and self.grow(batch):
            index = batch.builder.append_if_room(timestamp, key, value, headers)
        if index == STARVED:
            return UNABLE
        if index == FULL:
            self.close(queue)
            return OPEN
        _note(delivery, batch, index, timestamp, key, value, callback, ack)
        if batch.builder.has_reached_limit():
            self.close(queue)
            return self.due(queue, 0)
        return APPENDED

    def charge_callbacks(self, batch: ProducerBatch) -> bool:
        """Charge the pool for the next few callbacks of a batch."""
        if not self._pool.try_allocate(CALLBACKS_AHEAD * CALLBACK_SIZE):
            return False
        batch.charged += CALLBACKS_AHEAD * CALLBACK_SIZE
        batch.callback_room += CALLBACKS_AHEAD
        return True

    def grow(self, batch: ProducerBatch) -> bool:
        """Charge the pool for the growth of a batch: to twice its size, at most its limit."""
        builder = batch.builder
        grown = min(2 * builder.allowance, self._batch_size) if builder.compression_ratio >= 1 else 2 * builder.allowance
        more = max(grown, builder.wanted) - builder.allowance
        if not self._pool.try_allocate(more):
            return False
        batch.charged += more
        builder.allowance += more
        return True

    def close(self, queue: PartitionQueue) -> None:
        """Close the open batch: it takes no more records and can be sent."""
        if self._compresses and queue.tail is not None:
            self.full.append(queue.tail)
        queue.close_tail(True)
        self._filled.append(queue)

    def due(self, queue: PartitionQueue, due_ms: int) -> int:
        """Return whether the engine has to be woken for a due time: not if it checks by then anyway and nothing has to be compressed."""
        if due_ms >= queue.backlog.wakes_at_ms:
            return DUE_NOW if self.full else APPENDED
        queue.backlog.wakes_at_ms = due_ms
        return DUE_NOW if due_ms == 0 else DUE_LATER

    # Opening

    def open(
        self,
        delivery: Delivery,
        topic_name: Any,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp: int,
        callback: DeliveryCallback | None,
        ack: Ack | None,
    ) -> int:
        """Open a batch with a first record, if there is memory at once."""
        size = RECORD_OVERHEAD + (0 if key is None else len(key)) + (0 if value is None else len(value))
        queue = self.find(topic_name, partition, key)
        if headers or queue is None or size > self._batch_size:
            return UNABLE
        batch = self.begin(queue, max(size, FIRST_SIZE), self._now_ms(), delivery, key, value, headers, timestamp, callback, ack)
        if self._lock is None:
            return self.publish(queue, batch, True)
        with self._lock:
            return self.publish(queue, batch, True)

    def begin(
        self,
        queue: PartitionQueue,
        allowance: int,
        now_ms: int,
        delivery: Delivery,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp: int,
        callback: DeliveryCallback | None,
        ack: Ack | None,
    ) -> ProducerBatch:
        """Make a batch with a first record, which is not in a queue yet."""
        builder = RecordBatchBuilder(self._codec, self._level, self._batch_size, queue.topic.compression_ratio, allowance)
        charged = batch_memory(allowance, callback, ack)
        batch = ProducerBatch(queue, builder, charged=charged, created_ms=now_ms, waiter=self.waiter)
        if callback is not None or ack is not None:
            batch.callback_room = CALLBACKS_AHEAD
        index = builder.append_if_room(timestamp, key, value, headers)
        _note(delivery, batch, index, timestamp, key, value, callback, ack)
        return batch

    def publish(self, queue: PartitionQueue, batch: ProducerBatch, charge: bool) -> int:
        """Make it the open batch of its partition, atomically. charge: whether the pool has to be charged first."""
        if not self.takes_records:
            return UNABLE
        if queue.tail is not None or self._topics.get(queue.topic.name) is not queue.topic:
            return AGAIN
        if charge and not self._pool.try_allocate(batch.charged):
            return UNABLE
        self._opened.append(batch)
        queue.tail = batch
        if batch.builder.has_reached_limit():
            self.close(queue)
        # If the batch before it was closed for it, that one is due at once.
        if self._filled or not self._linger_ms:
            return self.due(queue, 0)
        return self.due(queue, batch.created_ms + self._linger_ms)

    def publish_charged(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        """Publish a batch that is charged already, under the lock; the caller wakes the engine. False if another thread was first."""
        return self.publish(queue, batch, False) >= APPENDED

    # Rows of columns

    def open_empty(self, queue: PartitionQueue, allowance: int, now_ms: int) -> ProducerBatch:
        """Make a batch that is charged already and not in a queue yet; fill() makes it the open batch."""
        builder = RecordBatchBuilder(self._codec, self._level, self._batch_size, queue.topic.compression_ratio, allowance)
        return ProducerBatch(queue, builder, charged=batch_memory(allowance), created_ms=now_ms, waiter=self.waiter)

    def fill(self, queue: PartitionQueue, batch: ProducerBatch, writer: RowWriter, rows: Any, first: int, sizes: Any) -> tuple[int, int]:
        """Append rows[first], ... to the open batch of a partition, or to a new one, as far as size and memory allow.

        Atomic, under the lock. Return the index of the first row in the batch, and the index in `rows` to continue at: `first` if the batch
        is not the open one any more, or cannot grow.
        """
        builder = batch.builder
        index = builder.records_count
        is_new = queue.tail is None and index == 0 and self._topics.get(queue.topic.name) is queue.topic
        if not self.takes_records or (queue.tail is not batch and not is_new):
            return index, first
        spare = self._pool.spare()
        stop = writer.affordable(builder, rows, first, sizes, spare)
        if stop == first:
            return index, first
        more = writer.growth(builder, rows[:stop], first, sizes, spare)
        self._pool.try_allocate(more)
        batch.charged += more
        builder.allowance += more
        end = writer.write(builder, rows[:stop], first, sizes)
        if is_new:
            self._opened.append(batch)
            queue.tail = batch
        if end < stop or builder.has_reached_limit():
            self.close(queue)
        return index, end

    # For the engine's thread

    @property
    def has_news(self) -> bool:
        """Whether batches were opened or filled since the last take_opened() and take_filled()."""
        return bool(self._opened) or bool(self._filled)

    def take_opened(self) -> list[ProducerBatch]:
        """Return the batches that were opened since the last call, in order."""
        opened = self._opened
        self._opened = []
        return opened

    def take_filled(self) -> list[PartitionQueue]:
        """Return the partitions whose open batch was closed since the last call."""
        filled = self._filled
        self._filled = []
        return filled


def _note(
    delivery: Delivery,
    batch: ProducerBatch,
    index: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    callback: DeliveryCallback | None,
    ack: Ack | None,
) -> None:
    """Bind a Delivery to its record, and register the callback and the AckBuffer sequence."""
    delivery._outcome = batch
    delivery.index = index
    delivery.timestamp = timestamp
    delivery.key_size = -1 if key is None else len(key)
    delivery.value_size = -1 if value is None else len(value)
    if callback is not None:
        batch.callback_room -= 1
        batch.callbacks.append(delivery)
        batch.callbacks.append(callback)
    if ack is not None:
        batch.callback_room -= 1
        batch.acks.append(ack[0])
        batch.acks.append(ack[1])
        batch.acks.append(index)
