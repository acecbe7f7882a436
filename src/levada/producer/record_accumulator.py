"""Where records wait: per partition a queue of batches, filled at the right by senders, drained at the left by the Sender.

`append` and friends are called by users' threads, the rest by the Sender, all under the engine lock and none of them ever waiting: who
finds no memory is given a Ticket. `ready` and `drain` only look at and move batches; talking to brokers is the Sender's.

What is due (A8): a partition whose first batch is full, or has waited linger.ms or its back-off; and every partition
while memory is short, while somebody flushes and after close. If one partition of a broker is due, its others ride along (A11).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, Protocol

from levada.client.snapshot import ClusterSnapshot
from levada.clock import NEVER_MS
from levada.errors import ClosedError, KafkaError, RecordTooLargeError, not_written
from levada.producer.buffer_pool import BufferPool, Ticket
from levada.producer.delivery import Delivery
from levada.producer.partition_queue import PartitionQueue, TopicQueues
from levada.producer.partitioning import STICKY, Partitioning
from levada.producer.producer_batch import DeliveryCallback, Final, ProducerBatch, Waiter
from levada.record.batch import record_size_upper_bound
from levada.record.builder import NO_ROOM, RecordBatchBuilder
from levada.record.compression import Codec
from levada.types import Headers


class ToSend(NamedTuple):
    """A record's fields, serialized."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    callback: DeliveryCallback | None


class Ready(NamedTuple):
    """What could be sent now. nodes: per leader that is due, all its partitions that have batches."""

    nodes: dict[int, list[PartitionQueue]]
    leaderless: set[str]
    next_check_ms: int


class Numbering(Protocol):
    """Who numbers batches for the broker's duplicate detection, if anybody does."""

    def may_drain(self, batch: ProducerBatch) -> bool:
        """Whether a batch may be sent now without breaking its partition's order."""
        ...

    def number(self, batch: ProducerBatch) -> None:
        """Number a sealed batch that has no number."""
        ...


