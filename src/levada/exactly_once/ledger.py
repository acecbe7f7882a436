"""The ledger: the entry about a sink's last batch, and the decision about the batch that Spark wants to commit.

The ledger is the committed offset of a consumer group without members. The offset is the number of the last decided batch. Its metadata
contain the query and run that wrote the batch, the number and digest of its rows, and its slots. Slots that do not fit into the metadata of
one offset are continued in offsets of further groups. Before a decision the ledger is read with require_stable (KIP-447), so no open
transaction can change it.
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
"""The most characters of slots in the metadata of one offset. The whole metadata stay below the default offset.metadata.max.bytes, 4096."""
MOST_SLOTS, MOST_GROUPS = 100_000, 2_000
"""Limits of one entry: this number of slots fits into this number of groups. More are not read."""
_SLOT = struct.Struct(">4sIHqhBQQ")
"""One slot: run, task and attempt of its name, producer id, epoch, version of EndTxn, number and digest of its rows."""


@dataclass(frozen=True)
class Entry:
    """The ledger's entry about the last decided batch.

    at: the partition of the ledger's offset. slots: the slots that belong to the batch. repetition: how often the batch was repeated; of
    two entries for one batch the newer one has the higher number. written_s: time of writing, in seconds since the epoch.
    is_finished: whether all slots are committed.
    """

    batch: BatchId
    rows: Rows
    at: TopicPartition
    slots: tuple[Slot, ...] = ()
    repetition: int = 0
    written_s: int = 0
    is_finished: bool = False

    @property
    def unfinished(self) -> tuple[Slot, ...]:
        """The slots that may have to be committed."""
        return () if self.is_finished else self.slots

    def offsets(self, group: str) -> dict[str, OffsetAndMetadata]:
        """Return the entry as offsets to commit, by group: for the ledger's group, and for the further groups that its slots need."""
        said = {
            "v": VERSION_WITH_SLOTS if self.slots else VERSION,
            "query": self.batch.query_id,
            "run": self.batch.run_id,
            "rows": self.rows.count,
            "digest": f"{self.rows.digest:016x}",
            "turn": self.repetition,
            "written": self.written_s,
        }
        pieces = _packed(self.slots)
        if pieces:
            said |= {"finished": self.is_finished, "more": len(pieces) - 1, "slots": pieces[0]}
        texts = {group: json.dumps(said, separators=(",", ":"))}
        texts |= dict(zip(further_groups(group, len(pieces) - 1), pieces[1:], strict=True))
        return {name: OffsetAndMetadata(self.batch.number, metadata=text) for name, text in texts.items()}


def further_groups(group: str, count: int) -> list[str]:
    """Return the names of `count` further groups, whose offsets continue the entry of `group`."""
    return [f"{group}~{number}" for number in range(1, count + 1)]


def newest(committed: Mapping[TopicPartition, OffsetAndMetadata | None]) -> tuple[TopicPartition, OffsetAndMetadata] | None:
    """Return the newest of a group's offsets. None without offsets. A group has several after a change of ledgerTopic."""
    there = [(tp, offset) for tp, offset in committed.items() if offset is not None]
    return max(there, key=lambda found: (found[1].offset, _number(found[1], "turn")), default=None)


def continued_in(offset: OffsetAndMetadata) -> int:
    """Return the number of further groups in which an entry is continued. 0 for an offset that is not an entry."""
    return min(_number(offset, "more"), MOST_GROUPS)


def _number(offset: OffsetAndMetadata, name: str) -> int:
    try:
        found = json.loads(offset.metadata)[name]
    except (ValueError, TypeError, KeyError, RecursionError):
        return 0
    return found if isinstance(found, int) and found > 0 else 0


