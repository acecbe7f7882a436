"""`make fuzz`: every target under atheris for a while, as many at once as there are processors.

Inputs that reach something new are kept in .fuzz/corpus and used again by the next run, together with those in the repository; what breaks
a target is kept in .fuzz/findings, named, and makes the run fail. Modules that are compiled are fuzzed both ways.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from fuzz_targets import TARGETS
from levada.record.reader import COMPILED

ROOT = Path(__file__).parents[2]
SEEDS = Path(__file__).parent / "corpus"
KEPT = ROOT / ".fuzz"
GRACE_S = 120


class Run(NamedTuple):
    """A target, and whether its compiled modules are used."""

    target: str
    compiled: bool

    @property
    def name(self) -> str:
        """How the output calls it."""
        return f"{self.target} ({'compiled' if self.compiled else 'interpreted'})"


class Outcome(NamedTuple):
    """What came of a run: how many inputs were tried, and the end of its output if there is a finding."""

    run: Run
    inputs: int
    complaint: str


def runs(only: list[str]) -> list[Run]:
    """Every target; records a second time where they are compiled."""
    chosen = [Run(target, COMPILED) for target in TARGETS if not only or target in only]
    return chosen + [Run(run.target, False) for run in chosen if COMPILED and run.target == "records"]


def fuzz(run: Run, seconds: int) -> Outcome:
    """Fuzz one target for that long, or until it breaks."""
    corpus, findings = KEPT / "corpus" / run.target, KEPT / "findings"
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    script = Path(__file__).parent / "one_target.py"
    command = [sys.executable, str(script), run.target, str(seconds), str(findings), str(corpus), str(SEEDS / run.target)]
    environment = {**os.environ, "LEVADA_PURE": "" if run.compiled else "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", timeout=seconds + GRACE_S)
    output = done.stdout + done.stderr
    tried = re.search(r"number_of_executed_units: *(\d+)", output)
    return Outcome(run, int(tried[1]) if tried else 0, "\n".join(output.splitlines()[-60:]) if done.returncode else "")


def main() -> int:
    """Fuzz, print a table, return the exit status."""
    parser = argparse.ArgumentParser(description="Fuzz what reads bytes from the network.")
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together (default: 60)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once (default: the processors)")
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)} (default: all)")
    options = parser.parse_args()
    chosen = runs(options.targets)
    jobs = min(options.jobs, len(chosen))
    each = max(1, options.seconds * jobs // len(chosen))
    print(f"{len(chosen)} targets, {each} s each, {jobs} at once", flush=True)
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = list(pool.map(lambda run: fuzz(run, each), chosen))
    return report(outcomes)


def report(outcomes: list[Outcome]) -> int:
    """Print what came of each; return the exit status."""
    for outcome in outcomes:
        print(f"{outcome.run.name:<24} {outcome.inputs:>10} inputs   {'BROKEN' if outcome.complaint else 'nothing found'}")
    broken = [outcome for outcome in outcomes if outcome.complaint]
    for outcome in broken:
        print(f"\n{outcome.run.name}:\n{outcome.complaint}")
    if broken:
        print(f"\nThe inputs are in {KEPT / 'findings'}; a copy in {SEEDS.relative_to(ROOT)}/<target> makes the suite try them again.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
