"""The queues of batches, one per partition: send() appends at the right, the Sender drains at the left (RecordAccumulator in Java).

The Appender appends records and Arrow rows, in threads of the program, and if possible without the engine's lock. All other methods run
under the lock. Nothing here blocks: a caller gets a Ticket if memory is short. A method that reads the queues first calls adopt(), which
queues the batches that the Appender has opened. Backlogs tracks which partitions can be sent to which broker; the Sender sends requests.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from levada.base.clock import NEVER_MS, Clock
from levada.base.flow import Flow, Wait
from levada.base.promise import Promise
from levada.client.driver_interface import Ended, closed
from levada.client.metadata.snapshot import ClusterSnapshot
from levada.errors import KafkaError, RecordTooLargeError, not_written
from levada.logs import Log
from levada.producer.append.appender import Appender, batch_memory
from levada.producer.append.backlogs import Backlogs, Ready
from levada.producer.append.buffer_pool import BufferPool, Ticket
from levada.producer.append.partition_queue import PartitionQueue, TopicQueues
from levada.producer.append.partitioning import STICKY, Partitioning
from levada.producer.append.producer_batch import Ack, DeliveryCallback, Final, ProducerBatch
from levada.producer.append.sealed import Sealed
from levada.producer.delivery.delivery import Delivery
from levada.producer.delivery.unread_failures import UnreadFailures
from levada.producer.send.sequences import Numbering
from levada.record.batch import HEADER_SIZE, record_size_upper_bound
from levada.record.builder import RowWriter, pack_headers
from levada.record.compression import Codec
from levada.types import Headers


class RowsOfPartition(Protocol):
    """Arrow rows for one partition (levada.record.columnar.PartitionRows)."""

    @property
    def partition(self) -> int:
        """The partition number."""
        ...

    @property
    def writer(self) -> RowWriter:
        """The object that writes rows into a batch."""
        ...

    @property
    def rows(self) -> memoryview:
        """The row numbers, in the writer, of this partition's rows."""
        ...

    @property
    def sizes(self) -> memoryview:
        """For all rows of the writer, by row number: the largest possible size, in bytes, of a batch with this row alone."""
        ...

    def size_at(self, index: int) -> int:
        """Return the entry of `sizes` for the row rows[index]."""
        ...


class AppendedRows(NamedTuple):
    """The result of append_rows(): rows[first:end] are in the batch.

    first_index: the index in the batch of the record made from rows[first].
    """

    batch: ProducerBatch
    first_index: int
    end: int


