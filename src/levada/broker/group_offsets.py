"""How far groups have read: what Kafka keeps in __consumer_offsets.

A group exists from its first commit on. What is committed within a transaction is pending until the transaction ends: it is not to be seen
before, it counts as if it were committed when the transaction is, and never if that is aborted. Of several commits for one partition the
one that was written last wins, whatever their transactions' order of ending (as in Kafka, where their place in the log decides).

Groups with members are not there: every commit is that of a simple group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import NamedTuple

from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.types import OffsetAndMetadata, TopicPartition


class _Written(NamedTuple):
    """An offset and its place among all commits."""

    number: int
    offset: OffsetAndMetadata


class _OpenTransaction:
    """What one producer has committed within a transaction that has not ended."""

    def __init__(self, producer_epoch: int) -> None:
        self.producer_epoch = producer_epoch
        self.offsets: dict[TopicPartition, _Written] = {}


class _Group:
    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, _Written] = {}
        self.open: dict[int, _OpenTransaction] = {}

    def keep(self, written: Mapping[TopicPartition, _Written]) -> None:
        """Take over what was written after what is here."""
        for tp, new in written.items():
            if tp not in self.offsets or self.offsets[tp].number < new.number:
                self.offsets[tp] = new


class GroupOffsets:
    """See the module's theory. One for all nodes of a cluster."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._numbers = count()

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def create(self, group: str) -> None:
        """Let a group exist, as with the first attempt to commit for it; nothing happens when it does."""
        self._groups.setdefault(group, _Group())

    def commit(self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Store offsets."""
        self.create(group)
        self._groups[group].keep(self._written(offsets))

    def commit_in_transaction(
        self, group: str, producer_id: int, producer_epoch: int, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Store offsets that count once the producer's transaction is committed.

        Raises INVALID_PRODUCER_EPOCH when a newer instance of the producer has a transaction open with this group.
        """
        self.create(group)
        transaction = self._groups[group].open.setdefault(producer_id, _OpenTransaction(producer_epoch))
        if producer_epoch < transaction.producer_epoch:
            raise BrokerError(
                f"group '{group}': producer {producer_id} has epoch {transaction.producer_epoch}, not {producer_epoch}",
                code=ErrorCode.INVALID_PRODUCER_EPOCH,
            )
        transaction.producer_epoch = producer_epoch
        transaction.offsets.update(self._written(offsets))

    def end_transaction(self, producer_id: int, *, committed: bool, groups: Iterable[str]) -> None:
        """A transaction has ended: let what it committed for these groups count, or forget it. Nothing happens for one that is not open."""
        for name in groups:
            group = self._groups.get(name)
            transaction = group.open.pop(producer_id, None) if group is not None else None
            if group is not None and transaction is not None and committed:
                group.keep(transaction.offsets)

    def delete(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget committed offsets of a group; those that are pending stay."""
        for tp in partitions:
            self._groups[group].offsets.pop(tp, None)

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: forget its offsets, also those that are pending."""
        for group in self._groups.values():
            for offsets in (group.offsets, *(transaction.offsets for transaction in group.open.values())):
                for tp in [tp for tp in offsets if tp.topic == topic]:
                    del offsets[tp]

    def committed(self, group: str, tp: TopicPartition) -> OffsetAndMetadata | None:
        """Return what counts for a partition, None where nothing does."""
        known = self._groups.get(group)
        return None if known is None or tp not in known.offsets else known.offsets[tp].offset

    def partitions(self, group: str) -> list[TopicPartition]:
        """Return the partitions that have a committed offset, in order."""
        known = self._groups.get(group)
        return [] if known is None else sorted(known.offsets)

    def is_pending(self, group: str, tp: TopicPartition) -> bool:
        """Whether a transaction that has not ended may yet change the offset of a partition."""
        known = self._groups.get(group)
        return known is not None and any(tp in transaction.offsets for transaction in known.open.values())

    def open_groups(self, producer_id: int, producer_epoch: int | None = None) -> Iterator[str]:
        """Yield the groups for which a producer has committed offsets within a transaction that has not ended; with this epoch, or any."""
        for name, group in self._groups.items():
            transaction = group.open.get(producer_id)
            if transaction is not None and producer_epoch in (None, transaction.producer_epoch):
                yield name

    def _written(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> dict[TopicPartition, _Written]:
        return {tp: _Written(next(self._numbers), offset) for tp, offset in offsets.items()}
