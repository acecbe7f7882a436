"""Recovery of a log's folder after any end of the former broker (kill -9, power failure, full disk, damaged file).

Every segment is read and its checksums are verified. The last segment is cut after its last whole batch: what a crash has torn was never
flushed. Damage in an earlier segment loses the rest of that segment only: its offsets are skipped, as after compaction, an error is
logged, and the file is kept, so that it can be repaired. An interrupted compaction is finished if all its segments were written, and is
dropped otherwise.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from levada.broker.disk.files import TEMPORARY
from levada.broker.disk.segments import CLEANED, INDEX, LOG, SWAP, TIME_INDEX, TXN_INDEX, file_name
from levada.errors import CorruptRecordError
from levada.logs import Log
from levada.record.batch import RecordBatch
from levada.record.memory_records import read_batches

_log = Log("levada.broker")
_NAME = re.compile(r"\d{20}")
NEWEST_MAGIC = 2


class Found(NamedTuple):
    """The batches that were read from a segment's file. size_bytes: the total size of these batches. fault: why reading stopped before the
    end of the file, None if it did not.
    """

    batches: list[RecordBatch]
    size_bytes: int
    fault: str | None


def read_segment(path: Path, first_offset: int) -> Found:
    """Read the batches of a segment, up to the first batch that is damaged, that has an old format, or whose offsets are below
    `first_offset` or not ascending.
    """
    data = path.read_bytes()
    batches: list[RecordBatch] = []
    size, fault = 0, None
    try:
        for batch in read_batches(data):
            batch.verify_crc()
            if batch.base_offset < first_offset or batch.magic != NEWEST_MAGIC:
                fault = f"offset {batch.base_offset} after {first_offset}" if batch.magic == NEWEST_MAGIC else f"magic {batch.magic}"
                break
            batches.append(batch)
            size += batch.size_bytes
            first_offset = batch.next_offset
    except CorruptRecordError as error:
        fault = str(error)
    if fault is None and size < len(data):
        fault = f"an incomplete batch of {len(data) - size} bytes"
    return Found(batches, size, fault)


def segments_in(folder: Path) -> list[int]:
    """Return the base offsets of the segments in a folder, in order."""
    return sorted(int(path.name.removesuffix(LOG)) for path in folder.glob(f"*{LOG}") if _NAME.fullmatch(path.name.removesuffix(LOG)))


def finish_compaction(folder: Path) -> None:
    """Clean up after a crash during a compaction: finish replacing the old segments if all new ones were written, otherwise delete the new
    ones.
    """
    cleaned, swapped = sorted(folder.glob(f"*{CLEANED}")), sorted(folder.glob(f"*{SWAP}"))
    if cleaned:
        # Not all new segments were written, so the old ones still exist.
        for path in cleaned + swapped:
            path.unlink()
        return
    if swapped:
        put_in_place(folder, swapped)


def put_in_place(folder: Path, swapped: list[Path]) -> None:
    """Replace the old segments by the new segments that compaction has written. swapped: the files of the new segments."""
    first = int(swapped[0].name.removesuffix(SWAP))
    end = first
    for path in swapped:
        end = max([end, *(batch.next_offset for batch in read_segment(path, 0).batches)])
    for base_offset in segments_in(folder):
        if first <= base_offset < end:
            (folder / file_name(base_offset, LOG)).unlink()
    for path in swapped:
        path.rename(path.with_name(path.name.removesuffix(SWAP) + LOG))


def remove_orphans(folder: Path) -> None:
    """Delete files that a crash has left behind: index files without a segment, and temporary files."""
    for path in folder.iterdir():
        is_orphan = path.suffix in (INDEX, TIME_INDEX, TXN_INDEX) and not path.with_suffix(LOG).exists()
        if is_orphan or path.suffix == TEMPORARY:
            path.unlink()


def tell_damage(path: Path, found: Found, *, cut: bool) -> None:
    """Log what was lost by damage in a segment. cut: True if the file was cut after the last whole batch, False if the file is kept as it
    is.
    """
    reached = found.batches[-1].next_offset if found.batches else int(path.name.removesuffix(LOG))
    if cut:
        _log.warning("%s: cut at offset %d, behind the last whole batch: %s", path, reached, found.fault)
    else:
        _log.error("%s: offsets from %d to the next segment are lost, the file is kept: %s", path, reached, found.fault)
