"""The folder of one replica: its segments, a producer snapshot for each, and its leader epochs."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self
from uuid import UUID

from levada.broker.disk.files import make_private, storing, sync_folder, write_whole
from levada.broker.disk.formats import (
    SnapshotEntry,
    decode_epochs,
    decode_snapshot,
    encode_epochs,
    encode_snapshot,
    partition_metadata,
    short_id,
    topic_id_in,
)
from levada.broker.disk.recovery import finish_compaction, put_in_place, read_segment, remove_orphans, segments_in, tell_damage
from levada.broker.disk.segments import CLEANED, LOG, SNAPSHOT, SWAP, TXN_INDEX, DiskSegment, file_name, transaction_index
from levada.broker.log.log import PartitionLog
from levada.broker.log.producer_state import AppendedBatch
from levada.broker.log.segment import Segment
from levada.broker.log.storage import SegmentFile
from levada.errors import BrokerError, CorruptRecordError, ProtocolError
from levada.logs import Log
from levada.record.batch import RecordBatch

if TYPE_CHECKING:
    from levada.broker.replication.replica import Replica

_log = Log("levada.broker")
_EPOCHS = "leader-epoch-checkpoint"
_METADATA = "partition.metadata"
_NO_SEQUENCE = -1
_MAX_INT = 2**31 - 1


class Home(Protocol):
    """Tells where a replica's folder is and stores the checkpoints of its log. An offset that was never stored is 0."""

    @property
    def folder(self) -> Path:
        """The folder of the replica's files."""
        ...

    @property
    def was_finished(self) -> bool:
        """Whether the broker that wrote the log before was closed, so that the log is flushed and has its indexes."""
        ...

    @property
    def log_start(self) -> int:
        """The log start offset."""
        ...

    @property
    def clean_until(self) -> int:
        """The offset up to which the log is compacted."""
        ...

    def keep_start(self, offset: int) -> None:
        """Store the log start offset."""
        ...

    def keep_cleaned(self, offset: int) -> None:
        """Store the offset up to which the log is compacted."""
        ...

    def take_in(self, files: ReplicaFolder) -> None:
        """Register the replica's files, so that they are closed together with the node's other files."""
        ...

    def leave(self) -> None:
        """Stop tracking the replica's files and remove its checkpoints. The files themselves are not deleted."""
        ...

    def at(self, node_id: int) -> Self:
        """Return the Home that the replica has at another node."""
        ...


