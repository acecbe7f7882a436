"""The transactions of one partition: the open ones, the aborted ones, and the last stable offset.

Before its first record a transaction is announced: while its coordinator verifies it, the lowest received sequence is kept, so that no
later batch is appended before the first one. A transaction is open here from its first record to its marker, and unstable until that marker
is committed. The last stable offset is that of the first record of the oldest unstable transaction, at most the high watermark. With
read_committed, consumers read up to it, and get the list of aborted transactions in what they read.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class AbortedTransaction(NamedTuple):
    """An aborted transaction in a partition. first_offset: the offset of its first record. last_offset: the offset of its marker.

    last_stable_offset: the first offset of the oldest transaction that was open when the marker was appended; if none was, the offset after
    the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class EndedTransaction(NamedTuple):
    """A committed or aborted transaction in a partition. first_offset: the offset of its first record. last_offset: the offset of its
    marker.
    """

    first_offset: int
    last_offset: int


class Announced(NamedTuple):
    """The epoch of a producer that is about to begin a transaction, and the lowest sequence number that it has sent for the transaction."""

    epoch: int
    lowest_sequence: int


class PartitionTransactions:
    """The transactions in a partition's log: the open ones, in the order of their first records, and the aborted ones, in the order of
    their markers.
    """

    def __init__(self) -> None:
        self._announced: dict[int, Announced] = {}
        self._open: dict[int, int] = {}
        self._unstable: list[EndedTransaction] = []
        self._aborted: list[AbortedTransaction] = []

    def first_offset_of(self, producer_id: int) -> int | None:
        """Return the first offset of a producer's open transaction, None if none is open."""
        return self._open.get(producer_id)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the lowest first offset of all transactions that are open, or whose marker is not below the high watermark yet; None if
        there are none. Ended transactions below the high watermark are forgotten.
        """
        if self._unstable:
            self._unstable = [ended for ended in self._unstable if ended.last_offset >= high_watermark]
        return min([*(ended.first_offset for ended in self._unstable), *self._open.values()], default=None)

    @property
    def open_producers(self) -> Collection[int]:
        """The ids of the producers with an open transaction in the partition."""
        return self._open.keys()

    def announce(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Remember a batch that may begin a transaction, before the coordinator has verified the transaction. A batch with an older epoch
        than the last one is ignored.

        epoch: the producer epoch. sequence: the batch's first sequence number.
        """
        known = self._announced.get(producer_id)
        if known is None or epoch > known.epoch:
            self._announced[producer_id] = Announced(epoch, sequence)
        elif epoch == known.epoch:
            self._announced[producer_id] = Announced(epoch, min(sequence, known.lowest_sequence))

    def may_begin_with(self, producer_id: int, sequence: int) -> bool:
        """Return whether a producer's transaction may begin with this sequence number. It may not if the producer has announced a batch
        with a lower one.
        """
        known = self._announced.get(producer_id)
        return known is None or sequence <= known.lowest_sequence

    def write(self, producer_id: int, offset: int) -> None:
        """Update the transactions after a transactional batch was appended. A producer's first batch begins its transaction."""
        self._announced.pop(producer_id, None)
        self._open.setdefault(producer_id, offset)

    def end(self, producer_id: int, marker_offset: int, *, committed: bool) -> None:
        """Update the transactions after a marker was appended. Without an open transaction of the producer, only its announced batch is
        forgotten.

        committed: True for a commit marker, False for an abort marker.
        """
        self._announced.pop(producer_id, None)
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return
        self._unstable.append(EndedTransaction(first_offset, marker_offset))
        if not committed:
            last_stable_offset = min(self._open.values(), default=marker_offset + 1)
            self._aborted.append(AbortedTransaction(producer_id, first_offset, marker_offset, last_stable_offset))

    def aborted_between(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records or their marker at offsets from `start` to `end` (excluded)."""
        return [aborted for aborted in self._aborted if aborted.last_offset >= start and aborted.first_offset < end]

    def forget_before(self, offset: int) -> None:
        """Remove the aborted transactions that end before an offset, because the log now starts at this offset."""
        self._aborted = [aborted for aborted in self._aborted if aborted.last_offset >= offset]

    def forget_aborted(self, gone: Collection[AbortedTransaction]) -> None:
        """Remove aborted transactions of which compaction has deleted all records. Compaction may delete their markers, too."""
        self._aborted = [aborted for aborted in self._aborted if aborted not in gone]

    def forget_all(self) -> None:
        """Remove all transactions. Those that the log still has after a truncation are read again."""
        self._announced.clear()
        self._open.clear()
        self._unstable.clear()
        self._aborted.clear()
