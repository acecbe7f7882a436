"""The report of a run: its findings and its figures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from levada.testing.history.checks import CHECKS
from levada.testing.history.events import Found, History, Type
from levada.testing.history.findings import FinalReads, Finding
from levada.testing.history.ledger import Ledger
from levada.types import TopicPartition

_SHOWN = 5
"""How many findings of each check are printed."""


class Report(NamedTuple):
    """The result of all checks of a run.

    sends, transactions: their numbers by outcome. records: the number of records in the logs. longest_gap_ms: the longest time between two
    successive acknowledgements of the run, 0 if there are fewer than two. longest_gaps_ms: the same for each partition. recovery_ms: for
    each fault that was removed, its name and the time from its removal to the next acknowledgement, None if there is no later
    acknowledgement. figures: for resources such as rss_bytes the largest value of any process, for counters such as retries the sum of all
    processes. torn: the number of incomplete lines in the history.
    """

    findings: tuple[Finding, ...]
    sends: Mapping[str, int]
    transactions: Mapping[str, int]
    records: int
    longest_gap_ms: int
    longest_gaps_ms: Mapping[TopicPartition, int]
    recovery_ms: tuple[tuple[str, int | None], ...]
    figures: Mapping[str, int]
    torn: int

    @property
    def violated(self) -> frozenset[str]:
        """The names of the checks that have findings."""
        return frozenset(finding.check for finding in self.findings)

    def require_clean(self) -> None:
        """Raise AssertionError if there are findings. The message has the first findings of each check, and the figures."""
        if self.findings:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        count = len(self.findings)
        verdict = "clean" if not count else f"{count} finding{'s' if count > 1 else ''}"
        return "\n".join((verdict, *self._finding_lines(), *self._figure_lines()))

    def _finding_lines(self) -> Iterator[str]:
        found: dict[str, list[Finding]] = defaultdict(list)
        for finding in self.findings:
            found[finding.check].append(finding)
        for check, findings in found.items():
            yield from map(str, findings[:_SHOWN])
            if len(findings) > _SHOWN:
                yield f"{check}: and {len(findings) - _SHOWN} more"

    def _figure_lines(self) -> list[str]:
        lines = [f"sends: {_counts(self.sends)}; records in the log: {self.records}"]
        if self.transactions:
            lines.append(f"transactions: {_counts(self.transactions)}")
        lines.append(f"longest gap between acknowledgements: {self.longest_gap_ms} ms; {_counts(self.longest_gaps_ms)}")
        lines += [
            f"{name}: next acknowledgement {'never' if ms is None else f'{ms} ms'} after it was mended" for name, ms in self.recovery_ms
        ]
        if self.figures:
            lines.append(_counts(self.figures))
        return [*lines, f"lines cut short: {self.torn}"] if self.torn else lines


def check(history: History, *, log: Iterable[Found], committed: Iterable[Found], skip: Collection[str] = ()) -> Report:
    """Run all checks on a history and on the contents of its topics after the run.

    log: all records in the logs, see read_log(). committed: all records that a read_committed consumer returns from the beginning. skip:
    checks that do not apply to this run, such as K2 and K3 without idempotence. Times in findings are in milliseconds since the first
    event. Raises ValueError for a history that contradicts itself, or for an unknown check.
    """
    if unknown := set(skip) - set(CHECKS):
        raise ValueError(f"no such checks: {', '.join(sorted(unknown))}; there are {', '.join(CHECKS)}")
    ledger, reads = Ledger(history.from_its_start()), FinalReads(tuple(log), tuple(committed))
    findings = (finding for name, one in CHECKS.items() if name not in skip for finding in one(ledger, reads))
    acknowledged = sorted(
        (send.ended.at_ms, TopicPartition(send.ended.topic, send.ended.partition)) for send in ledger.acknowledged() if send.ended
    )
    return Report(
        findings=tuple(findings),
        sends=Counter(send.outcome.value for send in ledger.sends.values()),
        transactions=Counter(transaction.decision.value for transaction in ledger.transactions.values()),
        records=len(reads.log),
        longest_gap_ms=_longest_gap_ms(at_ms for at_ms, tp in acknowledged),
        longest_gaps_ms=_longest_gaps_ms(acknowledged),
        recovery_ms=_recovery_ms(ledger, [at_ms for at_ms, tp in acknowledged]),
        figures=_figures(ledger),
        torn=history.torn,
    )


def _longest_gap_ms(times_ms: Iterable[int]) -> int:
    return max((after - before for before, after in pairwise(times_ms)), default=0)


def _longest_gaps_ms(acknowledged: Iterable[tuple[int, TopicPartition]]) -> dict[TopicPartition, int]:
    times: dict[TopicPartition, list[int]] = defaultdict(list)
    for at_ms, tp in acknowledged:
        times[tp].append(at_ms)
    return {tp: _longest_gap_ms(times[tp]) for tp in sorted(times)}


def _recovery_ms(ledger: Ledger, acknowledged_ms: list[int]) -> tuple[tuple[str, int | None], ...]:
    mended = [fault for fault in ledger.faults if fault.type is Type.OK]
    return tuple((fault.text, next((ms - fault.at_ms for ms in acknowledged_ms if ms >= fault.at_ms), None)) for fault in mended)


_LARGEST = ("rss_bytes", "rss_bound_bytes", "fds", "threads", "tasks")


def _figures(ledger: Ledger) -> dict[str, int]:
    figures: Counter[str] = Counter()
    for event in ledger.processes:
        for name, number in event.figures.items():
            figures[name] = max(figures[name], number) if name in _LARGEST else figures[name] + number
    return dict(figures)


def _counts(counts: Mapping[str, int] | Mapping[TopicPartition, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or "none"
