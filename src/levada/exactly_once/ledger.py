"""What the ledger says of a sink's last batch, and what follows from it for the batch that Spark wants committed.

The ledger is the committed offset of a consumer group without members: its offset is the id of the last batch that was decided, its
metadata say which run of which query has written it, what rows it had, and which slots it has. Slots that do not fit into the metadata of
one offset are continued in those of further groups. Reading is stable (KIP-447), so a transaction that may change the ledger has ended.
"""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b85decode, b85encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from levada.errors import CorruptRecordError, IllegalStateError
from levada.exactly_once.batch import BatchId, Rows, Slot, SlotName
from levada.types import OffsetAndMetadata, TopicPartition, TransactionHandle

VERSION = 1
VERSION_WITH_SLOTS = 2
PIECE = 3500
"""Characters of slots in one offset's metadata: with all else they stay below the brokers' offset.metadata.max.bytes, 4096."""
MOST_SLOTS, MOST_GROUPS = 100_000, 2_000
"""Of one entry. So many slots fit into so many groups; more is not read."""
_SLOT = struct.Struct(">4sIHqhBQQ")
"""Run, task and attempt of its name, producer id, epoch, version of EndTxn, rows, digest."""


@dataclass(frozen=True)
class Entry:
    """The last batch that was decided.

    at: the partition whose offset it is. slots: what is to be committed of it. turn: how often the batch was repeated, which tells the
    newer of two entries of one batch. written_s: when, in seconds since the epoch. is_finished: whether all slots are committed.
    """

    batch: BatchId
    rows: Rows
    at: TopicPartition
    slots: tuple[Slot, ...] = ()
    turn: int = 0
    written_s: int = 0
    is_finished: bool = False

    @property
    def unfinished(self) -> tuple[Slot, ...]:
        """The slots that may have to be committed."""
        return () if self.is_finished else self.slots

    def offsets(self, group: str) -> dict[str, OffsetAndMetadata]:
        """Return what stands for the entry: an offset of the ledger's group, and of as many further ones as its slots take."""
        said = {
            "v": VERSION_WITH_SLOTS if self.slots else VERSION,
            "query": self.batch.query_id,
            "run": self.batch.run_id,
            "rows": self.rows.count,
            "digest": f"{self.rows.digest:016x}",
            "turn": self.turn,
            "written": self.written_s,
        }
        pieces = _packed(self.slots)
        if pieces:
            said |= {"finished": self.is_finished, "more": len(pieces) - 1, "slots": pieces[0]}
        texts = {group: json.dumps(said, separators=(",", ":"))}
        texts |= dict(zip(further_groups(group, len(pieces) - 1), pieces[1:], strict=True))
        return {name: OffsetAndMetadata(self.batch.number, metadata=text) for name, text in texts.items()}


def further_groups(group: str, count: int) -> list[str]:
    """Return the groups in which an entry is continued."""
    return [f"{group}~{number}" for number in range(1, count + 1)]


def newest(committed: Mapping[TopicPartition, OffsetAndMetadata | None]) -> tuple[TopicPartition, OffsetAndMetadata] | None:
    """Return the newest of a group's offsets; there are several after a change of the ledger's topic."""
    there = [(tp, offset) for tp, offset in committed.items() if offset is not None]
    return max(there, key=lambda found: (found[1].offset, _number(found[1], "turn")), default=None)


def continued_in(offset: OffsetAndMetadata) -> int:
    """Return in how many further groups an entry is continued; 0 for what is no entry."""
    return min(_number(offset, "more"), MOST_GROUPS)


def _number(offset: OffsetAndMetadata, name: str) -> int:
    try:
        found = json.loads(offset.metadata)[name]
    except (ValueError, TypeError, KeyError, RecursionError):
        return 0
    return found if isinstance(found, int) and found > 0 else 0


