"""What TLS costs readers and senders, compared with confluent-kafka on a real Kafka 4.4 node: `make bench-tls`.

Each way runs with and without TLS in turns, on the same topic. The difference is the cost of encryption, the ratio is the effect for a
user.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import consume_rates
import produce_rates
from consume_bench import BATCHES, LARGE_BATCH, SMALL_BATCH, ConsumeBench
from consume_meter import CPU
from engine_bench import Case, System, worker
from kafka_cluster import KafkaCluster
from kafka_jars import KafkaUnavailable
from levada.testing import Authority
from machine import kafka
from produce_bench import CLIENT, DEFAULT, PARTITIONS, RECORDS, Job, ProduceBench
from sections import Run

PACKAGES = ("confluent-kafka", "pyarrow")
SIZE = 100
OVER_TLS = ", TLS"


class TlsBench:
    """Readers and senders of one node, which has a listener with TLS and one without."""

    def __init__(self, broker: KafkaCluster, turns: int, *, quick: bool) -> None:
        self.consume = ConsumeBench(broker.bootstrap_servers, turns, quick=quick)
        self.produce = ProduceBench(broker.nodes[0], turns, quick=quick)
        self._tls = broker.settings_for("SSL")

    def settings(self, client: str) -> tuple[str, dict[str, Any]]:
        """Return the address of the listener with TLS, and the other settings of a client."""
        servers, authority = self._tls["bootstrap_servers"], self._tls["ssl_truststore_certificates"]
        if client == "levada":
            return servers, {"security_protocol": "SSL", "ssl_truststore_certificates": authority}
        return servers, {"security.protocol": "SSL", "ssl.ca.pem": authority}


class Reading:
    """Compares poll_arrow and poll with consume to a table and counting."""

    def run(self, bench: TlsBench) -> Iterator[Case]:
        """Measure every size of batches."""
        for batch_bytes in (SMALL_BATCH, LARGE_BATCH):
            with bench.consume.filled(SIZE, "none", batch_bytes) as topic:
                case = Case("reading", f"{SIZE} B, none, {BATCHES[batch_bytes]}")
                bench.consume.run(case, self._systems(bench, topic))
            case.hold(consume_rates.COLUMNS + OVER_TLS, CPU, consume_rates.TABLE + OVER_TLS, 0.5)
            yield case

    def _systems(self, bench: TlsBench, topic: str) -> Mapping[str, System]:
        systems: dict[str, System] = {}
        for name in (consume_rates.COLUMNS, consume_rates.TABLE, consume_rates.POLL, consume_rates.COUNT):
            way = consume_rates.WAYS[name]
            job = bench.consume.reading(topic, SIZE, way.client, way.form)
            servers, security = bench.settings(way.client)
            secured = replace(job, bootstrap_servers=servers, settings=job.settings | security)
            systems |= {name: _worker(way.runner, job), name + OVER_TLS: _worker(way.runner, secured)}
        return systems


class Sending:
    """Compares send with produce, and send_arrow with produce_batch."""

    def run(self, bench: TlsBench) -> Iterator[Case]:
        """Measure with default settings."""
        with bench.produce.topic(PARTITIONS) as topic:
            case = bench.produce.run(Case("sending", f"{SIZE} B, none, default settings"), self._systems(bench, topic))
        case.hold(produce_rates.SEND + OVER_TLS, CLIENT, produce_rates.PRODUCE + OVER_TLS, 1)
        yield case

    def _systems(self, bench: TlsBench, topic: str) -> Mapping[str, System]:
        systems: dict[str, System] = {}
        for name in (produce_rates.SEND, produce_rates.PRODUCE, produce_rates.ARROW, produce_rates.PRODUCE_BATCH):
            way = produce_rates.WAYS[name]
            records, broker = bench.produce.scaled(RECORDS[SIZE]), bench.produce.broker
            job = Job(broker.address, topic, records, SIZE, DEFAULT[way.client], broker.process_id, way.form)
            servers, security = bench.settings(way.client)
            secured = replace(job, bootstrap_servers=servers, settings=job.settings | security)
            systems |= {name: _worker(way.runner, job), name + OVER_TLS: _worker(way.runner, secured)}
        return systems


def _worker(runner: Any, job: Any) -> System:
    return worker(runner, asdict(job))


def main() -> int:
    """Measure, print a table per case and the missed targets, and save the rows."""
    sections = {"reading": Reading(), "sending": Sending()}
    run = Run("tls", __doc__ or "", sections, turns=3, quick="one turn of a fifth of the records: does it work at all?")
    chosen = run.arguments(PACKAGES)
    try:
        with kafka(Authority()) as broker:
            bench = TlsBench(broker, 1 if chosen.quick else chosen.turns, quick=chosen.quick)
            run.tell(chosen.sections, run.cases(bench, chosen.sections))
    except KafkaUnavailable as reason:
        print(f"bench-tls needs a real Kafka: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
