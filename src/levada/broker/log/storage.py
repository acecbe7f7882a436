"""The interfaces by which a log uses its files; broker/disk implements them. Without a data directory there are no files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from levada.record.batch import RecordBatch
from levada.wire.varint import Bytes


class SegmentFile(Protocol):
    """The file of one segment. Positions are in bytes from its beginning. The methods raise BrokerError (KAFKA_STORAGE_ERROR) if the disk
    fails.
    """

    def append(self, batch: RecordBatch) -> None:
        """Write a batch at the end of the file. If this fails, the batch does not count as written, and the next one overwrites what the
        file has of it.
        """

    def read(self, start: int, end: int) -> Bytes:
        """Return the bytes between two positions."""

    def truncate(self, size: int) -> None:
        """Cut the file to a size in bytes."""

    def delete(self) -> None:
        """Delete the file and its indexes."""


class LogFiles(Protocol):
    """The files of one replica's log. NoFiles implements it for a log in memory. The methods raise BrokerError (KAFKA_STORAGE_ERROR) if the
    disk fails.
    """

    def delete(self) -> None:
        """Delete all files of the log."""

    def begin(self, base_offset: int) -> SegmentFile | None:
        """Close the active segment and return the file of a new active segment; None for a log in memory."""

    def rewrite(self, old: Sequence[SegmentFile], new: Sequence[Sequence[RecordBatch]], clean_until: int) -> list[SegmentFile]:
        """Replace old segments by new ones with these batches; return the files of the new segments, none for a log in memory.

        new: the batches of each new segment. clean_until: the offset up to which the log is compacted afterwards.
        """

    def start_at(self, offset: int) -> None:
        """Store the log start offset."""


class NoFiles:
    """LogFiles and ReplicaFiles for a log or replica that exists only in memory."""

    def load(self, replica: object) -> None:
        """Do nothing: nothing is stored."""

    def delete(self) -> None:
        """Do nothing: there are no files."""

    def begin(self, base_offset: int) -> None:
        """Return None: the segment has no file."""

    def rewrite(self, old: Sequence[SegmentFile], new: Sequence[Sequence[RecordBatch]], clean_until: int) -> list[SegmentFile]:
        """Return an empty list: the new segments have no files."""
        return []

    def start_at(self, offset: int) -> None:
        """Do nothing: the log start offset is not stored."""

    def move_to(self, node_id: int) -> None:
        """Do nothing: there are no files."""


NO_FILES: Final = NoFiles()
