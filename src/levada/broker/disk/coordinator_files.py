"""What coordinators write, in files: each partition of __consumer_offsets, __transaction_state and __share_group_state in a folder, as
Kafka has them. They are read whole when a broker starts.
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

    def take_in(self, files: ReplicaFolder) -> None:
        """CoordinatorFiles closes it."""

    def leave(self) -> None:
        """CoordinatorFiles forgets it."""

    def at(self, node_id: int) -> Self:
        """It belongs to no node."""
        return self


class CoordinatorFiles(CoordinatorLogs):
    """CoordinatorLog in a folder. A partition has its own folder from its first record on."""

    def __init__(self, path: Path, settings: BrokerSettings) -> None:
        super().__init__(settings)
        self._path = path
        self._files: dict[TopicPartition, ReplicaFolder] = {}

    def read(self) -> Iterator[CoordinatorWrite]:
        """Yield everything that was kept, partition by partition."""
        for folder in sorted(self._path.glob("*-*")) if self._path.is_dir() else ():
            topic, _, number = folder.name.rpartition("-")
            if number.isdecimal():
                self.open(TopicPartition(topic, int(number)))
        return super().read()

    def open(self, place: TopicPartition) -> Replica:
        """Return the log of a partition, kept in files from now on."""
        replica = self.replica(place)
        if place not in self._files:
            files = ReplicaFolder(
                _Alone(self._path / f"{place.topic}-{place.partition}"),
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
        """Finish all logs, each whatever becomes of the others. Raises the last error."""
        with ExitStack() as closing:
            for files in self._files.values():
                closing.callback(files.close)
