"""Schedules of a variant: all with few faults, and random ones with more."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from .coordinator import Brokers
from .world import CONSEQUENCES, Outcome, Variant, Verdict, World, shown

RATE = 0.08
RATE_OF_FEW = 0.1
"""Where only some kinds of faults may happen, so that they happen as often."""

MOST_FAULTS = 6
SWITCHES = 1
"""Switches between two drivers in an exhaustive exploration, beside the one at the end. Walks have any number."""


@dataclass
class Found:
    """How often each verdict came, and a schedule for each."""

    counts: Counter[Verdict] = field(default_factory=Counter)
    examples: dict[Verdict, str] = field(default_factory=dict)
    whys: dict[Verdict, str] = field(default_factory=dict)

    def add(self, outcome: Outcome, schedule: dict[int, str]) -> None:
        """Count a schedule, and keep it if it is the first with its verdict."""
        self.counts[outcome.verdict] += 1
        if outcome.verdict not in self.examples:
            self.examples[outcome.verdict] = shown(schedule)
            self.whys[outcome.verdict] = outcome.why

    def merge(self, other: Found) -> None:
        """Add what another part has found."""
        self.counts.update(other.counts)
        self.examples = {**other.examples, **self.examples}
        self.whys = {**other.whys, **self.whys}

    @property
    def total(self) -> int:
        """How many schedules were played."""
        return sum(self.counts.values())


def exhaustive(variant: Variant, brokers: Brokers, faults: int, part: int = 0, parts: int = 1) -> Iterator[tuple[Outcome, dict[int, str]]]:
    """Play every schedule with so many faults at most, and their consequences at every later step. parts: they are shared by the first."""

    def play(schedule: dict[int, str], after: int) -> tuple[Outcome, list[tuple[int, str]]]:
        later: list[tuple[int, str]] = []

        def choose(step: int, world: World) -> str:
            if step > after:
                later.extend((step, option) for option in world.options())
                return ""
            return schedule.get(step, "")

        return World(variant, brokers, choose).play(), later

    def explore(schedule: dict[int, str], after: int, left: int, switches: int) -> Iterator[tuple[Outcome, dict[int, str]]]:
        outcome, later = play(schedule, after)
        yield outcome, schedule
        for number, (step, option) in enumerate(later):
            if after < 0 and number % parts != part:
                continue
            is_free = option.startswith(CONSEQUENCES)
            switching = option == "switch"
            if (left or is_free) and (switches or not switching):
                yield from explore({**schedule, step: option}, step, left - (not is_free), switches - switching)

    return explore({}, -1, faults, SWITCHES)


def walk(variant: Variant, brokers: Brokers, seed: int) -> tuple[Outcome, dict[int, str]]:
    """Play a random schedule."""
    dice = random.Random(f"{variant.name} {brokers.value} {seed}")
    schedule: dict[int, str] = {}
    left = MOST_FAULTS
    rate = RATE_OF_FEW if variant.only else RATE

    def choose(step: int, world: World) -> str:
        nonlocal left
        if dice.random() >= rate:
            return ""
        options = [option for option in world.options() if left or option.startswith(CONSEQUENCES)]
        if not options:
            return ""
        option = schedule[step] = dice.choice(options)
        left -= not option.startswith(CONSEQUENCES)
        return option

    return World(variant, brokers, choose).play(), schedule


def shortened(variant: Variant, brokers: Brokers, schedule: dict[int, str], verdict: Verdict) -> dict[int, str]:
    """Leave out of a schedule what its verdict does not need."""
    for step in sorted(schedule):
        fewer = {other: choice for other, choice in schedule.items() if other != step}
        if _comes_to(variant, brokers, fewer, verdict):
            return shortened(variant, brokers, fewer, verdict)
    return schedule


def _comes_to(variant: Variant, brokers: Brokers, schedule: dict[int, str], verdict: Verdict) -> bool:
    def choose(step: int, world: World) -> str:
        option = schedule.get(step, "")
        return option if option in world.options() else ""

    return World(variant, brokers, choose).play().verdict is verdict
