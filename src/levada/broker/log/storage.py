"""The interfaces by which a log uses its files; broker/disk implements them. Without a data directory there are no files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from levada.record.batch import RecordBatch
from levada.wire.varint import Bytes


class SegmentFile(Protocol):
    """The file of one segment. Positions are bytes from its beginning. Raises BrokerError (KAFKA_STORAGE_ERROR) if the disk fails."""

    def append(self, batch: RecordBatch) -> None:
        """Write a batch at the end, either whole or not at all."""

    def read(self, start: int, end: int) -> Bytes:
        """Return the bytes between two positions."""

    def truncate(self, size: int) -> None:
        """Cut the file."""

    def delete(self) -> None:
        """Delete the file and its indexes."""


class LogFiles(Protocol):
    """The files of one replica's log."""

    def delete(self) -> None:
        """Delete all files."""

    def begin(self, base_offset: int) -> SegmentFile | None:
        """Close the present segment and begin the next one; return its file, None without files."""

    def rewrite(self, old: Sequence[SegmentFile], new: Sequence[Sequence[RecordBatch]], clean_until: int) -> list[SegmentFile]:
        """Replace old segments by new ones with these batches. clean_until: the offset up to which the log is compacted afterwards."""

    def start_at(self, offset: int) -> None:
        """Store the log start offset."""


class NoFiles:
    """The files of a log or a replica that is only in memory: there are none."""

    def load(self, replica: object) -> None:
        """Do nothing."""

    def delete(self) -> None:
        """Do nothing."""

    def begin(self, base_offset: int) -> None:
        """Return None: the segment has no file."""

    def rewrite(self, old: Sequence[SegmentFile], new: Sequence[Sequence[RecordBatch]], clean_until: int) -> list[SegmentFile]:
        """Return an empty list."""
        return []

    def start_at(self, offset: int) -> None:
        """Do nothing."""

    def move_to(self, node_id: int) -> None:
        """Do nothing."""


NO_FILES: Final = NoFiles()