class RecordAccumulator:
    """See the module's text."""

    def __init__(
        self,
        *,
        pool: BufferPool,
        rng: random.Random,
        defer: Callable[[Callable[[], None]], None],
        settled: Callable[[ProducerBatch], None],
        batch_size: int,
        linger_ms: int,
        max_request_size: int,
        delivery_timeout_ms: int,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        adaptive: bool = True,
        availability_timeout_ms: int = 0,
        partitioning: Partitioning | None = None,
    ) -> None:
        """defer: runs a function outside the engine lock, in order. settled: is told there that a batch's callbacks have run.

        A batch whose outcome is known is `unsettled` until then; whoever is told resolves its promise with settle().
        """
        self.pool = pool
        self.topics: dict[str, TopicQueues] = {}
        self.topics_made = 0
        self.incomplete: dict[ProducerBatch, None] = {}
        self.unsettled: dict[ProducerBatch, None] = {}
        self.full: deque[ProducerBatch] = deque()
        self.flushes = 0
        self.closed = False
        self.waiter: Waiter | None = None
        self.delivery_timeout_ms = delivery_timeout_ms
        self.next_expiry_ms = NEVER_MS
        self._active: dict[PartitionQueue, None] = {}
        self._stalled_since: dict[int, int] = {}
        self._drain_from: dict[int, int] = {}
        self._rng = rng
        self._defer = defer
        self._settled = settled
        self._batch_size = max(batch_size, 1)
        self._linger_ms = linger_ms
        self._max_request_size = max_request_size
        self._codec = codec
        self._level = level
        self._adaptive = adaptive
        self._availability_timeout_ms = availability_timeout_ms
        self._partitioning = partitioning or Partitioning()

    # Topics

    def topic(self, name: str, snapshot: ClusterSnapshot) -> TopicQueues:
        """Return the queues of a topic, made when new."""
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = TopicQueues(name, self._rng, self._batch_size)
            topic.refresh(snapshot)
            self.topics_made += 1
        return topic

    def refresh(self, snapshot: ClusterSnapshot, wanted: Collection[str]) -> list[TopicQueues]:
        """Learn partitions and leaders from a new snapshot; drop topics that are not wanted any more, nor used, and return them."""
        dropped = []
        for topic in list(self.topics.values()):
            topic.refresh(snapshot)
            if topic.name not in wanted and topic.is_idle:
                dropped.append(self.topics.pop(topic.name))
        return dropped

    # Appending

    def try_append(
        self,
        topic_name: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp: int,
        callback: DeliveryCallback | None,
    ) -> Delivery | None:
        """Append to the open batch of the partition; None when there is no room in one, and append() must look closer.

        This is the path of nearly every record: no clock, no allocation but the handle. A record above max.request.size never fits here,
        since no batch is that large.
        """
        topic = self.topics.get(topic_name)
        if topic is None:
            return None
        if partition is None:
            partition = self._partitioning.for_key(key, topic.count or 1)
            if partition == STICKY:
                partition = topic.sticky.current
        if not 0 <= partition < topic.count:
            return None
        batch = topic.partitions[partition].tail
        if batch is None:
            return None
        index = batch.builder.append_if_room(timestamp, key, value, headers)  # type: ignore[union-attr]
        if index == NO_ROOM:
            return None
        if callback is not None:
            batch.callbacks.append((index, timestamp, callback))
        return Delivery(batch, index, timestamp)

    def append(self, record: ToSend, now_ms: int, ticket: Ticket | None = None) -> Delivery | Ticket | None:
        """Append a record, in a new batch if need be; None when metadata does not know the topic or partition.

        Returns a Ticket when memory is short: wait for its promise, call again with it, and cancel it in the end, used or not: another
        thread may have opened a batch meanwhile (A2). Raises RecordTooLargeError, ClosedError.
        """
        if self.closed:
            raise not_written(ClosedError("the producer is closed"))
        size = self._checked_size(record)
        topic = self.topics.get(record.topic)
        if topic is None or (record.partition or 0) >= topic.count:
            return None
        while (delivery := self.try_append(*record)) is None:
            if self._moved_on(record, now_ms):
                continue
            queue = self._queue_for(record)
            if queue.tail is not None:
                self._close_full(queue)
            elif self._charge(size, ticket):
                self._open(queue, size, now_ms)
            else:
                return self.pool.enqueue(size)
        return delivery

    def append_sealed(
        self, topic_name: str, partition: int, data: bytearray, records_count: int, now_ms: int, ticket: Ticket | None = None
    ) -> ProducerBatch | Ticket | None:
        """Queue a whole encoded batch behind what the partition already has; a Ticket or None as from append()."""
        if self.closed:
            raise not_written(ClosedError("the producer is closed"))
        topic = self.topics.get(topic_name)
        if topic is None or partition >= len(topic.partitions):
            return None
        if not self._charge(len(data), ticket):
            return self.pool.enqueue(len(data))
        queue = topic.partitions[partition]
        self._close_full(queue)
        batch = ProducerBatch.sealed(queue, data, records_count, charged=len(data), created_ms=now_ms, waiter=self.waiter)
        self._add(queue, batch)
        return batch

    def next_sticky(self, topic: TopicQueues, now_ms: int) -> int:
        """Move a topic's keyless records on to another partition and return it (P5, P6)."""
        # A topic that metadata lost sight of while its records are being sent has no count, but it had partitions.
        queues = topic.partitions[: topic.count] or topic.partitions
        usable = [queue for queue in queues if queue.leader is not None and not self._is_stalled(queue.leader, now_ms)]
        candidates = usable or [queue for queue in queues if queue.leader is not None] or queues
        lengths = [len(queue.batches) for queue in candidates] if self._adaptive else None
        return topic.sticky.move([queue.tp.partition for queue in candidates], lengths)

    def claim_full(self) -> ProducerBatch | None:
        """Hand a full batch to the calling thread, which seals it outside the lock and then calls sealed()."""
        while self.full:
            batch = self.full.popleft()
            if batch.builder is not None and batch.final is None and not batch.on_the_wire:
                batch.sealing = True
                return batch
        return None

    def sealed(self, batch: ProducerBatch) -> None:
        """Let a claimed batch be drained."""
        batch.sealing = False
        if batch.final is not None:
            batch.drop_bytes()

    def _checked_size(self, record: ToSend) -> int:
        bound = record_size_upper_bound(len(record.key or b""), len(record.value or b""), record.headers)
        for limit, option in ((self._max_request_size, "max.request.size"), (self.pool.total, "buffer.memory")):
            if bound > limit:
                raise RecordTooLargeError(
                    f"a record for topic {record.topic!r} takes up to {bound} bytes uncompressed, more than {option}={limit}; "
                    f"raise {option} (and the topic's max.message.bytes) or send smaller records"
                )
        return max(min(self._batch_size, self.pool.total), bound)

    def _charge(self, size: int, ticket: Ticket | None) -> bool:
        return self.pool.redeem(ticket) if ticket is not None else self.pool.try_allocate(size)

    def _sticks(self, record: ToSend) -> bool:
        return record.partition is None and self._partitioning.for_key(record.key, 1) == STICKY

    def _moved_on(self, record: ToSend, now_ms: int) -> bool:
        """Move the sticky partition if the record goes there, it has had its share and no batch would be cut short (P4)."""
        topic = self.topics[record.topic]
        sticky = topic.sticky
        if not self._sticks(record) or not sticky.is_due or (sticky.current >= 0 and topic.partitions[sticky.current].tail is not None):
            return False
        self.next_sticky(topic, now_ms)
        return True

    def _queue_for(self, record: ToSend) -> PartitionQueue:
        topic = self.topics[record.topic]
        partition = self._partitioning.for_key(record.key, topic.count) if record.partition is None else record.partition
        return topic.partitions[topic.sticky.current if partition == STICKY else partition]

    def _close_full(self, queue: PartitionQueue) -> None:
        tail = queue.tail
        queue.close_tail(full=True)
        if tail is not None and self._codec is not Codec.NONE:
            self.full.append(tail)

    def _open(self, queue: PartitionQueue, charged: int, now_ms: int) -> None:
        limit = min(self._batch_size, self._max_request_size)
        builder = RecordBatchBuilder(self._codec, self._level, limit, queue.topic.compression_ratio)
        batch = ProducerBatch(queue, builder, charged=charged, created_ms=now_ms, waiter=self.waiter)
        self._add(queue, batch)
        queue.tail = batch

    def _add(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        self._track(batch)
        queue.batches.append(batch)
        self._active[queue] = None

    def _track(self, batch: ProducerBatch) -> None:
        self.incomplete[batch] = None
        self.next_expiry_ms = min(self.next_expiry_ms, batch.created_ms + self.delivery_timeout_ms)

    # Looking

    @property
    def all_due(self) -> bool:
        """Whether nothing should linger: memory is short, somebody flushes, or no more records will come (A8, B10)."""
        return self.flushes > 0 or self.closed or self.pool.queued > 0

    def ready(self, now_ms: int) -> Ready:
        """Return the leaders that are due and when to look again; changes nothing."""
        due: set[int] = set()
        queues: dict[int, list[PartitionQueue]] = {}
        leaderless: set[str] = set()
        next_check_ms = NEVER_MS
        for queue in self._active:
            if queue.leader is None:
                leaderless.add(queue.tp.topic)
                continue
            queues.setdefault(queue.leader, []).append(queue)
            # What lingers rides along with what is due (A11). What backs off does not, so its time counts although its leader is due:
            # the due ones may be held back by their numbering, and then nothing else would bring us here again.
            if queue.leader not in due or queue.batches[0].attempts:
                due_ms = self._due_ms(queue)
                if due_ms <= now_ms:
                    due.add(queue.leader)
                else:
                    next_check_ms = min(next_check_ms, due_ms)
        return Ready({node: queues[node] for node in queues if node in due}, leaderless, next_check_ms)

    def _due_ms(self, queue: PartitionQueue) -> int:
        head = queue.batches[0]
        if queue.muted or head.sealing:
            return NEVER_MS
        if head.attempts:
            return self._retry_at_ms(queue, head)
        if self.all_due or len(queue.batches) > 1 or head is not queue.tail or head.builder is None or head.builder.is_full:
            return 0
        return head.created_ms + self._linger_ms

    @staticmethod
    def _retry_at_ms(queue: PartitionQueue, head: ProducerBatch) -> int:
        # A leader elected since the last attempt has not refused the batch, so there is no reason to back off (KIP-951).
        return 0 if queue.leader_epoch > head.leader_epoch >= 0 else head.retry_at_ms

    def _is_stalled(self, node: int, now_ms: int) -> bool:
        since = self._stalled_since.get(node)
        return bool(self._availability_timeout_ms) and since is not None and now_ms - since > self._availability_timeout_ms

    def note_readiness(self, node: int, ready: bool, now_ms: int) -> None:
        """Remember since when a leader with data could not take any (P6)."""
        if ready:
            self._stalled_since.pop(node, None)
        else:
            self._stalled_since.setdefault(node, now_ms)

    # Draining

    def drain(self, node: int, queues: list[PartitionQueue], now_ms: int, numbering: Numbering | None) -> list[ProducerBatch]:
        """Take at most one batch per partition for one request, sealed and numbered; a fair start changes each time (A13-A15)."""
        start = self._drain_from.get(node, 0) % len(queues)
        drained: list[ProducerBatch] = []
        total = 0
        for step in range(len(queues)):
            queue = queues[(start + step) % len(queues)]
            head = self._drainable(queue, now_ms, numbering)
            if head is None:
                continue
            if drained and total + head.size > self._max_request_size:
                self._drain_from[node] = start + step
                break
            self._take(queue, head, numbering)
            drained.append(head)
            total += head.size
        return drained

    def _drainable(self, queue: PartitionQueue, now_ms: int, numbering: Numbering | None) -> ProducerBatch | None:
        head = queue.batches[0] if queue.batches else None
        if head is None or queue.muted or head.sealing:
            return None
        if head.is_empty:
            # Ctrl-C came between its opening and its first record.
            self._unqueue(head)
            self._finish(head, Final.ABORTED)
            return None
        if head.attempts and self._retry_at_ms(queue, head) > now_ms:
            return None
        if numbering is not None and not numbering.may_drain(head):
            return None
        return head

    def _take(self, queue: PartitionQueue, batch: ProducerBatch, numbering: Numbering | None) -> None:
        if queue.tail is batch:
            queue.close_tail()
        queue.batches.popleft()
        if not queue.batches:
            del self._active[queue]
        batch.seal()
        if numbering is not None and not batch.has_sequence:
            numbering.number(batch)
        if batch not in queue.in_flight:
            queue.in_flight.append(batch)

    # Afterwards

    def put_back(self, batch: ProducerBatch) -> None:
        """Queue a batch for another attempt, in its old place (A20)."""
        batch.queue.put_back(batch)
        self._active[batch.queue] = None

    def put_parts(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Let the parts of a split take a batch's place and what it is charged, since there may be no other memory (A21)."""
        batch.share_charge(parts)
        batch.queue.replace(batch, parts)
        self._active[batch.queue] = None
        batch.split_into(parts)
        for part in parts:
            self._track(part)
        batch.finish(Final.SPLIT)
        del self.incomplete[batch]
        batch.drop_bytes()

    def expired(self, now_ms: int) -> Iterator[ProducerBatch]:
        """Yield the batches older than delivery.timeout.ms, in flight ones too (A17, A18); the caller fails them."""
        if now_ms < self.next_expiry_ms:
            return
        limit = now_ms - self.delivery_timeout_ms
        yield from [batch for batch in self.incomplete if batch.created_ms <= limit]
        self.next_expiry_ms = min((batch.created_ms for batch in self.incomplete), default=NEVER_MS) + self.delivery_timeout_ms

    def complete(self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int) -> None:
        """The broker has it."""
        if batch.final is None:
            batch.base_offset = base_offset
            batch.log_append_time_ms = log_append_time_ms
            self._finish(batch, Final.SUCCEEDED)

    def fail(
        self, batch: ProducerBatch, error: KafkaError, *, final: Final = Final.FAILED, record_errors: dict[int, KafkaError] | None = None
    ) -> None:
        """Give up on it; a late answer changes nothing any more (TR41)."""
        if batch.final is None:
            batch.error = error
            batch.record_errors = record_errors or {}
            self._unqueue(batch)
            self._finish(batch, final)

    def off_the_wire(self, batch: ProducerBatch) -> None:
        """Its request was answered or given up; memory of a batch that failed meanwhile comes back only now (A19)."""
        batch.on_the_wire = False
        if batch.final is not None:
            self._release(batch)

    def abort(self, error: Callable[[ProducerBatch], KafkaError]) -> None:
        """Fail everything that is not final (A23)."""
        for batch in list(self.incomplete):
            self.fail(batch, error(batch), final=Final.ABORTED)

    def close(self) -> None:
        """Take no more records; who waits for memory is turned away (A7, B9)."""
        self.closed = True
        for batch in self.incomplete:
            batch.queue.tail = None
        self.pool.close(not_written(ClosedError("the producer was closed while send() waited for buffer memory")))

    def _unqueue(self, batch: ProducerBatch) -> None:
        queue = batch.queue
        if queue.tail is batch:
            queue.tail = None
        if batch in queue.batches:
            queue.batches.remove(batch)
        if not queue.batches:
            self._active.pop(queue, None)

    def _finish(self, batch: ProducerBatch, final: Final) -> None:
        batch.finish(final)
        if batch in batch.queue.in_flight:
            batch.queue.in_flight.remove(batch)
        del self.incomplete[batch]
        if batch.callbacks:
            self.unsettled[batch] = None
            self._defer(lambda: self._call_back(batch))
        else:
            batch.promise.resolve(batch)
        self._release(batch)

    def _call_back(self, batch: ProducerBatch) -> None:
        batch.run_callbacks()
        self._settled(batch)

    def settle(self, batch: ProducerBatch) -> None:
        """Let those know who wait for the batch: its callbacks have run (A25)."""
        del self.unsettled[batch]
        batch.promise.resolve(batch)
        self._release(batch)

    def _release(self, batch: ProducerBatch) -> None:
        """Let go of a final batch's bytes when no request needs them, and of its memory when its callbacks have run as well."""
        if batch.on_the_wire:
            return
        if not batch.sealing:
            batch.drop_bytes()
        if batch not in self.unsettled:
            charged, batch.charged = batch.charged, 0
            self.pool.release(charged)
