# cython: annotation_typing=False
"""A batch of one partition on its way to the broker (ProducerBatch in Java).

A batch is first filled (`builder`), then sealed (`data`), then sent, perhaps several times, then final. There is no future per record: a
record is a (batch, index) pair. The batch has one promise, which is settled when the outcome is known and the callbacks have run.
A batch that is too large for the broker is split. Its promise is settled when those of all parts are, and its records take their outcomes
from their parts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from levada.ack_buffer import AckWindow
from levada.base.promise import Promise
from levada.error_codes import ErrorCode
from levada.errors import IllegalStateError, KafkaError, Persisted
from levada.logs import Log
from levada.producer.delivery.delivery import Delivery, Waiter
from levada.record.builder import RecordBatchBuilder
from levada.types import RecordMetadata, TopicPartition

if TYPE_CHECKING:
    from levada.producer.append.partition_queue import PartitionQueue

DeliveryCallback: TypeAlias = Callable[[RecordMetadata, KafkaError | None], object]
Ack: TypeAlias = tuple[AckWindow, int]
"""The argument of send(ack=...): an AckBuffer, and the sequence that its put() has returned."""

NO_SEQUENCE = -1


class Contents(Protocol):
    """The contents of a batch: a RecordBatchBuilder, or a batch that was sealed elsewhere."""

    @property
    def records_count(self) -> int:
        """How many records there are."""
        ...

    @property
    def records_size(self) -> int:
        """Bytes of the records."""
        ...

    @property
    def largest_record(self) -> int:
        """Bytes of the largest record; 0 if unknown."""
        ...

    def build(self) -> bytearray:
        """Return the sealed batch."""
        ...


class Final(Enum):
    """How a batch ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABORTED = "aborted"
    SPLIT = "split"


