"""make soak: simulated runs with faults, one seed after another.

    make soak                       10,000 seeds
    make soak SEEDS=500 FROM=7      so many, from this one on
    make soak HOURS=2               for so long
    make soak SEED=1234             one seed, with its plan
    make soak GROUPS=1 ...          of groups of consumers, each with both protocols and three times as long as in make test

Ends at the first failure, with the shortest plan that fails in the same way.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import NamedTuple

from chaos_plan import Plan, draw
from chaos_verdict import Runner, explained, failure_of, quiet
from chaos_world import run
from group_chaos_plan import PROTOCOLS, STEPS, draw_group
from group_chaos_world import run_group

SEEDS = 10_000
SAY_EVERY_S = 30


class Kind(NamedTuple):
    """What seeds are about: how the plans of one are drawn, and run."""

    draws: tuple[Callable[[int], Plan], ...]
    run: Runner


PRODUCERS = Kind((draw,), run)
GROUPS = Kind(tuple(partial(draw_group, steps=3 * STEPS, group_protocol=protocol) for protocol in PROTOCOLS), run_group)


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulated runs with faults, each held against the history checker.")
    parser.add_argument("--seed", type=int, help="run one seed and show its plan")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many")
    parser.add_argument("--hours", type=float, help="how long, instead of how many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--groups", action="store_true", help="groups of consumers instead of producers")
    chosen = parser.parse_args()
    kind = GROUPS if chosen.groups else PRODUCERS
    if chosen.seed is not None:
        print(*(draw_one(chosen.seed) for draw_one in kind.draws), sep="\n")
        return _run(kind, iter([chosen.seed]))
    return _run(kind, _for_hours(chosen.first, chosen.hours) if chosen.hours else iter(range(chosen.first, chosen.first + chosen.seeds)))


def _for_hours(first: int, hours: float) -> Iterator[int]:
    end_s = time.monotonic() + hours * 3600
    for seed in count(first):
        if time.monotonic() >= end_s:
            return
        yield seed


def _run(kind: Kind, seeds: Iterator[int]) -> int:
    started_s = said_s = time.monotonic()
    done: Counter[str] = Counter()
    for seed in seeds:
        for plan in (draw_one(seed) for draw_one in kind.draws):
            with quiet():
                failure = failure_of(plan, kind.run)
            if failure is not None:
                print(f"seed {seed} failed; looking for the shortest plan that does", flush=True)
                print(explained(plan, failure, kind.run))
                return 1
            done["steps"] += len(plan.steps)
        done["seeds"] += 1
        if time.monotonic() - said_s > SAY_EVERY_S:
            said_s = time.monotonic()
            print(_figures(done, said_s - started_s), flush=True)
    print(_figures(done, time.monotonic() - started_s))
    return 0


def _figures(done: Counter[str], seconds: float) -> str:
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{done['seeds']} seeds, {done['steps']} steps, nothing violated; {seconds:.0f} s, at most {megabytes:.0f} MB"


if __name__ == "__main__":
    sys.exit(main())
