"""Waiting until appended batches are committed, that is, on all in-sync replicas (acks=all)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from levada.broker.node.purgatory import Delayed
from levada.broker.node.state import BrokerState
from levada.broker.replication.partition import Appended, Partition
from levada.error_codes import ErrorCode


class PendingAppend(NamedTuple):
    """An appended batch that has to be replicated. end_offset: the offset after its last record. leader: the id of the node that has
    appended it. epoch: its leader epoch.
    """

    partition: Partition
    end_offset: int
    leader: int
    epoch: int

    @classmethod
    def of(cls, partition: Partition, appended: Appended) -> PendingAppend:
        """Return the PendingAppend for a batch that the partition has just appended, or has found to be a duplicate."""
        return cls(partition, appended.end_offset, partition.leader, partition.epochs.at(appended.end_offset - 1))

    @property
    def is_lost(self) -> bool:
        """Whether a new leader without the batch's records was elected."""
        return not self.partition.holds(self.end_offset, self.epoch)

    @property
    def is_committed(self) -> bool:
        """Whether the batch is committed: the leader has its records below the high watermark."""
        return not self.is_lost and self.end_offset <= self.partition.log.high_watermark

    def outcome(self, state: BrokerState) -> ErrorCode | None:
        """Return the error code for a producer with acks=all, None if the batch is not committed yet."""
        if not state.cluster.has(self.partition):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.partition.leader != self.leader or self.is_lost:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.end_offset > self.partition.log.high_watermark:
            return None
        return ErrorCode.NONE if self.partition.has_enough_in_sync else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def when_replicated(
    state: BrokerState,
    written: Sequence[PendingAppend],
    owner: Hashable,
    now_ms: int,
    timeout_ms: int,
    finish: Callable[[Sequence[ErrorCode]], None],
) -> None:
    """Call finish() with an error code for each entry of `written`: at once if all are known, otherwise when they are or after a timeout in
    ms. owner: if cancelled in the Purgatory, finish() is not called.

    After the timeout, entries without an outcome get REQUEST_TIMED_OUT. Their records may still be committed later.
    """

    def outcomes() -> list[ErrorCode | None]:
        return [one.outcome(state) for one in written]

    def finish_at(at_ms: int) -> None:
        finish([ErrorCode.REQUEST_TIMED_OUT if outcome is None else outcome for outcome in outcomes()])

    known = [outcome for outcome in outcomes() if outcome is not None]
    if len(known) == len(written):
        finish(known)
        return
    names = dict.fromkeys(one.partition.name for one in written)
    state.purgatory.add(Delayed(lambda: None not in outcomes(), finish_at, names, owner), now_ms + timeout_ms)
