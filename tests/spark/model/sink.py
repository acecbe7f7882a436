"""The protocol of the sink, by rules with names. A mutant is the protocol without one of them.

A process is a generator: it yields a request and is sent the answer, or None where none came. Decisions about the batch are taken in
`Sink.commit`, in one transaction of one transactional id (the marker), whose offset is the ledger's entry. A slot is a transaction that a
task has written and left open; the driver ends it after the decision.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from .coordinator import (
    CLASSIC_END,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    NONE,
    PRODUCER_FENCED,
    RAISING_END,
    RETRIABLE,
    Answer,
    Brokers,
    ProducerId,
    Row,
)

MARKER = "marker"
LEDGER = "ledger"
REPEATS = 1
"""How often a request without an answer is sent again. The client does so for minutes; twice what may happen once shows no more."""

PATIENCE = 3
"""How often one is sent again that was answered with a retriable error."""

RULES = {
    # of every batch
    "ledger": "a batch that the ledger has is not written again",
    "one transaction": "rows and ledger are written in one transaction",
    "initialize first": "the ledger is read after the marker was initialized, which fences every driver that may change it",
    "fenced raises": "a driver that was fenced raises, or reads the ledger again, and does not just initialize and write",
    "unknown is asked again": "an EndTxn without an answer is not taken for a commit",
    "initialize after a lost request": "on TV1 a marker that lost a request is initialized before its next transaction",
    "initialize as the present producer": "it is initialized then as the producer that read the ledger, and not as a new one",
    "own batch": "a process refuses a batch that it has written itself, whatever others have made of the ledger since",
    "own run": "a batch that this very run has written is a second write, and raises",
    "claim": "whoever skips a batch writes its own run into the ledger, so that a second write is seen after a restart, too",
    "digests": "a batch is skipped only with the rows that the ledger has of it",
    "ahead": "a ledger that is ahead of the batch raises",
    "query": "a ledger of another query raises",
    "missing": "a batch that misses its ledger raises, unless it is the first one",
    "first entry": "the first batch is written into the ledger although it has no rows, so that no later one misses its ledger",
    # of slots
    "describe": "slots are looked at just before the decision",
    "end after the decision": "no slot is committed before the decision",
    "slots of the ledger": "a replay commits the slots that the ledger names, not its own",
    "ids of the run": "slots of different runs have different ids",
    "parity": "slots of one batch and the next have different ids",
    "abort looks": "abort() reads the ledger before it aborts a slot",
    "stable": "abort() waits until no open transaction may change the ledger",
    "end as written": "EndTxn is repeated with the version that the ledger names",
    "outcome": "a slot commits an offset of its own, which tells whether it was committed when EndTxn does not",
    "one slot": "at the decision a slot's transaction is the one that its task began: nobody has aborted that in between",
    "outcome first": "the outcome of a slot is sent before its rows, so that a transaction that a late request has begun has none",
    "finished": "once its slots are committed the ledger says so, as slots of a later batch of the run may have the same names",
    "same division": "a lost slot is written again only where its task has the same rows as before",
    "inline once": "rows that the decision carried are not written again with a lost slot",
    "clean afterwards": "slots of older runs are aborted after the own decision only",
    "listed before": "what is aborted then was open before the decision",
    "repeated only": "after a batch that was only repeated, slots of the next batch are not aborted: a successor may be at that one",
}


class Ask(NamedTuple):
    """A request to the coordinator: a method, and what it is given. task: whether a task sends it."""

    call: str
    arguments: tuple[Any, ...]
    task: bool = False


class Wait(NamedTuple):
    """The answer was retriable: go on when the brokers are done."""


Steps = Generator[Any, Any, Any]


class Failed(Exception):
    """The call raises, Spark ends the query, and a new run may succeed."""


class Fenced(Failed):
    """Brokers refused a producer id and epoch."""


class Unanswered(Failed):
    """Nobody answered."""


class Refused(Failed):
    """The call raises, and every further run does so until somebody decides."""


class Undecidable(Refused):
    """The batch was decided, a slot of it is lost, and its rows cannot be written again."""


class Handle(NamedTuple):
    """Names a slot. version: of the EndTxn that ends it."""

    name: str
    producer: ProducerId
    version: int


class Message(NamedTuple):
    """What a task tells the driver. handle: None where the rows are in the message. begun: when its transaction began."""

    rows: tuple[Row, ...]
    handle: Handle | None = None
    begun: int | None = None


class Entry(NamedTuple):
    """The ledger. parts: by task, with their handles. is_finished: they are committed. The rows stand for their digest."""

    batch: int
    query: str
    run: int
    parts: tuple[Message, ...]
    is_finished: bool = False

    @property
    def rows(self) -> list[Row]:
        """All rows, in an order of their own."""
        return sorted(row for part in self.parts for row in part.rows)


class Batch(NamedTuple):
    """A micro-batch as Spark tells it to the sink."""

    number: int
    query: str
    run: int


class Policy(NamedTuple):
    """The options of the sink that the model has. lost_by: answers that mean a lost slot, where slots have no outcome of their own."""

    missing: str = "fail"
    other_rows: str = "fail"
    lost_by: frozenset[str] = frozenset({INVALID_TXN_STATE})


def _parity_of(name: str) -> int:
    """Return the parity of the batch that a slot was written for."""
    parity = name.split("-")[2]
    return int(parity) if parity.isdigit() else 0


def _committed(parts: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the parts of a batch whose slots are known to be committed: nobody needs to end them any more."""
    return tuple(part._replace(handle=None) for part in parts)


