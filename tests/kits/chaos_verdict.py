"""Runs a plan, shortens a plan that fails, and gives the command that repeats the failure."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from chaos_plan import Plan
from chaos_world import run
from levada.testing.history import Report
from shrinking import shortest

Runner = Callable[[Plan], Report]


class Failure(NamedTuple):
    """The failure of a plan. kind: the violated checks, or the type of an exception; equal for failures that count as the same."""

    kind: str
    text: str


def failure_of(plan: Plan, runner: Runner = run) -> Failure | None:
    """Run a plan, and return its failure. None if the plan passes."""
    try:
        report = runner(plan)
    except Exception as error:
        return Failure(type(error).__name__, traceback.format_exc())
    return Failure(" ".join(sorted(report.violated)), str(report)) if report.findings else None


def explained(plan: Plan, failure: Failure, runner: Runner = run) -> str:
    """Return a text with the failure, the shortest plan found that fails in the same way, and the command that repeats the whole plan.

    runner: run() for plans of producers, run_group() for plans of groups.
    """

    def fails(steps: tuple[object, ...]) -> bool:
        found = failure_of(plan._replace(steps=steps), runner)  # type: ignore[arg-type]
        return found is not None and found.kind == failure.kind

    with quiet():
        short = plan._replace(steps=shortest(plan.steps, fails))
        least = failure_of(short, runner) or failure
    again = command(plan, is_group=runner is not run)
    return f"{least.text}\n{len(short.steps)} of its {len(plan.steps)} steps are enough:\n{short}\nrun it again: {again}"


def command(plan: Plan, *, is_group: bool = False) -> str:
    """Return the command that runs a plan that was drawn from a seed."""
    return f"make soak SEED={plan.seed}{' GROUPS=1' if is_group else ''}"


@contextmanager
def quiet() -> Iterator[None]:
    """Disable all logging within the block."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
