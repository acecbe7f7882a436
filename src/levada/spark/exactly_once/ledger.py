"""What the ledger says of a sink's last batch, and what follows from it for the batch that Spark wants committed.

The ledger is the committed offset of a consumer group without members: its offset is the id of the last batch that was decided, its
metadata say which run of which query has written it, and what rows it had. Reading it is stable (KIP-447), so a transaction that may
change it has ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from levada.errors import CorruptRecordError, IllegalStateError

if TYPE_CHECKING:
    from levada.types import OffsetAndMetadata, TopicPartition

VERSION = 1


@dataclass(frozen=True)
class BatchId:
    """A micro-batch as the sink knows it. query_id: empty for a batch number that a program gives. run_id: changes with each start."""

    query_id: str
    run_id: str
    number: int


@dataclass(frozen=True)
class Rows:
    """What tells the rows of a batch from others: how many there are, and a digest that does not depend on order or division."""

    count: int
    digest: int

    def __add__(self, other: Rows) -> Rows:
        return Rows(self.count + other.count, (self.digest + other.digest) % 2**64)


NO_ROWS = Rows(0, 0)


@dataclass(frozen=True)
class Entry:
    """The last batch that was decided."""

    batch: BatchId
    rows: Rows

    @property
    def metadata(self) -> str:
        """What is stored beside the offset."""
        return json.dumps(
            {
                "v": VERSION,
                "query": self.batch.query_id,
                "run": self.batch.run_id,
                "rows": self.rows.count,
                "digest": f"{self.rows.digest:016x}",
            },
            separators=(",", ":"),
        )


def newest(committed: Mapping[TopicPartition, OffsetAndMetadata | None], group: str) -> Entry | None:
    """Return the entry of a group's committed offsets, None without one. Of several, as after a change of the ledger's topic, the newest.

    Raises CorruptRecordError for offsets that no sink has committed.
    """
    entries = [_entry(offset, f"group '{group}', {tp}") for tp, offset in committed.items() if offset is not None]
    return max(entries, key=lambda entry: entry.batch.number, default=None)


def _entry(offset: OffsetAndMetadata, where: str) -> Entry:
    try:
        said: Any = json.loads(offset.metadata)
        if said["v"] == VERSION:
            batch = BatchId(str(said["query"]), str(said["run"]), offset.offset)
            return Entry(batch, Rows(int(said["rows"]), int(said["digest"], 16)))
        why = f"version {said['v']!r} of the ledger is not known to this levada"
    except (ValueError, TypeError, KeyError) as fault:
        why = f"no sink has written it ({fault!r})"
    raise CorruptRecordError(
        f"ledger of the exactly-once sink ({where}): cannot use the committed offset {offset.offset} with metadata "
        f"{offset.metadata[:100]!r}: {why}; give another exactlyOnce.id, or a group id of its own by transactionalIdPrefix"
    )


class Verdict(Enum):
    """What is to be done with a batch."""

    WRITE = "write it"
    WRITE_UNPROVEN = "write it, although the ledger cannot prove that it is new"
    SKIP = "it was written before"
    SKIP_OTHER_ROWS = "it was written before, with other rows"
    SKIP_AHEAD = "a later batch was written before"


@dataclass(frozen=True)
class Policy:
    """What is to be done where the ledger does not decide. Each is the option of its name, as given or by default.

    missing: warn, fail or write. ahead, other_rows: fail or skip.
    """

    missing: str = "warn"
    ahead: str = "fail"
    other_rows: str = "fail"


def judge(batch: BatchId, rows: Rows, entry: Entry | None, policy: Policy, sink_id: str) -> Verdict:
    """Decide what to do with a batch. Raises IllegalStateError where neither writing nor skipping would be right."""
    name = f"exactly-once sink '{sink_id}', batch {batch.number}"
    if entry is None:
        if batch.number == 0 or policy.missing == "write":
            return Verdict.WRITE
        if policy.missing == "warn":
            return Verdict.WRITE_UNPROVEN
        raise IllegalStateError(
            f"{name}: the ledger has no entry, so it cannot be known whether this batch was written before; it expires after the brokers' "
            "offsets.retention.minutes, and a query that did not write exactly once so far has none. Look whether the batch's rows are in "
            "Kafka; if they are not, run the query once with onMissingLedger=write"
        )
    if entry.batch.query_id != batch.query_id:
        raise IllegalStateError(
            f"{name}: the ledger belongs to query {entry.batch.query_id or '(none)'}, this is query {batch.query_id or '(none)'}. Two "
            "queries must not share an exactlyOnce.id; after a new checkpoint give another one"
        )
    if entry.batch.number > batch.number:
        if policy.ahead == "skip":
            return Verdict.SKIP_AHEAD
        raise IllegalStateError(
            f"{name}: the ledger is ahead, at batch {entry.batch.number}: the checkpoint is older than what was written (it was restored "
            "or copied), or two runs are alive. To go on from this checkpoint, either give another exactlyOnce.id, and rows of the "
            f"batches up to {entry.batch.number} may be written twice, or onLedgerAhead=skip, and these batches are not written again, "
            "whatever they have now"
        )
    if entry.batch.number < batch.number:
        return Verdict.WRITE
    if entry.batch.run_id == batch.run_id:
        raise IllegalStateError(
            f"{name}: this run has written this batch already: rows of two writes would be taken for one. Give each write within a "
            "foreachBatch an exactlyOnce.id of its own; these rows are not written"
        )
    if entry.rows == rows:
        return Verdict.SKIP
    if policy.other_rows == "skip":
        return Verdict.SKIP_OTHER_ROWS
    raise IllegalStateError(
        f"{name}: the ledger says that this batch was written with other rows: {_shown(entry.rows)} then, {_shown(rows)} now. The "
        "checkpoint is a copy, the query was changed, or its rows differ each time that they are computed, as with rand() or uuid(). If "
        "the rows that are in Kafka are right, run the query with onOtherRows=skip; if not, give another exactlyOnce.id"
    )


def _shown(rows: Rows) -> str:
    return f"{rows.count} (digest {rows.digest:016x})"
