"""`make fuzz`: every target under atheris for a while, as many at once as there are processors.

Inputs that reach something new are kept in .fuzz/corpus and used again by the next run, together with those in the repository; what breaks
a target is kept in .fuzz/findings, named, and makes the run fail. Modules that are compiled are fuzzed both ways.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
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


def fuzz(compiled: bool, targets: list[str], seconds: int, jobs: int) -> list[Outcome]:
    """Fuzz each of the targets for that long, or until it breaks."""
    for folder in (KEPT / "findings", *(KEPT / "corpus" / target for target in targets)):
        folder.mkdir(parents=True, exist_ok=True)
    script = Path(__file__).parent / "fuzzing_process.py"
    environment = {**os.environ, "LEVADA_PURE": "" if compiled else "1"}
    with TemporaryDirectory() as output:
        command = [sys.executable, str(script), str(seconds), str(jobs), str(KEPT), str(SEEDS), output, *targets]
        fuzzing = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True
        )
        try:
            ended, complaint = fuzzing.communicate(timeout=seconds * ceil(len(targets) / jobs) + GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(fuzzing.pid, signal.SIGKILL)
            ended, complaint = fuzzing.communicate()
        except BaseException:
            os.killpg(fuzzing.pid, signal.SIGKILL)
            raise
        statuses = dict(line.split() for line in ended.splitlines())
        return [outcome(Run(target, compiled), statuses.get(target), Path(output) / target, complaint) for target in targets]


def outcome(run: Run, status: str | None, output: Path, complaint: str) -> Outcome:
    """Return what came of a target. status: None if its child did not end. output: the file of what the child printed, if it was started.

    complaint: what the process printed that starts the children.
    """
    printed = output.read_text(errors="replace") if output.exists() else ""
    tried = re.search(r"number_of_executed_units: *(\d+)", printed)
    if status == "0" and tried:
        return Outcome(run, int(tried[1]), "")
    lines = (printed or complaint).splitlines()[-60:]
    return Outcome(run, int(tried[1]) if tried else 0, "\n".join([*lines, f"exit status {status}" if status else "it has not ended"]))


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
    outcomes = list[Outcome]()
    for compiled in (True, False):
        if targets := [run.target for run in chosen if run.compiled is compiled]:
            outcomes += fuzz(compiled, targets, each, jobs)
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
