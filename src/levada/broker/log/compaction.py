"""Log compaction: only the newest record of each key is kept (cleanup.policy=compact; KIP-58, KIP-354, KIP-534).

A log has a clean part, in which each key occurs once, and behind it a dirty part. First the newest offset of each key in the dirty part is
determined. Then all segments before the active one are written again without superseded records. Offsets never change.

- A record without a value, a tombstone, deletes its key. The first cleaning gives its batch a delete horizon, delete.retention.ms from
then. The first cleaning after that removes it, so that consumers that read from the beginning have time to see it.
- Records without a key are removed.
- Records of aborted transactions are removed. The marker that ends a transaction stays as long as any batch of it, and is removed after a
  delete horizon of its own. Records from the last stable offset on are not cleaned.
- The last batch of each producer stays, if need be without records, so that its sequence is known after a restart.
- Records younger than min.compaction.lag.ms stay, with everything behind them. The log is cleaned once the dirty part is larger than
  min.cleanable.dirty.ratio of it, or has a record older than max.compaction.lag.ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from levada.broker.config.topics import TopicConfig
from levada.broker.log.end_transaction_marker import ABORT, COMMIT
from levada.broker.log.log import PartitionLog
from levada.broker.log.partition_transactions import AbortedTransaction
from levada.broker.log.producer_state import NO_PRODUCER_ID, ProducerEntry
from levada.broker.replication.replica import Replica
from levada.record.batch import Record, RecordBatch
from levada.record.rewriting import rewritten


def clean(replica: Replica, config: TopicConfig, now_ms: int) -> bool:
    """Compact a replica's log if compaction is due; return whether it was. now_ms: milliseconds since the epoch. Raises BrokerError if the
    disk fails, CorruptRecordError if a batch is damaged.
    """
    log = replica.log
    until = log.sealed_until(replica.last_stable_offset, newest_timestamp_ms=now_ms - config.min_compaction_lag_ms)
    if not _is_due(log, until, config, now_ms):
        return False
    batches = [batch for batch in log.batches() if batch.next_offset <= until]
    aborted = replica.transactions.aborted_between(0, until)
    dirty = [batch for batch in batches if batch.next_offset > log.clean_until]
    cleaning = _Cleaning(
        newest=newest_offsets(dirty, replica.transactions.aborted_between(log.clean_until, until)),
        producers=dict(replica.producers),
        transactions=_TransactionsMet(aborted),
        delete_horizon_ms=now_ms + config.delete_retention_ms,
        now_ms=now_ms,
    )
    log.replace(until, [kept for batch in batches if (kept := cleaning.keep(batch)) is not None])
    replica.transactions.forget_aborted(set(aborted) - cleaning.transactions.seen)
    return True


def _is_due(log: PartitionLog, until: int, config: TopicConfig, now_ms: int) -> bool:
    dirty = log.bytes_between(max(log.clean_until, log.start_offset), until)
    if not dirty:
        return False
    first_timestamp = log.first_timestamp_at(max(log.clean_until, log.start_offset))
    is_late = first_timestamp < now_ms - config.max_compaction_lag_ms
    return is_late or dirty / log.bytes_between(log.start_offset, until) > config.min_cleanable_dirty_ratio


def newest_offsets(batches: Iterable[RecordBatch], aborted: Sequence[AbortedTransaction]) -> Mapping[bytes, int]:
    """Return the newest offset of each key in these batches. Records of aborted transactions are ignored. aborted: the transactions whose
    abort markers are in the batches.
    """
    transactions = _TransactionsMet(aborted)
    newest: dict[bytes, int] = {}
    for batch in batches:
        if batch.is_control:
            transactions.is_obsolete(batch)
        elif not transactions.is_aborted(batch):
            newest.update((record.key, record.offset) for record in batch.records() if record.key is not None)
    return newest


class _TransactionsMet:
    """Follows the transactions of a log while its batches are visited in order. seen: the aborted transactions of which a batch was
    visited.
    """

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self.seen: set[AbortedTransaction] = set()
        self._ahead = deque(sorted(aborted, key=lambda one: one.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}
        self._committed: set[int] = set()

    def is_aborted(self, batch: RecordBatch) -> bool:
        """Visit a batch of records; return whether it belongs to an aborted transaction."""
        self._advance_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        aborted = self._aborted.get(batch.producer_id)
        if aborted is None:
            self._committed.add(batch.producer_id)
        else:
            self.seen.add(aborted)
        return aborted is not None

    def is_obsolete(self, marker: RecordBatch) -> bool:
        """Visit a control batch. For a transaction's marker, return whether the log has no more batches of this transaction; for any other
        control batch, whether it is empty.
        """
        self._advance_to(marker.last_offset)
        kind = marker.control_type()
        if kind == ABORT:
            return self._aborted.pop(marker.producer_id, None) not in self.seen
        if kind == COMMIT:
            had_batches = marker.producer_id in self._committed
            self._committed.discard(marker.producer_id)
            return not had_batches
        return marker.is_empty

    def _advance_to(self, offset: int) -> None:
        while self._ahead and self._ahead[0].first_offset <= offset:
            aborted = self._ahead.popleft()
            self._aborted[aborted.producer_id] = aborted


@dataclass(slots=True)
class _Cleaning:
    """The state of one compaction of a log.

    newest: the newest offset of each key in the part that was not compacted before. delete_horizon_ms: the delete horizon that is set for
    tombstones without one.
    """

    newest: Mapping[bytes, int]
    producers: Mapping[int, ProducerEntry]
    transactions: _TransactionsMet
    delete_horizon_ms: int
    now_ms: int

    def keep(self, batch: RecordBatch) -> RecordBatch | None:
        """Return the batch with the records that compaction keeps, None if the whole batch is removed."""
        if batch.is_control:
            return self._keep_marker(batch)
        found = batch.records()
        records = [] if self.transactions.is_aborted(batch) else [record for record in found if self._is_kept(record, batch)]
        has_tombstones = any(record.value is None for record in records)
        if not records and not self._is_last_of_producer(batch):
            return None
        if len(records) == len(found) and not (has_tombstones and batch.delete_horizon_ms is None):
            return batch
        return rewritten(batch, records, self.delete_horizon_ms if has_tombstones else None)

    def _is_kept(self, record: Record, batch: RecordBatch) -> bool:
        if record.key is None or self.newest.get(record.key, -1) > record.offset:
            return False
        return record.value is not None or not self._has_passed_horizon(batch)

    def _keep_marker(self, batch: RecordBatch) -> RecordBatch | None:
        if not self.transactions.is_obsolete(batch):
            return batch
        records = batch.walker().records()
        if self._has_passed_horizon(batch) or not records:
            return rewritten(batch, []) if self._is_last_of_producer(batch) else None
        return batch if batch.delete_horizon_ms is not None else rewritten(batch, records, self.delete_horizon_ms)

    def _has_passed_horizon(self, batch: RecordBatch) -> bool:
        return batch.delete_horizon_ms is not None and batch.delete_horizon_ms <= self.now_ms

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        entry = self.producers.get(batch.producer_id)
        if batch.producer_id == NO_PRODUCER_ID or entry is None:
            return False
        if entry.batches:
            return entry.batches[-1].last_offset == batch.last_offset
        return batch.is_control and entry.epoch == batch.producer_epoch
