"""Runs the steps of a plan on a cluster, a producer and a consumer in virtual time, and checks the history."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from chaos_app import PORT, SERVERS, TOPIC, TRANSACTIONAL_ID, App
from chaos_plan import NODES, PARTITIONS, Plan
from levada.base.clock import NEVER_MS
from levada.broker.cluster.cluster import Cluster
from levada.broker.config.settings import BrokerSettings
from levada.broker.node.node import BrokerNode
from levada.error_codes import ErrorCode
from levada.testing import Simulation
from levada.testing.history import (
    Event,
    Finding,
    History,
    Recorder,
    RecordingConsumer,
    Report,
    check,
    found_in,
    read_log,
)
from levada.testing.simulation import EPOCH_MS
from levada.types import TopicPartition

READER = 1000
ALL = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
SETTLED_MS = 40_000
"""ms that a connection may take after the last fault: an attempt to connect to a silent node lasts up to 36 s."""


class Mender:
    """A server without connections. The simulated network calls advance(), which ends outages at their time."""

    def __init__(self) -> None:
        self._mends: list[tuple[int, Callable[[], None]]] = []

    def at(self, ms: int, mend: Callable[[], None]) -> None:
        self._mends.append((ms, mend))

    def clear(self) -> None:
        self._mends.clear()

    def advance(self, now_ms: int) -> int:
        due = [mend for at_ms, mend in self._mends if at_ms <= now_ms]
        self._mends = [(at_ms, mend) for at_ms, mend in self._mends if at_ms > now_ms]
        for mend in due:
            mend()
        return min((at_ms for at_ms, _ in self._mends), default=NEVER_MS)

    def outgoing(self) -> list[tuple[int, bytes | None]]:
        return []

    def connect(self, conn_id: int) -> None: ...

    def disconnect(self, conn_id: int) -> None: ...

    def receive(self, conn_id: int, frame: bytes, now_ms: int) -> None: ...


class World:
    """The methods are the steps that a plan names. fetch_max_wait_ms: of the consumer. retention_ms: retention.ms of the topic."""

    def __init__(self, sim: Simulation, plan: Plan, *, fetch_max_wait_ms: int = 500, retention_ms: int = -1) -> None:
        self.sim = sim
        self.plan = plan
        self.events: list[Event] = []
        self.cluster = Cluster(BrokerSettings.of(**plan.brokers), sim.random)
        self.nodes = {number: self._node(number) for number in range(1, NODES + 1)}
        self.nodes[1].create_topic(TOPIC, PARTITIONS, {"max.message.bytes": "700", "retention.ms": str(retention_ms)})
        self.apps: list[App] = []
        self._processes = count(1)
        self.consumer = sim.consumer(
            bootstrap_servers=SERVERS,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            request_timeout_ms=2000,
            fetch_max_wait_ms=fetch_max_wait_ms,
        )
        self.consumer.assign(ALL)
        self.reading = RecordingConsumer(self.consumer, Recorder(self.events.append, READER, now_ms=lambda: sim.now_ms))
        self._mender = Mender()
        sim.network.add_server(self._mender, "mender", PORT)
        self.take_over()

    def _node(self, number: int) -> BrokerNode:
        settings = {"cluster": self.cluster, "random": self.sim.random, **self.plan.brokers}
        node = BrokerNode(node_id=number, host=f"b{number}", port=PORT, wall_offset_ms=EPOCH_MS, **settings)
        self.sim.network.add_server(node, f"b{number}", PORT)
        return node

    @property
    def app(self) -> App:
        """The newest program, which writes now."""
        return self.apps[-1]

    # Operations

    def send(self, partition: int, size: int) -> None:
        self.app.send(partition, size)

    def offsets(self, offset: int) -> None:
        self._alive(lambda: self.app.offsets(offset))

    def begin(self) -> None:
        self._alive(self.app.begin)

    def commit(self, repeats: int) -> None:
        self._alive(lambda: self.app.end(commits=True, repeats=repeats))

    def abort(self, repeats: int) -> None:
        self._alive(lambda: self.app.end(commits=False, repeats=repeats))

    def wait(self, ms: int) -> None:
        self.sim.advance(ms)

    def poll(self, ms: int) -> None:
        self.reading.poll(ms / 1000)

    def take_over(self) -> None:
        """Start a new program. The previous program is not closed, and does not learn of its successor."""
        self.apps.append(self._new_app())
        while not self.app.started():
            self.heal()
            if self.app.is_dead:
                self.apps.append(self._new_app())

    def _new_app(self) -> App:
        return App(self.sim, self.plan, Recorder(self.events.append, next(self._processes), now_ms=lambda: self.sim.now_ms))

    def zombie(self, partition: int) -> None:
        """Let the program that was replaced last write and commit a transaction."""
        if len(self.apps) > 1:
            old = self.apps[-2]
            old.begin()
            old.send(partition, 0)
            old.end(commits=True, repeats=0)

    def close_replaced(self, kept: int) -> None:
        """Close the replaced programs, except the last `kept` of them."""
        for app in self.apps[: -1 - kept]:
            app.close()
        del self.apps[: -1 - kept]

    def _alive(self, step: Callable[[], None]) -> None:
        step()
        if self.app.is_dead:
            self.take_over()

    # Faults

    def refuse(self, node: int, code: str, partition: int, times: int) -> None:
        self.nodes[node].faults.fail_next("Produce", ErrorCode[code], topic=TOPIC, partition=partition, times=times)

    def answer(self, node: int, api: str, code: str, times: int) -> None:
        self.nodes[node].faults.fail_next(api, ErrorCode[code], times=times)

    def append_and_refuse(self, node: int, code: str) -> None:
        self.nodes[node].faults.fail_next("Produce", ErrorCode[code], applied=True)

    def lose(self, node: int, api: str) -> None:
        self.nodes[node].faults.drop_response(api)

    def cut(self, node: int, api: str, nth: int, applied: bool) -> None:
        self.nodes[node].faults.disconnect(api, nth=nth, applied=applied)

    def cut_frame(self, node: int, api: str, after_bytes: int) -> None:
        self.nodes[node].faults.close_mid_frame(api, after_bytes=after_bytes)

    def slow(self, node: int, api: str, ms: int, times: int) -> None:
        self.nodes[node].faults.delay(api, ms, times=times)

    def throttle(self, node: int, api: str, ms: int) -> None:
        self.nodes[node].faults.throttle(api, ms)

    def elect(self, partition: int, node: int) -> None:
        self.cluster.move_leader(self.cluster.topics[TOPIC].partitions[partition], node)

    def stop(self, node: int, ms: int) -> None:
        self.sim.network.stop(f"b{node}", PORT)
        self._mend_after(ms, lambda: self.sim.network.start(f"b{node}", PORT))

    def blackhole(self, node: int, ms: int) -> None:
        self.sim.network.blackhole(f"b{node}", PORT)
        self._mend_after(ms, lambda: self.sim.network.start(f"b{node}", PORT))

    def chunk(self, size: int) -> None:
        self.sim.network.chunk_bytes = size

    def move_coordinator(self, node: int) -> None:
        self.cluster.transaction_coordinators.move(TRANSACTIONAL_ID, node)

    def load_coordinator(self, ms: int) -> None:
        self.cluster.transaction_coordinators.begin_loading(TRANSACTIONAL_ID)
        self._mend_after(ms, lambda: self.cluster.transaction_coordinators.end_loading(TRANSACTIONAL_ID))

    def forget(self, partition: int) -> None:
        """Remove the leader's producer state of a partition, while no batch is in flight.

        Kafka does not prevent duplicates for a batch that is sent again after such a loss. With several batches in flight it does not keep
        their order, because a leader without producer state accepts the first batch that arrives. So one batch is sent alone afterwards.
        """
        self.heal()
        self.app.producer.flush()
        self.cluster.topics[TOPIC].partitions[partition].producers.forget_all()
        self.send(partition, 0)
        self.app.producer.flush()

    # The course of a run

    def heal(self) -> None:
        """End every fault."""
        for number, node in self.nodes.items():
            node.faults.clear()
            self.sim.network.start(f"b{number}", PORT)
        self.cluster.transaction_coordinators.end_loading(TRANSACTIONAL_ID)
        self._mender.clear()

    def verdict(self) -> Report:
        """End all faults and pending work, close the clients, and check the history against the logs."""
        self.heal()
        self.sim.advance(SETTLED_MS)
        if self.app.is_open:
            self.commit(1)
        self.app.producer.flush()
        left = self._last_write()
        for app in self.apps:
            app.close()
        self.consumer.close()
        with self.sim.client(bootstrap_servers=SERVERS) as client:
            log = read_log(client, [TOPIC], pause=lambda seconds: self.sim.advance(int(seconds * 1000)))
        committed = found_in(self.sim.scan(TOPIC, bootstrap_servers=SERVERS, isolation_level="read_committed"))
        report = check(History.of(self.events), log=log, committed=committed)
        return report._replace(findings=(*report.findings, *left))

    def _last_write(self) -> list[Finding]:
        """Write one more record, with a new program if the producer of the current one had a fatal error. Returns findings."""
        if self.app.last_write() is not None and self.app.is_dead:
            self.take_over()
            self.app.last_write()
        return list(self.app.left_behind())

    def _mend_after(self, ms: int, mend: Callable[[], None]) -> None:
        self._mender.at(self.sim.now_ms + ms, mend)


def run(plan: Plan, prepare: Callable[[World], Any] = lambda world: None) -> Report:
    """Run the steps of a plan, and return the report of the check. prepare: called with the World before the first step."""
    with Simulation(seed=plan.seed, latency_ms=(1, 20)) as sim:
        world = World(sim, plan)
        prepare(world)
        for step in plan.steps:
            getattr(world, step.name)(*step.arguments)
        return world.verdict()
