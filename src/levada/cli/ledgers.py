"""Groups that are no groups of consumers, but the ledgers of Spark's sinks that write exactly once."""

from __future__ import annotations

from collections.abc import Sequence

from levada import KafkaAdmin, KafkaError
from levada.cli.exits import CommandError
from levada.errors import IllegalStateError
from levada.exactly_once.batch import sink_of_group
from levada.exactly_once.ledger import Entry
from levada.exactly_once.slots import Slots


def ledger_entry(admin: KafkaAdmin, group: str, timeout: float | None = None) -> Entry | None:
    """Return what the ledger of a Spark sink says, None for any other group. Raises IllegalStateError for the ledger of a newer levada."""
    try:
        return Slots(admin, group).last_entry(timeout_s=timeout, stable=False)
    except IllegalStateError:
        raise
    except KafkaError:
        return None


def refuse_ledgers(admin: KafkaAdmin, groups: Sequence[str], advice: str) -> None:
    """Raise CommandError if one of these groups is a ledger, or a part of one: it must not be changed as if consumers had committed it."""
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
            f"nothing was done: group {group} {what} of a Spark sink that writes exactly once, at batch {entry.batch.number}. Without it, "
            f"rows that are in Kafka are written twice when Spark repeats their batch. {advice}"
        )
