"""Compares levada with itself: a group member with an assigned consumer, and few records per call with as many as there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from consume_bench import ConsumeBench
from consume_meter import CPU, RATE
from engine_bench import Case, worker

SECTION = "ways"
SIZE = 100
ASSIGNED, SUBSCRIBED = "consume_levada:assigned", "consume_levada:subscribed"
PROTOCOLS = ("classic", "consumer")
FORMS = {"poll_arrow": "arrow", "poll": "poll", "iteration": "iteration"}
# Turns differ by this factor without a cause.
TOLERANCE = 1.1
BY_500_TIMES = 1.3


def run(bench: ConsumeBench) -> Iterator[Case]:
    """Measure all cases on one topic."""
    with bench.filled(SIZE) as topic:
        for name, form in FORMS.items():
            yield _membership(bench, topic, name, form)
        yield _few_per_call(bench, topic)


def _membership(bench: ConsumeBench, topic: str, name: str, form: str) -> Case:
    """Compare assigned consumers with members of a group, which have auto-commit and listeners."""
    assigned = f"{name}, assigned"
    members = {f"{name}, member, {protocol}": {"group_protocol": protocol} for protocol in PROTOCOLS}
    systems = {assigned: worker(ASSIGNED, asdict(bench.reading(topic, SIZE, "levada", form)))}
    systems |= {
        member: worker(SUBSCRIBED, asdict(bench.reading(topic, SIZE, "levada", form, **settings))) for member, settings in members.items()
    }
    case = bench.run(Case(SECTION, f"{name}, {SIZE} B, assigned and in a group"), systems)
    for member in members:
        case.hold(member, CPU, assigned, TOLERANCE)
        case.hold(member, RATE, assigned, 1 / TOLERANCE, at_least=True)
    return case


def _few_per_call(bench: ConsumeBench, topic: str) -> Case:
    unlimited, by_500 = "poll_arrow", "poll_arrow, max_records=500"
    forms = {unlimited: "arrow", by_500: "arrow by 500"}
    systems = {name: worker(ASSIGNED, asdict(bench.reading(topic, SIZE, "levada", form))) for name, form in forms.items()}
    case = bench.run(Case(SECTION, f"poll_arrow, {SIZE} B, by 500 records"), systems)
    case.hold(by_500, CPU, unlimited, BY_500_TIMES)
    return case
