"""The numbers with which brokers detect duplicates: producer id, epoch, and sequence numbers modulo 2^31."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from levada.record.batch import next_sequence

if TYPE_CHECKING:
    from levada.producer.append.producer_batch import ProducerBatch

SEQUENCE_MODULUS = 1 << 31
MAX_EPOCH = 32767


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch; -1 means none."""

    producer_id: int = -1
    epoch: int = -1

    @property
    def is_valid(self) -> bool:
        """Whether there is a producer id."""
        return self.producer_id >= 0


NO_IDENTITY = ProducerIdentity()


def is_before(a: int, b: int) -> bool:
    """Whether sequence a comes before b. Sequences wrap from 2^31-1 to 0."""
    return a != b and (b - a) % SEQUENCE_MODULUS < SEQUENCE_MODULUS // 2


class Sequences:
    """The sequence numbers of one partition.

    next: the sequence number of the next new record. last_acked, last_acked_offset: of the last record known to be written; -1 without one.
    unresolved: the sequence number after a failed batch that may have been written; no new batch is sent until it is known whether there is
    a gap; None without such a batch. wants_bump: whether the partition has to start at 0 under a new epoch.
    """

    __slots__ = ("identity", "last_acked", "last_acked_offset", "next", "unresolved", "wants_bump")

    def __init__(self) -> None:
        self.restart(NO_IDENTITY)

    def restart(self, identity: ProducerIdentity) -> None:
        """Start at 0 under a producer id and epoch."""
        self.identity = identity
        self.next = 0
        self.last_acked = -1
        self.last_acked_offset = -1
        self.unresolved: int | None = None
        self.wants_bump = False

    @property
    def expected(self) -> int:
        """The sequence number that the broker expects next: the one after `last_acked`; 0 if none was acknowledged."""
        return next_sequence(self.last_acked, 1) if self.last_acked >= 0 else 0

    def take(self, count: int) -> int:
        """Return the first sequence number for the next `count` records, and advance `next` by `count`."""
        base = self.next
        self.next = next_sequence(base, count)
        return base

    def acked(self, base_sequence: int, count: int, base_offset: int) -> None:
        """Note that a batch was written. Responses may arrive out of order, so `last_acked` never goes back. base_offset: -1 if unknown."""
        last = next_sequence(base_sequence, count - 1)
        if self.last_acked < 0 or is_before(self.last_acked, last):
            self.last_acked = last
        if base_offset >= 0:
            self.last_acked_offset = max(self.last_acked_offset, base_offset + count - 1)


class Numbering(Protocol):
    """Gives sequence numbers to batches (Idempotence)."""

    def may_drain(self, batch: ProducerBatch) -> bool:
        """Whether a batch may be sent now: the partition's order is kept, and the transaction allows it."""
        ...

    def number(self, batch: ProducerBatch) -> None:
        """Write the producer id, the epoch and the next sequence number into a sealed batch."""
        ...
