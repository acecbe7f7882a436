"""Reading a log's folder after whatever ended the broker before (kill -9, a power cut, a full disk, a damaged file).

Every segment is read and its checksums compared. The last one is cut behind its last whole batch: what a crash tore off was never flushed.
Damage in an earlier one costs the rest of that segment, not what stands behind it: its offsets are skipped, as if compacted, and an error
is logged; the file stays, for whoever wants to repair it. A compaction that was under way is finished if all its segments were written,
else forgotten.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from levada.broker.disk.files import TEMPORARY
from levada.broker.disk.segments import CLEANED, INDEX, LOG, SWAP, TIME_INDEX, TXN_INDEX, file_name
from levada.errors import CorruptRecordError
from levada.logs import Log
from levada.record.batch import RecordBatch, read_batches

_log = Log("levada.broker")
_NAME = re.compile(r"\d{20}")
NEWEST_MAGIC = 2


class Found(NamedTuple):
    """What a file holds. size_bytes: of its whole batches. fault: what is wrong behind them, None for a whole file."""

    batches: list[RecordBatch]
    size_bytes: int
    fault: str | None


def read_segment(path: Path, first_offset: int) -> Found:
    """Read a segment up to its end, or to the first batch that is damaged or begins before an offset that was reached already."""
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
        fault = f"a batch of {len(data) - size} bytes that is not whole"
    return Found(batches, size, fault)


def segments_in(folder: Path) -> list[int]:
    """Return the first offsets of the segments in a folder, in order."""
    return sorted(int(path.name.removesuffix(LOG)) for path in folder.glob(f"*{LOG}") if _NAME.fullmatch(path.name.removesuffix(LOG)))


def finish_compaction(folder: Path) -> None:
    """Finish a compaction that a crash has broken off, or forget it."""
    cleaned, swapped = sorted(folder.glob(f"*{CLEANED}")), sorted(folder.glob(f"*{SWAP}"))
    if cleaned:
        # Not all new segments were written, so the old ones are still there.
        for path in cleaned + swapped:
            path.unlink()
        return
    if swapped:
        put_in_place(folder, swapped)


def put_in_place(folder: Path, swapped: list[Path]) -> None:
    """Let new segments take the place of the old ones that they were written from."""
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
    """Delete what a crash has left of segments and files that were being deleted or written."""
    for path in folder.iterdir():
        is_orphan = path.suffix in (INDEX, TIME_INDEX, TXN_INDEX) and not path.with_suffix(LOG).exists()
        if is_orphan or path.suffix == TEMPORARY:
            path.unlink()


def tell_damage(path: Path, found: Found, *, cut: bool) -> None:
    """Log what a damaged segment has cost."""
    reached = found.batches[-1].next_offset if found.batches else int(path.name.removesuffix(LOG))
    if cut:
        _log.warning("%s: cut at offset %d, behind the last whole batch: %s", path, reached, found.fault)
    else:
        _log.error("%s: offsets from %d to the next segment are lost, the file is kept: %s", path, reached, found.fault)
