"""The logs of the coordinators' internal topics: records, transactions and markers, in Kafka's formats.

All nodes of a cluster share these logs. They are compacted like any other log. Here they are in memory; disk/coordinator_files.py stores
them in files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from levada.broker.config.settings import BrokerSettings
from levada.broker.config.topics import TopicConfig
from levada.broker.log.compaction import clean
from levada.broker.log.end_transaction_marker import EndTransactionMarker, read_marker
from levada.broker.replication.replica import Replica
from levada.errors import BrokerError
from levada.logs import Log
from levada.record.batch import RecordBatch, set_producer_state
from levada.record.builder import RecordBatchBuilder
from levada.types import TopicPartition

_log = Log("levada.broker")
_CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.5"}
_NO_COORDINATOR_EPOCH = 0


class CoordinatorRecord(NamedTuple):
    """An encoded record of an internal topic. If value is None, the record is a tombstone."""

    key: bytes
    value: bytes | None


class CoordinatorWrite(NamedTuple):
    """One write to a coordinator's log: either records or the end of a transaction.

    place: the partition of the internal topic. producer_id, epoch: the producer's, -1 outside of transactions. committed: None for records;
    otherwise whether the transaction is committed.
    """

    place: TopicPartition
    producer_id: int
    epoch: int
    records: Sequence[CoordinatorRecord]
    committed: bool | None = None


class CoordinatorLog(Protocol):
    """The log to which coordinators write, with one part for each partition of an internal topic.

    now_ms: the time of the write in milliseconds since the epoch. If it is omitted, or earlier than the time of the last write, the latter
    is used.
    """

    def append(self, place: TopicPartition, records: Sequence[CoordinatorRecord], now_ms: int = 0) -> None:
        """Append records to a partition."""

    def append_in_transaction(
        self, place: TopicPartition, records: Sequence[CoordinatorRecord], producer_id: int, epoch: int, now_ms: int
    ) -> None:
        """Append records that take effect when the producer's transaction is committed.

        place: the partition of the coordinators' topic. epoch: the producer epoch. now_ms: the time in ms since the epoch.
        """

    def end_transaction(self, place: TopicPartition, producer_id: int, epoch: int, *, committed: bool) -> None:
        """Append the marker that ends a producer's transaction in this partition.

        place: the partition of the coordinators' topic. epoch: the producer epoch. committed: True for a commit marker, False for an abort
        marker.
        """

    def read(self) -> Iterable[CoordinatorWrite]:
        """Return all writes that compaction has left. Those to one partition are in the order in which they were made."""


class CoordinatorLogs:
    """A CoordinatorLog in memory."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._config = TopicConfig(settings, dict(_CONFIG))
        self._replicas: dict[TopicPartition, Replica] = {}
        self._now_ms = 0
        self._appended: Callable[[TopicPartition], None] = lambda place: None

    def watch(self, appended: Callable[[TopicPartition], None]) -> None:
        """Register a callback in place of the last one. It is called with the partition after each append by a coordinator."""
        self._appended = appended

    def append(self, place: TopicPartition, records: Sequence[CoordinatorRecord], now_ms: int = 0) -> None:
        """Append records to a partition."""
        self._tell_time(now_ms)
        self._append(place, RecordBatch(memoryview(_batch(records, self._now_ms))))

    def append_in_transaction(
        self, place: TopicPartition, records: Sequence[CoordinatorRecord], producer_id: int, epoch: int, now_ms: int
    ) -> None:
        """Append records that take effect when the producer's transaction is committed.

        place: the partition of the coordinators' topic. epoch: the producer epoch. now_ms: the time in ms since the epoch.
        """
        self._tell_time(now_ms)
        data = _batch(records, self._now_ms)
        set_producer_state(data, producer_id=producer_id, producer_epoch=epoch, base_sequence=-1, is_transactional=True)
        self._append(place, RecordBatch(memoryview(data)))

    def end_transaction(self, place: TopicPartition, producer_id: int, epoch: int, *, committed: bool) -> None:
        """Append the marker that ends a producer's transaction in this partition.

        place: the partition of the coordinators' topic. epoch: the producer epoch. committed: True for a commit marker, False for an abort
        marker.
        """
        self._append(place, EndTransactionMarker(producer_id, epoch, committed, _NO_COORDINATOR_EPOCH).encode(self._now_ms))

    def read(self) -> Iterator[CoordinatorWrite]:
        """Yield all writes that compaction has left, partition by partition. Those to one are in the order in which they were made."""
        for place, replica in sorted(self._replicas.items()):
            for batch in replica.log.batches():
                self._tell_time(batch.max_timestamp)
                yield _read(place, batch)

    def places(self) -> list[TopicPartition]:
        """Return the partitions that have records."""
        return [place for place, replica in self._replicas.items() if replica.log.end_offset]

    def replica(self, place: TopicPartition) -> Replica:
        """Return the replica that all nodes share for a partition. If there is none yet, it is created."""
        found = self._replicas.get(place)
        if found is None:
            found = self._replicas[place] = Replica(self._config)
            found.lead(0)
        return found

    def open(self, place: TopicPartition) -> Replica:
        """Return the replica of a partition, after preparing it for appends."""
        return self.replica(place)

    def delete(self, topic: str) -> None:
        """Delete the logs of all partitions of a topic."""
        for place in [place for place in self._replicas if place.topic == topic]:
            self._replicas.pop(place).files.delete()

    def _tell_time(self, now_ms: int) -> None:
        self._now_ms = max(self._now_ms, now_ms)

    def _append(self, place: TopicPartition, batch: RecordBatch) -> None:
        replica = self.open(place)
        replica.append(batch, log_append_time_ms=None)
        replica.log.advance_high_watermark(replica.log.end_offset)
        try:
            clean(replica, self._config, self._now_ms)
        except BrokerError as fault:
            _log.warning("%s-%d cannot be compacted, and stays as it is: %s", place.topic, place.partition, fault)
        self._appended(place)


def _batch(records: Sequence[CoordinatorRecord], now_ms: int) -> bytearray:
    builder = RecordBatchBuilder()
    for record in records:
        builder.append(now_ms, record.key, record.value, [])
    return builder.build()


def _read(place: TopicPartition, batch: RecordBatch) -> CoordinatorWrite:
    marker = read_marker(batch) if batch.is_control else None
    if marker is not None:
        return CoordinatorWrite(place, marker.producer_id, marker.epoch, (), marker.committed)
    records = [CoordinatorRecord(record.key or b"", record.value) for record in batch.records()]
    return CoordinatorWrite(place, batch.producer_id if batch.is_transactional else -1, batch.producer_epoch, records)
