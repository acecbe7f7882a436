"""Runs the steps of a plan on a cluster and the members of a group in virtual time, and checks the history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from chaos_plan import Plan
from chaos_world import Mender
from consumer_kit import batch
from group_chaos_member import GROUP, OUT, PORT, SERVERS, SESSION_TIMEOUT_MS, Program
from group_chaos_plan import NODES, OUT_PARTITIONS, TOPICS
from levada.broker.cluster.cluster import Cluster
from levada.broker.config.settings import BrokerSettings
from levada.broker.node.node import BrokerNode
from levada.error_codes import ErrorCode
from levada.record.batch import RecordBatch
from levada.testing import Simulation
from levada.testing.history import Event, Finding, History, Recorder, Report, check, found_in, read_log
from levada.testing.history.recorder import recorded
from levada.testing.simulation import EPOCH_MS
from levada.types import RecordMetadata, TopicPartition

WRITER = 1000
LOOKER = 1001
MOST_MEMBERS = 4
ROUNDS = 150
"""The number of times that all members poll, within which the group must have read and committed everything."""
BROKERS: Mapping[str, Any] = {"log_retention_ms": -1, "group_consumer_session_timeout_ms": SESSION_TIMEOUT_MS}
ALL = frozenset(TopicPartition(topic, index) for topic, count in TOPICS.items() for index in range(count))


class GroupWorld:
    """The methods are the steps that a plan names. A step names a member by an index modulo the number of members."""

    def __init__(self, sim: Simulation, plan: Plan) -> None:
        self.sim = sim
        self.plan = plan
        self.events: list[Event] = []
        self.cluster = Cluster(BrokerSettings.of(**BROKERS), sim.random)
        self.nodes = {number: self._node(number) for number in range(1, NODES + 1)}
        for topic, count in {**TOPICS, OUT: OUT_PARTITIONS}.items():
            self.nodes[1].create_topic(topic, count, {})
        self.members: list[Program] = []
        self.written: dict[TopicPartition, int] = defaultdict(int)
        self._joined = 0
        self._is_pausing = False
        self._writer, self._looker = self._recorder(WRITER), self._recorder(LOOKER)
        self._seen: dict[TopicPartition, int] = {}
        self._mender = Mender()
        sim.network.add_server(self._mender, "mender", PORT)

    def _node(self, number: int) -> BrokerNode:
        node = BrokerNode(
            node_id=number, host=f"b{number}", port=PORT, wall_offset_ms=EPOCH_MS, cluster=self.cluster, random=self.sim.random, **BROKERS
        )
        self.sim.network.add_server(node, f"b{number}", PORT)
        return node

    def _recorder(self, process: int) -> Recorder:
        return Recorder(self.events.append, process, now_ms=lambda: self.sim.now_ms)

    # What members and writers do

    def write(self, topic: str, partition: int, count: int) -> None:
        told = [self._writer.sending(topic, partition, -1, -1) for _ in range(count)]
        found = self.cluster.topics[topic].partitions[partition]
        data = batch(0, [recorded(value) for value, _ in told], epoch=0)
        base = found.log.end_offset
        found.log.append(RecordBatch(memoryview(bytearray(data))), leader_epoch=found.leader_epoch)
        self.cluster.replicate(found)
        for index, (_, ended) in enumerate(told):
            ended(RecordMetadata(topic, partition, base + index, 0), None)
        self.written[TopicPartition(topic, partition)] += count

    def join(self, static: bool) -> None:
        if len(self.members) < MOST_MEMBERS:
            self._joined += 1
            instance_id = f"static-{self._joined % 3}" if static else None
            self.members.append(Program(self.sim, self.plan.settings, self._recorder(self._joined), instance_id, self._pause))

    def poll(self, member: int, ms: int) -> None:
        self._of(member, lambda program: program.poll(ms))

    def commit(self, member: int) -> None:
        self._of(member, Program.commit)

    def close(self, member: int, leave_group: bool | None) -> None:
        self._of(member, lambda program: program.close(leave_group))

    def die(self, member: int) -> None:
        if self.members:
            self.members.pop(member % len(self.members)).die()

    def resubscribe(self, member: int, topics: tuple[str, ...]) -> None:
        self._of(member, lambda program: program.member.subscribe(topics))

    def idle(self, ms: int) -> None:
        self.sim.advance(ms)

    def slow(self, member: int, ms: int) -> None:
        if self.members:
            self._without(self.members[member % len(self.members)], ms)

    def _without(self, slow: Program, ms: int) -> None:
        end_ms = self.sim.now_ms + ms
        while self.sim.now_ms < end_ms:
            self.sim.advance(1000)
            for program in list(self.members):
                if program is not slow:
                    self._do(program, lambda program: program.poll(1000))

    def _pause(self, program: Program, ms: int) -> None:
        """In every fourth transaction on average, let the other members run for `ms` while this one pauses. Pauses are not nested."""
        if ms and not self._is_pausing and self.sim.random.random() < 0.25:
            self._is_pausing = True
            self._without(program, ms)
            self._is_pausing = False

    def _of(self, member: int, act: Callable[[Program], object]) -> None:
        if self.members:
            self._do(self.members[member % len(self.members)], act)

    def _do(self, program: Program, act: Callable[[Program], object]) -> None:
        """Call `act` for a program that is still a member, and remove it if it is over. Another call may have removed it before."""
        if program in self.members:
            act(program)
        if program.is_over and program in self.members:
            self.members.remove(program)

    # Faults. A fault of a request is set at every node, so that it affects the node that is the coordinator.

    def move(self, node: int) -> None:
        self.cluster.group_coordinators.move(GROUP, node)

    def lead(self, topic: str, partition: int, node: int) -> None:
        self.cluster.move_leader(self.cluster.topics[topic].partitions[partition], node)

    def load(self, ms: int) -> None:
        self.cluster.group_coordinators.begin_loading(GROUP)
        self._mender.at(self.sim.now_ms + ms, lambda: self.cluster.group_coordinators.end_loading(GROUP))

    def fail(self, api: str, code: str, times: int) -> None:
        for node in self.nodes.values():
            node.faults.fail_next(api, ErrorCode[code], times=times)

    def cut(self, api: str, applied: bool) -> None:
        for node in self.nodes.values():
            node.faults.disconnect(api, applied=applied)

    def lose(self, api: str) -> None:
        for node in self.nodes.values():
            node.faults.drop_response(api)

    def late(self, api: str, ms: int) -> None:
        for node in self.nodes.values():
            node.faults.delay(api, ms)

    def stop(self, node: int, ms: int) -> None:
        self.sim.network.stop(f"b{node}", PORT)
        self._mender.at(self.sim.now_ms + ms, lambda: self.sim.network.start(f"b{node}", PORT))

    def blackhole(self, node: int, ms: int) -> None:
        self.sim.network.blackhole(f"b{node}", PORT)
        self._mender.at(self.sim.now_ms + ms, lambda: self.sim.network.start(f"b{node}", PORT))

    # The course of a run

    def look(self) -> None:
        """Record the committed offsets that have changed since the last call."""
        now = {tp: at.offset for tp in ALL if (at := self.cluster.group_offsets.committed(GROUP, tp)) is not None}
        changed = {tp: offset for tp, offset in now.items() if self._seen.get(tp) != offset}
        if changed:
            self._looker.committed(GROUP, changed)
            self._seen.update(changed)

    def heal(self) -> None:
        """End every fault."""
        for number, node in self.nodes.items():
            node.faults.clear()
            self.sim.network.start(f"b{number}", PORT)
        self.cluster.group_coordinators.end_loading(GROUP)
        self._mender.clear()

    def verdict(self) -> Report:
        """End all faults, let the group read everything, close its members, and check the history against the logs."""
        self.heal()
        left = (
            []
            if self._settles()
            else [Finding("K12", "the group does not come to its end although nothing is broken any more", self._state())]
        )
        for program in list(self.members):
            self._do(program, Program.close)
        self.look()
        with self.sim.client(bootstrap_servers=SERVERS) as client:
            log = read_log(client, [*TOPICS, OUT], pause=lambda seconds: self.sim.advance(int(seconds * 1000)))
        committed = found_in(self.sim.scan([*TOPICS, OUT], bootstrap_servers=SERVERS, isolation_level="read_committed"))
        report = check(History.of(self.events), log=log, committed=committed)
        return report._replace(findings=(*report.findings, *left))

    def _settles(self) -> bool:
        for _ in range(ROUNDS):
            if not self.members:
                self.join(False)
            for program in list(self.members):
                self._do(program, lambda program: program.member.subscribe(TOPICS))
                self._do(program, lambda program: program.poll(300))
            for program in list(self.members):
                self._do(program, Program.commit)
            self.look()
            if self._is_settled():
                return True
        return False

    def _is_settled(self) -> bool:
        owned = [tp for program in self.members for tp in program.consumer.assignment()]
        return sorted(owned) == sorted(ALL) and all(self._seen.get(tp) == count for tp, count in self.written.items())

    def _state(self) -> tuple[str, ...]:
        members = (f"process {program.recorder.process} has {sorted(program.consumer.assignment())}" for program in self.members)
        behind = {tp: (self._seen.get(tp), count) for tp, count in self.written.items() if self._seen.get(tp) != count}
        return (*members, f"committed and written: {behind}")


def run_group(plan: Plan, prepare: Callable[[GroupWorld], Any] = lambda world: None) -> Report:
    """Run the steps of a plan, and return the report of the check. prepare: called with the GroupWorld before the first step."""
    with Simulation(seed=plan.seed, latency_ms=(1, 20)) as sim:
        world = GroupWorld(sim, plan)
        prepare(world)
        for step in plan.steps:
            getattr(world, step.name)(*step.arguments)
            world.look()
        return world.verdict()
