"""What the sink calls things: a micro-batch, its rows, and the slots that its tasks write."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from levada.types import TransactionHandle

RUN_SIZE = 8
"""Characters of a run's id that its slots are called by."""
_NAME = re.compile(r"(?P<sink>.+)~(?P<run>[0-9a-f]{8})\.(?P<parity>[01])\.(?P<task>\d{1,10})\.(?P<attempt>\d{1,5})")


@dataclass(frozen=True)
class BatchId:
    """A micro-batch as the sink knows it. query_id: empty for a batch number that a program gives. run_id: changes with each start."""

    query_id: str
    run_id: str
    number: int

    @property
    def is_of_job(self) -> bool:
        """Whether a batch job writes it: there is no streaming query, and no checkpoint."""
        return not self.query_id

    @property
    def program(self) -> str:
        """What is to be run again, as messages call it."""
        return "job" if self.is_of_job else "query"


@dataclass(frozen=True)
class Rows:
    """What tells the rows of a batch from others: how many there are, and a digest that does not depend on order or division."""

    count: int
    digest: int

    def __add__(self, other: Rows) -> Rows:
        return Rows(self.count + other.count, (self.digest + other.digest) % 2**64)


NO_ROWS = Rows(0, 0)


class SlotName(NamedTuple):
    """Names a slot: its transactional id, and the group whose offset tells what became of it.

    Coordinators remember an id for days, so a run has few of them. Batches in a row have different ones: a driver that was paused must not
    take a slot of the next batch for one of its own.
    """

    run: str
    parity: int
    task: int
    attempt: int

    @classmethod
    def of(cls, batch: BatchId, task: int, attempt: int) -> SlotName:
        """Return the name of the slot that a task's attempt writes."""
        return cls(batch.run_id[:RUN_SIZE], batch.number % 2, task, attempt)

    def within(self, sink: str) -> str:
        """Return the name in full. sink: the transactional id of the driver."""
        # No exactlyOnce.id has a '~', so no sink is called like another one's slot.
        return f"{sink}~{self.run}.{self.parity}.{self.task}.{self.attempt}"


def parsed(transactional_id: str) -> tuple[str, SlotName] | None:
    """Return the sink that a transactional id is a slot of, and the slot's name; None for other ids."""
    match = _NAME.fullmatch(transactional_id)
    if match is None:
        return None
    return match["sink"], SlotName(match["run"], int(match["parity"]), int(match["task"]), int(match["attempt"]))


def sink_of_group(group: str) -> str:
    """Return the sink that a group would be of: as its ledger, as what continues the ledger, or as what tells of a slot."""
    return group.partition("~")[0]


def is_of(transactional_id: str, batch: BatchId) -> bool:
    """Whether a slot may be of a batch, by whichever run, and not of the one before or after it."""
    slot = parsed(transactional_id)
    return slot is not None and slot[1].parity == batch.number % 2


class Slot(NamedTuple):
    """What a task has written. handle: ends it. rows: what it has."""

    name: SlotName
    handle: TransactionHandle
    rows: Rows
