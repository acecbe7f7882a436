"""Producers under load: many partitions, the latency of a steady load, and of a sender that never pauses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from engine_bench import CONFLUENT, LEVADA, Bench, Case, System, ours, worker
from engine_pace import percentiles, ticks
from engine_process import Figures, Worker
from engine_send import RATE, RECORDS, figures
from engine_senders import SENDERS, Sender
from measure import measured
from payloads import DISTINCT, values

SECTION = "load"
PARTITIONS = 4
MANY_PARTITIONS = 1000
KEYED_RECORDS = 400_000
SHARE = 0.6
SECONDS = 3
WARM_S = 1
TICKS_PER_S = 1000
# One record in so many has a callback that measures its latency; callbacks for all records would be a load themselves.
SAMPLED = 50
MEMORY_KIB = 4096
# With its default of 100,000 messages confluent-kafka's loop is slower.
LARGE_QUEUE: dict[str, dict[str, Any]] = {CONFLUENT: {"queue_buffering_max_messages": 10_000_000}}


def run(bench: Bench) -> Iterator[Case]:
    """Measure keyed records to a thousand partitions, a steady load of 60 % of the saturating rate, and no pause with 4 MiB of memory."""
    yield _keyed(bench)
    yield _steady(bench)
    yield _unpaused(bench)


def _keyed(bench: Bench) -> Case:
    with bench.topic(MANY_PARTITIONS) as topic:
        job = bench.job(topic, records=bench.scaled(KEYED_RECORDS))
        jobs = {name: job | {"client": name, "settings": LARGE_QUEUE.get(name, {})} for name in SENDERS}
        # The broker makes the files of a partition with its first records. Without this the first client would wait for the files.
        Worker("engine_load:keyed", jobs[CONFLUENT] | {"records": 20 * MANY_PARTITIONS}).result()
        systems = _systems(bench, "engine_load:keyed", jobs)
        case = bench.run(Case(SECTION, f"send of 100 B with keys to {MANY_PARTITIONS} partitions, all acknowledged"), systems)
    case.hold(LEVADA, RATE, CONFLUENT, 0.8, at_least=True)
    return case


def _steady(bench: Bench) -> Case:
    """Use the saturating rate of the slower client, so that both have the same load."""
    with bench.topic(PARTITIONS) as topic:
        saturating = bench.job(topic, records=bench.scaled(RECORDS[100]), value_bytes=100)
        runners = ("engine_send:levada_rate", "engine_send:confluent_rate")
        rate = int(SHARE * 1000 * min(Worker(runner, saturating).result()[RATE] for runner in runners))
        job = bench.job(topic, rate=rate, seconds=SECONDS)
        systems = _systems(bench, "engine_load:steady", {name: job | {"client": name} for name in SENDERS})
        case = bench.run(Case(SECTION, f"send to callback, 100 B at {rate // 1000} k/s: {SHARE:.0%} of what saturates the slower"), systems)
    case.hold(LEVADA, "p99 ms", CONFLUENT, 4)
    return case


def _unpaused(bench: Bench) -> Case:
    memory = {LEVADA: {"buffer_memory": MEMORY_KIB * 1024}, CONFLUENT: {"queue_buffering_max_kbytes": MEMORY_KIB}}
    with bench.topic(PARTITIONS) as topic:
        job = bench.job(topic, seconds=SECONDS)
        jobs = {name: job | {"client": name, "settings": memory[name]} for name in SENDERS}
        systems = _systems(bench, "engine_load:unpaused", jobs)
        case = bench.run(Case(SECTION, "send to callback, 100 B without a pause, 4 MiB of memory"), systems)
    case.hold(LEVADA, "p99 ms", CONFLUENT, 1)
    return case


def _systems(bench: Bench, runner: str, jobs: dict[str, dict[str, Any]]) -> dict[str, System | str]:
    return {**ours(bench, runner, jobs[LEVADA]), CONFLUENT: worker(runner, jobs[CONFLUENT])}


def keyed(bootstrap_servers: str, topic: str, client: str, records: int, settings: dict[str, Any]) -> Figures:
    """Send values with different keys, so that all partitions get records."""
    sender = SENDERS[client](bootstrap_servers, **settings)
    keyed_values = [(value, b"key-%d" % number) for number, value in enumerate(values(100))]

    def work(count: int) -> None:
        send = sender.send
        for number in range(count):
            send(topic, *keyed_values[number % DISTINCT])
        sender.flush()

    work(records // 10)
    with measured(records) as sample:
        work(records)
    return figures(sample)


def steady(bootstrap_servers: str, topic: str, client: str, rate: int, seconds: int) -> Figures:
    """Send a share of the records every millisecond. They are all due at the tick, so the latency of a late record begins at its tick."""
    sender = SENDERS[client](bootstrap_servers)
    payload, burst = values(100), rate // TICKS_PER_S
    warm, samples = Samples(sender), Samples(sender)
    sent = 0
    start = time.monotonic_ns()
    total = (WARM_S + seconds) * TICKS_PER_S
    for tick in ticks(total, TICKS_PER_S, sender.wait):
        into = warm if tick < WARM_S * TICKS_PER_S else samples
        due = start + tick * 1_000_000_000 // TICKS_PER_S
        for _ in range(burst):
            if sent % SAMPLED:
                sender.send(topic, payload[sent % DISTINCT])
            else:
                sender.send(topic, payload[sent % DISTINCT], on_delivery=into.taker(due))
            sent += 1
    late_ms = (time.monotonic_ns() - start) / 1e6 - total
    sender.flush()
    return samples.figures() | {"behind at the end ms": max(late_ms, 0.0)}


def unpaused(bootstrap_servers: str, topic: str, client: str, seconds: int, settings: dict[str, Any]) -> Figures:
    """Send records as fast as the client accepts them. A wait of send() for memory is part of a record's latency."""
    sender = SENDERS[client](bootstrap_servers, **settings)
    payload = values(100)
    warm, samples = Samples(sender), Samples(sender)
    sent = 0
    start = time.monotonic()
    while (past := time.monotonic() - start) < WARM_S + seconds:
        into = warm if past < WARM_S else samples
        sender.send(topic, payload[sent % DISTINCT], on_delivery=into.taker(time.monotonic_ns()))
        for number in range(sent + 1, sent + SAMPLED):
            sender.send(topic, payload[number % DISTINCT])
        sent += SAMPLED
        sender.poll()
    took = time.monotonic() - start
    sender.flush()
    return samples.figures() | {RATE: sent / took / 1e3}


class Samples:
    """Latencies from the time at which a record was due until its callback."""

    def __init__(self, sender: Sender) -> None:
        self._error_of = sender.error_of
        self._latencies: list[int] = []
        self._errors: list[Any] = []

    def taker(self, since_ns: int) -> Any:
        """Return a callback for a record that was due at `since_ns`."""

        def take(first: Any, second: Any) -> None:
            self._latencies.append(time.monotonic_ns() - since_ns)
            if (error := self._error_of(first, second)) is not None:
                self._errors.append(error)

        return take

    def figures(self) -> Figures:
        assert not self._errors, self._errors[0]
        return percentiles(self._latencies)