def read(group: str, at: TopicPartition, offset: OffsetAndMetadata, further: Sequence[OffsetAndMetadata | None] = ()) -> Entry:
    """Return the entry that offsets stand for.

    Raises CorruptRecordError for offsets that no sink has committed, IllegalStateError for those of a newer levada.
    """
    try:
        said: Any = json.loads(offset.metadata)
        if said["v"] in (VERSION, VERSION_WITH_SLOTS):
            batch = BatchId(str(said["query"]), str(said["run"]), offset.offset)
            pieces = [said.get("slots", ""), *(piece.metadata for piece in further if piece is not None and piece.offset == offset.offset)]
            if len(pieces) != 1 + said.get("more", 0):
                raise ValueError(f"it is continued in {said['more']} more groups, {len(pieces) - 1} are there")
            rows, slots = Rows(int(said["rows"]), int(said["digest"], 16)), tuple(_unpacked("".join(pieces), group, batch))
            finished = said.get("finished") is True
            return Entry(batch, rows, at, slots, _number(offset, "turn"), _number(offset, "written"), finished)
        if isinstance(said["v"], int) and said["v"] > VERSION_WITH_SLOTS:
            raise IllegalStateError(
                f"ledger of the exactly-once sink (group '{group}', {at}): version {said['v']} is not known to this levada; use the one "
                "that has written it, or a newer one"
            )
        why = f"version {said['v']!r} is none"
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, struct.error, zlib.error) as fault:
        why = f"no sink has written it ({fault!r})"
    raise CorruptRecordError(
        f"ledger of the exactly-once sink (group '{group}', {at}): cannot use the committed offset {offset.offset} with metadata "
        f"{offset.metadata[:100]!r}: {why}; give another exactlyOnce.id, or a group id of its own by transactionalIdPrefix"
    )


def _packed(slots: Iterable[Slot]) -> list[str]:
    packed = b"".join(
        _SLOT.pack(bytes.fromhex(name.run), name.task, name.attempt, *handle[1:4], rows.count, rows.digest) for name, handle, rows in slots
    )
    text = b85encode(zlib.compress(packed)).decode() if packed else ""
    return [text[begin : begin + PIECE] for begin in range(0, len(text), PIECE)]


def _unpacked(text: str, group: str, batch: BatchId) -> list[Slot]:
    if not text:
        return []
    unpacking = zlib.decompressobj()
    packed = unpacking.decompress(b85decode(text), MOST_SLOTS * _SLOT.size)
    if not unpacking.eof or len(packed) % _SLOT.size:
        raise ValueError("its slots are cut off")
    slots = []
    for run, task, attempt, producer_id, epoch, end_version, count, digest in _SLOT.iter_unpack(packed):
        name = SlotName(run.hex(), batch.number % 2, task, attempt)
        full = name.within(group)
        slots.append(Slot(name, TransactionHandle(full, producer_id, epoch, end_version, groups=(full,)), Rows(count, digest)))
    return slots


class Verdict(Enum):
    """What is to be done with a batch."""

    WRITE = "write it"
    WRITE_UNPROVEN = (
        "write it, although the ledger is empty and cannot prove that it is new: it was deleted or has expired, or this is the first batch "
        "of the sink"
    )
    REPEAT = "it was written before"
    SKIP_AHEAD = "a later batch was written before; none of its rows is written"


@dataclass(frozen=True)
class Policy:
    """What is to be done where the ledger does not decide. Each is the option of its name, as given or by default.

    missing: warn, fail or write. ahead, other_rows: fail or skip. lost_slot: fail, rewrite or skip.
    """

    missing: str = "warn"
    ahead: str = "fail"
    other_rows: str = "fail"
    lost_slot: str = "fail"


