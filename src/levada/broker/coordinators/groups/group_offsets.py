"""The committed offsets of groups, which Kafka keeps in __consumer_offsets.

An offset that is committed within a transaction is pending until the transaction ends: it takes effect when the transaction is committed,
and is dropped when it is aborted. Of several commits for one partition the one that was written last wins, in whatever order their
transactions end: Kafka goes by their offsets in the log, too.

Whether a member may commit is checked by the group coordinator (groups.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count, groupby
from operator import itemgetter
from typing import NamedTuple

from levada.broker.coordinators.groups.offset_records import OffsetRecords, offsets_in
from levada.broker.coordinators.logs import CoordinatorWrite
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.types import OffsetAndMetadata, TopicPartition

BY_BROKER_MS = -1
"""The retention time of a commit that leaves it to the broker's settings."""


class _Written(NamedTuple):
    """A committed or pending offset.

    number: a number that grows with each commit. committed_ms: when the offset was committed, in milliseconds since the epoch.
    retention_ms: the retention time in the request, or BY_BROKER_MS.
    """

    number: int
    offset: OffsetAndMetadata
    committed_ms: int
    retention_ms: int = BY_BROKER_MS

    def is_expired(self, now_ms: int, unused_since_ms: int | None, retention_ms: int) -> bool:
        """Return whether the offset has expired. unused_since_ms: since when the group has not used the offset; if None, since its commit.
        retention_ms: the broker's retention time.
        """
        if self.retention_ms != BY_BROKER_MS:
            return now_ms >= self.committed_ms + self.retention_ms
        return now_ms >= (self.committed_ms if unused_since_ms is None else unused_since_ms) + retention_ms


class _Batch(NamedTuple):
    """The common properties of offsets that are committed together. producer_id: None for offsets outside of a transaction."""

    group: str
    producer_id: int | None
    producer_epoch: int
    committed_ms: int
    retention_ms: int


class _OpenTransaction:
    """The pending offsets of a producer's open transaction, for one group."""

    def __init__(self, producer_epoch: int) -> None:
        self.producer_epoch = producer_epoch
        self.offsets: dict[TopicPartition, _Written] = {}


class _Group:
    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, _Written] = {}
        self.open: dict[int, _OpenTransaction] = {}

    def keep(self, written: Mapping[TopicPartition, _Written]) -> None:
        """Store committed offsets. An offset is ignored if a later commit was stored for the same partition."""
        for tp, new in written.items():
            if tp not in self.offsets or self.offsets[tp].number < new.number:
                self.offsets[tp] = new

    def partitions(self) -> set[TopicPartition]:
        """Return the partitions that have a committed or pending offset."""
        return set(self.offsets).union(*(transaction.offsets for transaction in self.open.values()))

    def forget(self, tp: TopicPartition) -> bool:
        """Remove the committed and pending offsets of a partition; return False if there were none."""
        found = [self.offsets.pop(tp, None), *(transaction.offsets.pop(tp, None) for transaction in self.open.values())]
        return any(one is not None for one in found)


