"""The checks of a history and the final state of its topics: a pure function for each. docs/RELIABILITY.md explains them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from levada.testing.history.events import Found, Op, Type, name_of, process_of
from levada.testing.history.findings import Check, FinalReads, Finding, Findings
from levada.testing.history.group_checks import GROUP_CHECKS
from levada.testing.history.ledger import Decision, Ledger, Operation, by_place
from levada.types import TopicPartition

LATE_MS: Final = 1000
"""How long after its time limit an operation counts as stuck, in ms. The machines that run tests may be busy."""


def lost(ledger: Ledger, reads: FinalReads) -> Findings:
    """K1: find acknowledged records that are missing in the log, or that the committed reader did not return although they are in no
    transaction or in a committed one.
    """
    in_log = {found.value: found for found in reads.log}
    delivered = {found.value for found in reads.committed}
    for send in ledger.acknowledged():
        place = in_log.get(send.value)
        if place is None:
            yield Finding("K1", f"{name_of(send.value)} was acknowledged and is not in the log", (str(send), f"acknowledged: {send.place}"))
        elif send.value not in delivered and _is_decided_for(ledger, send):
            what = f"{name_of(send.value)} was acknowledged and is in the log at {place}, and the committed reader did not return it"
            yield Finding("K1", what, (str(send),))


def duplicate(ledger: Ledger, reads: FinalReads) -> Findings:
    """K2: find values that are in the log more than once, or that the committed reader returned more than once."""
    for who, read in (("the log", reads.log), ("the committed reader", reads.committed)):
        places: dict[int, list[Found]] = defaultdict(list)
        for found in read:
            places[found.value].append(found)
        for value, at in places.items():
            if len(at) > 1:
                told = (str(ledger.sends[value]),) if value in ledger.sends else ()
                yield Finding("K2", f"{who} has {name_of(value)} {len(at)} times: {', '.join(map(str, at))}", told)


def reordered(ledger: Ledger, reads: FinalReads) -> Findings:
    """K3: find records of one process that are in a partition in another order than they were sent. Only the first pair of each process and
    partition is reported.
    """
    for (process, tp), sent in _first_copies(reads.log).items():
        pair = next(((before, after) for before, after in pairwise(sent) if after.value < before.value), None)
        if pair is not None:
            evidence = tuple(f"{name_of(found.value)} at {found}" for found in pair)
            yield Finding("K3", f"the records of process {process} in {tp} are not in the order of sending", evidence)


def inconsistent(ledger: Ledger, reads: FinalReads) -> Findings:
    """K4: find three faults. Two sources have different values at one offset. The log has a value that was never sent. A record is not
    where it was sent to, or not where it was acknowledged.
    """
    said: dict[tuple[TopicPartition, int], dict[int, str]] = defaultdict(dict)
    for who, found in _sources(ledger, reads):
        said[by_place(found)].setdefault(found.value, who)
    for (tp, offset), values in said.items():
        if len(values) > 1:
            evidence = tuple(f"{who}: {name_of(value)}" for value, who in values.items())
            yield Finding("K4", f"{tp}@{offset} holds {len(values)} values", evidence)
    yield from _misplaced(ledger, reads)
    for found in reads.log:
        send = ledger.sends.get(found.value)
        if send is None:
            yield Finding("K4", f"{found} holds {name_of(found.value)}, which nobody sent")
        elif found.topic != send.begun.topic or send.begun.partition not in (-1, found.partition):
            where = TopicPartition(send.begun.topic, send.begun.partition)
            yield Finding("K4", f"{found} holds {name_of(found.value)}, which was sent to {where}", (str(send),))


def _misplaced(ledger: Ledger, reads: FinalReads) -> Findings:
    places: dict[int, list[Found]] = defaultdict(list)
    for found in reads.log:
        places[found.value].append(found)
    for send in ledger.acknowledged():
        at = places[send.value]
        if at and send.place is not None and send.place not in at:
            what = f"{name_of(send.value)} was acknowledged at {send.place} and stands at {', '.join(map(str, at))}"
            yield Finding("K4", what, (str(send),))


def aborted_read(ledger: Ledger, reads: FinalReads) -> Findings:
    """K5: find records in the log whose sending certainly failed, and records that a reader got although their transaction certainly was
    not committed.
    """
    for found in reads.log:
        send = ledger.sends.get(found.value)
        if send is not None and send.outcome is Type.FAIL:
            yield Finding("K5", f"{name_of(found.value)} failed with persisted: no, and the log has it at {found}", (str(send),))
    for who, found in _committed_sources(ledger, reads):
        transaction = ledger.transaction_of(found.value)
        if transaction is not None and transaction.decision is Decision.NOT_COMMITTED:
            what = f"{who} returned {name_of(found.value)} at {found}, whose transaction {name_of(transaction.number)} was not committed"
            yield Finding("K5", what, _ends(transaction.commits, transaction.aborts))


def early_read(ledger: Ledger, reads: FinalReads) -> Findings:
    """K6: find records that a consumer got before the commit of their transaction was requested."""
    for poll in ledger.polls:
        for found in poll.read:
            transaction = ledger.transaction_of(found.value)
            asked_ms = None if transaction is None else transaction.commit_begun_ms
            if transaction is not None and asked_ms is not None and poll.at_ms < asked_ms:
                what = f"process {poll.process} was given {name_of(found.value)} at {found} before its commit was asked for"
                evidence = (f"returned at {poll.at_ms} ms", f"transaction {name_of(transaction.number)}: commit begun at {asked_ms} ms")
                yield Finding("K6", what, evidence)


def torn(ledger: Ledger, reads: FinalReads) -> Findings:
    """K7: find transactions of which the committed reader returned some records but not all. Records that were not acknowledged count only
    if the transaction was committed.
    """
    delivered = {found.value for found in reads.committed}
    for transaction in ledger.transactions.values():
        is_committed = transaction.decision is Decision.COMMITTED
        there = [send for send in transaction.sends if send.value in delivered]
        missing = [send for send in transaction.sends if send.value not in delivered and (is_committed or send.outcome is Type.OK)]
        if there and missing:
            seen = f"{len(there)} of {len(there) + len(missing)} records are visible"
            ends = _ends(transaction.commits, transaction.aborts)
            evidence = (f"visible: {_where(there[0])}", f"not visible: {_where(missing[0])}", *ends)
            yield Finding("K7", f"transaction {name_of(transaction.number)} ({transaction.decision.value}): {seen}", evidence)


def stuck(ledger: Ledger, reads: FinalReads) -> Findings:
    """K12: find operations that took longer than their time limit, and operations without an end whose process was closed, or whose time
    limit passed although their process was not killed.
    """
    closed = {event.process: event.at_ms for event in ledger.processes if event.type is Type.OK}
    for operation in ledger.operations:
        begun = operation.begun
        if operation.ended is not None:
            took_ms = operation.ended.at_ms - begun.at_ms
            if 0 <= begun.within_ms < took_ms - LATE_MS:
                yield Finding("K12", f"{_subject(operation)} took {took_ms} ms, and may take {begun.within_ms} ms", (str(operation),))
        elif begun.process in closed:
            what = f"{_subject(operation)} never ended, although process {begun.process} closed at {closed[begun.process]} ms"
            yield Finding("K12", what, (str(operation),))
        elif begun.process not in ledger.crashed and 0 <= begun.within_ms < ledger.end_ms - begun.at_ms - LATE_MS:
            what = f"{_subject(operation)} has not ended {ledger.end_ms - begun.at_ms} ms later, and may take {begun.within_ms} ms"
            yield Finding("K12", what, (str(operation),))


def process_grew(ledger: Ledger, reads: FinalReads) -> Findings:
    """K13: find processes that used more memory than their limit, or had more threads, tasks or file descriptors after they closed their
    clients than before they created them.
    """
    before: dict[int, Mapping[str, int]] = {}
    for event in ledger.processes:
        now, first = event.figures, before.setdefault(event.process, event.figures)
        bound = first.get("rss_bound_bytes", now.get("rss_bytes", 0))
        if now.get("rss_bytes", 0) > bound:
            yield Finding("K13", f"process {event.process} takes {now['rss_bytes']} bytes at {event.at_ms} ms, and may take {bound}")
        for name in ("fds", "threads", "tasks"):
            if event.type is Type.OK and now.get(name, 0) > first.get(name, 0):
                yield Finding("K13", f"process {event.process} has {now[name]} {name} after close, and had {first.get(name, 0)} before")


CHECKS: Final[Mapping[str, Check]] = {
    "K1": lost,
    "K2": duplicate,
    "K3": reordered,
    "K4": inconsistent,
    "K5": aborted_read,
    "K6": early_read,
    "K7": torn,
    **GROUP_CHECKS,
    "K12": stuck,
    "K13": process_grew,
}


def _is_decided_for(ledger: Ledger, send: Operation) -> bool:
    transaction = ledger.transaction_of(send.value)
    return transaction is None or transaction.decision is Decision.COMMITTED


def _first_copies(log: Iterable[Found]) -> dict[tuple[int, TopicPartition], list[Found]]:
    """Return the records by process and partition, in offset order. Of duplicates, which K2 reports, only the first one is returned."""
    sent: dict[tuple[int, TopicPartition], dict[int, Found]] = defaultdict(dict)
    for found in sorted(log, key=by_place):
        sent[process_of(found.value), found.tp].setdefault(found.value, found)
    return {key: list(first.values()) for key, first in sent.items()}


def _sources(ledger: Ledger, reads: FinalReads) -> Iterator[tuple[str, Found]]:
    for found in reads.log:
        yield "the log", found
    yield from _committed_sources(ledger, reads)


def _committed_sources(ledger: Ledger, reads: FinalReads) -> Iterator[tuple[str, Found]]:
    for found in reads.committed:
        yield "the committed reader", found
    for poll in ledger.polls:
        for found in poll.read:
            yield f"process {poll.process} at {poll.at_ms} ms", found


def _ends(*operations: Iterable[Operation]) -> tuple[str, ...]:
    return tuple(str(operation) for group in operations for operation in group)


def _where(send: Operation) -> str:
    return f"{name_of(send.value)} at {send.place}" if send.place else f"{name_of(send.value)}, {send}"


def _subject(operation: Operation) -> str:
    begun = operation.begun
    if begun.op is Op.SEND:
        return f"sending {name_of(begun.value)} to {begun.topic}"
    return f"{begun.op.value} of transaction {name_of(begun.transaction)}"
