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
from levada.broker.log.producer_state import ProducerStates
from levada.broker.log.storage import NO_FILES, LogFiles
from levada.record.batch import RecordBatch
from levada.record.memory_records import read_batches
from levada.types import IsolationLevel


class ReplicaFiles(LogFiles, Protocol):
    """The files of one replica: its log, its leader epochs and its producer snapshots."""

    def load(self, replica: Replica) -> None:
        """Fill a new replica with the stored content, and store its changes from now on."""

    def move_to(self, node_id: int) -> None:
        """Move the files to another node."""


class Replica:
    """A replica. caught_up_ms: when it last had all records of the leader. fetched_offset: up to where the present leader has seen it
    copy.
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
        """Load the content of files, and store all changes there from now on. For a replica without records."""
        self.files = files
        self.log.keep_in(files)
        files.load(self)

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset: up to it consumers with read_committed can read."""
        high_watermark = self.log.high_watermark
        first_unstable = self.transactions.first_unstable_offset(high_watermark)
        return high_watermark if first_unstable is None else min(first_unstable, high_watermark)

    def readable_end(self, isolation_level: int) -> int:
        """Return the offset up to which a consumer can read."""
        return self.last_stable_offset if isolation_level == IsolationLevel.READ_COMMITTED else self.log.high_watermark

    def lead(self, epoch: int) -> None:
        """Become the leader: batches that are appended from now on belong to this epoch."""
        self.epochs.begin(epoch, self.log.end_offset)

    def append(self, batch: RecordBatch, *, log_append_time_ms: int | None, now_ms: int) -> int:
        """Append a checked batch as the leader; return its base offset."""
        base_offset = self.log.append(batch, leader_epoch=self.epochs.current, log_append_time_ms=log_append_time_ms)
        timestamp = batch.max_timestamp if log_append_time_ms is None else log_append_time_ms
        self._remember(batch, base_offset=base_offset, timestamp=timestamp, now_ms=now_ms)
        return base_offset

    def follow(self, leader: Replica, now_ms: int) -> None:
        """Copy the leader's replica: drop what it does not have, append what it has, and take over its log start offset."""
        common_end = self._common_end(leader)
        if common_end < max(self.log.start_offset, leader.log.start_offset):
            self._restart(leader.log.start_offset)
        else:
            self.truncate(common_end)
        for batch in read_batches(leader.log.read(self.log.end_offset, leader.log.size_bytes)):
            self._copy(batch, now_ms)
        self.log.advance_start(leader.log.start_offset)
        self.caught_up_ms, self.fetched_offset = now_ms, self.log.end_offset

    def truncate(self, end_offset: int) -> None:
        """Drop the batches that reach beyond an offset."""
        if end_offset >= self.log.end_offset:
            return
        self.log.truncate(end_offset)
        self.epochs.truncate(self.log.end_offset)
        self._forget_producers()
        for batch in self.log.batches():
            self.recall(batch)

    def recall(self, batch: RecordBatch) -> None:
        """Update the producers and transactions for a batch of the log."""
        self._remember(batch, base_offset=batch.base_offset, timestamp=batch.max_timestamp, now_ms=batch.max_timestamp)

    def configure(self, config: TopicConfig) -> None:
        """Apply changed topic settings."""
        self.log.configure(segment_bytes=config.segment_bytes, segment_ms=config.roll_ms)

    def delete_before(self, offset: int) -> None:
        """Raise the log start offset, and forget the aborted transactions that ended before it."""
        self.log.advance_start(offset)
        self.transactions.forget_before(self.log.start_offset)

    def retain(self, *, retention_bytes: int, oldest_timestamp_ms: int) -> None:
        """Delete old segments (retention.bytes, retention.ms), and forget the aborted transactions that ended in them."""
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
        """Return the offset up to which both logs are equal: the earlier end of the newest epoch that both have (KIP-101, KIP-279)."""
        epoch = self.epochs.current
        while True:
            theirs = leader.epochs.end_of(epoch, leader.log.end_offset)
            ours = self.epochs.end_of(theirs.epoch, self.log.end_offset)
            if ours.epoch == theirs.epoch:
                return max(min(ours.end_offset, theirs.end_offset), 0)
            epoch = ours.epoch

    def _copy(self, batch: RecordBatch, now_ms: int) -> None:
        if batch.partition_leader_epoch > self.epochs.current:
            self.epochs.begin(batch.partition_leader_epoch, batch.base_offset)
        self.log.copy(batch)
        self._remember(batch, base_offset=batch.base_offset, timestamp=batch.max_timestamp, now_ms=now_ms)

    def _remember(self, batch: RecordBatch, *, base_offset: int, timestamp: int, now_ms: int) -> None:
        """Update the producers and transactions for a batch."""
        marker = read_marker(batch) if batch.is_control else None
        if marker is not None:
            producer_id, epoch, committed, coordinator_epoch, _ = marker
            self.producers.record_marker(producer_id, epoch, coordinator_epoch, timestamp=timestamp, now_ms=now_ms)
            self.transactions.end(producer_id, base_offset, committed=committed)
            return
        self.producers.record(batch, base_offset=base_offset, timestamp=timestamp, now_ms=now_ms)
        if batch.is_transactional:
            self.transactions.write(batch.producer_id, base_offset)
