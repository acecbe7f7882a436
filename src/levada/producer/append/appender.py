# cython: annotation_typing=False, wraparound=False
"""The fast path of send(): one call, from the arguments of send() to the Delivery. It handles nearly every record.

Appender.append() chooses the partition, appends the record to the open batch, opens a new batch when the open batch is full, and charges
buffer.memory when a batch grows. It returns None if a record needs more than that: waiting, metadata, another sticky partition or an error.
The caller then takes the slow path (levada.producer.append.slow_path). Appender.send() does the same from the arguments of send(), and also
returns None for a record that has headers, needs a serializer, an interceptor or a partitioner, or has arguments that have to be checked
or converted first: the caller then calls append().

Why the fast path needs no lock: if this module is compiled and the interpreter has a GIL, a call is atomic as long as no Python code runs
in the call. An allocation may run Python code, because it may trigger a finalizer. So a call first makes all objects that it may need, then
reads and changes the state without allocating an object. Such a call can happen between any two bytecodes of the engine's thread. Therefore
the engine's thread takes a batch from its partition in one step (close_tail), and gets opened and closed batches through two lists that it
replaces by empty ones (take_opened, take_filled). If this module is interpreted, or there is no GIL, a call takes the engine's lock.

A [c] module; the C types are in appender.pxd.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

from levada.ack_buffer import AckWindow
from levada.base.clock import Clock, SystemClock
from levada.base.gil import has_gil
from levada.producer.append.buffer_pool import BufferPool
from levada.producer.append.partition_queue import PartitionQueue, TopicQueues
from levada.producer.append.partitioning import STICKY, Partitioning
from levada.producer.append.producer_batch import Ack, DeliveryCallback, ProducerBatch
from levada.producer.delivery.delivery import Delivery
from levada.record.builder import NO_MEMORY, NO_ROOM, RecordBatchBuilder, RowWriter, pack_headers
from levada.record.compression import Codec
from levada.types import Headers
from levada.wire.murmur2 import partition_for_key

FULL, STARVED, NO_PARTITION = NO_ROOM, NO_MEMORY, STICKY
BATCH_OVERHEAD = 1024
"""The bytes charged for the Python objects of a batch, in addition to its records."""
CALLBACK_SIZE = 128
"""The bytes charged for one callback or one AckBuffer sequence of a record."""
CALLBACKS_AHEAD = 8
"""For how many callbacks and AckBuffer sequences a batch is charged at a time."""
FIRST_SIZE = 512
"""The smallest initial allowance of a batch that the fast path opens, in bytes."""
RECORD_OVERHEAD = 96
"""The largest size of a batch header and of a record without key, value and headers, in bytes."""
# The results of an append. The caller has to wake the engine after DUE_LATER and DUE_NOW.
UNABLE, OPEN, AGAIN, APPENDED, DUE_LATER, DUE_NOW = -2, -1, 0, 1, 2, 3

CODES_KEPT = 1_000
"""How many code objects of accepted callbacks are remembered. Programs that compile functions all the time have more."""
ERROR_FIRST = frozenset((error, message) for error in ("err", "error") for message in ("msg", "message"))
"""The names of the first two parameters of a callback that is written for another client."""

FORKS = 0


def _forked() -> None:
    """Disable the fast path of producers that a child process has inherited, because the child has no thread that sends their batches."""
    global FORKS
    FORKS += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def batch_memory(allowance: int, callback: Any = None, ack: Any = None) -> int:
    """Return how many bytes to charge for a new batch.

    allowance: bytes for its records. callback, ack: the arguments of send() for its first record.
    """
    return BATCH_OVERHEAD + allowance + (0 if callback is None and ack is None else CALLBACKS_AHEAD * CALLBACK_SIZE)


def is_ack(ack: Any) -> bool:
    """Whether an object is a pair of an AckBuffer and a sequence that put() of this AckBuffer returned."""
    if type(ack) is not tuple:
        return False
    pair: tuple[Any, ...] = ack
    if len(pair) != 2 or not isinstance(pair[0], AckWindow) or type(pair[1]) is not int:
        return False
    buffer: AckWindow = pair[0]
    try:
        return buffer._was_put(pair[1])
    except OverflowError:  # In compiled code, the parameter is a C integer.
        return False


def is_callback(callback: Any) -> bool:
    """Whether an object can be called with a record's metadata and the error.

    False for a function whose parameters are named in the order of other clients, the error and then the message: it would take every
    success for a failure.
    """
    if type(callback) is not FunctionType:
        return callable(callback)
    code = callback.__code__
    return code.co_argcount < 2 or code.co_varnames[:2] not in ERROR_FIRST


def runs_in_one_piece() -> bool:
    """Whether compiled code that calls no Python code is atomic."""
    return bool(cython.compiled) and has_gil()


class Appender:
    """The fast path of one producer.

    topics: the dict of the RecordAccumulator, shared with it. wake: called with whether a batch can be sent or compressed at once.
    """

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
        """lock: the engine's lock; used only if calls are not atomic (see the module). codec, level: compression.type and its level; None
        means the default level of the codec.

        batch_size: the size limit of a batch in bytes; a batch of one record may exceed it.
        """
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
        self._code = 0
        self._codes: dict[int, Any] = {}

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
        """Append a record; the arguments are those of KafkaProducer.send(). Return None if the record needs the slow path."""
        if not self.takes_records or headers or type(topic) is not str or self._forks != FORKS:
            return None
        if callback is not None and not self.knows(callback):
            return None
        if ack is not None and not is_ack(ack):
            return None
        if type(value) is not bytes:
            if type(value) is not str or not value.isascii():
                return None
            value = value.encode()
        if key is not None and type(key) is not bytes:
            if type(key) is not str or not key.isascii():
                return None
            key = key.encode()
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
        return self.append(topic, number, key, value, (), when, callback, ack)

    def knows(self, callback: Any) -> bool:
        """Return is_callback(callback). True is remembered for the code of a function, which functions made in a loop share."""
        if type(callback) is not FunctionType:
            return callable(callback)
        if cython.compiled:
            code: int = code_address(callback)  # type: ignore[name-defined]  # noqa: F821 - C, see appender.pxd
        else:
            code = id(callback.__code__)
        if code == self._code:
            return True
        if code not in self._codes:
            if not is_callback(callback):
                return False
            if len(self._codes) >= CODES_KEPT:
                self._codes.clear()
            # While the code is kept, no other one can have its address.
            self._codes[code] = callback.__code__
        self._code = code
        return True

    def wall_clock(self) -> int:
        """Return the time in ms since the epoch."""
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
        """Append a record, and wake the engine if needed. Return None if the record cannot be appended without the slow path.

        partition: STICKY if the record names none, see partition_for(). Raises the errors of the RecordBatchBuilder. timestamp: ms since
        the epoch. callback, ack: arguments of send(), or None.
        """
        # Before the batch is looked at: this allocates objects.
        packed = pack_headers(headers)
        delivery = Delivery.__new__(Delivery)
        while True:
            if self._lock is None:
                outcome = self.try_append(delivery, topic_name, partition, key, value, packed, timestamp, callback, ack)
                if outcome == OPEN:
                    outcome = self.open(delivery, topic_name, partition, key, value, packed, timestamp, callback, ack)
            else:
                outcome = self.locked_append(delivery, topic_name, partition, key, value, packed, timestamp, callback, ack)
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
        headers: bytes,
        timestamp: int,
        callback: DeliveryCallback | None,
        ack: Ack | None,
    ) -> int:
        """Call try_append(), and open() if needed, under the engine's lock. The arguments and the result are theirs."""
        with self._lock:  # type: ignore[union-attr]
            outcome = self.try_append(delivery, topic_name, partition, key, value, headers, timestamp, callback, ack)
            if outcome == OPEN:
                outcome = self.open(delivery, topic_name, partition, key, value, headers, timestamp, callback, ack)
        return outcome

    def find(self, topic_name: Any, partition: int, key: bytes | None) -> PartitionQueue | None:
        """Return the partition queue for a record; None if the partition is unknown, or a new sticky partition has to be chosen."""
        topic = self._topics.get(topic_name)
        if topic is None:
            return None
        number = partition if partition >= 0 else self.partition_for(topic, key)
        if number < 0:
            number = topic.sticky.current
            # The sticky partition changes only while it has no open batch, so that no batch is closed before it is full.
            is_due = topic.sticky.produced >= topic.sticky.limit
            if number < 0 or number >= topic.count or (is_due and topic.partitions[number].tail is None):
                return None
        if number >= topic.count:
            return None
        return topic.partitions[number]

    def partition_for(self, topic: TopicQueues, key: bytes | None) -> int:
        """Return the partition of a record that names none: that of the murmur2 hash of its key, as in Java.

        STICKY without a key, with partitioner.ignore.keys, and if the topic has no known partitions.
        """
        if key is None or self._ignores_keys or topic.count <= 0:
            return NO_PARTITION
        return partition_for_key(key, topic.count)

    def try_append(
        self,
        delivery: Delivery,
        topic_name: Any,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        timestamp: int,
        callback: DeliveryCallback | None,
        ack: Ack | None,
    ) -> int:
        """Append to the open batch, atomically. Return one of UNABLE, OPEN (a new batch is needed), APPENDED, DUE_LATER and DUE_NOW.

        delivery: gets bound to the record if it is appended. The other arguments are those of append().
        """
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
        """Charge a batch for CALLBACKS_AHEAD more callbacks; return False if the BufferPool has too little memory."""
        if not self._pool.try_allocate(CALLBACKS_AHEAD * CALLBACK_SIZE):
            return False
        batch.charged += CALLBACKS_AHEAD * CALLBACK_SIZE
        batch.callback_room += CALLBACKS_AHEAD
        return True

    def grow(self, batch: ProducerBatch) -> bool:
        """Double the allowance of a batch, or raise it further if the next record needs more. Return False if memory is short.

        If records are expected to be compressed, the allowance may exceed batch.size, because it counts uncompressed bytes.
        """
        builder = batch.builder
        grown = min(2 * builder.allowance, self._batch_size) if builder.compression_ratio >= 1 else 2 * builder.allowance
        more = max(grown, builder.wanted) - builder.allowance
        if not self._pool.try_allocate(more):
            return False
        batch.charged += more
        builder.allowance += more
        return True

    def close(self, queue: PartitionQueue) -> None:
        """Close the open batch of a partition: it accepts no more records and can be sent."""
        if self._compresses and queue.tail is not None:
            self.full.append(queue.tail)
        queue.close_tail(True)
        self._filled.append(queue)

    def due(self, queue: PartitionQueue, due_ms: int) -> int:
        """Return whether to wake the engine for a batch that is due at due_ms: DUE_NOW, DUE_LATER, or APPENDED for no.

        The engine need not be woken if it checks the partition's leader by then anyway, and no full batch waits to be compressed.
        """
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
        headers: bytes,
        timestamp: int,
        callback: DeliveryCallback | None,
        ack: Ack | None,
    ) -> int:
        """Open a batch with a first record. Return APPENDED, DUE_LATER, DUE_NOW, AGAIN, or UNABLE, for example if memory is short.

        AGAIN: another thread opened a batch for the partition first, or the topic was dropped; the caller tries the append again. The
        arguments are those of append() and try_append().
        """
        size = RECORD_OVERHEAD + (0 if key is None else len(key)) + (0 if value is None else len(value)) + len(headers)
        queue = self.find(topic_name, partition, key)
        if queue is None or size > self._batch_size:
            return UNABLE
        batch = self.begin(queue, max(size, FIRST_SIZE), self._now_ms(), delivery, key, value, headers, timestamp, callback, ack)
        return self.publish(queue, batch, True)

    def begin(
        self,
        queue: PartitionQueue,
        allowance: int,
        now_ms: int,
        delivery: Delivery,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        timestamp: int,
        callback: DeliveryCallback | None,
        ack: Ack | None,
    ) -> ProducerBatch:
        """Make a batch with a first record. The batch is not in a queue yet.

        allowance: bytes for its records. delivery: gets bound to the first record. callback, ack: arguments of send(), or None.
        """
        builder = RecordBatchBuilder(self._codec, self._level, self._batch_size, queue.topic.compression_ratio, allowance)
        charged = batch_memory(allowance, callback, ack)
        batch = ProducerBatch(queue, builder, charged=charged, created_ms=now_ms, waiter=self.waiter)
        if callback is not None or ack is not None:
            batch.callback_room = CALLBACKS_AHEAD
        index = builder.append_if_room(timestamp, key, value, headers)
        _note(delivery, batch, index, timestamp, key, value, callback, ack)
        return batch

    def publish(self, queue: PartitionQueue, batch: ProducerBatch, charge: bool) -> int:
        """Make a new batch the open batch of its partition, atomically. Return a result as open() does.

        charge: whether to charge the BufferPool for the batch.
        """
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
        # If the previous batch was closed because it was full, it is due at once.
        if self._filled or not self._linger_ms:
            return self.due(queue, 0)
        return self.due(queue, batch.created_ms + self._linger_ms)

    def publish_charged(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        """Make a batch that is already charged the open batch of its partition, under the engine's lock. The caller wakes the engine.

        Return False if another thread opened a batch first, or if the topic was dropped.
        """
        return self.publish(queue, batch, False) >= APPENDED

    # Rows of columns

    def open_empty(self, queue: PartitionQueue, allowance: int, now_ms: int) -> ProducerBatch:
        """Make an empty batch whose memory is already charged. fill() makes it the open batch. allowance: bytes for its records."""
        builder = RecordBatchBuilder(self._codec, self._level, self._batch_size, queue.topic.compression_ratio, allowance)
        return ProducerBatch(queue, builder, charged=batch_memory(allowance), created_ms=now_ms, waiter=self.waiter)

    def fill(self, queue: PartitionQueue, batch: ProducerBatch, writer: RowWriter, rows: Any, first: int, sizes: Any) -> tuple[int, int]:
        """Append rows[first], rows[first + 1] and so on to a batch, as far as batch.size and memory allow. Called under the engine's lock.

        batch: the open batch of the partition, or an empty one from open_empty(). Return the index in the batch of the first appended row,
        and the index in `rows` of the first row that was not appended. Nothing is appended if the batch is not the open batch any more or
        cannot grow, or if records are refused.
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
        """Whether batches were opened or closed since the last take_opened() and take_filled()."""
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
    """Bind a Delivery to its record, and register the callback and the AckBuffer sequence.

    index: the record's index in the batch. timestamp: ms since the epoch. callback, ack: arguments of send(), or None.
    """
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
