"""Names and identities: a micro-batch, its rows, and the slots that its tasks write."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from levada.types import TransactionHandle

DEFAULT_PREFIX = "levada-"
"""The default of transactionalIdPrefix, with which the name of a sink begins."""
RUN_SIZE = 8
"""The number of characters of a run's id that are part of the names of its slots."""
_NAME = re.compile(r"(?P<sink>.+)~(?P<run>[0-9a-f]{8})\.(?P<parity>[01])\.(?P<task>\d{1,10})\.(?P<attempt>\d{1,5})")


@dataclass(frozen=True)
class BatchId:
    """Identifies a micro-batch. query_id: "" for a batch job and with exactlyOnce.batchId. run_id: changes with each start."""

    query_id: str
    run_id: str
    number: int

    @property
    def is_of_job(self) -> bool:
        """Whether a batch job writes the batch, without a checkpoint. A write with exactlyOnce.batchId counts as a batch job."""
        return not self.query_id

    @property
    def program(self) -> str:
        """The word for the program in messages: "job" or "query"."""
        return "job" if self.is_of_job else "query"


@dataclass(frozen=True)
class Rows:
    """Identifies the rows of a batch. count: their number. digest: does not depend on their order or their division among tasks."""

    count: int
    digest: int

    def __add__(self, other: Rows) -> Rows:
        return Rows(self.count + other.count, (self.digest + other.digest) % 2**64)


NO_ROWS = Rows(0, 0)


class SlotName(NamedTuple):
    """Names a slot: its transactional id, and the group whose offset shows whether its transaction was committed.

    Coordinators keep a transactional id for days, so a run uses few of them. Consecutive batches use different ids: a driver that was
    paused must not mistake a slot of the next batch for a slot of its own batch.
    """

    run: str
    parity: int
    task: int
    attempt: int

    @classmethod
    def of(cls, batch: BatchId, task: int, attempt: int) -> SlotName:
        """Return the name of the slot for an attempt of a task."""
        return cls(batch.run_id[:RUN_SIZE], batch.number % 2, task, attempt)

    def within(self, sink: str) -> str:
        """Return the slot's transactional id. sink: the sink's name, which is the driver's transactional id."""
        # An exactlyOnce.id cannot contain '~', so the name of a sink never equals the name of another sink's slot.
        return f"{sink}~{self.run}.{self.parity}.{self.task}.{self.attempt}"


def parsed(transactional_id: str) -> tuple[str, SlotName] | None:
    """Return the sink's name and the slot's name for the transactional id of a slot. None for other ids."""
    match = _NAME.fullmatch(transactional_id)
    if match is None:
        return None
    return match["sink"], SlotName(match["run"], int(match["parity"]), int(match["task"]), int(match["attempt"]))


def sink_of_group(group: str) -> str:
    """Return the name of the sink that would own a group. A sink's groups hold its ledger, or the outcome of a slot."""
    return group.partition("~")[0]


def is_of(transactional_id: str, batch: BatchId) -> bool:
    """Whether this is the id of a slot that may belong to the batch, of any run. False for slots of the previous and the next batch."""
    slot = parsed(transactional_id)
    return slot is not None and slot[1].parity == batch.number % 2


class Slot(NamedTuple):
    """A transaction that a task has written. handle: to commit or abort the transaction. rows: number and digest of its rows."""

    name: SlotName
    handle: TransactionHandle
    rows: Rows