class ToSend(NamedTuple):
    """A serialized record. partition: None if it is not chosen yet. timestamp: ms since the epoch. callback, ack: arguments of send()."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    callback: DeliveryCallback | None
    ack: Ack | None = None


class AccumulatorSettings(NamedTuple):
    """The settings of a RecordAccumulator, named after the producer's options. Times are in ms, sizes in bytes.

    codec, level: compression.type and the level; None means the default level of the codec.
    """

    batch_size: int
    linger_ms: int
    max_request_size: int
    delivery_timeout_ms: int
    codec: Codec
    level: int | None
    adaptive_partitioning: bool
    availability_timeout_ms: int


class RecordAccumulator:
    """The queues of batches of one producer."""

    def __init__(
        self,
        settings: AccumulatorSettings,
        *,
        pool: BufferPool,
        rng: random.Random,
        defer: Callable[[Callable[[], None]], None],
        settled: Callable[[ProducerBatch], None],
        log: Log,
        lock: AbstractContextManager[object],
        clock: Clock,
        partitioning: Partitioning,
        wake: Callable[[bool], None] = lambda due_now: None,
    ) -> None:
        """defer: runs a function later, without the engine's lock and in the order of the calls; used to run the callbacks of a batch.

        settled: called with a batch after its callbacks have run; it has to call settle(), which resolves the batch's promise. Until then,
        the batch is in `unsettled`. log: logs the exceptions that callbacks raise. wake: called by the Appender to wake the engine.
        """
        self.pool = pool
        self.topics: dict[str, TopicQueues] = {}
        self.topics_made = 0
        self.incomplete: dict[ProducerBatch, None] = {}
        self.unsettled: dict[ProducerBatch, None] = {}
        self.unread_failures = UnreadFailures()
        self.flushes = 0
        self.closed = False
        self.refusal: Callable[[], KafkaError] | None = None
        self.transactions_begun = 0
        self.delivery_timeout_ms = settings.delivery_timeout_ms
        self.next_expiry_ms = NEVER_MS
        self.backlogs = Backlogs(settings.linger_ms)
        self._stalled_since: dict[int, int] = {}
        self._ended: Ended = closed
        self._rng = rng
        self._defer, self._settled, self._log = defer, settled, log
        self._batch_size = max(settings.batch_size, 1)
        self._max_request_size = settings.max_request_size
        self._adaptive = settings.adaptive_partitioning
        self._availability_timeout_ms = settings.availability_timeout_ms
        self.partitioning = partitioning
        self.appender = Appender(
            self.topics,
            pool,
            self.partitioning,
            lock=lock,
            clock=clock,
            wake=wake,
            batch_size=min(self._batch_size, settings.max_request_size),
            linger_ms=settings.linger_ms,
            codec=settings.codec,
            level=settings.level,
        )

    @property
    def full(self) -> deque[ProducerBatch]:
        """Closed batches to be compressed. Any thread may take one with claim_full(), which skips those that the Sender has sealed."""
        return self.appender.full

    def adopt(self) -> None:
        """Queue the batches that the Appender has opened since the last call, and note which batches it has closed."""
        appender = self.appender
        if not appender.has_news:
            return
        filled = appender.take_filled()
        for batch in appender.take_opened():
            self._track(batch)
            batch.queue.batches.append(batch)
            self.backlogs.place(batch.queue)
        for queue in filled:
            self.backlogs.place(queue)

    # Topics

    def topic(self, name: str, snapshot: ClusterSnapshot) -> TopicQueues:
        """Return the queues of a topic, made if needed, with the partitions and leaders of the metadata snapshot."""
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = TopicQueues(name, self._rng, self._batch_size, self.backlogs.of(None))
            self.topics_made += 1
        for queue in topic.refresh(snapshot):
            self.backlogs.moved(queue)
        return topic

    def refresh(self, snapshot: ClusterSnapshot, wanted: Collection[str]) -> list[TopicQueues]:
        """Update partitions and leaders from a metadata snapshot. Drop and return topics that are not in `wanted` and have no batches."""
        dropped = []
        for name in list(self.topics):
            topic = self.topic(name, snapshot)
            if name not in wanted and topic.is_idle:
                # Remove the topic before checking again. After that, the Appender cannot open a batch for it.
                del self.topics[name]
                self.adopt()
                if topic.is_idle:
                    dropped.append(topic)
                else:
                    self.topics[name] = topic
        return dropped

    # Appending

    def admit(self, refusal: Callable[[], KafkaError] | None) -> None:
        """Accept records from now on, or refuse them. refusal: makes the error for a refused record; None accepts records.

        The TransactionManager refuses records while no transaction is open.
        """
        self.refusal = refusal
        self.appender.takes_records = refusal is None and not self.closed

    def append(self, record: ToSend, now_ms: int, ticket: Ticket | None = None) -> Delivery | Ticket | None:
        """Append a record. Return its Delivery; None if the topic has no queues or no such partition; or a Ticket if memory is short.

        With a Ticket, the caller waits for its promise and calls again with it. Afterwards the caller must cancel the ticket, also after
        success: its memory may be unused, because another thread has opened a batch. Raises RecordTooLargeError, the error of
        close() (ClosedError or CrashedError), or the error set by admit(). now_ms: the present time in ms.
        """
        self._check_open()
        bound = self._checked_size(record)
        partition = STICKY if record.partition is None else record.partition
        while True:
            topic = self.topics.get(record.topic)
            if topic is None or max(partition, 0) >= topic.count:
                return None
            delivery = self.appender.append(record.topic, partition, *record[2:])
            if delivery is not None:
                return delivery
            if self._moved_on(topic, record, now_ms):
                continue
            queue = self._queue_for(topic, record)
            if queue.tail is not None:
                # The open batch cannot grow, because memory is short. Close it, so that it is sent at once.
                self.appender.close(queue)
            size = batch_memory(bound, record.callback, record.ack)
            if not self._charge(size, ticket):
                self.adopt()
                return self.pool.enqueue(size)
            delivery = self._open(queue, record, bound, now_ms)
            if delivery is not None:
                return delivery

    def _open(self, queue: PartitionQueue, record: ToSend, allowance: int, now_ms: int) -> Delivery | None:
        """Open a batch with a first record. Return the record's Delivery, or None if another thread has opened a batch meanwhile.

        allowance: bytes for the batch's records. The caller has charged batch_memory() for the batch; if no batch is opened, that memory is
        released.
        """
        delivery, charged = Delivery.__new__(Delivery), batch_memory(allowance, record.callback, record.ack)
        try:
            headers = pack_headers(record.headers)
            batch = self.appender.begin(queue, allowance, now_ms, delivery, record.key, record.value, headers, *record[5:])
            if self.appender.publish_charged(queue, batch):
                charged = 0
                return delivery
        finally:
            self.pool.release(charged)
        return None

    def append_rows(
        self, topic_name: str, rows: RowsOfPartition, first: int, now_ms: int, ticket: Ticket | None = None
    ) -> AppendedRows | Ticket | None:
        """Append rows.rows[first] and the following rows as far as they fit into one batch. now_ms, ticket: as in append().

        Return the appended rows; None if the topic or the partition has no queue; or a Ticket if memory is short, as append() does. Raises
        as append() does, except RecordTooLargeError.
        """
        self._check_open()
        while True:
            topic = self.topics.get(topic_name)
            if topic is None or rows.partition >= len(topic.partitions):
                return None
            queue = topic.partitions[rows.partition]
            batch, charged = queue.tail, 0
            if batch is None:
                allowance = rows.size_at(first)
                charged = batch_memory(allowance)
                if not self._charge(charged, ticket):
                    self.adopt()
                    return self.pool.enqueue(charged)
                batch = self.appender.open_empty(queue, allowance, now_ms)
            index, end = self.appender.fill(queue, batch, rows.writer, rows.rows, first, rows.sizes)
            if end > first:
                return AppendedRows(batch, index, end)
            self.pool.release(charged)
            if queue.tail is batch:
                # The open batch cannot grow, because memory is short. Close it, so that it is sent at once.
                self.appender.close(queue)

    def append_sealed(self, sealed: Sealed, now_ms: int, ticket: Ticket | None = None) -> ProducerBatch | Ticket | None:
        """Queue a batch from seal_arrow() behind the other batches of its partition, whose open batch is closed.

        Return the batch, or None or a Ticket as append() does. Raises RecordTooLargeError if buffer.memory is too small for the batch, and
        otherwise as append() does.
        """
        self._check_open()
        topic = self.topics.get(sealed.tp.topic)
        if topic is None or sealed.tp.partition >= topic.count:
            return None
        queue = topic.partitions[sealed.tp.partition]
        size = batch_memory(sealed.size)
        if size > self.pool.total:
            raise RecordTooLargeError(f"a sealed batch for {sealed.tp} takes {size} bytes, more than buffer.memory={self.pool.total}")
        if not self._charge(size, ticket):
            self.adopt()
            return self.pool.enqueue(size)
        if queue.tail is not None:
            self.appender.close(queue)
        # Queue the batches that the Appender has opened first: they have records of earlier calls.
        self.adopt()
        batch = ProducerBatch.sealed(queue, sealed, charged=size, created_ms=now_ms, waiter=self.appender.waiter)
        self._track(batch)
        queue.batches.append(batch)
        self.backlogs.place(queue)
        return batch

    def next_sticky(self, topic: TopicQueues, now_ms: int) -> int:
        """Choose the next sticky partition of a topic and return it."""
        # The count of a topic that is no longer in metadata is 0, but its queues still exist.
        queues = topic.partitions[: topic.count] or topic.partitions
        usable = [queue for queue in queues if queue.leader is not None and not self._is_stalled(queue.leader, now_ms)]
        candidates = usable or [queue for queue in queues if queue.leader is not None] or queues
        lengths = [len(queue.batches) for queue in candidates] if self._adaptive else None
        return topic.sticky.move([queue.tp.partition for queue in candidates], lengths)

    def sticky_shares(self, topic: TopicQueues, clock: Clock, lock: AbstractContextManager[object]) -> Iterator[tuple[int, int]]:
        """Yield (partition, bytes) pairs without end: a sticky partition, and how many bytes of rows without a key to send to it.

        The first pair is the current sticky partition with its unused bytes, if there are any.
        """
        with lock:
            left = self._sticky_room(topic)
        if left > 0:
            yield topic.sticky.current, left
        while True:
            with lock:
                partition = self.next_sticky(topic, clock.now_ms())
            yield partition, topic.sticky.limit - HEADER_SIZE

    @staticmethod
    def _sticky_room(topic: TopicQueues) -> int:
        sticky = topic.sticky
        if not 0 <= sticky.current < topic.count:
            return 0
        tail = topic.partitions[sticky.current].tail
        return sticky.limit - HEADER_SIZE - sticky.produced - (0 if tail is None else tail.size)

    def claim_full(self) -> ProducerBatch | None:
        """Take a full batch that is not compressed yet, and return it; None without one. The batch is not sent before sealed() is called.

        The calling thread compresses it without the engine's lock, and then calls sealed().
        """
        self.adopt()
        while self.full:
            batch = self.full.popleft()
            if batch.builder is not None and batch.final is None and not batch.on_the_wire:
                batch.sealing = True
                self.backlogs.place(batch.queue)
                return batch
        return None

    def sealed(self, batch: ProducerBatch) -> None:
        """Allow the Sender to drain a batch that claim_full() returned. Seal it if it was compressed; drop its bytes if it has failed."""
        batch.sealing = False
        if batch.final is not None:
            batch.drop_bytes()
        elif batch.builder is not None and batch.builder.is_built:
            batch.seal()
        self.backlogs.place(batch.queue)

    def _check_open(self) -> None:
        if self.closed:
            raise not_written(self._ended("send()"))
        if self.refusal is not None:
            raise not_written(self.refusal())

    def _checked_size(self, record: ToSend) -> int:
        bound = record_size_upper_bound(len(record.key or b""), len(record.value or b""), record.headers)
        memory = batch_memory(bound, record.callback, record.ack)
        limits = ((bound, self._max_request_size, "max.request.size"), (memory, self.pool.total, "buffer.memory"))
        for size, limit, option in limits:
            if size > limit:
                raise RecordTooLargeError(
                    f"a record for topic {record.topic!r} takes up to {size} bytes uncompressed, more than {option}={limit}; "
                    f"raise {option} (and the topic's max.message.bytes) or send smaller records"
                )
        return bound

    def _charge(self, size: int, ticket: Ticket | None) -> bool:
        return self.pool.redeem(ticket) if ticket is not None else self.pool.try_allocate(size)

    def _moved_on(self, topic: TopicQueues, record: ToSend, now_ms: int) -> bool:
        """Choose a new sticky partition if the record goes to one, unless the current one has an open batch or has had too few bytes.

        Return whether a new one was chosen.
        """
        sticky = topic.sticky
        if self._number_of(topic, record) != STICKY or not sticky.is_due:
            return False
        if sticky.current >= 0 and topic.partitions[sticky.current].tail is not None:
            return False
        self.adopt()
        self.next_sticky(topic, now_ms)
        return True

    def _number_of(self, topic: TopicQueues, record: ToSend) -> int:
        return self.appender.partition_for(topic, record.key) if record.partition is None else record.partition

    def _queue_for(self, topic: TopicQueues, record: ToSend) -> PartitionQueue:
        partition = self._number_of(topic, record)
        return topic.partitions[topic.sticky.current if partition == STICKY else partition]

    def _track(self, batch: ProducerBatch) -> None:
        self.incomplete[batch] = None
        self.next_expiry_ms = min(self.next_expiry_ms, batch.created_ms + self.delivery_timeout_ms)

    # Checking

    @property
    def all_due(self) -> bool:
        """Whether to send all batches without waiting for linger.ms: memory is short, a flush() is running, or the producer is closed."""
        return self.flushes > 0 or self.closed or self.pool.queued > 0

    def ready(self, now_ms: int) -> Ready:
        """Return the leaders with batches to send now, and when to check again."""
        self.adopt()
        return self.backlogs.ready(now_ms, all_due=self.all_due)

    def _is_stalled(self, node: int, now_ms: int) -> bool:
        since = self._stalled_since.get(node)
        return bool(self._availability_timeout_ms) and since is not None and now_ms - since > self._availability_timeout_ms

    def note_readiness(self, node: int, ready: bool, now_ms: int) -> None:
        """Note since when a leader that has batches cannot take requests, for partitioner.availability.timeout.ms.

        ready: whether it can.
        """
        if ready:
            self._stalled_since.pop(node, None)
        else:
            self._stalled_since.setdefault(node, now_ms)

    # Draining

    def drain(self, node: int, now_ms: int, numbering: Numbering | None) -> list[ProducerBatch]:
        """Take batches for one request to a node, at most one per partition. Seal and number them.

        Together they have at most max.request.size bytes, unless the first one alone has more. A partition whose batch `numbering` does not
        allow to be sent is parked. numbering: None if the batches get no sequence numbers.
        """
        drained: list[ProducerBatch] = []
        total = 0
        for queue in self.backlogs.queues(node):
            head = queue.batches[0]
            if numbering is not None and not numbering.may_drain(head):
                self.backlogs.park(queue)
                continue
            if drained and total + head.size > self._max_request_size:
                break
            self._take(queue, head, numbering)
            drained.append(head)
            total += head.size
        return drained

    def _take(self, queue: PartitionQueue, batch: ProducerBatch, numbering: Numbering | None) -> None:
        if queue.tail is batch:
            queue.close_tail(False)
        queue.batches.popleft()
        # A partition with more batches is moved to the end, so that the next request begins with other partitions.
        self.backlogs.remove(queue)
        self.backlogs.place(queue)
        batch.seal()
        if numbering is not None and not batch.has_sequence:
            numbering.number(batch)
        if batch not in queue.in_flight:
            queue.in_flight.append(batch)

    def mute(self, queue: PartitionQueue) -> None:
        """Send no more batches of a partition until its request has ended. This keeps the order if only one request may be in flight."""
        queue.muted = True
        self.backlogs.place(queue)

    def going_to_sleep(self) -> bool:
        """Note when the engine will check each leader again. Return False if the Appender has opened or closed a batch meanwhile."""
        self.backlogs.going_to_sleep()
        return not self.appender.has_news

    # Outcomes

    def put_back(self, batch: ProducerBatch) -> None:
        """Queue a batch for a retry, in its old place."""
        batch.queue.put_back(batch)
        self.backlogs.place(batch.queue)

    def put_parts(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Replace a split batch by its parts. Divide its charge among them, because the BufferPool may have no free memory."""
        batch.share_charge(parts)
        batch.queue.replace(batch, parts)
        self.backlogs.place(batch.queue)
        batch.split_into(parts)
        for part in parts:
            self._track(part)
        batch.finish(Final.SPLIT)
        del self.incomplete[batch]
        batch.drop_bytes()

    def expired(self, now_ms: int) -> Iterator[ProducerBatch]:
        """Yield the batches that are older than delivery.timeout.ms, also if they are in flight. The caller fails them."""
        self.adopt()
        if now_ms < self.next_expiry_ms:
            return
        yield from [batch for batch in self.incomplete if batch.created_ms + self.delivery_timeout_ms <= now_ms]
        self.next_expiry_ms = min((batch.created_ms for batch in self.incomplete), default=NEVER_MS) + self.delivery_timeout_ms

    def complete(self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int) -> None:
        """Complete a batch that the broker has written. base_offset: -1 if unknown. log_append_time_ms: -1 without LogAppendTime.

        No effect if the batch has failed already.
        """
        if batch.final is None:
            batch.base_offset, batch.log_append_time_ms = base_offset, log_append_time_ms
            self._finish(batch, Final.SUCCEEDED)

    def fail(
        self, batch: ProducerBatch, error: KafkaError, *, final: Final = Final.FAILED, record_errors: dict[int, KafkaError] | None = None
    ) -> None:
        """Fail a batch. No effect if its outcome is final already. record_errors: errors of single records, by their index in the batch."""
        if batch.final is None:
            batch.error = error
            batch.record_errors = record_errors or {}
            self._unqueue(batch)
            self._finish(batch, final)

    def off_the_wire(self, batch: ProducerBatch) -> None:
        """Note that the request with a batch has ended, and unmute its partition.

        If the batch failed before, its memory is released now, or after its callbacks have run.
        """
        batch.on_the_wire = False
        batch.queue.muted = False
        self.backlogs.place(batch.queue)
        if batch.final is not None:
            self._release(batch)

    def abort(self, error: Callable[[ProducerBatch], KafkaError]) -> None:
        """Fail all batches whose outcome is not final. error: makes the error for a batch."""
        self.adopt()
        for batch in list(self.incomplete):
            self.fail(batch, error(batch), final=Final.ABORTED)

    def close(self, ended: Ended) -> None:
        """Accept no more records, close the open batches, and fail the callers that wait for memory. ended: makes the error."""
        self._ended = ended
        self.closed, self.appender.takes_records = True, False
        self.adopt()
        for batch in self.incomplete:
            batch.queue.tail = None
            self.backlogs.place(batch.queue)
        self.pool.close(not_written(ended("a wait of send() for buffer.memory")))

    def _unqueue(self, batch: ProducerBatch) -> None:
        queue = batch.queue
        if queue.tail is batch:
            queue.tail = None
        if batch in queue.batches:
            queue.batches.remove(batch)
        self.backlogs.place(queue)

    def _finish(self, batch: ProducerBatch, final: Final) -> None:
        batch.finish(final)
        if batch in batch.queue.in_flight:
            batch.queue.in_flight.remove(batch)
            self.backlogs.place(batch.queue)
        del self.incomplete[batch]
        if batch.callbacks:
            self.unsettled[batch] = None
            self._defer(lambda: self._call_back(batch))
        else:
            self._resolve(batch)
        self._release(batch)

    def _resolve(self, batch: ProducerBatch) -> None:
        if batch.final is Final.FAILED:
            self.unread_failures.add(batch)
        batch.promise.resolve(batch)

    def _call_back(self, batch: ProducerBatch) -> None:
        batch.run_callbacks(self._log)
        self._settled(batch)

    def settle(self, batch: ProducerBatch) -> None:
        """Resolve the promise of a batch, after its callbacks have run."""
        del self.unsettled[batch]
        self._resolve(batch)
        self._release(batch)

    def _release(self, batch: ProducerBatch) -> None:
        """Release the memory of a final batch if its callbacks have run. Drop its bytes, unless a thread is compressing them.

        No effect while its request is in flight.
        """
        if batch.on_the_wire:
            return
        if not batch.sealing:
            batch.drop_bytes()
        if batch not in self.unsettled:
            charged, batch.charged = batch.charged, 0
            self.pool.release(charged)


