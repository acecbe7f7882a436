"""A transactional id: its producer, and the partitions of its transaction.

Times are milliseconds since the epoch. Every change goes through _move(), which allows only what TRANSITIONS has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from levada.base.state_table import following
from levada.broker.coordinators.transactions.transaction_states import TRANSITIONS, Event, State
from levada.types import TopicPartition

NO_ID = -1
MAX_EPOCH = 32_767
LAST_USED_EPOCH = MAX_EPOCH - 1
"""The last epoch that a producer may use. The one after it is reserved for fencing (KIP-360)."""


class ProducerIdAndEpoch(NamedTuple):
    """The producer id and the epoch of a producer."""

    producer_id: int = NO_ID
    epoch: int = NO_ID


class EndMarkers(NamedTuple):
    """The markers that end a transaction, one for each of its partitions. A marker in __consumer_offsets commits or drops pending offsets
    of groups.

    producer: the producer id and the epoch in the markers. strict: whether this epoch must be higher than that of the transaction's records
    (transaction.version 2).
    """

    transactional_id: str
    producer: ProducerIdAndEpoch
    committed: bool
    partitions: tuple[TopicPartition, ...]
    coordinator_epoch: int
    strict: bool


class Transaction:
    """A transactional id with its producer and its present transaction.

    previous_producer_id, last_epoch: the producer's former id and epoch, by which a repeated request is recognized. next_producer_id: the
    producer id after the present transaction, if the epochs of the present one are used up. started_ms: when the present or, if none is
    open, the last transaction began; -1 if there was none since InitProducerId.
    """

    def __init__(self, transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> None:
        self.id = transactional_id
        self.producer = ProducerIdAndEpoch(producer_id, NO_ID)
        self.previous_producer_id = NO_ID
        self.next_producer_id = NO_ID
        self.last_epoch = NO_ID
        self.timeout_ms = timeout_ms
        self.state = State.EMPTY
        self.partitions: dict[TopicPartition, None] = {}
        self.started_ms = -1
        self.updated_ms = now_ms

    @property
    def is_exhausted(self) -> bool:
        """Whether all epochs that a producer may use with this producer id have been used."""
        return self.producer.epoch >= LAST_USED_EPOCH

    def initialise(self, producer: ProducerIdAndEpoch, last_epoch: int, timeout_ms: int, now_ms: int) -> None:
        """Set the producer of the transactional id (InitProducerId). last_epoch: the producer's former epoch."""
        self._move(Event.INITIALISE, producer, last_epoch, now_ms)
        self.timeout_ms = timeout_ms
        self.started_ms = -1

    def add(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Add partitions to the transaction. The first partitions begin it."""
        if self.state is not State.ONGOING:
            self.started_ms = now_ms
        self._move(Event.ADD, self.producer, self.last_epoch, now_ms)
        self.partitions.update(dict.fromkeys(partitions))

    def fence(self, *, bump: bool) -> None:
        """Fence the producer before its transaction is aborted. bump: whether to raise the epoch now; if not, the abort raises it."""
        producer = self.producer._replace(epoch=self.producer.epoch + 1) if bump else self.producer
        self._move(Event.FENCE, producer, NO_ID if bump else self.last_epoch, self.updated_ms)

    def prepare(self, event: Event, producer: ProducerIdAndEpoch, last_epoch: int, next_producer_id: int, now_ms: int) -> None:
        """Move to the state PrepareCommit or PrepareAbort. event: decides which one. next_producer_id: the producer id to use afterwards,
        if it changes.
        """
        if event is Event.ABORT_NOTHING:
            self.started_ms = now_ms
        self._move(event, producer, last_epoch, now_ms)
        self.next_producer_id = next_producer_id

    def complete(self, now_ms: int) -> None:
        """Complete the transaction, because all its markers were written."""
        self._move(Event.MARKERS_WRITTEN, self.completed_producer, self.last_epoch, now_ms)
        self.next_producer_id = NO_ID
        self.partitions.clear()

    def expire(self, now_ms: int) -> None:
        """Move to the state Dead, because the transactional id was not used for a long time."""
        self._move(Event.EXPIRE, self.producer, self.last_epoch, now_ms)

    @property
    def completed_producer(self) -> ProducerIdAndEpoch:
        """The producer id and epoch that the producer has after the present transaction is completed."""
        return self.producer if self.next_producer_id == NO_ID else ProducerIdAndEpoch(self.next_producer_id, 0)

    def _move(self, event: Event, producer: ProducerIdAndEpoch, last_epoch: int, now_ms: int) -> None:
        self.state = following(TRANSITIONS, self.state, event, f"transactional id '{self.id}'")
        self.previous_producer_id = self.producer.producer_id
        self.producer = producer
        self.last_epoch = last_epoch
        self.updated_ms = now_ms
