"""The coordinators' logs in files: a folder for each partition of __consumer_offsets, __transaction_state and __share_group_state, as in
Kafka. They are read as a whole when a broker starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self
from uuid import UUID, uuid5

from levada.broker.config.settings import BrokerSettings
from levada.broker.coordinators.logs import CoordinatorLogs, CoordinatorWrite
from levada.broker.disk.replica_files import ReplicaFolder
from levada.broker.replication.replica import Replica
from levada.types import TopicPartition

_NAMESPACE = UUID(int=0)


class _NoCheckpoints:
    """A Home that stores no checkpoints. Its log starts at offset 0, and a restarted broker compacts the whole log again."""

    log_start = clean_until = 0
    was_finished = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep_start(self, offset: int) -> None:
        """Do nothing: the log start offset never changes, because these logs are only compacted."""

    def keep_cleaned(self, offset: int) -> None:
        """Do nothing: the offset is not stored."""

    def take_in(self, files: ReplicaFolder) -> None:
        """Do nothing: CoordinatorFiles closes the files."""

    def leave(self) -> None:
        """Do nothing: CoordinatorFiles removes the replica."""

    def at(self, node_id: int) -> Self:
        """Return this Home itself, because a coordinator's log belongs to no node."""
        return self


class CoordinatorFiles(CoordinatorLogs):
    """A CoordinatorLog in files. The folder of a partition is created with the partition's first record."""

    def __init__(self, path: Path, settings: BrokerSettings) -> None:
        super().__init__(settings)
        self._path = path
        self._files: dict[TopicPartition, ReplicaFolder] = {}

    def read(self) -> Iterator[CoordinatorWrite]:
        """Load the files of all partitions, and yield the stored writes, partition by partition."""
        for folder in sorted(self._path.glob("*-*")) if self._path.is_dir() else ():
            topic, _, number = folder.name.rpartition("-")
            if number.isdecimal():
                self.open(TopicPartition(topic, int(number)))
        return super().read()

    def open(self, place: TopicPartition) -> Replica:
        """Return the replica of a partition. The first call loads the replica's files; later changes of the replica are written to them."""
        replica = self.replica(place)
        if place not in self._files:
            files = ReplicaFolder(
                _NoCheckpoints(self._path / f"{place.topic}-{place.partition}"),
                uuid5(_NAMESPACE, place.topic),
                flush_messages=self._config.flush_messages,
                index_interval_bytes=self._config.index_interval_bytes,
            )
            replica.keep_in(files)
            replica.log.advance_high_watermark(replica.log.end_offset)
            self._files[place] = files
        return replica

    def delete(self, topic: str) -> None:
        """Delete the logs of a topic with their files."""
        super().delete(topic)
        self._files = {place: files for place, files in self._files.items() if place.topic != topic}

    def close(self) -> None:
        """Close all logs, even if some of them fail. Raises the last error."""
        with ExitStack() as closing:
            for files in self._files.values():
                closing.callback(files.close)
