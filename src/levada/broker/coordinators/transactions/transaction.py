"""A transactional id: its producer, and the partitions of its transaction.

Times are milliseconds since the epoch. Every change goes through _move(), which allows only what TRANSITIONS has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from levada.broker.coordinators.transactions.transaction_states import Event, State, after
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
    """The markers that complete a transaction: one for each partition. In partitions of __consumer_offsets they decide the groups' offsets.

    producer: its epoch is that of the markers. strict: the markers' epoch must be above that of the records (transaction.version 2).
    """

    transactional_id: str
    producer: ProducerIdAndEpoch
    committed: bool
    partitions: tuple[TopicPartition, ...]
    coordinator_epoch: int
    strict: bool


class Transaction:
    """A transactional id. previous_producer_id, last_epoch: the producer's former values, by which a repeated request is recognized.

    next_producer_id: the one that it gets when the transaction completes, because its epochs are used up. started_ms: -1 without a
    transaction.
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
        """Whether the producer id has no epoch left that a producer may use."""
        return self.producer.epoch >= LAST_USED_EPOCH

    def initialise(self, producer: ProducerIdAndEpoch, last_epoch: int, timeout_ms: int, now_ms: int) -> None:
        """Assign the transactional id to a producer."""
        self._move(Event.INITIALISE, producer, last_epoch, now_ms)
        self.timeout_ms = timeout_ms
        self.started_ms = -1

    def add(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Add partitions to the transaction, which begins with the first ones."""
        if self.state is not State.ONGOING:
            self.started_ms = now_ms
        self._move(Event.ADD, self.producer, self.last_epoch, now_ms)
        self.partitions.update(dict.fromkeys(partitions))

    def fence(self, *, bump: bool) -> None:
        """Fence the producer. bump: raise the epoch now, unless the abort that follows raises it."""
        producer = self.producer._replace(epoch=self.producer.epoch + 1) if bump else self.producer
        self._move(Event.FENCE, producer, NO_ID if bump else self.last_epoch, self.updated_ms)

    def prepare(self, event: Event, producer: ProducerIdAndEpoch, last_epoch: int, next_producer_id: int, now_ms: int) -> None:
        """Decide the outcome of the transaction (prepare commit or abort)."""
        if event is Event.ABORT_NOTHING:
            self.started_ms = now_ms
        self._move(event, producer, last_epoch, now_ms)
        self.next_producer_id = next_producer_id

    def complete(self, now_ms: int) -> None:
        """All markers are written: complete the transaction."""
        self._move(Event.MARKERS_WRITTEN, self.completed_producer, self.last_epoch, now_ms)
        self.next_producer_id = NO_ID
        self.partitions.clear()

    def expire(self, now_ms: int) -> None:
        """Remove the id, because it was unused for long."""
        self._move(Event.EXPIRE, self.producer, self.last_epoch, now_ms)

    @property
    def completed_producer(self) -> ProducerIdAndEpoch:
        """The producer id and epoch with which the producer continues after the present completion."""
        return self.producer if self.next_producer_id == NO_ID else ProducerIdAndEpoch(self.next_producer_id, 0)

    def _move(self, event: Event, producer: ProducerIdAndEpoch, last_epoch: int, now_ms: int) -> None:
        self.state = after(self.state, event)
        self.previous_producer_id = self.producer.producer_id
        self.producer = producer
        self.last_epoch = last_epoch
        self.updated_ms = now_ms
