"""make test-sink-model: explore every variant at length, and every mutant until it is found.

    make test-sink-model                  500,000 walks for each variant and kind of brokers, and all schedules with two faults
    make test-sink-model WALKS=1000       so many walks
    make test-sink-model ONLY=slots       variants and mutants whose name has this

    python -m tests.spark.model --replay inline TV1 "8:pause 20:switch"      what happens in one schedule, line by line

Ends with a table, and with an error where a variant came to a verdict that it must not come to, or a mutant was not found.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import Pool
from typing import NamedTuple

from .coordinator import Brokers
from .exploring import Found, exhaustive, shortened, walk
from .variants import MUTANTS, VARIANTS, Mutant
from .world import Variant, Verdict, shown, told

WALKS = 500_000
WALKS_AT_ONCE = 5_000
PARTS = 40
FAULTS = 2
MUTANT_WALKS = 100_000
EXHAUSTED = {"inline": 2, "inline, empty first batches": 2, "mixed": 1}
"""Variants whose schedules are all played, and with how many batches; of the others those with one fault are. More would take days."""


class Job(NamedTuple):
    """A part of the work: `size` walks from seed `number` on, or part `number` of all schedules with `size` faults."""

    name: str
    variant: Variant
    brokers: Brokers
    kind: str
    number: int
    size: int


def main() -> int:
    parser = argparse.ArgumentParser(description="Explore the model of the exactly-once sink.")
    parser.add_argument("--walks", type=int, default=WALKS, help="for each variant and kind of brokers")
    parser.add_argument("--faults", type=int, default=FAULTS, help="how many the exhaustive exploration places; 0: none is done")
    parser.add_argument("--only", default="", help="part of the names of variants and mutants")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replay", nargs=3, metavar=("NAME", "BROKERS", "SCHEDULE"), help="show one schedule")
    chosen = parser.parse_args()
    if chosen.replay:
        name, brokers, schedule = chosen.replay
        print(told(_named(name), Brokers(brokers), schedule))
        return 0
    with Pool(chosen.processes) as pool:
        jobs = [*_exhaustive_jobs(chosen.only, chosen.faults), *_walk_jobs(chosen.only, chosen.walks)]
        is_right = _print_variants(_gathered(pool.imap_unordered(_done, jobs)))
        mutants = [(number, brokers) for number, mutant in enumerate(MUTANTS) if chosen.only in mutant.rule for brokers in mutant.brokers]
        all_found = _print_mutants(pool.imap(_mutant_done, mutants))
    return 0 if is_right and all_found else 1


def _named(name: str) -> Variant:
    """Return a variant, or a mutant's, by its name."""
    found = {expected.variant.name: expected.variant for expected in VARIANTS}
    found |= {mutant.variant.name: mutant.variant for mutant in MUTANTS}
    return found[name]


def _walk_jobs(only: str, walks: int) -> Iterator[Job]:
    for expected in VARIANTS:
        if only in expected.variant.name:
            for brokers in expected.brokers:
                for first in range(0, walks, WALKS_AT_ONCE):
                    yield Job(expected.variant.name, expected.variant, brokers, "walks", first, min(WALKS_AT_ONCE, walks - first))


def _exhaustive_jobs(only: str, faults: int) -> Iterator[Job]:
    for expected in VARIANTS:
        variant = expected.variant
        if faults and only in variant.name:
            batches, most = (EXHAUSTED[variant.name], faults) if variant.name in EXHAUSTED else (len(variant.query.sizes), 1)
            smaller = replace(variant, query=replace(variant.query, sizes=variant.query.sizes[:batches]))
            for brokers in expected.brokers:
                for part in range(PARTS):
                    yield Job(variant.name, smaller, brokers, f"faults <= {most}", part, most)


def _done(job: Job) -> tuple[Job, Found, float]:
    started_s = time.monotonic()
    found = Found()
    if job.kind == "walks":
        for seed in range(job.number, job.number + job.size):
            found.add(*walk(job.variant, job.brokers, seed))
    else:
        for outcome, schedule in exhaustive(job.variant, job.brokers, job.size, job.number, PARTS):
            found.add(outcome, schedule)
    return job, found, time.monotonic() - started_s


Row = tuple[str, str, str]


def _gathered(results: Iterator[tuple[Job, Found, float]]) -> dict[Row, tuple[Found, float]]:
    gathered: dict[Row, tuple[Found, float]] = defaultdict(lambda: (Found(), 0.0))
    for job, found, took_s in results:
        row = (job.name, job.brokers.value, job.kind)
        known, before_s = gathered[row]
        known.merge(found)
        gathered[row] = (known, before_s + took_s)
        for verdict in found.examples.keys() & _forbidden(job.name):
            print(f"{row}: {verdict.value}, {found.whys[verdict]}; schedule: {found.examples[verdict]}", flush=True)
    return gathered


def _forbidden(name: str) -> set[Verdict]:
    (verdicts,) = (expected.verdicts for expected in VARIANTS if expected.variant.name == name)
    return set(Verdict) - verdicts


def _print_variants(rows: dict[Row, tuple[Found, float]]) -> bool:
    """Return whether all came to what they may come to."""
    is_right = True
    order = [expected.variant.name for expected in VARIANTS]
    print(f"{'variant':58}{'brokers':16}{'schedules':22}{'verdicts':70}core seconds")
    for row in sorted(rows, key=lambda row: (order.index(row[0]), row[2], row[1])):
        found, took_s = rows[row]
        is_right = is_right and not found.counts.keys() & _forbidden(row[0])
        print(f"{row[0]:58}{row[1]:16}{f'{row[2]}: {found.total:,}':22}{_counts(found):70}{took_s:.0f}")
    return is_right


def _counts(found: Found) -> str:
    return ", ".join(f"{verdict.value} {found.counts[verdict]:,}" for verdict in Verdict if found.counts[verdict])


def _mutant_done(which: tuple[int, Brokers]) -> tuple[Mutant, Brokers, int, str]:
    """Return after how many walks a mutant was found, and by what; 0 where it was not."""
    mutant, brokers = MUTANTS[which[0]], which[1]
    for seed in range(mutant.first, MUTANT_WALKS):
        outcome, schedule = walk(mutant.variant, brokers, seed)
        if outcome.verdict in mutant.finds:
            short = shortened(mutant.variant, brokers, schedule, outcome.verdict)
            return mutant, brokers, seed + 1, f"{outcome.verdict.value}: {shown(short) or 'no fault at all'}"
    return mutant, brokers, 0, "not found"


def _print_mutants(results: Iterator[tuple[Mutant, Brokers, int, str]]) -> bool:
    all_found = True
    print(f"\n{'without the rule':42}{'brokers':10}{'walks':>8}  found")
    for mutant, brokers, walks, how in results:
        all_found = all_found and walks > 0
        print(f"{mutant.rule:42}{brokers.value:10}{walks:8,}  {how}", flush=True)
    return all_found


if __name__ == "__main__":
    sys.exit(main())
