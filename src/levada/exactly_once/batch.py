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
        """What the user has to run again, in the words of messages: "job" or "query"."""
        return "job" if self.is_of_job else "query"


@dataclass(frozen=True)
class Rows:
    """Identifies the rows of a batch: their number, and a digest that depends neither on their order nor on how tasks divide them."""

    count: int
    digest: int

    def __add__(self, other: Rows) -> Rows:
        return Rows(self.count + other.count, (self.digest + other.digest) % 2**64)


NO_ROWS = Rows(0, 0)


class SlotName(NamedTuple):
    """Names a slot: its transactional id, and the group whose offset shows whether its transaction was committed.

    Coordinators remember a transactional id for days, so a run has few of them. Consecutive batches use different ids: a driver that was
    paused must not mistake a slot of the next batch for one of its own.
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
        """Return the slot's transactional id, which begins with the sink's name. sink: that name, the driver's transactional id."""
        # No exactlyOnce.id has a '~', so no sink is called like another one's slot.
        return f"{sink}~{self.run}.{self.parity}.{self.task}.{self.attempt}"


def parsed(transactional_id: str) -> tuple[str, SlotName] | None:
    """Return the sink that a transactional id is a slot of, and the slot's name; None for other ids."""
    match = _NAME.fullmatch(transactional_id)
    if match is None:
        return None
    return match["sink"], SlotName(match["run"], int(match["parity"]), int(match["task"]), int(match["attempt"]))


def sink_of_group(group: str) -> str:
    """Return the sink to which a group belongs, if it belongs to one. A sink's groups hold its ledger, or the outcome of a slot."""
    return group.partition("~")[0]


def is_of(transactional_id: str, batch: BatchId) -> bool:
    """Whether a slot may belong to a batch, of any run, and not to the previous or next batch."""
    slot = parsed(transactional_id)
    return slot is not None and slot[1].parity == batch.number % 2


class Slot(NamedTuple):
    """The transaction that a task has written. handle: commits or aborts it. rows: the number and digest of its rows."""

    name: SlotName
    handle: TransactionHandle
    rows: Rows
