"""What coordinators write, in logs of __consumer_offsets, __transaction_state and __share_group_state as Kafka has them: records,
transactions, markers.

These logs are compacted like any other, and read whole when a broker starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self
from uuid import UUID, uuid5

from levada.broker.compaction import clean
from levada.broker.disk.replica_files import ReplicaFiles
from levada.broker.marker import Marker, read_marker
from levada.broker.replication.replica import Replica
from levada.broker.settings import BrokerSettings
from levada.broker.storage import CoordinatorRecord, Written
from levada.broker.topics import TopicConfig
from levada.errors import BrokerError
from levada.logs import Log
from levada.record.batch import RecordBatch, set_producer_state
from levada.record.builder import RecordBatchBuilder
from levada.types import TopicPartition

_log = Log("levada.broker")
_NAMESPACE = UUID(int=0)
_CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.5"}
_NO_COORDINATOR_EPOCH = 0


class _Alone:
    """A Home of which nothing is kept beside the folder: such a log starts at 0, and is compacted anew by the next broker."""

    log_start = clean_until = 0
    was_finished = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep_start(self, offset: int) -> None:
        """Nothing is deleted from its front."""

    def keep_cleaned(self, offset: int) -> None:
        """Not kept."""

    def take_in(self, files: ReplicaFiles) -> None:
        """CoordinatorFiles closes it."""

    def leave(self) -> None:
        """It is never deleted."""

    def at(self, node_id: int) -> Self:
        """It belongs to no node."""
        return self


class CoordinatorFiles:
    """CoordinatorLog in a folder."""

    def __init__(self, path: Path, settings: BrokerSettings) -> None:
        self._path = path
        self._config = TopicConfig(settings, dict(_CONFIG))
        self._replicas: dict[TopicPartition, Replica] = {}
        self._files: list[ReplicaFiles] = []
        self._now_ms = 0

    def append(self, place: TopicPartition, records: Sequence[CoordinatorRecord], now_ms: int = 0) -> None:
        """Keep records at once."""
        self._tell_time(now_ms)
        self._append(place, RecordBatch(memoryview(_batch(records, self._now_ms))))

    def append_in_transaction(
        self, place: TopicPartition, records: Sequence[CoordinatorRecord], producer_id: int, epoch: int, now_ms: int
    ) -> None:
        """Keep records that count once the producer's transaction is committed."""
        self._tell_time(now_ms)
        data = _batch(records, self._now_ms)
        set_producer_state(data, producer_id=producer_id, producer_epoch=epoch, base_sequence=-1, is_transactional=True)
        self._append(place, RecordBatch(memoryview(data)))

    def end_transaction(self, place: TopicPartition, producer_id: int, epoch: int, *, committed: bool) -> None:
        """A producer's transaction has ended in this partition."""
        self._append(place, Marker(producer_id, epoch, committed, _NO_COORDINATOR_EPOCH).encode(self._now_ms))

    def read(self) -> Iterator[Written]:
        """Yield everything that was kept, partition by partition."""
        for folder in sorted(self._path.glob("*-*")) if self._path.is_dir() else ():
            topic, _, number = folder.name.rpartition("-")
            if number.isdecimal():
                place = TopicPartition(topic, int(number))
                for batch in self._replica(place).log.batches():
                    self._tell_time(batch.max_timestamp)
                    yield _read(place, batch)

    def close(self) -> None:
        """Finish all logs, each whatever becomes of the others. Raises the last error."""
        with ExitStack() as closing:
            for files in self._files:
                closing.callback(files.close)

    def _tell_time(self, now_ms: int) -> None:
        self._now_ms = max(self._now_ms, now_ms)

    def _append(self, place: TopicPartition, batch: RecordBatch) -> None:
        replica = self._replica(place)
        replica.append(batch, log_append_time_ms=None, now_ms=self._now_ms)
        replica.log.advance_high_watermark(replica.log.end_offset)
        try:
            clean(replica, self._config, self._now_ms)
        except BrokerError as fault:
            _log.warning("%s-%d cannot be compacted, and stays as it is: %s", place.topic, place.partition, fault)

    def _replica(self, place: TopicPartition) -> Replica:
        found = self._replicas.get(place)
        if found is None:
            found = self._replicas[place] = Replica(self._config)
            found.lead(0)
            files = ReplicaFiles(
                _Alone(self._path / f"{place.topic}-{place.partition}"),
                uuid5(_NAMESPACE, place.topic),
                flush_messages=self._config.flush_messages,
                index_interval_bytes=self._config.index_interval_bytes,
            )
            found.keep_in(files)
            found.log.advance_high_watermark(found.log.end_offset)
            self._files.append(files)
        return found


def _batch(records: Sequence[CoordinatorRecord], now_ms: int) -> bytearray:
    builder = RecordBatchBuilder()
    for record in records:
        builder.append(now_ms, record.key, record.value, [])
    return builder.build()


def _read(place: TopicPartition, batch: RecordBatch) -> Written:
    marker = read_marker(batch) if batch.is_control else None
    if marker is not None:
        return Written(place, marker.producer_id, marker.epoch, (), marker.committed)
    records = [CoordinatorRecord(record.key or b"", record.value) for record in batch.records()]
    return Written(place, batch.producer_id if batch.is_transactional else -1, batch.producer_epoch, records)
