"""Kafka, as far as the sink sees it: the transaction coordinator, the offsets of groups, and the rows that readers see.

Facts that decide, all observed on Kafka 3.9.2 (TV1) and 4.4.0 (TV2):

- InitProducerId aborts an open transaction and answers CONCURRENT_TRANSACTIONS until that is done. It waits for one that is prepared.
- EndTxn is answered when the transaction is prepared. Markers make it complete some time later.
- EndTxn v4 leaves the epoch as it is, so a late repetition may end the producer's next transaction. v5 raises it (KIP-890).
- A repeated EndTxn is answered truthfully only with the original epoch and the same version, and if the id has not been initialized again.
- A stable OffsetFetch answers UNSTABLE_OFFSET_COMMIT while a transaction may change the offset (KIP-447).
- Brokers of TV1 before Kafka 3.6 do not ask the coordinator whether a transaction is open before they append (KIP-890, first part).

All partitions are one here. A row is visible when its transaction is complete.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

NONE = "NONE"
CONCURRENT_TRANSACTIONS = "CONCURRENT_TRANSACTIONS"
UNSTABLE_OFFSET_COMMIT = "UNSTABLE_OFFSET_COMMIT"
PRODUCER_FENCED = "PRODUCER_FENCED"
INVALID_TXN_STATE = "INVALID_TXN_STATE"
INVALID_PRODUCER_ID_MAPPING = "INVALID_PRODUCER_ID_MAPPING"
RETRIABLE = frozenset({CONCURRENT_TRANSACTIONS, UNSTABLE_OFFSET_COMMIT})
CLASSIC_END, RAISING_END = 4, 5


class Row(NamedTuple):
    """A row of the source in a batch. plan: which rows the batch was planned with. version: which computation made it."""

    batch: int
    number: int
    plan: str = ""
    version: int = 0


class ProducerId(NamedTuple):
    """Who writes: Kafka's producer id and epoch."""

    number: int
    epoch: int


class Answer(NamedTuple):
    """What a request comes to. value: of requests that return something."""

    error: str
    value: Any = None


class Brokers(Enum):
    """Kinds of brokers."""

    UNVERIFIED = "TV1 before 3.6"
    TV1 = "TV1"
    TV2 = "TV2"


