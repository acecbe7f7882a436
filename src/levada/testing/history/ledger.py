"""Index of a history's events by record and transaction. The checks read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from levada.testing.history.events import UNKNOWN, Event, Found, History, Op, Type
from levada.testing.history.group_ledger import GroupLedger
from levada.types import TopicPartition

_OPERATIONS = (Op.SEND, Op.BEGIN, Op.COMMIT, Op.ABORT)
_ABOUT_GROUPS = (Op.ASSIGN, Op.REVOKE, Op.OFFSETS, Op.COMMITTED)


class Decision(Enum):
    """The outcome of a transaction, as far as the history shows it."""

    COMMITTED = "committed"
    NOT_COMMITTED = "not committed"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Operation:
    """An operation of a process: the event at its beginning and the event at its end. ended: None if the history has no end."""

    begun: Event
    ended: Event | None = None

    @property
    def outcome(self) -> Type:
        """The outcome of the operation; INFO, which stands for unknown, if it has no end."""
        return Type.INFO if self.ended is None else self.ended.type

    @property
    def value(self) -> int:
        """The value that a SEND sends."""
        return self.begun.value

    @property
    def place(self) -> Found | None:
        """The partition and offset at which a SEND was acknowledged; None if it was not, or if the acknowledgement had no offset."""
        end = self.ended
        if end is None or end.type is not Type.OK or end.offset == UNKNOWN:
            return None
        return Found(end.topic, end.partition, end.offset, end.value)

    def __str__(self) -> str:
        end = "no end" if self.ended is None else f"{self.ended.type.value} at {self.ended.at_ms} ms {self.ended.text}".rstrip()
        return f"{self.begun.op.value} begun at {self.begun.at_ms} ms, {end}"


@dataclass(slots=True)
class Transaction:
    """A transaction with its sends, and with its commits and aborts, which may be repeated; all in the order in which they began."""

    number: int
    sends: list[Operation] = field(default_factory=list)
    commits: list[Operation] = field(default_factory=list)
    aborts: list[Operation] = field(default_factory=list)

    @property
    def decision(self) -> Decision:
        """COMMITTED if a commit succeeded; NOT_COMMITTED if an abort succeeded, if no commit was requested, or if all commits certainly
        failed; otherwise UNKNOWN.
        """
        commits = {commit.outcome for commit in self.commits}
        if Type.OK in commits:
            return Decision.COMMITTED
        aborted = any(abort.outcome is Type.OK for abort in self.aborts)
        return Decision.NOT_COMMITTED if aborted or commits <= {Type.FAIL} else Decision.UNKNOWN

    @property
    def commit_begun_ms(self) -> int | None:
        """The time at which its commit was first requested, None if it was never requested."""
        return min((commit.begun.at_ms for commit in self.commits), default=None)


class Ledger:
    """The operations in a history, indexed for the checks. Raises ValueError for an end without a beginning, and for a value sent twice.

    groups: the events of consumer groups. end_ms: the time of the last event. operations: SEND, BEGIN, COMMIT and ABORT. sends: the sends
    by value. transactions: the transactions by number. crashed: the numbers of killed processes. polls, faults, processes: the events POLL,
    FAULT and PROCESS, in order of time.
    """

    def __init__(self, history: History) -> None:
        self.groups = GroupLedger(history.events)
        self.end_ms = history.events[-1].at_ms if history.events else 0
        self.operations: list[Operation] = []
        self.sends: dict[int, Operation] = {}
        self.transactions: dict[int, Transaction] = {}
        self.polls: list[Event] = []
        self.faults: list[Event] = []
        self.processes: list[Event] = []
        self.crashed: set[int] = set()
        self._open: dict[tuple[int, Op, int], Operation] = {}
        for event in history.events:
            self._take(event)

    def transaction_of(self, value: int) -> Transaction | None:
        """Return the transaction in which a value was sent; None if it was sent outside of a transaction or is unknown."""
        return self.transactions.get(self.sends[value].begun.transaction) if value in self.sends else None

    def acknowledged(self) -> Iterator[Operation]:
        """Yield every send that was acknowledged."""
        return (send for send in self.sends.values() if send.outcome is Type.OK)

    def _take(self, event: Event) -> None:
        if event.op in _OPERATIONS:
            self._take_operation(event)
        elif event.op is Op.CRASH:
            self.crashed.add(event.process)
        elif event.op not in _ABOUT_GROUPS:
            {Op.POLL: self.polls, Op.FAULT: self.faults, Op.PROCESS: self.processes}[event.op].append(event)

    def _take_operation(self, event: Event) -> None:
        key = (event.process, event.op, event.value if event.op is Op.SEND else event.transaction)
        if event.type is not Type.INVOKE:
            operation = self._open.pop(key, None)
            if operation is None:
                raise ValueError(f"an end without a beginning: {event.to_json()}")
            operation.ended = event
            return
        if event.op is Op.SEND and event.value in self.sends:
            raise ValueError(f"a value is sent once; this one was sent before: {event.to_json()}")
        operation = self._open[key] = Operation(event)
        self.operations.append(operation)
        self._file(operation)

    def _file(self, operation: Operation) -> None:
        event = operation.begun
        if event.op is Op.SEND:
            self.sends[event.value] = operation
        if event.transaction == UNKNOWN:
            return
        transaction = self.transactions.setdefault(event.transaction, Transaction(event.transaction))
        lists = {Op.SEND: transaction.sends, Op.COMMIT: transaction.commits, Op.ABORT: transaction.aborts}
        if event.op in lists:
            lists[event.op].append(operation)


def by_place(found: Found) -> tuple[TopicPartition, int]:
    """Return a record's partition and offset, as a sort key."""
    return found.tp, found.offset
