"""A node's replica of a partition: its log, and the leader epochs, producers and transactions in it.

The leader's replica is appended to; a follower's replica copies the leader's log. Before it copies, it drops what the leader does not have:
records of a former leader that the present one never got (KIP-101). Everything that a replica knows beside its records follows from the
records, so after a truncation they are read again.
"""

from __future__ import annotations

from typing import Protocol

from levada.broker.config.topics import TopicConfig
from levada.broker.log.end_transaction_marker import read_marker
from levada.broker.log.leader_epochs import LeaderEpochs
from levada.broker.log.log import PartitionLog
from levada.broker.log.partition_transactions import PartitionTransactions
from levada.broker.log.producer_state import NO_PRODUCER_ID, ProducerStates
from levada.broker.log.storage import NO_FILES, LogFiles
from levada.record.batch import RecordBatch
from levada.record.memory_records import read_batches
from levada.types import IsolationLevel


class ReplicaFiles(LogFiles, Protocol):
    """The files of one replica: those of its log, its leader epochs and its producer snapshots."""

    def load(self, replica: Replica) -> None:
        """Load the stored content into a new replica. From then on, changes of the replica are stored."""

    def move_to(self, node_id: int) -> None:
        """Move the files to another node."""


class Replica:
    """A partition's log on one node, with the leader epochs, producers and transactions in it.

    caught_up_ms: when the replica last had all records of the leader, or when the leader was elected; a time of the node's clock.
    fetched_offset: the offset up to which it has copied the log of the present leader.
    """

    def __init__(self, config: TopicConfig) -> None:
        self.files: ReplicaFiles = NO_FILES
        self.log = PartitionLog(segment_bytes=config.segment_bytes, segment_ms=config.roll_ms)
        self.epochs = LeaderEpochs()
        self.producers = ProducerStates()
        self.transactions = PartitionTransactions()
        self.caught_up_ms = 0
        self.fetched_offset = 0

    def keep_in(self, files: ReplicaFiles) -> None:
        """Load the replica from files, and store all changes in them from now on. The replica must not have records."""
        self.files = files
        self.log.keep_in(files)
        files.load(self)

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset. Consumers with read_committed can read the records before it."""
        high_watermark = self.log.high_watermark
        first_unstable = self.transactions.first_unstable_offset(high_watermark)
        return high_watermark if first_unstable is None else min(first_unstable, high_watermark)

    def readable_end(self, isolation_level: int) -> int:
        """Return the offset up to which a consumer with this isolation level can read."""
        return self.last_stable_offset if isolation_level == IsolationLevel.READ_COMMITTED else self.log.high_watermark

    def lead(self, epoch: int) -> None:
        """Begin to lead in a leader epoch, which the batches appended from now on get."""
        self.epochs.begin(epoch, self.log.end_offset)

    def append(self, batch: RecordBatch, *, log_append_time_ms: int | None) -> int:
        """Append a batch that was validated; return its base offset. log_append_time_ms: replaces the timestamps of the records, None keeps
        them.
        """
        base_offset = self.log.append(batch, leader_epoch=self.epochs.current, log_append_time_ms=log_append_time_ms)
        timestamp = batch.max_timestamp if log_append_time_ms is None else log_append_time_ms
        self._remember(batch, base_offset=base_offset, timestamp=timestamp)
        return base_offset

    def follow(self, leader: Replica, now_ms: int) -> None:
        """Make this replica equal to the leader's: truncate it where they differ, copy the missing batches, and take over the log start
        offset.
        """
        common_end = self._common_end(leader)
        if common_end < max(self.log.start_offset, leader.log.start_offset):
            self._restart(leader.log.start_offset)
        else:
            self.truncate(common_end)
        for batch in read_batches(leader.log.read(self.log.end_offset, leader.log.size_bytes)):
            self._copy(batch)
        self.log.advance_start(leader.log.start_offset)
        self.caught_up_ms, self.fetched_offset = now_ms, self.log.end_offset

    def truncate(self, end_offset: int) -> None:
        """Delete the batches that have records at or after `end_offset`."""
        if end_offset >= self.log.end_offset:
            return
        self.log.truncate(end_offset)
        self.epochs.truncate(self.log.end_offset)
        self._forget_producers()
        for batch in self.log.batches():
            self.recall(batch)

    def recall(self, batch: RecordBatch) -> None:
        """Update the producers and transactions for a batch that is already in the log."""
        self._remember(batch, base_offset=batch.base_offset, timestamp=batch.max_timestamp)

    def configure(self, config: TopicConfig) -> None:
        """Apply changed topic settings."""
        self.log.configure(segment_bytes=config.segment_bytes, segment_ms=config.roll_ms)

    def delete_before(self, offset: int) -> None:
        """Raise the log start offset to `offset`, and forget the aborted transactions that end before it."""
        self.log.advance_start(offset)
        self.transactions.forget_before(self.log.start_offset)

    def retain(self, *, retention_bytes: int, oldest_timestamp_ms: int) -> None:
        """Delete old segments as retention.bytes and retention.ms require, and forget the aborted transactions that end in them."""
        self.log.retain(retention_bytes=retention_bytes, oldest_timestamp_ms=oldest_timestamp_ms)
        self.transactions.forget_before(self.log.start_offset)

    def _restart(self, offset: int) -> None:
        self.log.restart(offset)
        self.epochs.truncate(0)
        self._forget_producers()

    def _forget_producers(self) -> None:
        self.producers.forget_all()
        self.transactions.forget_all()

    def _common_end(self, leader: Replica) -> int:
        """Return the offset up to which this log and the leader's log are equal (KIP-101, KIP-279).

        Both logs are compared in the newest leader epoch that both have: the result is the lower one of its two end offsets.
        """
        epoch = self.epochs.current
        while True:
            theirs = leader.epochs.end_of(epoch, leader.log.end_offset)
            ours = self.epochs.end_of(theirs.epoch, self.log.end_offset)
            if ours.epoch == theirs.epoch:
                return max(min(ours.end_offset, theirs.end_offset), 0)
            epoch = ours.epoch

    def _copy(self, batch: RecordBatch) -> None:
        if batch.partition_leader_epoch > self.epochs.current:
            self.epochs.begin(batch.partition_leader_epoch, batch.base_offset)
        self.log.copy(batch)
        self.recall(batch)

    def _remember(self, batch: RecordBatch, *, base_offset: int, timestamp: int) -> None:
        """Update the producers and transactions for a batch. base_offset: the batch's base offset."""
        marker = read_marker(batch) if batch.is_control else None
        if marker is not None:
            producer_id, epoch, committed, coordinator_epoch, _ = marker
            self.producers.record_marker(producer_id, epoch, coordinator_epoch, timestamp=timestamp)
            self.transactions.end(producer_id, base_offset, committed=committed)
            return
        self.producers.record(batch, base_offset=base_offset, timestamp=timestamp)
        # As in Kafka, a transactional batch without a producer belongs to no transaction: no marker could end it.
        if batch.is_transactional and batch.producer_id != NO_PRODUCER_ID:
            self.transactions.write(batch.producer_id, base_offset)
