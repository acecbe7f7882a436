"""How long rebalances take, in both protocols, with few members and with many; one process has all members of a client."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from consume_members import FORM, JOIN, LEAVE, settings
from engine_bench import CONFLUENT, LEVADA, Bench, Case, System
from engine_process import Figures, Worker, WorkerFailed
from java_kit import JavaError, JavaProgram
from kafka_cluster import POMS
from kafka_jars import jars

SECTION = "rebalance"
PROTOCOLS = ("classic", "consumer")
MEMBERS = (3, 50)
PARTITIONS_EACH = 2
ROUNDS = 9
# The phase of heartbeats differs from round to round, so medians differ by this factor without a cause.
TOLERANCE = 1.1
JAVA = "Java"
JAVA_SOURCE = Path(__file__).parent / "GroupMembers.java"
JAVA_POM = POMS / "pom-4.4.0.xml"


def run(bench: Bench) -> Iterator[Case]:
    """Measure each number of members, with its own topic, and a new group in each turn."""
    for members in MEMBERS:
        with bench.topic(members * PARTITIONS_EACH) as topic:
            for protocol in PROTOCOLS:
                yield _case(bench, topic, members, protocol)


def _case(bench: Bench, topic: str, members: int, protocol: str) -> Case:
    systems = {name: _python(bench, topic, members, protocol, client) for name, client in ((LEVADA, "levada"), (CONFLUENT, "confluent"))}
    systems[JAVA] = _java(bench, topic, members, protocol)
    case = bench.run(Case(SECTION, f"rebalance of {members} members, group.protocol={protocol}"), systems)
    for figure in (JOIN, LEAVE):
        case.hold(LEVADA, figure, CONFLUENT, TOLERANCE)
    return case


def _python(bench: Bench, topic: str, members: int, protocol: str, client: str) -> System:
    what = {"client": client, "protocol": protocol, "members": members, "partitions": members * PARTITIONS_EACH, "rounds": ROUNDS}
    return lambda: Worker("consume_members:rebalances", bench.job(topic, **what, group=f"bench-{uuid.uuid4()}")).result()


def _java(bench: Bench, topic: str, members: int, protocol: str) -> System:
    def run() -> Figures:
        config = {"bootstrap.servers": bench.bootstrap_servers, "group.id": f"bench-{uuid.uuid4()}", **_java_settings(protocol)}
        lines = [(topic, members, members * PARTITIONS_EACH, ROUNDS), *config.items()]
        with JavaProgram(JAVA_SOURCE, jars(JAVA_POM)) as program:
            try:
                told = program.ask("\n".join("\t".join(map(str, line)) for line in lines).encode()).decode()
            except (JavaError, RuntimeError) as error:
                raise WorkerFailed(f"GroupMembers: {error}") from error
        form, joins, leaves = (median(map(float, line.split())) for line in told.splitlines())
        return {FORM: form, JOIN: joins, LEAVE: leaves}

    return run


def _java_settings(protocol: str) -> dict[str, object]:
    assignor = "org.apache.kafka.clients.consumer.RangeAssignor"
    return settings(protocol) | ({"partition.assignment.strategy": assignor} if protocol == "classic" else {})
