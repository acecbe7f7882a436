"""Tells ledgers and slots of exactly-once Spark sinks from other groups and transactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from levada import KafkaAdmin
from levada.cli.exits import CommandError
from levada.errors import CorruptRecordError, IllegalStateError
from levada.exactly_once.batch import DEFAULT_PREFIX, parsed, sink_of_group
from levada.exactly_once.ledger import Entry
from levada.exactly_once.slots import Slots


def ledger_entry(admin: KafkaAdmin, group: str, timeout: float | None = None) -> Entry | None:
    """Return the last entry in the ledger of a Spark sink, or None for any other group.

    Raises IllegalStateError for the ledger of a newer levada. timeout: in seconds.
    """
    try:
        return Slots(admin, group).last_entry(timeout_s=timeout, stable=False)
    except CorruptRecordError:
        return None


def sinks_of_slots(admin: KafkaAdmin, names: Iterable[str], timeout: float | None = None) -> dict[str, str]:
    """Return the Spark sink of each of these transactional ids, or groups, that a task of a sink uses.

    Other programs may have names of the same form. A sink is known by its ledger, or by the default prefix. timeout: in seconds. Raises the
    error of a ledger that cannot be read.
    """
    sinks = {name: slot[0] for name in names if (slot := parsed(name))}
    known = {sink for sink in set(sinks.values()) if sink.startswith(DEFAULT_PREFIX) or _has_ledger(admin, sink, timeout)}
    return {name: sink for name, sink in sinks.items() if sink in known}


def _has_ledger(admin: KafkaAdmin, sink: str, timeout: float | None) -> bool:
    try:
        return ledger_entry(admin, sink, timeout) is not None
    except IllegalStateError:
        return True


def refuse_ledgers(admin: KafkaAdmin, groups: Sequence[str], advice: str) -> None:
    """Raise CommandError if one of these groups is a ledger of a Spark sink, or a part of one. Its offsets are not those of consumers."""
    for group in groups:
        sink = sink_of_group(group)
        try:
            entry = ledger_entry(admin, sink)
        except IllegalStateError as newer:
            raise CommandError(f"nothing was done: group {group} is a ledger. {newer}") from newer
        if entry is None:
            continue
        what = "is the ledger" if group == sink else f"belongs to the ledger {sink}"
        raise CommandError(
            f"nothing was done: group {group} {what} of an exactly-once Spark sink, at batch {entry.batch.number}. Without it, "
            f"rows that are in Kafka are written twice when Spark repeats their batch. {advice}"
        )