class Client:
    """A transactional producer.

    written: the entry of its last transaction, None if that was not committed. has_begun: whether brokers have taken an entry from it.
    """

    def __init__(self, brokers: Brokers, name: str, producer: ProducerId) -> None:
        self.brokers = brokers
        self.name = name
        self.producer = producer
        self.written: Entry | None = None
        self.has_begun = False
        self.has_lost = False
        self._sequence = 0
        self._added: set[int | str] = set()

    @property
    def version(self) -> int:
        """The version of EndTxn that it uses."""
        return RAISING_END if self.brokers is Brokers.TV2 else CLASSIC_END

    def initialize(self) -> Steps:
        """Raise the epoch, as the producer that it is."""
        self.producer = yield from self._asked("init_producer_id", self.producer)
        self.has_lost = False
        self._sequence = 0

    def write(self, rows: tuple[Row, ...], partition: int = 0, task: bool = False) -> Steps:
        """Write rows in the open transaction, or begin one."""
        yield from self._add(partition, task)
        self._sequence += 1
        yield from self._asked("produce", self.producer, self._sequence, rows, task=task)

    def write_offset(self, group: str, offset: Any, task: bool = False) -> Steps:
        """Write a group's offset."""
        yield from self._add(group, task)
        yield from self._asked("txn_offset_commit", self.producer, group, offset, task=task)

    def end(self, commit: bool) -> Steps:
        """End the transaction. Raises Unanswered where it is not known whether that was done."""
        self.producer = yield from self._asked("end_txn", self.producer, commit, self.version)
        self._added.clear()

    def _add(self, to: int | str, task: bool) -> Steps:
        if self.brokers is not Brokers.TV2 and to not in self._added:
            yield from self._asked("add_partitions", self.producer, task=task)
            self._added.add(to)

    def _asked(self, call: str, *arguments: Any, task: bool = False) -> Steps:
        answer = yield from ask(call, self.name, *arguments, task=task, client=self)
        if answer.error in (PRODUCER_FENCED, INVALID_PRODUCER_ID_MAPPING):
            raise Fenced(f"{call}: {answer.error}")
        if answer.error != NONE:
            raise Failed(f"{call}: {answer.error}")
        return answer.value


def ask(call: str, *arguments: Any, task: bool = False, client: Client | None = None) -> Steps:
    """Send a request until it is answered otherwise than with a retriable error. Raises Unanswered, and Failed when that takes long."""
    silent = waited = 0
    request = Ask(call, arguments, task)
    while True:
        answer: Answer | None = yield request
        if answer is None:
            if client is not None:
                client.has_lost = True
            silent += 1
            if silent > REPEATS:
                raise Unanswered(call)
        elif answer.error in RETRIABLE:
            waited += 1
            if waited > PATIENCE:
                raise Failed(f"{call}: {answer.error} for too long")
            yield Wait()
        else:
            return answer