class ProducerBatch:
    """One batch. `charged`: its charge in the buffer pool. `callback_room`: for how many more callbacks that is enough.
    After sealing, `compression_ratio` is the compressed size of its records over `records_size`, the uncompressed one. `largest_record` is
    the size of the largest record.

    callbacks: a flat list of deliveries and their callbacks. acks: a flat list of AckBuffers, sequences and indices of their records.
    """

    __slots__ = (
        "acks",
        "asked",
        "attempts",
        "base_offset",
        "base_sequence",
        "builder",
        "callback_room",
        "callbacks",
        "charged",
        "compression_ratio",
        "created_ms",
        "data",
        "error",
        "final",
        "largest_record",
        "last_error",
        "leader_epoch",
        "log_append_time_ms",
        "may_be_persisted",
        "on_the_wire",
        "parts",
        "producer_epoch",
        "producer_id",
        "promise",
        "queue",
        "record_errors",
        "records_count",
        "records_size",
        "retry_at_ms",
        "sealing",
        "waiter",
    )

    def __init__(
        self, queue: PartitionQueue, builder: RecordBatchBuilder | None, *, charged: int, created_ms: int, waiter: Waiter | None = None
    ) -> None:
        self.queue = queue
        # Typed as Any: it exists until the batch is sealed, and is used only before that.
        self.builder: Any = builder
        self.charged = charged
        self.created_ms = created_ms
        self.waiter = waiter
        self.compression_ratio = 1.0
        self.data: bytearray | None = None
        self.records_count = self.records_size = self.largest_record = 0
        self.callbacks: list[Any] = []
        self.acks: list[Any] = []
        self.callback_room = 0
        self.promise: Promise[ProducerBatch] = Promise()
        self.sealing = False
        self.attempts = 0
        self.retry_at_ms = created_ms
        self.leader_epoch = -1
        self.last_error = ""
        self.on_the_wire = False
        self.may_be_persisted = False
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = NO_SEQUENCE
        self.final: Final | None = None
        self.error: KafkaError | None = None
        self.record_errors: dict[int, KafkaError] = {}
        self.asked: set[int] = set()
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.parts: tuple[list[int], list[ProducerBatch]] | None = None

    @classmethod
    def sealed(
        cls, queue: PartitionQueue, builder: Contents, *, charged: int, created_ms: int, waiter: Waiter | None = None
    ) -> ProducerBatch:
        """Make a batch that takes no more records."""
        batch = cls(queue, None, charged=charged, created_ms=created_ms, waiter=waiter)
        batch._take(builder)
        return batch

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return self.queue.tp

    @property
    def size(self) -> int:
        """Bytes on the wire; an estimate before it is sealed."""
        if self.data is not None:
            return len(self.data)
        return self.builder.size_estimate if self.builder is not None else 0

    @property
    def is_empty(self) -> bool:
        """Whether the batch has no record yet."""
        return self.builder is not None and self.builder.records_count == 0

    @property
    def unsettled_count(self) -> int:
        """How many records it has now, sealed or not."""
        return self.builder.records_count if self.builder is not None else self.records_count

    @property
    def succeeded(self) -> bool:
        """Whether all records are written, and the batch was not split."""
        return self.final is Final.SUCCEEDED

    @property
    def has_sequence(self) -> bool:
        """Whether it has a sequence number for duplicate detection; then its contents do not change any more."""
        return self.base_sequence != NO_SEQUENCE

    def seal(self) -> None:
        """Compress the records and make the batch; no record can be added afterwards. A second call has no effect."""
        builder = self.builder
        if builder is not None:
            self._take(builder)
            self.builder = None
            if builder.codec:
                self.compression_ratio = builder.compression_ratio
                self.queue.topic.observe_compression(builder.compression_ratio)

    def _take(self, builder: Contents) -> None:
        self.records_count, self.records_size = builder.records_count, builder.records_size
        self.largest_record = builder.largest_record
        self.data = builder.build()

    def persisted(self) -> Persisted:
        """Whether its records may be in the log although there was no successful response."""
        return Persisted.UNKNOWN if self.may_be_persisted or self.on_the_wire else Persisted.NO

    def finish(self, final: Final) -> bool:
        """Make the outcome that the caller has stored final, and report to AckBuffers.

        False if there is one already, as for a late response.
        """
        if self.final is not None:
            if self.final is Final.SUCCEEDED:
                raise IllegalStateError(f"{self.tp}: a batch that succeeded cannot become {final.value}")
            return False
        self.final = final
        if self.acks:
            self.settle_acks()
        return True

    def drop_bytes(self) -> None:
        """Drop the records' bytes: Deliveries that users keep must not keep them in memory."""
        self.records_count = self.unsettled_count
        self.builder = None
        self.data = None

    def run_callbacks(self, log: Log) -> None:
        """Call the callbacks in append order, without the engine's lock. An exception is logged, and the others are still called."""
        callbacks, self.callbacks = self.callbacks, []
        for delivery, callback in zip(callbacks[::2], callbacks[1::2], strict=True):
            try:
                callback(delivery.metadata(), self.error_of(delivery.index))
            except BaseException as raised:
                # SystemExit as well: an exception of a callback must not end the thread that serves all records.
                log.error("%s: an on_delivery callback raised", self.tp, tp=self.tp, error=raised)

    def settle_acks(self) -> None:
        """Acknowledge the sequences of written records, fail the others, and wake the waiters of a buffer once per run of its sequences."""
        acks, self.acks = self.acks, []
        buffer: AckWindow = acks[0]
        succeeded = self.succeeded
        for position in range(0, len(acks), 3):
            if acks[position] is not buffer:
                buffer._wake()
                buffer = acks[position]
            buffer._settle(acks[position + 1], None if succeeded else self.error_of(acks[position + 2]))
        buffer._wake()

    def share_charge(self, parts: Sequence[ProducerBatch]) -> None:
        """Divide the charge of this batch among its parts."""
        each, left = divmod(self.charged, len(parts))
        for part in parts:
            part.charged = each
        parts[0].charged += left
        self.charged = 0

    def split_into(self, parts: Sequence[ProducerBatch]) -> None:
        """Split into parts, in order. The promise is settled after theirs."""
        starts = [0, *accumulate(part.records_count for part in parts)][:-1]
        self.parts = (starts, list(parts))
        for delivery, callback in zip(self.callbacks[::2], self.callbacks[1::2], strict=True):
            part, inner = self._part_of(delivery.index)
            part.callbacks += (Delivery(part, inner, delivery.timestamp, delivery.key_size, delivery.value_size), callback)
        for buffer, sequence, index in zip(self.acks[::3], self.acks[1::3], self.acks[2::3], strict=True):
            part, inner = self._part_of(index)
            part.acks += (buffer, sequence, inner)
        self.callbacks = []
        self.acks = []
        waiting = len(parts)

        def one_settled(_: Promise[ProducerBatch]) -> None:
            nonlocal waiting
            waiting -= 1
            if not waiting:
                self.promise.resolve(self)

        for part in parts:
            part.compression_ratio = self.compression_ratio
            part.promise.on_done(one_settled)

    def _part_of(self, index: int) -> tuple[ProducerBatch, int]:
        assert self.parts is not None
        starts, parts = self.parts
        which = bisect_right(starts, index) - 1
        return parts[which], index - starts[which]

    def metadata(self, index: int, timestamp: int, key_size: int = -1, value_size: int = -1) -> RecordMetadata:
        """Return the metadata of a record; offset -1 while it is unknown or if the record failed."""
        if self.parts is not None:
            part, inner = self._part_of(index)
            return part.metadata(inner, timestamp, key_size, value_size)
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        when = self.log_append_time_ms if self.log_append_time_ms >= 0 else timestamp
        return RecordMetadata(self.tp.topic, self.tp.partition, offset, when, key_size, value_size)

    def error_of(self, index: int) -> KafkaError | None:
        """Return the error of a record, None on success, and note that the program has read it."""
        if self.parts is not None:
            part, inner = self._part_of(index)
            return part.error_of(inner)
        error: KafkaError | None = self.record_errors.get(index, self.error)
        if error is not None:
            self.asked.add(index)
        return error

    def failure_of(self, index: int) -> KafkaError | None:
        """Return the error of a record, None on success."""
        if self.parts is not None:
            part, inner = self._part_of(index)
            return part.failure_of(inner)
        error: KafkaError | None = self.record_errors.get(index, self.error)
        return error

    @property
    def unasked(self) -> int:
        """How many of its records have failed without the program reading the error."""
        return self.records_count - len(self.asked)

    def remember(self, code: ErrorCode, whence: str) -> None:
        """Store the last error for the text of a delivery timeout."""
        self.last_error = f"{code.name} {whence}" if whence else code.name