class ReplicaFolder:
    """The files of one replica (ReplicaFiles), in a folder of their own."""

    def __init__(self, home: Home, topic_id: UUID, *, flush_messages: int, index_interval_bytes: int) -> None:
        self._home = home
        self._topic_id = topic_id
        self._flush_messages = flush_messages
        self._index_interval_bytes = index_interval_bytes
        self._replica: Replica | None = None
        self._active: DiskSegment | None = None

    @property
    def folder(self) -> Path:
        """The folder, which changes if the replica is moved to another node."""
        return self._home.folder

    @property
    def log(self) -> PartitionLog:
        """The log whose segments are stored in the folder."""
        assert self._replica is not None
        return self._replica.log

    # ReplicaFiles

    def load(self, replica: Replica) -> None:
        """Create the folder, or repair its files after a crash, and load them into a new replica. From then on, changes of the replica are
        stored.
        """
        self._replica = replica
        with storing(self.folder):
            self._claim()
            finish_compaction(self.folder)
            remove_orphans(self.folder)
            self._load(replica)
        replica.epochs.watch(self._keep_epochs)
        if self._kept_epochs() != list(replica.epochs.starts):
            self._keep_epochs(replica.epochs.starts)
        # Only content that was read completely is written when the broker is closed.
        self._home.take_in(self)

    def _load(self, replica: Replica) -> None:
        kept_epochs = self._kept_epochs()
        if kept_epochs:
            replica.epochs.load(kept_epochs)
        self._recall_producers(replica)
        segments = self._read_segments(replica)
        if segments:
            replica.log.load(segments, self._home.log_start, self._home.clean_until)
        elif self._home.log_start:
            replica.log.restart(self._home.log_start)
        replica.epochs.truncate(replica.log.end_offset + 1)
        replica.transactions.forget_before(replica.log.start_offset)

    def begin(self, base_offset: int) -> SegmentFile:
        """Write a producer snapshot, close the active segment, and return the file of a new active segment.

        If this fails, batches can still be appended to the old active segment.
        """
        self._finish_active()
        self._snapshot(base_offset)
        fresh = self._new_segment(base_offset)
        fresh.create()
        self._close_active()
        self._active = fresh
        return fresh

    def rewrite(self, old: Sequence[SegmentFile], new: Sequence[Sequence[RecordBatch]], clean_until: int) -> list[SegmentFile]:
        """Replace old segments by new ones with these batches; return the files of the new segments. After a crash at any moment, either
        all old or all new segments exist.

        new: the batches of each new segment. clean_until: the offset up to which the log is compacted afterwards.
        """
        first = min((segment.base_offset for segment in old if isinstance(segment, DiskSegment)), default=0)
        bases = [first, *(batches[-1].next_offset for batches in new[:-1])][: len(new)]
        with storing(self.folder):
            self._write_cleaned(bases, new)
            swapped: list[Path] = []
            for base_offset in reversed(bases):
                path = self.folder / file_name(base_offset, CLEANED)
                swapped.insert(0, path.rename(self.folder / file_name(base_offset, SWAP)))
            for segment in old:
                segment.delete()
            if swapped:
                put_in_place(self.folder, swapped)
        segments = [self._adopted(base_offset, batches) for base_offset, batches in zip(bases, new, strict=True)]
        self._settle(segments, clean_until)
        return list(segments)

    def _settle(self, segments: Iterable[DiskSegment], clean_until: int) -> None:
        """Write the indexes of new segments and store `clean_until`. An error of the disk is only logged, because the old segments are
        already deleted.
        """
        try:
            with storing(self.folder):
                sync_folder(self.folder)
            for segment in segments:
                segment.write_indexes()
            self._home.keep_cleaned(clean_until)
        except BrokerError as fault:
            _log.warning("%s was compacted, and will be again when the broker starts: %s", self.folder, fault)

    def _write_cleaned(self, bases: Sequence[int], new: Sequence[Sequence[RecordBatch]]) -> None:
        """Write new segments under temporary names. If one of them fails, all are deleted, because recovery takes any of them as a sign
        that the old segments still exist.
        """
        try:
            for base_offset, batches in zip(bases, new, strict=True):
                write_whole(self.folder / file_name(base_offset, CLEANED), b"".join(batch.data for batch in batches))
        except BaseException:
            for path in self.folder.glob(f"*{CLEANED}"):
                path.unlink()
            raise

    def start_at(self, offset: int) -> None:
        """Store the log start offset."""
        self._home.keep_start(offset)

    def move_to(self, node_id: int) -> None:
        """Move the folder and the log's checkpoints to another node."""
        before, home = self._home, self._home.at(node_id)
        home.keep_start(before.log_start)
        home.keep_cleaned(before.clean_until)
        with storing(home.folder):
            shutil.rmtree(home.folder, ignore_errors=True)
            make_private(home.folder.parent)
            before.folder.rename(home.folder)
        self._home = home
        home.take_in(self)
        before.leave()

    def delete(self) -> None:
        """Delete the folder with all files, and the checkpoints of the log."""
        if self._active is not None:
            self._active.delete()
            self._active = None
        with storing(self.folder):
            shutil.rmtree(self.folder)
        self._home.leave()

    # For CoordinatorFiles and DataDir

    def close(self) -> None:
        """Close the active segment; no other one is open. If batches were appended since the last producer snapshot, write another one."""
        try:
            self._finish_active()
            if self._replica is not None and not self._has_snapshot:
                self._snapshot(self._replica.log.end_offset)
        finally:
            self._close_active()

    # Inside

    def _claim(self) -> None:
        """Create the folder. If it exists, but belongs to a deleted topic of the same name, rename the old folder before."""
        path = self.folder / _METADATA
        kept_id = topic_id_in(path.read_text(errors="replace")) if path.exists() else None
        if kept_id is not None and kept_id != short_id(self._topic_id):
            aside = self.folder.rename(self.folder.with_name(f"{self.folder.name}.{kept_id}-stray"))
            _log.warning("%s belongs to a topic that does not exist any more; it was renamed to %s", self.folder, aside.name)
            kept_id = None
        make_private(self.folder.parent)
        make_private(self.folder)
        if kept_id is None:
            write_whole(path, partition_metadata(self._topic_id).encode())

    def _new_segment(self, base_offset: int) -> DiskSegment:
        return DiskSegment(
            base_offset,
            lambda: self.folder,
            index_interval_bytes=self._index_interval_bytes,
            flush_messages=self._flush_messages,
        )

    def _adopted(self, base_offset: int, batches: Iterable[RecordBatch]) -> DiskSegment:
        segment = self._new_segment(base_offset)
        segment.adopt(batches)
        return segment

    def _read_segments(self, replica: Replica) -> list[Segment]:
        bases = segments_in(self.folder)
        segments: list[Segment] = []
        end_offset = position = 0
        for base_offset in bases:
            path = self.folder / file_name(base_offset, LOG)
            is_last = base_offset == bases[-1]
            found = read_segment(path, max(end_offset, base_offset))
            if found.fault is not None:
                tell_damage(path, found, cut=is_last)
            if not found.batches:
                if is_last:
                    self._new_segment(base_offset).delete()
                continue
            file = self._adopted(base_offset, found.batches)
            if is_last and found.fault is not None:
                file.truncate(found.size_bytes)
            is_finished = self._home.was_finished and found.fault is None and file.has_indexes
            if is_last and not is_finished:
                file.flush()
            segment = Segment.stored(base_offset, position, file, found.batches)
            segments.append(segment)
            end_offset, position = segment.next_offset, position + segment.size_bytes
            self._recall(replica, path, found.batches)
            if not is_finished:
                file.write_indexes()
                self._write_transaction_index(file, segment.next_offset)
        return segments

    def _recall(self, replica: Replica, path: Path, batches: Iterable[RecordBatch]) -> None:
        for batch in batches:
            if batch.partition_leader_epoch > replica.epochs.current:
                replica.epochs.begin(batch.partition_leader_epoch, batch.base_offset)
            try:
                replica.recall(batch)
            except ProtocolError as fault:
                # The checksum is right, so the batch was written like this.
                _log.error("%s: the batch at offset %d has no valid producer state: %s", path, batch.base_offset, fault)

    def _recall_producers(self, replica: Replica) -> None:
        """Load the producer snapshot that belongs to the start of the first segment; without segments, the newest one. Reading the batches
        then brings the producers up to date.
        """
        snapshots = sorted(self.folder.glob(f"*{SNAPSHOT}"))
        bases = segments_in(self.folder)
        path = self.folder / file_name(bases[0], SNAPSHOT) if bases else (snapshots or [self.folder / SNAPSHOT])[-1]
        if not path.exists():
            return
        try:
            entries = decode_snapshot(path.read_bytes())
        except CorruptRecordError as fault:
            _log.error("%s: producers that have written nothing since are unknown: %s", path, fault)
            return
        for entry in entries:
            first_sequence = (entry.last_sequence - entry.offset_delta) & _MAX_INT
            last = None
            if entry.last_sequence != _NO_SEQUENCE:
                last = AppendedBatch(
                    first_sequence, entry.last_sequence, entry.last_offset - entry.offset_delta, entry.last_offset, entry.timestamp
                )
            replica.producers.restore(entry.producer_id, entry.epoch, last, entry.coordinator_epoch, entry.timestamp)
            if entry.open_from >= 0:
                replica.transactions.write(entry.producer_id, entry.open_from)

    def _finish_active(self) -> None:
        if self._active is not None and not self._active.is_deleted:
            self._active.finish()
            self._write_transaction_index(self._active, self.log.end_offset)

    def _close_active(self) -> None:
        active, self._active = self._active, None
        if active is not None:
            active.close()

    def _write_transaction_index(self, segment: DiskSegment, end_offset: int) -> None:
        assert self._replica is not None
        aborted = self._replica.transactions.aborted_between(segment.base_offset, end_offset)
        data = transaction_index(one for one in aborted if segment.base_offset <= one.last_offset < end_offset)
        if data:
            write_whole(segment.path(TXN_INDEX), data, lasting=False)
        else:
            segment.path(TXN_INDEX).unlink(missing_ok=True)

    @property
    def _has_snapshot(self) -> bool:
        return self._active is None and (self.folder / file_name(self.log.end_offset, SNAPSHOT)).exists()

    def _snapshot(self, offset: int) -> None:
        assert self._replica is not None
        entries = []
        for producer_id, known in self._replica.producers:
            last = known.batches[-1] if known.batches else None
            open_from = self._replica.transactions.first_offset_of(producer_id)
            entries.append(
                SnapshotEntry(
                    producer_id=producer_id,
                    epoch=known.epoch,
                    last_sequence=_NO_SEQUENCE if last is None else last.last_sequence,
                    last_offset=-1 if last is None else last.last_offset,
                    offset_delta=0 if last is None else last.last_offset - last.base_offset,
                    timestamp=known.timestamp,
                    coordinator_epoch=known.coordinator_epoch,
                    open_from=-1 if open_from is None else open_from,
                )
            )
        write_whole(self.folder / file_name(offset, SNAPSHOT), encode_snapshot(entries))
        with storing(self.folder):
            needed = {file_name(base_offset, SNAPSHOT) for base_offset in (*segments_in(self.folder), offset)}
            for path in self.folder.glob(f"*{SNAPSHOT}"):
                if path.name not in needed:
                    path.unlink()

    def _kept_epochs(self) -> list[tuple[int, int]]:
        path = self.folder / _EPOCHS
        try:
            return decode_epochs(path.read_text()) if path.exists() else []
        except ValueError as fault:
            _log.error("%s: leader epochs are read from the log instead: %s", path, fault)
            return []

    def _keep_epochs(self, starts: Sequence[tuple[int, int]]) -> None:
        # Epochs with batches are in the log as well.
        write_whole(self.folder / _EPOCHS, encode_epochs(starts).encode(), lasting=False)