class GroupOffsets:
    """The committed offsets of all groups, and the pending offsets of open transactions. All nodes of a cluster share them."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._numbers = count()
        self._kept: OffsetRecords | None = None

    def keep_in(self, kept: OffsetRecords) -> None:
        """Write each change as records from now on."""
        self._kept = kept

    def keep_all(self, kept: OffsetRecords) -> None:
        """Write all committed and pending offsets as records, in the order of their commits, and each change from now on."""
        self._kept = kept
        for batch, offsets in groupby(sorted(self._all_written(), key=lambda found: found[1].number), key=itemgetter(0)):
            group, producer_id, epoch, committed_ms, retention_ms = batch
            together = {tp: written.offset for _, written, tp in offsets}
            if producer_id is None:
                kept.commit(group, together, committed_ms, retention_ms)
            else:
                kept.commit_in_transaction(group, producer_id, epoch, together, committed_ms)

    def _all_written(self) -> Iterator[tuple[_Batch, _Written, TopicPartition]]:
        for name, group in self._groups.items():
            for tp, written in group.offsets.items():
                yield _Batch(name, None, 0, written.committed_ms, written.retention_ms), written, tp
            for producer_id, transaction in group.open.items():
                for tp, written in transaction.offsets.items():
                    yield _Batch(name, producer_id, transaction.producer_epoch, written.committed_ms, written.retention_ms), written, tp

    def clear(self) -> None:
        """Remove all offsets, because the topic __consumer_offsets was deleted."""
        self._groups.clear()

    def restore(self, written: CoordinatorWrite, place_of: Callable[[str], TopicPartition]) -> None:
        """Apply one write that was made before a restart. place_of: returns the partition of __consumer_offsets to which a
        group belongs.
        """
        if written.committed is not None:
            groups = [group for group in self.open_groups(written.producer_id) if place_of(group) == written.place]
            self.end_transaction(written.producer_id, committed=written.committed, groups=groups)
        for group, offsets in offsets_in(written).items():
            for tp, (offset, at_ms, retention_ms) in offsets.items():
                if offset is None:
                    self.delete(group, [tp])
                elif written.producer_id >= 0:
                    self.commit_in_transaction(group, written.producer_id, written.epoch, {tp: offset}, at_ms)
                else:
                    self.commit(group, {tp: offset}, at_ms, retention_ms)

    def __iter__(self) -> Iterator[str]:
        """Yield the ids of all groups that have committed or pending offsets, and of some that have none."""
        return iter(self._groups)

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], now_ms: int = 0, retention_ms: int = BY_BROKER_MS
    ) -> None:
        """Commit offsets. now_ms: milliseconds since the epoch. retention_ms: how long to retain the offsets, by default as long as the
        broker's settings say.
        """
        if self._kept is not None:
            self._kept.commit(group, offsets, now_ms, retention_ms)
        self._group(group).keep(self._written(offsets, now_ms, retention_ms))

    def commit_in_transaction(
        self, group: str, producer_id: int, producer_epoch: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], now_ms: int = 0
    ) -> None:
        """Add pending offsets to a producer's transaction. They become committed when the transaction is committed. now_ms: milliseconds
        since the epoch.

        Raises INVALID_PRODUCER_EPOCH if a newer instance of the producer has an open transaction with this group.
        """
        transaction = self._group(group).open.setdefault(producer_id, _OpenTransaction(producer_epoch))
        if producer_epoch < transaction.producer_epoch:
            raise BrokerError(
                f"group '{group}': producer {producer_id} has epoch {transaction.producer_epoch}, not {producer_epoch}",
                code=ErrorCode.INVALID_PRODUCER_EPOCH,
            )
        if self._kept is not None:
            self._kept.commit_in_transaction(group, producer_id, producer_epoch, offsets, now_ms)
        transaction.producer_epoch = producer_epoch
        transaction.offsets.update(self._written(offsets, now_ms))

    def end_transaction(self, producer_id: int, *, committed: bool, groups: Iterable[str]) -> None:
        """End a producer's transaction for these groups. Its pending offsets become committed, or are dropped if `committed` is False.
        Groups without offsets in it are ignored.
        """
        for name in groups:
            group = self._groups.get(name)
            transaction = group.open.pop(producer_id, None) if group is not None else None
            if group is None or transaction is None:
                continue
            if self._kept is not None:
                self._kept.end_transaction(name, producer_id, transaction.producer_epoch, committed=committed)
            if committed:
                group.keep(transaction.offsets)

    def delete(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Remove the committed and pending offsets of a group for these partitions."""
        gone = [tp for tp in partitions if self._group(group).forget(tp)]
        if self._kept is not None:
            self._kept.delete(group, gone)

    def expire(self, group: str, now_ms: int, unused_since_ms: int | None, retention_ms: int, is_in_use: Callable[[str], bool]) -> None:
        """Remove the expired offsets of a group. Offsets of topics in use, and offsets that an open transaction may change, are kept.

        unused_since_ms: since when the group has not used its offsets; if None, each expires counting from its commit. is_in_use: returns
        whether the group subscribes to a topic.
        """
        self.delete(
            group,
            [
                tp
                for tp, written in self._group(group).offsets.items()
                if not (is_in_use(tp.topic) or self.is_pending(group, tp)) and written.is_expired(now_ms, unused_since_ms, retention_ms)
            ],
        )

    def has_any(self, group: str) -> bool:
        """Return whether a group has committed or pending offsets."""
        known = self._groups.get(group)
        return known is not None and bool(known.partitions())

    def delete_group(self, group: str) -> None:
        """Remove all committed and pending offsets of a group."""
        if group in self._groups:
            self.delete(group, self._groups[group].partitions())
            del self._groups[group]

    def forget_topic(self, topic: str) -> None:
        """Remove the committed and pending offsets of a deleted topic."""
        for name, group in self._groups.items():
            self.delete(name, [tp for tp in group.partitions() if tp.topic == topic])

    def committed(self, group: str, tp: TopicPartition) -> OffsetAndMetadata | None:
        """Return the committed offset of a partition, None if there is none."""
        known = self._groups.get(group)
        return None if known is None or tp not in known.offsets else known.offsets[tp].offset

    def partitions(self, group: str) -> list[TopicPartition]:
        """Return the partitions that have a committed offset, in order."""
        known = self._groups.get(group)
        return [] if known is None else sorted(known.offsets)

    def is_pending(self, group: str, tp: TopicPartition) -> bool:
        """Return whether an open transaction has a pending offset for a partition."""
        known = self._groups.get(group)
        return known is not None and any(tp in transaction.offsets for transaction in known.open.values())

    def open_groups(self, producer_id: int, producer_epoch: int | None = None) -> Iterator[str]:
        """Yield the groups for which a producer has pending offsets. producer_epoch: only those of this epoch, None for any epoch."""
        for name, group in self._groups.items():
            transaction = group.open.get(producer_id)
            if transaction is not None and producer_epoch in (None, transaction.producer_epoch):
                yield name

    def _group(self, group: str) -> _Group:
        return self._groups.setdefault(group, _Group())

    def _written(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], now_ms: int, retention_ms: int = BY_BROKER_MS
    ) -> dict[TopicPartition, _Written]:
        return {tp: _Written(next(self._numbers), offset, now_ms, retention_ms) for tp, offset in offsets.items()}