class State(Enum):
    """States of a transactional id, as Kafka names them."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


PREPARED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})


@dataclass(slots=True)
class Transaction:
    """A transactional id. previous: the epoch that the last InitProducerId replaced. appended: epochs and sequence numbers.

    epoch_in_log: the newest that partitions know, which learn of it by records and markers only. pending: offsets, by group. begun: how
    many transactions have begun, in place of the time.
    """

    producer: int
    epoch: int = 0
    previous: int = -1
    state: State = State.EMPTY
    rows: list[Row] = field(default_factory=list)
    pending: dict[str, Any] = field(default_factory=dict)
    appended: set[tuple[int, int]] = field(default_factory=set)
    epoch_in_log: int = 0
    begun: int = 0

    def open(self) -> None:
        """Begin a transaction, unless one is open."""
        self.begun += self.state is not State.ONGOING
        self.state = State.ONGOING


class Coordinator:
    """The requests that the sink makes, each answered at once, and what happens by itself."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.transactions: dict[str, Transaction] = {}
        self.offsets: dict[str, Any] = {}
        self.visible: Counter[Row] = Counter()
        self._producers = 0

    # Requests

    def init_producer_id(self, name: str, present: ProducerId | None = None) -> Answer:
        """present: the producer that asks, where it knows its id and epoch. A producer that was replaced gets an error (KIP-360)."""
        known = self.transactions.get(name)
        if known is None:
            if present is not None:
                return Answer(INVALID_PRODUCER_ID_MAPPING)
            self._producers += 1
            self.transactions[name] = Transaction(self._producers)
            return Answer(NONE, ProducerId(self._producers, 0))
        if present is not None and (present.number != known.producer or present.epoch not in (known.epoch, known.previous)):
            return Answer(PRODUCER_FENCED)
        if known.state in PREPARED:
            return Answer(CONCURRENT_TRANSACTIONS)
        if known.state is State.ONGOING:
            self.abort_by_coordinator(name)
            return Answer(CONCURRENT_TRANSACTIONS)
        if present is None or present.epoch == known.epoch:
            known.previous = known.epoch if present is not None else -1
            known.epoch += 1
            known.state = State.EMPTY
        return Answer(NONE, ProducerId(known.producer, known.epoch))

    def add_partitions(self, name: str, producer: ProducerId) -> Answer:
        """AddPartitionsToTxn and AddOffsetsToTxn of TV1, which are alike here."""
        refusal = self._refusal(name, producer)
        if refusal is None:
            self.transactions[name].open()
        return Answer(refusal or NONE)

    def produce(self, name: str, producer: ProducerId, sequence: int, rows: tuple[Row, ...]) -> Answer:
        """A sequence number that was appended before is not appended again."""
        refusal = self._refusal_of_write(name, producer)
        if refusal is not None:
            return Answer(refusal)
        known = self.transactions[name]
        if (producer.epoch, sequence) not in known.appended:
            known.appended.add((producer.epoch, sequence))
            known.rows.extend(rows)
            known.epoch_in_log = producer.epoch
        return Answer(NONE)

    def txn_offset_commit(self, name: str, producer: ProducerId, group: str, offset: Any) -> Answer:
        """Make a group's offset pending until the transaction ends."""
        refusal = self._refusal_of_write(name, producer)
        if refusal is not None:
            return Answer(refusal)
        known = self.transactions[name]
        known.pending[group] = offset
        known.epoch_in_log = producer.epoch
        return Answer(NONE)

    def end_txn(self, name: str, producer: ProducerId, commit: bool, version: int) -> Answer:
        """Return the epoch of the producer's next transaction."""
        known = self.transactions.get(name)
        if known is None or known.producer != producer.number:
            return Answer(INVALID_PRODUCER_ID_MAPPING)
        prepared, complete = (State.PREPARE_COMMIT, State.COMPLETE_COMMIT) if commit else (State.PREPARE_ABORT, State.COMPLETE_ABORT)
        ended = (
            version == RAISING_END
            and known.epoch == producer.epoch + 1
            and known.state is not State.ONGOING
            and known.state is not State.EMPTY
        )
        if known.epoch != producer.epoch and not ended:
            return Answer(PRODUCER_FENCED)
        if known.state is State.ONGOING:
            known.state = prepared
            known.epoch += version == RAISING_END
        elif known.state in PREPARED:
            return Answer(CONCURRENT_TRANSACTIONS if known.state is prepared else INVALID_TXN_STATE)
        elif known.state is not complete or (version == RAISING_END and not ended):
            return Answer(INVALID_TXN_STATE)
        return Answer(NONE, ProducerId(known.producer, known.epoch))

    def offset_fetch(self, group: str, stable: bool) -> Answer:
        """Return a group's offset, None without one."""
        if stable and any(group in known.pending for known in self.transactions.values()):
            return Answer(UNSTABLE_OFFSET_COMMIT)
        return Answer(NONE, self.offsets.get(group))

    def begun(self, name: str) -> Answer:
        """Return when the open transaction of a name began, None without one."""
        return Answer(NONE, self.transactions[name].begun if self._open(name) is not None else None)

    def delete_group(self, group: str) -> Answer:
        """Forget what a group has committed. Offsets that are pending stay so."""
        self.offsets.pop(group, None)
        return Answer(NONE)

    def describe_transactions(self, names: tuple[str, ...]) -> Answer:
        """Return the open transaction of each name, None without one."""
        return Answer(NONE, tuple(self._open(name) for name in names))

    def list_transactions(self) -> Answer:
        """Return the names with open transactions, and who has them."""
        return Answer(NONE, tuple((name, self._open(name)) for name in self.open_names()))

    # What happens by itself

    def write_markers(self) -> None:
        """Complete every transaction that is prepared."""
        for known in self.transactions.values():
            if known.state not in PREPARED:
                continue
            if known.state is State.PREPARE_COMMIT:
                self.visible.update(known.rows)
                self.offsets.update(known.pending)
            known.state = State.COMPLETE_COMMIT if known.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT
            known.rows.clear()
            known.pending.clear()
            known.epoch_in_log = known.epoch

    def abort_by_coordinator(self, name: str) -> None:
        """Abort what is open: transaction.timeout.ms has passed, or another producer initializes the name."""
        known = self.transactions[name]
        known.state = State.PREPARE_ABORT
        known.epoch += 1

    def expire(self, name: str) -> None:
        """Forget a name that was not used for transactional.id.expiration.ms."""
        del self.transactions[name]

    # What is seen from outside

    def open_names(self) -> list[str]:
        """Return the names with an open transaction."""
        return [name for name, known in self.transactions.items() if known.state is State.ONGOING]

    def held(self) -> list[str]:
        """Return the names whose records, or pending offset, keep readers waiting."""
        return [name for name, known in self.transactions.items() if known.state is State.ONGOING or known.rows or known.pending]

    def _open(self, name: str) -> ProducerId | None:
        known = self.transactions.get(name)
        return ProducerId(known.producer, known.epoch) if known is not None and known.state is State.ONGOING else None

    def _refusal(self, name: str, producer: ProducerId) -> str | None:
        known = self.transactions.get(name)
        if known is None or known.producer != producer.number:
            return INVALID_PRODUCER_ID_MAPPING
        if known.epoch != producer.epoch:
            return PRODUCER_FENCED
        return CONCURRENT_TRANSACTIONS if known.state in PREPARED else None

    def _refusal_of_write(self, name: str, producer: ProducerId) -> str | None:
        known = self.transactions.get(name)
        if self.brokers is Brokers.UNVERIFIED and known is not None and known.producer == producer.number:
            return PRODUCER_FENCED if producer.epoch < known.epoch_in_log else None
        refusal = self._refusal(name, producer)
        if refusal is None and known is not None and known.state is not State.ONGOING:
            if self.brokers is Brokers.TV1:
                return INVALID_TXN_STATE
            known.open()
        return refusal