def judge(batch: BatchId, entry: Entry | None, policy: Policy, sink_id: str) -> Verdict:
    """Decide what to do with a batch. Raises IllegalStateError where neither writing nor skipping would be right."""
    name = called(sink_id, batch)
    if entry is None:
        if batch.number == 0 or policy.missing == "write":
            return Verdict.WRITE
        if policy.missing == "warn":
            return Verdict.WRITE_UNPROVEN
        raise IllegalStateError(f"{name}: {_why_missing(batch)}")
    if entry.batch.query_id != batch.query_id:
        raise IllegalStateError(f"{name}: {_why_of_another(batch, entry)}")
    if entry.batch.number > batch.number:
        if policy.ahead == "skip":
            return Verdict.SKIP_AHEAD
        raise IllegalStateError(f"{name}: {_why_ahead(batch, entry)}")
    if entry.batch.number < batch.number:
        return Verdict.WRITE
    if entry.batch.run_id == batch.run_id:
        raise IllegalStateError(
            f"{name}: this run has written this batch already: rows of two writes would be taken for one. Give this write within the "
            "foreachBatch an exactlyOnce.id of its own, and leave the first write as it is; these rows are not written"
        )
    return Verdict.REPEAT


def _why_missing(batch: BatchId) -> str:
    has_none = "the first batch under an exactlyOnce.id" if batch.is_of_job else "a query that did not write exactly once so far"
    return (
        "the ledger has no entry, so it cannot be known whether this batch was written before: exactlyOnce.id, transactionalIdPrefix or "
        "ledgerTopic may have been changed, it expires after the brokers' offsets.retention.minutes, and "
        f"{has_none} has none. Look whether the batch's rows are in Kafka; if they are not, run the "
        f"{batch.program} once with onMissingLedger=write"
    )


def _why_of_another(batch: BatchId, entry: Entry) -> str:
    if batch.is_of_job:
        return f"the ledger belongs to query {entry.batch.query_id}, this is a batch job. Give the job an exactlyOnce.id of its own"
    if entry.batch.is_of_job:
        return f"the ledger belongs to batch jobs, this is query {batch.query_id}. Give the query an exactlyOnce.id of its own"
    return (
        f"the ledger belongs to query {entry.batch.query_id}, this is query {batch.query_id}. Two queries must not share an "
        "exactlyOnce.id. After a new checkpoint give another one: the query then writes again what it reads from startingOffsets on"
    )


def _why_ahead(batch: BatchId, entry: Entry) -> str:
    ahead = f"the ledger is ahead, at batch {entry.batch.number}"
    if batch.is_of_job:
        return (
            f"{ahead}: numbers that exactlyOnce.batchId gives have to rise. If these rows were not written yet, give a higher number, or "
            "another exactlyOnce.id; if they were, onLedgerAhead=skip leaves them out, whatever rows the job has now"
        )
    return (
        f"{ahead}: the checkpoint is older than what was written (it was restored or copied), or two runs are alive. To go on from this "
        f"checkpoint, either give another exactlyOnce.id, and rows of the batches up to {entry.batch.number} may be written twice, or "
        "onLedgerAhead=skip, and batches up to that number are not written, whatever they have now: rows that have come since may be lost"
    )


def check_same_rows(batch: BatchId, rows: Rows, entry: Entry, policy: Policy, sink_id: str) -> bool:
    """Return whether a batch that was written before has the same rows now. Raises IllegalStateError where other ones are not allowed."""
    if entry.rows == rows:
        return True
    if policy.other_rows == "skip":
        return False
    causes, otherwise = (
        ("Another job has used this exactlyOnce.batchId, the job reads other rows now", "give a higher exactlyOnce.batchId")
        if batch.is_of_job
        else (
            "The checkpoint is a copy or was restored, the query was changed",
            "give another exactlyOnce.id, which writes this batch again",
        )
    )
    raise IllegalStateError(
        f"{called(sink_id, batch)}: the ledger says that this batch was written with other rows: {_shown(entry.rows)} then, {_shown(rows)} "
        f"now. {causes}, or its rows differ each time that they are computed, as with rand() or uuid(): then run the "
        f"{batch.program} with onOtherRows=skip, which writes none of this batch's rows of now, also none that have come since. If such "
        f"rows have to be written, {otherwise}"
    )


def called(sink_id: str, batch: BatchId) -> str:
    """Name a batch in messages."""
    return f"exactly-once sink '{sink_id}', batch {batch.number}"


def _shown(rows: Rows) -> str:
    return f"{rows.count} (digest {rows.digest:016x})"
