"""One transactional id: who its producer is, and what its transaction holds.

Times are milliseconds since the epoch. Every change goes through _move(), which knows no transition that TRANSITIONS lacks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from levada.broker.coordinators.transactions.transaction_states import Event, State, after
from levada.types import TopicPartition

NO_ID = -1
MAX_EPOCH = 32_767
LAST_USED_EPOCH = MAX_EPOCH - 1
"""Epochs end here for clients: the one after it is left for fencing the producer (KIP-360)."""


class ProducerIdAndEpoch(NamedTuple):
    """Under which numbers a producer writes."""

    producer_id: int = NO_ID
    epoch: int = NO_ID


class Ending(NamedTuple):
    """What has to be written to end a transaction: a marker into each partition. In one of the offsets' topic it decides groups' offsets.

    producer: with the epoch of the markers. strict: the markers' epoch must be above that of the records (transaction.version 2).
    """

    transactional_id: str
    producer: ProducerIdAndEpoch
    committed: bool
    partitions: tuple[TopicPartition, ...]
    coordinator_epoch: int
    strict: bool


class Transaction:
    """A transactional id. previous_producer_id, last_epoch: what the producer had before, by which a repeated request is known.

    next_producer_id: what it gets with the end of the transaction, because its epochs are used up. started_ms: -1 without a transaction.
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
        """Whether the producer id has no epoch left that a client may use."""
        return self.producer.epoch >= LAST_USED_EPOCH

    def initialise(self, producer: ProducerIdAndEpoch, last_epoch: int, timeout_ms: int, now_ms: int) -> None:
        """Give the id to a producer."""
        self._move(Event.INITIALISE, producer, last_epoch, now_ms)
        self.timeout_ms = timeout_ms
        self.started_ms = -1

    def add(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Make partitions part of the transaction, and begin it if there is none."""
        if self.state is not State.ONGOING:
            self.started_ms = now_ms
        self._move(Event.ADD, self.producer, self.last_epoch, now_ms)
        self.partitions.update(dict.fromkeys(partitions))

    def fence(self, *, bump: bool) -> None:
        """Take the transaction away from its producer. bump: give it the next epoch, unless the abort that follows does so."""
        producer = self.producer._replace(epoch=self.producer.epoch + 1) if bump else self.producer
        self._move(Event.FENCE, producer, NO_ID if bump else self.last_epoch, self.updated_ms)

    def prepare(self, event: Event, producer: ProducerIdAndEpoch, last_epoch: int, next_producer_id: int, now_ms: int) -> None:
        """Decide the outcome."""
        if event is Event.ABORT_NOTHING:
            self.started_ms = now_ms
        self._move(event, producer, last_epoch, now_ms)
        self.next_producer_id = next_producer_id

    def complete(self, now_ms: int) -> None:
        """All markers are written."""
        self._move(Event.MARKERS_WRITTEN, self.completed_producer, self.last_epoch, now_ms)
        self.next_producer_id = NO_ID
        self.partitions.clear()

    def expire(self, now_ms: int) -> None:
        """The id was not used for long."""
        self._move(Event.EXPIRE, self.producer, self.last_epoch, now_ms)

    @property
    def completed_producer(self) -> ProducerIdAndEpoch:
        """What the producer goes on with after the end that is being written."""
        return self.producer if self.next_producer_id == NO_ID else ProducerIdAndEpoch(self.next_producer_id, 0)

    def _move(self, event: Event, producer: ProducerIdAndEpoch, last_epoch: int, now_ms: int) -> None:
        self.state = after(self.state, event)
        self.previous_producer_id = self.producer.producer_id
        self.producer = producer
        self.last_epoch = last_epoch
        self.updated_ms = now_ms
