"""Findings about transactions that have been open for long. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Mapping

from levada import TransactionDescription
from levada.cli.doctor.findings import Finding, Status, Step
from levada.cli.text import counted, named
from levada.exactly_once.batch import parsed

LONG_MS = 5 * 60_000
"""Age in ms from which an open transaction is reported. Most programs commit within seconds."""


def examined(opened: Mapping[str, TransactionDescription], now_ms: int) -> list[Finding]:
    """Return the findings about open transactions.

    opened: descriptions by transactional id. now_ms: this machine's time in ms since the epoch.
    """
    long = {name: found for name, found in opened.items() if now_ms - (found.start_time_ms or now_ms) > LONG_MS}
    if not long:
        return [Finding(Step.TRANSACTIONS, Status.OK, "all transactions", f"{counted(len(opened), 'transaction')} open, none for long")]
    return [_finding(name, found, now_ms) for name, found in sorted(long.items())]


def _finding(name: str, found: TransactionDescription, now_ms: int) -> Finding:
    minutes = (now_ms - (found.start_time_ms or now_ms)) // 60_000
    topics = sorted({tp.topic for tp in found.partitions if not tp.topic.startswith("__")})
    text = f"open for {minutes} min: readers with isolation.level=read_committed wait, in {named(topics) or 'no topic'}"
    slot = parsed(name)
    if slot is None:
        advice = "commit more often, or look for the program that opened it; the coordinator aborts it after transaction.timeout.ms"
    else:
        advice = (
            f"the Spark sink {slot[0]} opened it: start its query again, or abort its open transactions with "
            f"`levada spark transactions abort {slot[0]}`; the coordinator aborts it after transaction.timeout.ms"
        )
    return Finding(Step.TRANSACTIONS, Status.WARNING, f"transaction {name}", f"{text}; timeout {found.timeout_ms // 60_000} min", advice)
