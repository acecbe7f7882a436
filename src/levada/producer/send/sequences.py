"""The numbers for duplicate detection: producer id, epoch and sequence number, modulo 2^31."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from levada.record.batch import next_sequence

if TYPE_CHECKING:
    from levada.producer.append.producer_batch import ProducerBatch

SEQUENCE_MODULUS = 1 << 31
MAX_EPOCH = 32767


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int = -1
    epoch: int = -1

    @property
    def is_valid(self) -> bool:
        """Whether it has a producer id."""
        return self.producer_id >= 0


NO_IDENTITY = ProducerIdentity()


def is_before(a: int, b: int) -> bool:
    """Whether sequence a comes before b. Sequences wrap from 2^31-1 to 0."""
    return a != b and (b - a) % SEQUENCE_MODULUS < SEQUENCE_MODULUS // 2


class Sequences:
    """The sequence numbers of one partition.

    unresolved: the sequence after a batch that may or may not be written; nothing new is sent until it is known whether there is a gap.
    wants_bump: the sequence cannot continue under this epoch; the partition starts at 0 under the next one.
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
        """The sequence after the last acknowledged one, which the broker expects next."""
        return next_sequence(self.last_acked, 1) if self.last_acked >= 0 else 0

    def take(self, count: int) -> int:
        """Return the sequence for the next `count` records, and advance by `count`."""
        base = self.next
        self.next = next_sequence(base, count)
        return base

    def acked(self, base_sequence: int, count: int, base_offset: int) -> None:
        """Note a success. Responses may arrive out of order, so this only moves forward."""
        last = next_sequence(base_sequence, count - 1)
        if self.last_acked < 0 or is_before(self.last_acked, last):
            self.last_acked = last
        if base_offset >= 0:
            self.last_acked_offset = max(self.last_acked_offset, base_offset + count - 1)


class Numbering(Protocol):
    """Gives sequence numbers to batches."""

    def may_drain(self, batch: ProducerBatch) -> bool:
        """Whether a batch may be sent now without breaking its partition's order."""
        ...

    def number(self, batch: ProducerBatch) -> None:
        """Give a sealed batch its sequence number."""
        ...
