"""Tracks the consumer offsets that transactions have sent, and the records to read again after a transaction that was not committed.

An aborted transaction commits no offsets, but the consumer's position stays after the records that were read for it. If the next
transaction sent the offset of this position, unprocessed records would be skipped. So the offset that a transaction has sent
for a partition is in doubt until the transaction is committed, and meanwhile no other transaction may send an offset for this partition.
The doubt ends when the transaction is committed, when the program seeks, or when another transaction sends the same records and the program
names them: send_offsets(consumer, records). A detached transaction is ended by another process, so the consumer does not learn its outcome.
seek_to_committed() waits until that transaction has ended, and continues at the offsets that are committed then.

If a transaction is aborted before it has sent offsets, no offset is in doubt. So the first call for records or for offsets after an abort
stores the position of each partition. Then producers with the transactional.id of the aborted transaction may not send offsets that
skip unprocessed records before these positions, until the program seeks, names the records, or commits them with the consumer's commit().
Producers with other transactional ids may, because a process may have several consumers and producers that are independent of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import count
from typing import NamedTuple

from levada.api.record_offsets import Span
from levada.consumer.positions.subscription_state import PartitionState
from levada.errors import IllegalStateError
from levada.types import OffsetAndMetadata, TopicPartition

_moments = count()


class _Aborts:
    """Counts the transactions of this process that were not committed. newest: the number of the last one; -1 before the first."""

    newest = -1


_MOST_IDS = 1000
"""For how many transactional ids the newest transaction is remembered."""

_READ_AGAIN = (
    "call consumer.seek_to_committed() after an aborted or detached transaction, and read them again. A program that handles the same "
    "records again, without reading them, names them in each transaction: send_offsets(consumer, records)"
)


class Sending:
    """A transaction that may send offsets of consumers.

    aborted_at: the number of the last aborted transaction with the same transactional id; -1 if there was none.
    """

    def __init__(self, aborted_at: int = -1) -> None:
        self.aborted_at = aborted_at
        self._is_open = True
        self._consumers: dict[SentOffsets, None] = {}

    @classmethod
    def begin(cls, transactional_id: str) -> Sending:
        """Return a new transaction of a transactional id. If an earlier producer has left one open, note that it will not be committed."""
        before = _newest.pop(transactional_id, None)
        if before is not None:
            before.not_committed()
        begun = _newest[transactional_id] = cls(-1 if before is None else before.aborted_at)
        for forgotten in list(_newest)[:-_MOST_IDS]:
            _newest.pop(forgotten, None)
        return begun

    def add(self, sent: SentOffsets) -> None:
        """Note that offsets of this consumer are part of the transaction."""
        self._consumers[sent] = None

    def committed(self) -> None:
        """Note that the transaction was committed: the offsets that it has sent are not in doubt any more."""
        self._is_open = False
        for sent in self._consumers:
            sent.settle(self)
        self._consumers.clear()

    def not_committed(self) -> None:
        """Note that the transaction was aborted, or cannot be ended by its producer any more.

        No effect after a commit or an earlier call.
        """
        if self._is_open:
            self._is_open = False
            self._consumers.clear()
            self.aborted_at = _Aborts.newest = next(_moments)


_newest: dict[str, Sending] = {}
"""The newest transaction by transactional id; the one that was begun last is at the end."""


class _InDoubt(NamedTuple):
    """Records of one partition whose offsets a transaction has sent, while its commit is not known: from `first` to before `after`."""

    transaction: Sending
    origin: int
    first: int
    after: int


class _Undone(NamedTuple):
    """Records of a partition that were read before a transaction was aborted, and that the program may not have processed.

    abort: the lowest number that the first of these aborts may have. positions: the partition's position at each noted abort, in order.
    """

    abort: int
    positions: tuple[int, ...]

    def after(self, done: int) -> _Undone | None:
        """Return the part that is left if the program has processed all records before an offset; None if nothing is left."""
        left = tuple(position for position in self.positions if position > done)
        return _Undone(self.abort, left) if left else None


class _Settled(NamedTuple):
    """The offset of a partition up to which transactions were committed."""

    origin: int
    after: int


class Read(NamedTuple):
    """The progress of a consumer in a partition. origin, done_to: like in PartitionState."""

    state: PartitionState
    origin: int
    done_to: int
    position: int


class SentOffsets:
    """The offsets of one consumer that transactions have sent, and the records that have to be read again after an abort.

    The producer's engine calls settle(), the consumer's thread all other methods. So only copies are iterated over.
    """

    def __init__(self) -> None:
        self._in_doubt: dict[PartitionState, _InDoubt] = {}
        self._settled: dict[PartitionState, _Settled] = {}
        self._undone: dict[PartitionState, _Undone] = {}
        self._noted_abort = _Aborts.newest

    @property
    def lacks_abort(self) -> bool:
        """Whether a transaction was aborted since note_abort()."""
        return self._noted_abort != _Aborts.newest

    def note_abort(self, reads: Iterable[Read]) -> None:
        """Note the positions at the time when a transaction was aborted. To be called before more is read or sent."""
        # Several may have come since the last note, of ids that have nothing to do with each other.
        first, self._noted_abort = self._noted_abort + 1, _Aborts.newest
        self._forget(lambda state: state.retired)
        for read in reads:
            before = self._undone.get(read.state) or _Undone(first, ())
            if read.position > max((self._done(read), *before.positions[-1:])):
                self._undone[read.state] = _Undone(before.abort, (*before.positions, read.position))

    def moved(self, partitions: Collection[TopicPartition]) -> None:
        """Note that the program seeks these partitions; no partitions: all of them."""
        self._forget(lambda state: not partitions or state.tp in partitions)

    def _forget(self, is_over: Callable[[PartitionState], bool]) -> None:
        for known in (self._in_doubt, self._settled, self._undone):
            for state in [state for state in list(known) if is_over(state)]:
                known.pop(state, None)

    def send_all(self, transaction: Sending, reads: Iterable[Read], offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Add the offsets that are committed by default to a transaction. Raises IllegalStateError if that would skip records.

        offsets: these offsets, by partition (Consuming.consumed_offsets()).
        """
        sent = {read: offsets[read.state.tp].offset for read in reads if read.state.tp in offsets}
        self._refuse_doubtful(transaction, {read.state: None for read in sent})
        new = {read: (self._done(read), after) for read, after in sent.items() if after != self._done(read, transaction)}
        self._refuse_undone(transaction, [read.state for read in new])
        self._note(transaction, new)

    def send_some(self, transaction: Sending, reads: Iterable[Read], spans: Mapping[TopicPartition, Span]) -> None:
        """Add the offsets after the records that the program names to a transaction.

        Raises IllegalStateError if that would skip other records.
        """
        sent = {read: spans[read.state.tp] for read in reads if read.state.tp in spans}
        self._refuse_doubtful(transaction, {read.state: span.first for read, span in sent.items()})
        # Records before the first that is named need not be there: markers of transactions and compaction leave offsets out.
        later = [read.state for read, span in sent.items() if (left := self._left(read.state)) and span.first >= left.positions[0]]
        self._refuse_undone(transaction, later)
        self._note(transaction, {read: (span.first, span.after.offset) for read, span in sent.items()})

    def _done(self, read: Read, transaction: Sending | None = None) -> int:
        """Return the offset up to which the program has processed a partition, including offsets that this transaction has sent."""
        doubt, settled = self._in_doubt.get(read.state), self._settled.get(read.state)
        if doubt is not None and doubt.transaction is transaction:
            return doubt.after
        return read.done_to if settled is None or settled.origin != read.origin else max(settled.after, read.done_to)

    def _left(self, state: PartitionState) -> _Undone | None:
        """Return the records that the program may not have processed before an abort and that were not committed since; None if there are
        none.
        """
        undone = self._undone.get(state)
        return None if undone is None else undone.after(state.done_to)

    def _refuse_undone(self, transaction: Sending, states: Iterable[PartitionState]) -> None:
        if skipped := [state for state in states if (left := self._left(state)) and left.abort <= transaction.aborted_at]:
            raise IllegalStateError(
                f"send_offsets(): records of {_names(skipped)} were read before this producer's last transaction was aborted, and may not "
                f"have been worked off since, but would be skipped from now on; {_READ_AGAIN}"
            )

    def _refuse_doubtful(self, transaction: Sending, firsts: Mapping[PartitionState, int | None]) -> None:
        self._forget(lambda state: state.retired)
        if skipped := [state for state, first in firsts.items() if self._would_skip(transaction, state, first)]:
            raise IllegalStateError(
                f"send_offsets(): a transaction with offsets of {_names(skipped)} is not known to be committed, and its records might be "
                f"skipped from now on; {_READ_AGAIN}"
            )

    def _would_skip(self, transaction: Sending, state: PartitionState, first: int | None) -> bool:
        doubt = self._in_doubt.get(state)
        if doubt is None or doubt.transaction is transaction or doubt.after <= state.done_to:
            return False
        return first is None or first > doubt.first

    def _note(self, transaction: Sending, sent: Mapping[Read, tuple[int, int]]) -> None:
        for read, (first, after) in sent.items():
            before = self._in_doubt.get(read.state)
            first = first if before is None else min(first, before.first)
            self._in_doubt[read.state] = _InDoubt(transaction, read.origin, first, after)
        transaction.add(self)

    def settle(self, transaction: Sending) -> None:
        """Note that a transaction was committed."""
        for state, doubt in list(self._in_doubt.items()):
            if doubt.transaction is transaction and self._in_doubt.pop(state, None) is not None:
                self._settled[state] = _Settled(doubt.origin, doubt.after)
                undone = self._undone.pop(state, None)
                if undone is not None and (left := undone.after(doubt.after)):
                    self._undone[state] = left


def _names(states: Iterable[PartitionState]) -> str:
    return ", ".join(str(tp) for tp in sorted(state.tp for state in states))
