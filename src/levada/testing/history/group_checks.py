"""The checks of a consumer group's history: records that are skipped, read again or delivered twice, and committed offsets that go back.

A record that is delivered again is not always a violation: a member that died or was too slow has not committed its offset. It is a
violation if its offset was committed before the next member got the partition.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from math import inf
from typing import Final

from levada.testing.history.events import Found, name_of
from levada.testing.history.findings import Check, FinalReads, Finding, Findings
from levada.testing.history.group_ledger import OffsetCommit, Read, Tenure
from levada.testing.history.ledger import Decision, Ledger
from levada.types import TopicPartition


def skipped(ledger: Ledger, reads: FinalReads) -> Findings:
    """K8: find records that a poll has skipped; offsets that were committed although a record before them was not delivered to any member;
    and, if the run makes records from others, offsets that a transaction committed although no record was made from a record before them.

    If an offset is committed before its group has a recorded member, the group begins there, and records before it need not be delivered.
    A group without recorded members is checked only in the last way.
    """
    there = _by_partition(reads.committed)
    offsets = {tp: [found.offset for found in found_there] for tp, found_there in there.items()}
    for tenure in ledger.groups.tenures:
        yield from _left_out(tenure, offsets.get(tenure.tp, []))
    for (group, tp), commits in ledger.groups.commits.items():
        since = ledger.groups.members_since.get(group, inf)
        yield from _committed_unread(group, tp, commits, ledger.groups.reads[group, tp], offsets.get(tp, []), since)
        yield from _committed_unmade(ledger, reads, tp, commits, there.get(tp, []))


def _left_out(tenure: Tenure, offsets: list[int]) -> Findings:
    for before, after in pairwise(tenure.reads):
        between = offsets[bisect_right(offsets, before.found.offset) : bisect_left(offsets, after.found.offset)]
        if between:
            what = f"process {tenure.process} was given {after.found} after {before.found}, and {tenure.tp}@{between[0]} stands between"
            yield Finding("K8", what)


def _committed_unread(
    group: str, tp: TopicPartition, commits: list[OffsetCommit], reads: list[Read], offsets: list[int], members_since: float
) -> Findings:
    given: set[int] = set()
    checked = upcoming = 0
    for commit in sorted(commits, key=lambda commit: commit.begun):
        covered = bisect_left(offsets, commit.offset)
        if commit.begun < members_since:
            checked = max(checked, covered)
            continue
        while upcoming < len(reads) and reads[upcoming].at < commit.begun:
            given.add(reads[upcoming].found.offset)
            upcoming += 1
        missing = [offset for offset in offsets[checked:covered] if offset not in given]
        if missing:
            yield Finding("K8", f"{group} committed {tp} up to {commit}, and no member had been given {tp}@{missing[0]}")
        checked = max(checked, covered)


def _committed_unmade(ledger: Ledger, reads: FinalReads, tp: TopicPartition, commits: list[OffsetCommit], there: list[Found]) -> Findings:
    made = {ledger.sends[found.value].begun.source for found in reads.committed if found.value in ledger.sends}
    if not any(send.begun.source >= 0 for send in ledger.sends.values()):
        return
    checked = 0
    for commit in commits:
        transaction = ledger.transactions.get(commit.transaction)
        if transaction is None or transaction.decision is not Decision.COMMITTED:
            continue
        covered = bisect_left(there, commit.offset, key=lambda found: found.offset)
        for found in there[checked:covered]:
            if found.value not in made:
                what = f"transaction {name_of(transaction.number)} committed {tp} up to {commit}, and nothing was made of {found}"
                yield Finding("K8", what, tuple(map(str, transaction.commits)))
        checked = max(checked, covered)


def backwards(ledger: Ledger, reads: FinalReads) -> Findings:
    """K9: find records that a member got directly after a record with the same or a higher offset, while it kept the partition."""
    for tenure in ledger.groups.tenures:
        for before, after in pairwise(tenure.reads):
            if after.found.offset <= before.found.offset:
                yield Finding("K9", f"process {tenure.process} was given {after.found} after {before.found}")


def delivered_twice(ledger: Ledger, reads: FinalReads) -> Findings:
    """K10: find records that were delivered or processed twice.

    Reported are: two members of a generation with the same partition; a member that reads a partition that it does not have; a record that
    is delivered although its offset was committed before the member got the partition; two records that are made from one.
    """
    for clash in ledger.groups.clashes:
        first, second = clash.processes
        yield Finding("K10", f"processes {first} and {second} have {clash.tp} in generation {clash.generation} of {clash.group}")
    for read in ledger.groups.reads_without_tenure:
        yield Finding("K10", f"process {read.process} was given {read.found}, and does not have the partition")
    for tenure in ledger.groups.tenures:
        yield from _given_again(tenure, ledger.groups.commits[tenure.group, tenure.tp])
    yield from _made_twice(ledger, reads)


def _given_again(tenure: Tenure, commits: list[OffsetCommit]) -> Findings:
    done = max((commit for commit in commits if 0 <= commit.done < tenure.begun), key=lambda commit: commit.offset, default=None)
    again = next((read for read in tenure.reads if done is not None and read.found.offset < done.offset), None)
    if again is not None:
        yield Finding("K10", f"process {tenure.process} was given {again.found}, which had been committed before: {done}", (str(tenure),))


def _made_twice(ledger: Ledger, reads: FinalReads) -> Findings:
    made: dict[int, list[Found]] = defaultdict(list)
    for found in reads.committed:
        if found.value in ledger.sends and ledger.sends[found.value].begun.source >= 0:
            made[ledger.sends[found.value].begun.source].append(found)
    for source, copies in made.items():
        if len(copies) > 1:
            yield Finding("K10", f"{len(copies)} records were made of {name_of(source)}: {', '.join(map(str, copies))}")


def offsets_back(ledger: Ledger, reads: FinalReads) -> Findings:
    """K11: find committed offsets that went back: a lower offset was committed or found after the commit of a higher one had succeeded."""
    for (group, tp), commits in ledger.groups.commits.items():
        for before, after in _regressions(commits):
            what = f"{group} committed {tp}: {after}, after this was confirmed: {before}"
            yield Finding("K11", what)


def _regressions(commits: list[OffsetCommit]) -> Iterator[tuple[OffsetCommit, OffsetCommit]]:
    done = sorted((commit for commit in commits if commit.done >= 0), key=lambda commit: commit.done)
    highest: list[OffsetCommit] = []
    for commit in done:
        if not highest or commit.offset > highest[-1].offset:
            highest.append(commit)
    done_at = [commit.done for commit in highest]
    for commit in done:
        before = bisect_left(done_at, commit.begun)
        if before and highest[before - 1].offset > commit.offset:
            yield highest[before - 1], commit


GROUP_CHECKS: Final[Mapping[str, Check]] = {"K8": skipped, "K9": backwards, "K10": delivered_twice, "K11": offsets_back}


def _by_partition(reads: Iterable[Found]) -> dict[TopicPartition, list[Found]]:
    there: dict[TopicPartition, list[Found]] = defaultdict(list)
    for found in sorted(reads, key=lambda found: (found.tp, found.offset)):
        there[found.tp].append(found)
    return there
