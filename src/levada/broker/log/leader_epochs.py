"""The leader epochs of a partition and their start offsets, by which readers and replicas detect truncation (KIP-101, KIP-320)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import NamedTuple

UNKNOWN = -1
_EPOCH, _START = itemgetter(0), itemgetter(1)


class EpochEnd(NamedTuple):
    """A leader epoch and its end offset, the offset after its last record. Both are -1 if the requested epoch is negative or newer than the
    current one.
    """

    epoch: int = UNKNOWN
    end_offset: int = UNKNOWN


class LeaderEpochs:
    """The leader epochs in a replica's log, as pairs of an epoch and its start offset, in ascending order. They are empty for a replica
    that was never leader and has copied no record.
    """

    def __init__(self) -> None:
        self._starts: list[tuple[int, int]] = []
        self._changed: Callable[[Sequence[tuple[int, int]]], None] = lambda starts: None

    @property
    def starts(self) -> Sequence[tuple[int, int]]:
        """Each epoch and its start offset."""
        return self._starts

    def watch(self, changed: Callable[[Sequence[tuple[int, int]]], None]) -> None:
        """Register a callback. It is called with all pairs of epoch and start offset after each change."""
        self._changed = changed

    def load(self, starts: Sequence[tuple[int, int]]) -> None:
        """Set the pairs of epoch and start offset to the stored ones."""
        self._starts = list(starts)

    @property
    def current(self) -> int:
        """The newest epoch, -1 if there is none."""
        return self._starts[-1][0] if self._starts else UNKNOWN

    def begin(self, epoch: int, start_offset: int) -> None:
        """Add an epoch that begins at an offset. Epochs before it that have no records are removed."""
        self._starts = [entry for entry in self._starts if entry[1] < start_offset] + [(epoch, start_offset)]
        self._changed(self._starts)

    def truncate(self, end_offset: int) -> None:
        """Remove the epochs that begin at or after the log's new end offset."""
        kept = [entry for entry in self._starts if entry[1] < end_offset]
        if kept != self._starts:
            self._starts = kept
            self._changed(kept)

    def end_of(self, epoch: int, log_end: int) -> EpochEnd:
        """Return an epoch and its end offset, as in OffsetForLeaderEpoch; -1 and -1 if the epoch is negative or newer than the current one.

        If the log does not have the epoch, the newest earlier one is returned. If there is none, the epoch itself is returned, with the
        start of the first epoch as its end. log_end: the log end offset.
        """
        if epoch == self.current != UNKNOWN:
            return EpochEnd(epoch, log_end)
        after = bisect_right(self._starts, epoch, key=_EPOCH)
        if epoch < 0 or after == len(self._starts):
            return EpochEnd()
        return EpochEnd(self._starts[after - 1][0] if after else epoch, self._starts[after][1])

    def at(self, offset: int) -> int:
        """Return the epoch of the record at an offset."""
        return self._starts[max(bisect_right(self._starts, offset, key=_START) - 1, 0)][0]
