"""Idle consumers: the processor time of a thousand partitions without records, and whether ten thousand partitions work."""

from __future__ import annotations

import resource
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from engine_bench import CONFLUENT, LEVADA, Bench, Case, worker
from engine_process import Figures, Worker, WorkerFailed, ready
from measure import own_cpu_seconds

SECTION = "idle"
PARTITIONS = 1000
SECONDS, QUICK_SECONDS = 30, 10
SETTLE_S = 5
MANY_PARTITIONS = 10_000
TOPIC = "many"
CPU = "CPU % of a core"


def run(bench: Bench) -> Iterator[Case]:
    """Measure a thousand partitions, also with confluent-kafka, and ten thousand on the embedded broker."""
    yield _idle(bench)
    systems = {LEVADA: worker("consume_idle:many_partitions", {"partitions": MANY_PARTITIONS})}
    yield bench.run(Case(SECTION, f"{MANY_PARTITIONS} partitions on the embedded broker: assign, seek, poll"), systems)


def _idle(bench: Bench) -> Case:
    """Run both clients at the same time: they use little of the machine, and a turn takes half a minute."""
    case = Case(SECTION, f"idle consumer of {PARTITIONS} partitions")
    with bench.topic(PARTITIONS) as topic:
        job = bench.job(topic, partitions=PARTITIONS, seconds=QUICK_SECONDS if bench.quick else SECONDS)
        for _ in range(bench.turns):
            _idle_turn(case, {LEVADA: "consume_idle:levada_idle", CONFLUENT: "consume_idle:confluent_idle"}, job)
    case.hold(LEVADA, CPU, CONFLUENT, 1)
    return case


def _idle_turn(case: Case, runners: dict[str, str], job: dict[str, Any]) -> None:
    workers = {system: Worker(runner, job) for system, runner in runners.items()}
    for system, one in workers.items():
        try:
            case.add(system, one.result())
        except WorkerFailed as error:
            case.fail(system, error)


def levada_idle(bootstrap_servers: str, topic: str, partitions: int, seconds: int) -> Figures:
    import levada

    with levada.KafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([levada.TopicPartition(topic, partition) for partition in range(partitions)])
        return _cpu_while(lambda: consumer.poll(1.0), seconds)


def confluent_idle(bootstrap_servers: str, topic: str, partitions: int, seconds: int) -> Figures:
    from confluent_kafka import Consumer, TopicPartition

    group = {"group.id": uuid.uuid4().hex, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, **group})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found = _cpu_while(lambda: consumer.poll(1.0), seconds)
    consumer.close()
    return found


def _cpu_while(poll: Callable[[], Any], seconds: int) -> Figures:
    _poll_for(poll, SETTLE_S)
    cpu, start = own_cpu_seconds(), time.perf_counter()
    _poll_for(poll, seconds)
    return {CPU: 100 * (own_cpu_seconds() - cpu) / (time.perf_counter() - start)}


def _poll_for(poll: Callable[[], Any], seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        assert not poll()


# Ten thousand


def many_partitions(partitions: int) -> Figures:
    """Read one record of every thousandth partition, then be idle. The broker runs in another process."""
    import levada

    serving = Worker("consume_idle:broker", {"partitions": partitions})
    try:
        servers = serving.await_ready()
        with levada.KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            return _use(consumer, [levada.TopicPartition(TOPIC, number) for number in range(partitions)], servers)
    finally:
        serving.stop()


def broker(partitions: int) -> Figures:
    """Serve a topic until killed."""
    from levada.testing import EmbeddedKafka

    with EmbeddedKafka() as kafka:
        kafka.create_topic(TOPIC, partitions)
        ready(kafka.bootstrap_servers)
        signal.pause()
    return {}


def _use(consumer: Any, assignment: list[Any], servers: str) -> Figures:
    import levada

    before, start = _resident_mib(), time.perf_counter()
    consumer.assign(assignment)
    assigned = time.perf_counter()
    for tp in assignment:
        consumer.seek(tp, 0)
    sought = time.perf_counter()
    consumer.poll(0)
    consumer.position(assignment[-1])
    positioned = time.perf_counter()
    with levada.KafkaProducer(bootstrap_servers=servers) as producer:
        for tp in assignment[::1000]:
            producer.send(TOPIC, b"value", partition=tp.partition)
        producer.flush(60)
    written, seen = time.perf_counter(), 0
    while seen < len(assignment[::1000]):
        assert time.perf_counter() < written + 60, f"{seen} records within a minute"
        seen += len(consumer.poll(1.0))
    read = time.perf_counter()
    idle = _cpu_while(lambda: consumer.poll(1.0), QUICK_SECONDS)
    return {
        "assign ms": (assigned - start) * 1e3,
        "seek of all ms": (sought - assigned) * 1e3,
        "first poll ms": (positioned - sought) * 1e3,
        "records arrive ms": (read - written) * 1e3,
        f"idle {CPU}": idle[CPU],
        "memory MiB": _resident_mib() - before,
        "most memory MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20