def read(group: str, at: TopicPartition, offset: OffsetAndMetadata, further: Sequence[OffsetAndMetadata | None] = ()) -> Entry:
    """Return the entry that is stored in committed offsets.

    offset: the offset of the ledger's group. further: the offsets of the further groups; None for a group without a committed offset.

    Raises CorruptRecordError for offsets that no sink has committed, IllegalStateError for offsets of a newer levada.
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
                f"ledger of the exactly-once sink (group '{group}', {at}): version {said['v']} is not known to this version of levada; use "
                "the version that has written it, or a newer one"
            )
        why = f"{said['v']!r} is not a version"
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
    """The decision about a batch. The values are texts for the log."""

    WRITE = "write it"
    WRITE_UNPROVEN = (
        "write it, although the ledger is empty and cannot prove that it is new: it was deleted or has expired, or this is the first batch "
        "of the sink"
    )
    REPEAT = "it was written before"
    SKIP_AHEAD = "a later batch was written before"


@dataclass(frozen=True)
class Policy:
    """The options for cases that the ledger does not decide: onMissingLedger, onLedgerAhead, onOtherRows and onLostSlot.

    missing: warn, fail or write. ahead, other_rows: fail or skip. lost_slot: fail, rewrite or skip.
    """

    missing: str = "warn"
    ahead: str = "fail"
    other_rows: str = "fail"
    lost_slot: str = "fail"


def judge(batch: BatchId, entry: Entry | None, policy: Policy, sink_id: str) -> Verdict:
    """Decide what to do with a batch. Raises IllegalStateError if the batch must be neither written nor skipped.

    entry: the newest entry of the ledger; None if there is none.
    """
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
            f"{name}: this run has written this batch already: rows of two writes would be taken for one. These rows are not written. If "
            "this is the same write, tried again after an error, do not try it again here: let the micro-batch fail, and start the query "
            "again. If it is a second write within the foreachBatch, give it an exactlyOnce.id of its own, and leave the first write as "
            "it is. If neither is so, setJobGroup() has given two runs of the query the same group"
        )
    return Verdict.REPEAT


def _why_missing(batch: BatchId) -> str:
    has_none = "this is the first batch under its exactlyOnce.id" if batch.is_of_job else "the query did not write exactly once until now"
    return (
        "the ledger has no entry, so it is not known whether this batch was written before: exactlyOnce.id, transactionalIdPrefix or "
        "ledgerTopic was changed, the entry has expired after the brokers' offsets.retention.minutes, or "
        f"{has_none}. Check whether the batch's rows are in Kafka; if they are not, run the "
        f"{batch.program} once with onMissingLedger=write"
    )


def _why_of_another(batch: BatchId, entry: Entry) -> str:
    if batch.is_of_job:
        return f"the ledger belongs to query {entry.batch.query_id}, this is a batch job. Give the job an exactlyOnce.id of its own"
    if entry.batch.is_of_job:
        return f"the ledger belongs to batch jobs, this is query {batch.query_id}. Give the query an exactlyOnce.id of its own"
    return (
        f"the ledger belongs to query {entry.batch.query_id}, this is query {batch.query_id}. Two queries must not share an "
        "exactlyOnce.id. After a new checkpoint give another id: the query then writes the records from startingOffsets on again"
    )


def _why_ahead(batch: BatchId, entry: Entry) -> str:
    ahead = f"the ledger is ahead, at batch {entry.batch.number}"
    if batch.is_of_job:
        return (
            f"{ahead}: the numbers of exactlyOnce.batchId have to rise. If these rows were not written yet, give a higher number, or "
            "another exactlyOnce.id; if they were, onLedgerAhead=skip leaves them out, whatever rows the job has now"
        )
    return (
        f"{ahead}: the checkpoint is older than the last batch that was written (it was restored or copied), or two runs are active. To "
        f"continue from this checkpoint, give another exactlyOnce.id: then rows of the batches up to {entry.batch.number} may be written "
        "twice; or onLedgerAhead=skip: then batches up to that number are not written, even if they have new rows, which may be lost"
    )


def check_same_rows(batch: BatchId, rows: Rows, entry: Entry, policy: Policy, sink_id: str) -> bool:
    """Return whether a batch that was written before has the same rows now.

    rows: the rows that the batch has now. If they differ, return False with onOtherRows=skip; otherwise raise IllegalStateError.
    """
    if entry.rows == rows:
        return True
    if policy.other_rows == "skip":
        return False
    causes, otherwise = (
        ("Another job has used this exactlyOnce.batchId, the job reads other rows now", "give a higher exactlyOnce.batchId")
        if batch.is_of_job
        else (
            "The checkpoint is a copy or was restored, the query was changed, a schema registry has a newer schema now (name the one to "
            "write by the option value.avro.schema or the like)",
            "give another exactlyOnce.id, which writes this batch again",
        )
    )
    raise IllegalStateError(
        f"{called(sink_id, batch)}: the ledger says that this batch was written with other rows: {_shown(entry.rows)} then, {_shown(rows)} "
        f"now. {causes}, or its rows differ each time that they are computed, for example with rand() or uuid(): then run the "
        f"{batch.program} with onOtherRows=skip, which writes none of the rows that this batch has now, not even new rows. To write new "
        f"rows, {otherwise}"
    )


def called(sink_id: str, batch: BatchId) -> str:
    """Return the name of a batch for messages."""
    return f"exactly-once sink '{sink_id}', batch {batch.number}"


def _shown(rows: Rows) -> str:
    return f"{rows.count} (digest {rows.digest:016x})"
