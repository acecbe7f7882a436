# cython: annotation_typing=False
"""A batch of records for one partition (ProducerBatch in Java).

A batch is filled (`builder`), then sealed (`data`), then sent one or more times, and in the end has a final outcome (`final`). There is no
future per record: a record is a (batch, index) pair. The batch has one promise, which is settled when the outcome is known and the
callbacks have run. A batch that is too large for the broker is split into parts. The promise of the split batch is settled after the
promises of all parts, and each record has the outcome that it has in its part.
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
"""The `ack` argument of send(): an AckBuffer, and the sequence that put() of this AckBuffer returned."""

NO_SEQUENCE = -1

tuple_new = tuple.__new__


class Contents(Protocol):
    """The records of a batch: a RecordBatchBuilder, or a batch from seal_arrow()."""

    @property
    def records_count(self) -> int:
        """How many records the batch has."""
        ...

    @property
    def records_size(self) -> int:
        """Size of the records in bytes, without the batch header: before compression, but as encoded for a batch from seal_arrow()."""
        ...

    @property
    def largest_record(self) -> int:
        """Size of the largest record in bytes; 0 if unknown."""
        ...

    def build(self) -> bytearray:
        """Return the encoded and compressed batch."""
        ...


class Final(Enum):
    """The final outcome of a batch.

    ABORTED: failed because of close(), an aborted transaction, or an error of the whole producer; not counted as a failure that the program
    has not read. SPLIT: the records have the outcomes of the parts.
    """

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABORTED = "aborted"
    SPLIT = "split"


class ProducerBatch:
    """One batch.

    charged: bytes charged in the BufferPool. callback_room: for how many more callbacks and AckBuffer sequences this is enough.
    compression_ratio: after sealing, the compressed size of the records over the uncompressed size; 1 without compression, and for a batch
    from seal_arrow(). callbacks: a flat list of (Delivery, callback). acks: a flat list of (AckBuffer, sequence, index of the record).
    asked: the indices of the records whose error the program has read.
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
        # Typed as Any to avoid None checks: code uses the builder only before the batch is sealed, while it is not None.
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
        """Make a batch that is already sealed, from the records of a builder.

        charged: bytes charged in the BufferPool. created_ms: when delivery.timeout.ms begins; the present time, or that of a batch that is
        split.
        """
        batch = cls(queue, None, charged=charged, created_ms=created_ms, waiter=waiter)
        batch._take(builder)
        return batch

    @property
    def tp(self) -> TopicPartition:
        """The partition of the records."""
        return self.queue.tp

    @property
    def size(self) -> int:
        """Size of the encoded batch in bytes; an estimate before the batch is sealed; 0 after drop_bytes()."""
        if self.data is not None:
            return len(self.data)
        return self.builder.size_estimate if self.builder is not None else 0

    @property
    def unsettled_count(self) -> int:
        """How many records the batch has, whether sealed or not."""
        return self.builder.records_count if self.builder is not None else self.records_count

    @property
    def succeeded(self) -> bool:
        """Whether all records were written (with acks=0: sent). Always False for a batch that was split."""
        return self.final is Final.SUCCEEDED

    @property
    def has_sequence(self) -> bool:
        """Whether the batch has a sequence number. Then its records must not change, because the broker detects duplicates by it."""
        return self.base_sequence != NO_SEQUENCE

    def compress(self) -> None:
        """Compress and encode the records of a batch that is `sealing`, without the engine's lock. Its state is as before until seal()."""
        if self.builder is not None:
            self.builder.build()

    def seal(self) -> None:
        """Compress and encode the records, unless compress() has. No record can be added afterwards. A second call has no effect."""
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
        """Return whether the records may be in the log without a successful response: UNKNOWN, or NO if they are certainly not."""
        return Persisted.UNKNOWN if self.may_be_persisted or self.on_the_wire else Persisted.NO

    def finish(self, final: Final) -> bool:
        """Set the final outcome, and settle the AckBuffer sequences with the errors that the caller has stored. Return whether it was set.

        False if the batch has failed or was split before. Raises IllegalStateError if it has succeeded before.
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
        """Drop the encoded records, so that a Delivery that the program keeps does not keep them in memory."""
        self.records_count = self.unsettled_count
        self.builder = None
        self.data = None

    def run_callbacks(self, log: Log) -> None:
        """Call the callbacks in the order of the records. Log the exceptions that they raise. Called without the engine's lock."""
        callbacks, self.callbacks = self.callbacks, []
        for position in range(0, len(callbacks), 2):
            delivery: Delivery = callbacks[position]
            try:
                made = self.metadata(delivery.index, delivery.timestamp, delivery.key_size, delivery.value_size)
                callbacks[position + 1](made, self.error_of(delivery.index))
            except BaseException as raised:
                # Catch SystemExit, too: an exception in one callback must not end the thread that runs the callbacks of all records.
                log.error("%s: an on_delivery callback raised", self.tp, tp=self.tp, error=raised)

    def settle_acks(self) -> None:
        """Acknowledge the AckBuffer sequences of written records, and fail the sequences of the other records.

        For consecutive sequences of one AckBuffer, its waiters are woken only once.
        """
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
        """Divide the charge of this batch in the BufferPool among its parts."""
        each, left = divmod(self.charged, len(parts))
        for part in parts:
            part.charged = each
        parts[0].charged += left
        self.charged = 0

    def split_into(self, parts: Sequence[ProducerBatch]) -> None:
        """Move the callbacks and AckBuffer sequences to the parts of this batch. The promise is resolved after those of all parts."""
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
        """Return the metadata of the record at an index. The offset is -1 while it is unknown, and if the record has failed.

        timestamp: the record's own, in ms; used unless the broker sent a LogAppendTime. key_size, value_size: bytes; -1 for null or
        unknown.
        """
        if self.parts is not None:
            part, inner = self._part_of(index)
            return part.metadata(inner, timestamp, key_size, value_size)
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        when = self.log_append_time_ms if self.log_append_time_ms >= 0 else timestamp
        topic, partition = self.queue.tp
        # Half of the time of the class's own __new__, which is a function of Python.
        return tuple_new(RecordMetadata, (topic, partition, offset, when, key_size, value_size))

    def error_of(self, index: int) -> KafkaError | None:
        """Return the error of the record at an index, None without one, and note that the program has read the error."""
        if self.parts is not None:
            part, inner = self._part_of(index)
            return part.error_of(inner)
        error: KafkaError | None = self.failure_of(index)
        if error is not None:
            self.asked.add(index)
        return error

    def failure_of(self, index: int) -> KafkaError | None:
        """Return the error of the record at an index, None without one, but do not note that the program has read it."""
        if self.parts is not None:
            part, inner = self._part_of(index)
            return part.failure_of(inner)
        error: KafkaError | None = self.record_errors.get(index, self.error) if self.record_errors else self.error
        return error

    @property
    def unasked(self) -> int:
        """How many records of a failed batch have an error that the program has not read."""
        return self.records_count - len(self.asked)

    def remember(self, code: ErrorCode, whence: str) -> None:
        """Store the error of an attempt, for the message of a later DeliveryTimeout. whence: text about where the error came from."""
        self.last_error = f"{code.name} {whence}" if whence else code.name
