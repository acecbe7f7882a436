"""make soak: simulated runs with faults, one seed after another.

    make soak                       10,000 seeds
    make soak SEEDS=500 FROM=7      so many, from this one on
    make soak HOURS=2               for so long
    make soak SEED=1234             one seed, with its plan

Ends at the first failure, with the shortest plan that fails in the same way.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count

from chaos_plan import draw
from chaos_verdict import explained, failure_of, quiet

SEEDS = 10_000
SAY_EVERY_S = 30


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulated runs with faults, each held against the history checker.")
    parser.add_argument("--seed", type=int, help="run one seed and show its plan")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many")
    parser.add_argument("--hours", type=float, help="how long, instead of how many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    chosen = parser.parse_args()
    if chosen.seed is not None:
        print(draw(chosen.seed))
        return _run(iter([chosen.seed]))
    return _run(_for_hours(chosen.first, chosen.hours) if chosen.hours else iter(range(chosen.first, chosen.first + chosen.seeds)))


def _for_hours(first: int, hours: float) -> Iterator[int]:
    end_s = time.monotonic() + hours * 3600
    for seed in count(first):
        if time.monotonic() >= end_s:
            return
        yield seed


def _run(seeds: Iterator[int]) -> int:
    started_s = said_s = time.monotonic()
    done: Counter[str] = Counter()
    for seed in seeds:
        plan = draw(seed)
        with quiet():
            failure = failure_of(plan)
        if failure is not None:
            print(f"seed {seed} failed; looking for the shortest plan that does", flush=True)
            print(explained(plan, failure))
            return 1
        done["seeds"] += 1
        done["steps"] += len(plan.steps)
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