class Sink:
    """The sink of a run. without: rules that a mutant lacks. slots: which tasks write slots, in order.

    processes: how many processes commit the batches of the run, in turn. Each keeps its producer and the entry that it wrote.
    """

    def __init__(
        self, brokers: Brokers, run: int, policy: Policy, without: frozenset[str], slots: tuple[bool, ...], processes: int = 1
    ) -> None:
        self._brokers = brokers
        self._run = run
        self._policy = policy
        self._without = without
        self._slots = slots
        self._processes = processes
        self._commits = 0
        self._markers: dict[int, Client] = {}

    def has(self, rule: str) -> bool:
        """Whether a rule is followed."""
        return rule not in self._without

    # In a task

    def task(self, batch: Batch, number: int, attempt: int, rows: tuple[Row, ...]) -> Steps:
        """Return the message of a task."""
        if not self._slots[number] or not rows:
            return Message(rows)
        run = str(self._run) if self.has("ids of the run") else "x"
        parity = batch.number % 2 if self.has("parity") else "x"
        name = f"slot-{run}-{parity}-{number}-{attempt}"
        answer = yield from ask("init_producer_id", name, task=True)
        client = Client(self._brokers, name, answer.value)
        if self.has("outcome") and self.has("outcome first"):
            yield from client.write_offset(name, batch.number, task=True)
        begun = (yield from ask("begun", name, task=True)).value if self.has("outcome first") else None
        for partition, row in enumerate(rows):
            yield from client.write((row,), partition, task=True)
        if self.has("outcome") and not self.has("outcome first"):
            yield from client.write_offset(name, batch.number, task=True)
        return Message(rows, Handle(name, client.producer, client.version), begun)

    # In the driver

    def commit(self, batch: Batch, messages: Sequence[Message | None]) -> Steps:
        """Write the batch, exactly once. Raises Failed."""
        known = [message for message in messages if message is not None]
        if len(known) < len(messages):
            raise Refused("a task wrote nothing")
        has_rows = any(message.rows for message in known)
        if not has_rows and not (yield from self._concerns(batch)):
            return
        process = self._commits % self._processes
        self._commits += 1
        marker = self._markers.pop(process, None)
        if marker is None or not has_rows or not (yield from self._try_to_continue(marker, batch, tuple(known))):
            marker = yield from self._commit(batch, tuple(known))
        self._markers[process] = marker

    def abort(self, batch: Batch, messages: Sequence[Message | None]) -> Steps:
        """Undo what is not decided, and finish what is. Raises Failed."""
        slots = [message for message in messages if message is not None and message.handle is not None]
        if not any(self._slots):
            return
        if self.has("abort looks"):
            entry = yield from self._ledger_after_the_dead(self.has("stable"))
            if entry is not None and entry.batch >= batch.number:
                if entry.batch == batch.number:
                    yield from self._roll_forward(entry)
                slots = [] if entry.run == batch.run else slots
        yield from self._abort_slots(slots)

    def _concerns(self, batch: Batch) -> Steps:
        """Whether a batch without rows has to be written into the ledger."""
        entry = yield from self._ledger_after_the_dead(True)
        if entry is None:
            return batch.number == 0 and self.has("first entry")
        return entry.batch == batch.number and entry.run != batch.run

    def _try_to_continue(self, marker: Client, batch: Batch, messages: tuple[Message, ...]) -> Steps:
        """Write the batch with the producer and the entry of the batch before. False, with nothing written, if that is not possible."""
        last = marker.written
        if last is None:
            return False
        if last.batch >= batch.number and self.has("own batch"):
            raise Refused("this process has written the batch")
        if any(message.handle is not None for message in (*messages, *last.parts)):
            return False
        if marker.has_lost and self._brokers is not Brokers.TV2 and self.has("initialize after a lost request"):
            return False
        try:
            decision = Entry(batch.number, batch.query, batch.run, messages)
            yield from self._decide(marker, [message.rows for message in messages if message.rows], decision)
        except Fenced:
            if marker.has_begun:
                raise
            return False
        return True

    def _commit(self, batch: Batch, messages: tuple[Message, ...]) -> Steps:
        """Write the batch, and return the marker that did."""
        if self.has("initialize first"):
            marker = yield from self._initialized()
            entry = yield from self._ledger(True)
        else:
            entry = yield from self._ledger(False)
            marker = yield from self._initialized()
        listed = yield from self._listed(messages, entry)
        if not self.has("clean afterwards"):
            yield from self._clean(listed)
        if self.has("ledger") and self._is_written(batch, messages, entry):
            yield from self._replay(marker, batch, messages, entry)
            if self.has("clean afterwards"):
                yield from self._clean(
                    [found for found in listed if _parity_of(found[0]) == batch.number % 2 or not self.has("repeated only")]
                )
            yield from self._forget_outcomes(entry)
            return marker
        yield from self._check_slots(messages)
        if not self.has("end after the decision"):
            yield from self._roll_forward(Entry(batch.number, batch.query, batch.run, messages))
        decision = Entry(batch.number, batch.query, batch.run, messages)
        yield from self._decide(marker, [message.rows for message in messages if message.handle is None and message.rows], decision)
        lost = yield from self._roll_forward(decision, just_decided=True)
        if lost:
            raise Failed("a slot is lost; the next run writes it again")
        yield from self._finish(marker, decision)
        if not self.has("listed before"):
            listed = yield from self._listed(messages, decision)
        if self.has("clean afterwards"):
            yield from self._clean(listed)
        yield from self._forget_outcomes(entry)
        return marker

    def _initialized(self) -> Steps:
        answer = yield from ask("init_producer_id", MARKER)
        return Client(self._brokers, MARKER, answer.value)

    def _ledger(self, stable: bool) -> Steps:
        answer = yield from ask("offset_fetch", LEDGER, stable)
        return answer.value

    def _ledger_after_the_dead(self, stable: bool) -> Steps:
        """Return the ledger. If the transaction of another driver may change it for long, abort that transaction."""
        try:
            return (yield from self._ledger(stable))
        except Failed:
            yield from self._initialized()
            return (yield from self._ledger(stable))

    def _is_written(self, batch: Batch, messages: tuple[Message, ...], entry: Entry | None) -> bool:
        """Whether the ledger has the batch. Raises Refused where neither writing nor skipping would be right."""
        if entry is None:
            if batch.number > 0 and self._policy.missing == "fail" and self.has("missing"):
                raise Refused("the ledger is missing")
            return False
        if entry.query != batch.query and self.has("query"):
            raise Refused("the ledger is of another query")
        if entry.batch > batch.number:
            if self.has("ahead"):
                raise Refused("the ledger is ahead")
            return False
        if entry.batch < batch.number:
            return False
        if entry.run == batch.run and self.has("own run"):
            raise Refused("this run has written the batch")
        return True

    def _replay(self, marker: Client, batch: Batch, messages: tuple[Message, ...], entry: Entry) -> Steps:
        """Finish a batch that an earlier run has decided."""
        decided = entry if self.has("slots of the ledger") else entry._replace(parts=messages)
        lost = yield from self._roll_forward(decided)
        if not lost:
            if self.has("slots of the ledger"):
                yield from self._abort_slots(messages)
            self._compare(messages, entry)
            if self.has("claim"):
                yield from self._decide(marker, [], entry._replace(run=batch.run, parts=_committed(entry.parts)))
            return
        same = all(messages[number].rows == entry.parts[number].rows for number in lost)
        if not same and self.has("same division"):
            yield from self._abort_slots(messages)
            raise Undecidable("a slot is lost, and its rows cannot be told from others")
        yield from self._repair(marker, batch, messages, entry, lost)

    def _compare(self, messages: tuple[Message, ...], entry: Entry) -> None:
        rows = sorted(row for message in messages for row in message.rows)
        if rows != entry.rows and self.has("digests") and self._policy.other_rows == "fail":
            raise Refused("the batch was written with other rows")

    def _repair(self, marker: Client, batch: Batch, messages: tuple[Message, ...], entry: Entry, lost: list[int]) -> Steps:
        """Write the rows of lost slots by the slots of this run, and leave the others as they are."""
        own = [messages[number] for number in lost]
        yield from self._check_slots(own)
        parts = tuple(messages[number] if number in lost else part for number, part in enumerate(_committed(entry.parts)))
        carried = [message.rows for message in (own if self.has("inline once") else messages) if message.handle is None]
        decision = Entry(batch.number, batch.query, batch.run, parts)
        yield from self._decide(marker, carried, decision)
        if (yield from self._roll_forward(decision, just_decided=True)):
            raise Failed("a slot is lost again")
        yield from self._finish(marker, decision)
        self._compare(messages, entry)
        yield from self._abort_slots([message for number, message in enumerate(messages) if number not in lost])

    def _finish(self, marker: Client, decision: Entry) -> Steps:
        """Write the entry again, whose slots are committed."""
        if self.has("finished") and any(part.handle is not None for part in decision.parts):
            yield from self._decide(marker, [], decision._replace(is_finished=True))

    def _decide(self, marker: Client, carried: list[tuple[Row, ...]], decision: Entry) -> Steps:
        """The decision: rows and entry in one transaction, whose commit makes the batch written."""
        if marker.has_lost and self._brokers is not Brokers.TV2 and self.has("initialize after a lost request"):
            if not self.has("initialize as the present producer"):
                answer = yield from ask("init_producer_id", MARKER)
                marker.producer = answer.value
            yield from marker.initialize()
        marker.written, marker.has_begun = None, False
        try:
            yield from self._transact(marker, carried, decision)
        except Unanswered:
            raise
        except Failed as failure:
            if self.has("fenced raises"):
                yield from self._gave_up(marker)
                raise
            del failure
            successor = yield from self._initialized()
            yield from self._transact(successor, carried, decision)
            return
        marker.written = decision

    def _transact(self, marker: Client, carried: list[tuple[Row, ...]], decision: Entry) -> Steps:
        is_one = self.has("one transaction")
        if is_one:
            yield from marker.write_offset(LEDGER, decision)
            marker.has_begun = True
        for rows in carried:
            yield from marker.write(rows)
        if not is_one:
            if carried:
                yield from marker.end(commit=True)
            yield from marker.write_offset(LEDGER, decision)
        try:
            yield from marker.end(commit=True)
        except Unanswered:
            if self.has("unknown is asked again"):
                yield from marker.end(commit=True)

    def _gave_up(self, marker: Client) -> Steps:
        try:
            yield from marker.end(commit=False)
        except Failed:
            return

    # Slots

    def _check_slots(self, messages: Sequence[Message]) -> Steps:
        handles = [message.handle for message in messages if message.handle is not None]
        if not handles or not self.has("describe"):
            return
        answer = yield from ask("describe_transactions", tuple(handle.name for handle in handles))
        if list(answer.value) != [handle.producer for handle in handles]:
            raise Failed("a slot is lost, and nothing was decided")
        for message in messages if self.has("one slot") and self.has("outcome first") and self.has("outcome") else ():
            if message.handle is not None:
                answer = yield from ask("begun", message.handle.name)
                if answer.value != message.begun:
                    raise Failed("a slot was aborted while its task wrote it, and nothing was decided")

    def _roll_forward(self, entry: Entry, *, just_decided: bool = False) -> Steps:
        """Commit the slots of a decision. Returns the numbers of lost ones."""
        lost = []
        for number, part in enumerate(entry.parts):
            if part.handle is None or entry.is_finished:
                continue
            name, producer, version = part.handle
            if entry.run != self._run and not self.has("end as written"):
                version = CLASSIC_END
            answer = yield from ask("end_txn", name, producer, True, version)
            if answer.error == NONE:
                if just_decided and version == CLASSIC_END and self.has("outcome"):
                    known = yield from ask("offset_fetch", name, True)
                    if known.value != entry.batch:
                        raise Failed("EndTxn has committed a transaction, but perhaps not that of the slot")
            elif not (yield from self._was_committed(entry, part.handle, answer.error)):
                lost.append(number)
        return lost

    def _was_committed(self, entry: Entry, handle: Handle, error: str) -> Steps:
        """Find out what became of a slot that cannot be committed now."""
        if self.has("outcome"):
            answer = yield from ask("offset_fetch", handle.name, True)
            return answer.value == entry.batch
        if error not in self._policy.lost_by:
            raise Undecidable(f"it is not known whether a slot was committed: {error}")
        return False

    def _abort_slots(self, messages: Sequence[Message]) -> Steps:
        for message in messages:
            if message.handle is not None:
                name, producer, version = message.handle
                yield from ask("end_txn", name, producer, False, version)

    def _forget_outcomes(self, entry: Entry | None) -> Steps:
        """Delete the groups of the slots of the batch before: Spark has committed it, so nobody asks any more what became of them."""
        for handle in (part.handle for part in (entry.parts if entry is not None else ())):
            if handle is not None and self.has("outcome"):
                yield from ask("delete_group", handle.name)

    def _listed(self, messages: tuple[Message, ...], entry: Entry | None) -> Steps:
        """Return the open slots that neither this batch nor the ledger names."""
        if not any(self._slots):
            return []
        answer = yield from ask("list_transactions")
        handles = [part.handle for part in (*messages, *(entry.parts if entry is not None else ())) if part.handle is not None]
        known = {(handle.name, handle.producer) for handle in handles}
        return [found for found in answer.value if found[0] != MARKER and found not in known]

    def _clean(self, listed: list[tuple[str, ProducerId]]) -> Steps:
        for name, producer in listed:
            yield from ask("end_txn", name, producer, False, RAISING_END if self._brokers is Brokers.TV2 else CLASSIC_END)