class Flushing:
    """One flush() call: waits for records, and counts those that are not done if the wait is interrupted. Used under the engine's lock.

    It waits only for records that were appended before this object was made. failed_sends: the promises of the records that failed before
    they were in a batch, and whose callbacks have not run.
    """

    def __init__(self, accumulator: RecordAccumulator, failed_sends: list[Promise[Any]]) -> None:
        self._accumulator = accumulator
        accumulator.adopt()
        # Count now: an open batch may get more records until it is drained.
        self._counts = {batch: batch.unsettled_count for batch in (*accumulator.unsettled, *accumulator.incomplete)}
        self._failed_sends = failed_sends

    def run(self) -> Flow[None]:
        """Return when all records are acknowledged or have failed, and their callbacks have run. No batch waits for linger.ms meanwhile."""
        self._accumulator.flushes += 1
        try:
            for promise in (*self._failed_sends, *(batch.promise for batch in self._counts)):
                yield Wait(promise)
        finally:
            self._accumulator.flushes -= 1

    @property
    def remaining(self) -> int:
        """How many records are not yet acknowledged or failed, or have a callback that has not run."""
        waiting = sum(not promise.done for promise in self._failed_sends)
        return waiting + sum(_remaining(batch, count) for batch, count in self._counts.items())


def _remaining(batch: ProducerBatch, count: int) -> int:
    """Return how many of the first `count` records of a batch are not done. For a split batch, return this for its parts."""
    if batch.promise.done:
        return 0
    if batch.parts is None:
        return count
    return sum(_remaining(part, part.unsettled_count) for part in batch.parts[1])
