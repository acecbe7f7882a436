# cython: annotation_typing=False
"""A batch of one partition on its way to the broker, and everything its records share.

Being filled (`builder`), then sealed (`data`), then on the wire once or more often, then final. A record never costs a future: it is a
(batch, index) pair, and the batch owns the one promise, which settles when the outcome is known and the callbacks have run.
A batch that was too large for the broker is split: its promise settles when all parts have settled, and its records look at the part they
went into.
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
"""What send(ack=...) takes: an AckBuffer, and the sequence that its put() returned."""

NO_SEQUENCE = -1


class Contents(Protocol):
    """What a batch takes over when it is sealed: of a RecordBatchBuilder, or of a batch that was sealed elsewhere."""

    @property
    def records_count(self) -> int:
        """How many records there are."""
        ...

    @property
    def records_size(self) -> int:
        """Bytes of its records."""
        ...

    @property
    def largest_record(self) -> int:
        """Bytes of the largest one, 0 where that is not known."""
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
    """See the module's text. `charged` is what it costs the buffer pool, `callback_room` for how many more callbacks that is enough.
    Once it is sealed, `compression_ratio` is the size of its records on the wire over what they take uncompressed, `records_size`; the
    largest one takes `largest_record`.

    callbacks: by turns a record's delivery and its callback. acks: by turns an AckBuffer, a sequence, and the index of its record.
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
        # Not typed closer: it is there until the batch is sealed, which whoever asks for it knows.
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
        """Make one that takes no more records."""
        batch = cls(queue, None, charged=charged, created_ms=created_ms, waiter=waiter)
        batch._take(builder)
        return batch

    @property
    def tp(self) -> TopicPartition:
        """Where it goes."""
        return self.queue.tp

    @property
    def size(self) -> int:
        """Bytes on the wire; an estimate before it is sealed."""
        if self.data is not None:
            return len(self.data)
        return self.builder.size_estimate if self.builder is not None else 0

    @property
    def is_empty(self) -> bool:
        """Whether it was opened and has no record."""
        return self.builder is not None and self.builder.records_count == 0

    @property
    def unsettled_count(self) -> int:
        """How many records it holds now, sealed or not."""
        return self.builder.records_count if self.builder is not None else self.records_count

    @property
    def succeeded(self) -> bool:
        """Whether every record is written, in this batch."""
        return self.final is Final.SUCCEEDED

    @property
    def has_sequence(self) -> bool:
        """Whether it was numbered for the broker's duplicate detection; then its contents are fixed too."""
        return self.base_sequence != NO_SEQUENCE

    def seal(self) -> None:
        """Compress and frame; after it no record can be added. Does nothing the second time."""
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
        """Whether its records may be in the log although no success was reported."""
        return Persisted.UNKNOWN if self.may_be_persisted or self.on_the_wire else Persisted.NO

    def finish(self, final: Final) -> bool:
        """Fix the outcome, which the caller has stored, and tell AckBuffers; False when there already is one, as of a late answer."""
        if self.final is not None:
            if self.final is Final.SUCCEEDED:
                raise IllegalStateError(f"{self.tp}: a batch that succeeded cannot become {final.value}")
            return False
        self.final = final
        if self.acks:
            self.settle_acks()
        return True

    def drop_bytes(self) -> None:
        """Forget the records but for their number: handles that users keep must not keep the bytes."""
        self.records_count = self.unsettled_count
        self.builder = None
        self.data = None

    def run_callbacks(self, log: Log) -> None:
        """Call the users back in append order, outside the engine lock; what one raises is logged, the others still run."""
        callbacks, self.callbacks = self.callbacks, []
        for delivery, callback in zip(callbacks[::2], callbacks[1::2], strict=True):
            try:
                callback(delivery.metadata(), self.error_of(delivery.index))
            except BaseException as raised:
                # SystemExit too: nothing that a callback raises may end the thread that serves all records.
                log.error("%s: an on_delivery callback raised", self.tp, tp=self.tp, error=raised)

    def settle_acks(self) -> None:
        """Mark the sequences of records that were written, fail the others, and wake who waits for a buffer once in a row."""
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
        """Hand over to parts what this batch is charged."""
        each, left = divmod(self.charged, len(parts))
        for part in parts:
            part.charged = each
        parts[0].charged += left
        self.charged = 0

    def split_into(self, parts: Sequence[ProducerBatch]) -> None:
        """Hand the records over to parts, in order; the promise settles after theirs."""
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
        """Return where the record is; offset -1 while that is not known or when it failed."""
        if self.parts is not None:
            part, inner = self._part_of(index)
            return part.metadata(inner, timestamp, key_size, value_size)
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        when = self.log_append_time_ms if self.log_append_time_ms >= 0 else timestamp
        return RecordMetadata(self.tp.topic, self.tp.partition, offset, when, key_size, value_size)

    def error_of(self, index: int) -> KafkaError | None:
        """Return what became of the record, None for success, and note that it was asked for."""
        if self.parts is not None:
            part, inner = self._part_of(index)
            return part.error_of(inner)
        error: KafkaError | None = self.record_errors.get(index, self.error)
        if error is not None:
            self.asked.add(index)
        return error

    def failure_of(self, index: int) -> KafkaError | None:
        """Return what became of the record, None for success."""
        if self.parts is not None:
            part, inner = self._part_of(index)
            return part.failure_of(inner)
        error: KafkaError | None = self.record_errors.get(index, self.error)
        return error

    @property
    def unasked(self) -> int:
        """How many of its records have failed, and the program has not looked at that."""
        return self.records_count - len(self.asked)

    def remember(self, code: ErrorCode, whence: str) -> None:
        """Keep the newest failure for the text of a delivery timeout."""
        self.last_error = f"{code.name} {whence}" if whence else code.name
