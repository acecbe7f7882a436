"""What a program has sent of a consumer's offsets in transactions, and what it has to read again after one that was not committed.

A transaction that is aborted commits no offsets, but the consumer's position stays after the records that were read for it. Offsets sent
in the next transaction would pass these records, which nobody has worked off. So what a transaction sends of a partition is in doubt until
it is committed. While it is, no other transaction is given offsets of this partition. Three things end it: the commit, a seek of the
program's, and another transaction with the same records, where the program names them.

A transaction that is aborted before it sent any offsets leaves nothing in doubt. All that is known then is that records were read before
the abort, and neither sent nor sought since: the offsets of all that was read are refused to the same producer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from levada.consumer.subscription_state import PartitionState
from levada.errors import IllegalStateError
from levada.face.record_offsets import Span
from levada.types import OffsetAndMetadata, TopicPartition

_moments = count()
"""Tells which came first, a call for records or an abort, of clients in any threads."""

_READ_AGAIN = (
    "call consumer.seek_to_committed() after an aborted transaction, and read them again. A program that handles the same records again, "
    "without reading them, names them in each transaction: send_offsets(consumer, records)"
)


class Sending:
    """One transaction, as far as it sends offsets of consumers. aborted_at: when the producer last aborted one, -1 for never."""

    def __init__(self, aborted_at: int = -1) -> None:
        self.aborted_at = aborted_at
        self._consumers: dict[SentOffsets, None] = {}

    def add(self, sent: SentOffsets) -> None:
        """Offsets of this consumer are part of it."""
        self._consumers[sent] = None

    def committed(self) -> None:
        """Nothing that it has sent is in doubt any more."""
        for sent in self._consumers:
            sent.settle(self)

    def aborted(self) -> Sending:
        """Return what stands for the producer's transactions until the next one begins."""
        return Sending(next(_moments))


class _InDoubt(NamedTuple):
    """What a transaction has sent of one partition. first: the first record that it named, None where it named none."""

    transaction: Sending
    first: int | None
    after: int


class Read(NamedTuple):
    """What a consumer has read of a partition. began: where its position was sought to, or found."""

    state: PartitionState
    began: int
    position: int


class SentOffsets:
    """What transactions were sent of one consumer's offsets. See the module's text."""

    def __init__(self) -> None:
        self._in_doubt: dict[PartitionState, _InDoubt] = {}
        self._settled: dict[PartitionState, int] = {}
        """Up to where transactions were committed."""
        self._read_at: int | None = None
        """When the first of the records was handed out that were not sent since."""

    def handed_out(self) -> None:
        """The program was given records."""
        if self._read_at is None:
            self._read_at = next(_moments)

    def moved(self, partitions: Collection[TopicPartition]) -> None:
        """The program moves these partitions, or all where it names none."""
        self._read_at = None
        for known in (self._in_doubt, self._settled):
            for state in [state for state in known if not partitions or state.tp in partitions]:
                del known[state]

    def send_all(self, transaction: Sending, reads: Iterable[Read], offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Make the offsets of all that was read part of a transaction. Raises IllegalStateError where that would skip records."""
        sent = {read: offsets[read.state.tp].offset for read in reads if read.state.tp in offsets}
        self._refuse_doubtful(transaction, {read.state: None for read in sent})
        new = {read.state: (None, after) for read, after in sent.items() if after != self._done(read)}
        if self._read_at is not None and self._read_at < transaction.aborted_at and new:
            raise IllegalStateError(
                f"send_offsets(): records of {_names(new)} were read before this producer's last transaction was aborted, and may not have "
                f"been worked off since, but would be skipped from now on; {_READ_AGAIN}"
            )
        self._read_at = None if all(after == read.position for read, after in sent.items()) else next(_moments)
        self._note(transaction, new)

    def send_some(self, transaction: Sending, reads: Sequence[Read], spans: Mapping[TopicPartition, Span]) -> None:
        """Make records that the program names part of a transaction. Raises IllegalStateError where that would skip others."""
        states = {read.state: spans[read.state.tp] for read in reads if read.state.tp in spans}
        self._refuse_doubtful(transaction, {state: span.first for state, span in states.items()})
        if all((states[read.state].after.offset if read.state in states else self._done(read)) >= read.position for read in reads):
            self._read_at = None
        self._note(transaction, {state: (span.first, span.after.offset) for state, span in states.items()})

    def _done(self, read: Read) -> int:
        """Return up to where the program is known to be done with a partition."""
        return self._settled.get(read.state, read.began)

    def _refuse_doubtful(self, transaction: Sending, firsts: Mapping[PartitionState, int | None]) -> None:
        for state in [state for known in (self._in_doubt, self._settled) for state in known if state.retired]:
            self._in_doubt.pop(state, None)
            self._settled.pop(state, None)
        if skipped := [state for state, first in firsts.items() if self._would_skip(transaction, state, first)]:
            raise IllegalStateError(
                f"send_offsets(): a transaction with offsets of {_names(skipped)} was not committed, and its records would be skipped from "
                f"now on; {_READ_AGAIN}"
            )

    def _would_skip(self, transaction: Sending, state: PartitionState, first: int | None) -> bool:
        doubt = self._in_doubt.get(state)
        if doubt is None or doubt.transaction is transaction:
            return False
        return first is None or doubt.first is None or first > doubt.first

    def _note(self, transaction: Sending, sent: Mapping[PartitionState, tuple[int | None, int]]) -> None:
        for state, (first, after) in sent.items():
            before = self._in_doubt.get(state)
            if before is not None:
                first = None if first is None or before.first is None else min(first, before.first)
            self._in_doubt[state] = _InDoubt(transaction, first, after)
        transaction.add(self)

    def settle(self, transaction: Sending) -> None:
        """A transaction is committed."""
        for state, doubt in list(self._in_doubt.items()):
            if doubt.transaction is transaction:
                del self._in_doubt[state]
                self._settled[state] = doubt.after


def _names(states: Iterable[PartitionState]) -> str:
    return ", ".join(str(tp) for tp in sorted(state.tp for state in states))
