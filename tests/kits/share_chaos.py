"""A share group under seeded trouble in virtual time: a plan as data, the programs of its members, and the verdict on what came of it.

Members accept, release, reject and renew, in calls and in columns, are slow, close and die; leaders and the coordinator move; requests and
answers are lost. In the end every record is accepted, rejected, or archived after the group's limit of deliveries; a record that was told
to be accepted comes to nobody again while its leader stays; and each acknowledgement of a program that was not killed has one outcome.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from chaos_plan import Plan, Step
from chaos_world import Mender
from consumer_kit import batch
from levada.broker.cluster.cluster import Cluster
from levada.broker.config.settings import BrokerSettings
from levada.broker.node.node import BrokerNode
from levada.broker.share.share_partition import SharePartition
from levada.broker.share.share_partitions import Delivery, OpenShare
from levada.broker.share.share_states import ShareKey
from levada.error_codes import ErrorCode
from levada.errors import AcknowledgeError, KafkaError, TimeoutError
from levada.record.batch import RecordBatch
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS
from levada.types import TopicPartition
from share_peers import configure_group

GROUP, TOPIC, PORT, NODES, PARTITIONS = "g", "t", 9092, 3, 3
SERVERS = ",".join(f"b{number}:{PORT}" for number in range(1, NODES + 1))
LIMIT = 5
STEPS = 30
MOST_MEMBERS = 4
ROUNDS = 500
"""How often everybody polls until the group must be done with everything."""
KINDS = ("accept", "accept", "accept", "release", "reject", "renew")
SETTINGS: Mapping[str, Any] = {
    "share_acknowledgement_mode": "explicit",
    "request_timeout_ms": 3_000,
    "default_api_timeout_ms": 8_000,
    "max_poll_interval_ms": 60_000,
}
CODES: Mapping[str, tuple[str, ...]] = {
    "ShareGroupHeartbeat": ("NOT_COORDINATOR", "UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "COORDINATOR_LOAD_IN_PROGRESS"),
    "ShareFetch": ("SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH", "SHARE_SESSION_LIMIT_REACHED"),
    "ShareAcknowledge": ("SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH"),
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
}


# The plan


def draw_share(seed: int, steps: int = STEPS) -> Plan:
    """Return the plan of a seed."""
    random = Random(seed)
    chosen = {
        "share_acquire_mode": random.choice(["batch_optimized", "record_limit"]),
        "max_poll_records": random.choice([2, 5, 500]),
    }
    begin = (Step("join"), Step("write", (0, 4)))
    return Plan(seed, chosen, (*begin, *(random.choice(_DRAWN)(random) for _ in range(steps))))


def _member(random: Random) -> int:
    return random.randrange(100)


def _node(random: Random) -> int:
    return random.randint(1, NODES)


_DRAWN: tuple[Callable[[Random], Step], ...] = (
    *[lambda random: Step("poll", (_member(random), random.choice([10, 400, 1500]), random.random() < 0.3))] * 14,
    *[lambda random: Step("write", (random.randrange(PARTITIONS), random.randint(1, 6)))] * 6,
    *[lambda random: Step("join")] * 2,
    *[lambda random: Step("commit", (_member(random),))] * 3,
    lambda random: Step("close", (_member(random),)),
    lambda random: Step("die", (_member(random),)),
    lambda random: Step("slow", (_member(random), random.choice([5_000, 20_000, 40_000]))),
    lambda random: Step("idle", (random.choice([1_000, 20_000]),)),
    lambda random: Step("lead", (random.randrange(PARTITIONS), _node(random))),
    lambda random: Step("move", (_node(random),)),
    lambda random: Step("fail", (api := random.choice(sorted(CODES)), random.choice(CODES[api]), random.randint(1, 2))),
    lambda random: Step("cut", (random.choice(sorted(CODES)), random.random() < 0.5)),
    lambda random: Step("lose", (random.choice(sorted(CODES)),)),
    lambda random: Step("stop", (_node(random), random.randint(1, 8_000))),
)


# A program


class Program:
    """One member. told: of each offset that it acknowledged, how often it was told an outcome, which kind it said, and the errors."""

    def __init__(self, world: ShareWorld, number: int, settings: Mapping[str, Any]) -> None:
        self.number = number
        self._world = world
        self.consumer: Any = world.sim.share_consumer(bootstrap_servers=SERVERS, group_id=GROUP, **{**SETTINGS, **settings})
        self.consumer.set_acknowledgement_commit_callback(self._told)
        self.consumer.subscribe([TOPIC])
        self.sent: Counter[tuple[int, int]] = Counter()
        self.told: Counter[tuple[int, int]] = Counter()
        self._said: dict[tuple[int, int], list[str]] = defaultdict(list)

    def poll(self, timeout_ms: int, *, columns: bool, kinds: Sequence[str] = KINDS) -> None:
        random = self._world.sim.random
        if columns:
            batch = self.consumer.poll_arrow(timeout_ms / 1000, max_records=5)
            for row in batch.to_pylist():
                self._world.delivered(self, row["partition"], row["offset"], row["delivery_count"])
            mask = [random.random() < 0.7 for _ in range(batch.num_rows)]
            self.consumer.acknowledge_arrow(batch, "accept", mask)
            self.consumer.acknowledge_arrow(batch, "release", [not taken for taken in mask])
            for row, taken in zip(batch.to_pylist(), mask, strict=True):
                self._note(row["partition"], row["offset"], "accept" if taken else "release")
            return
        for record in self.consumer.poll(timeout_ms / 1000):
            self._world.delivered(self, record.partition, record.offset, record.delivery_count)
            kind = random.choice(kinds)
            self.consumer.acknowledge(record, kind)
            self._note(record.partition, record.offset, kind)

    def _note(self, partition: int, offset: int, kind: str) -> None:
        self.sent[partition, offset] += 1
        self._said[partition, offset].append(kind)

    def _told(self, offsets: dict[TopicPartition, list[int]], error: KafkaError | None) -> None:
        for tp, found in offsets.items():
            for offset in found:
                self.told[tp.partition, offset] += 1
                if self._said[tp.partition, offset]:
                    self._world.settled(tp.partition, offset, self._said[tp.partition, offset].pop(0), error)

    def commit(self) -> None:
        with suppress(AcknowledgeError, TimeoutError):
            self.consumer.commit()

    def close(self) -> None:
        self.consumer.close(10)
        self._world.findings += [
            f"program {self.number} acknowledged {place} {self.sent[place]} times, and was told {self.told[place]} outcomes"
            for place in self.sent | self.told
            if self.sent[place] != self.told[place]
        ]

    def die(self) -> None:
        """As under kill -9."""
        self.consumer._driver.close()
        for (partition, offset), kinds in self._said.items():
            for kind in kinds:
                self._world.settled(partition, offset, kind, TimeoutError("killed"))


# The world


class ShareWorld:
    """The methods that a plan names are its steps. A member is named by a number, of which the rest by the number of members counts."""

    def __init__(self, sim: Simulation, plan: Plan) -> None:
        self.sim, self.plan = sim, plan
        self.findings: list[str] = []
        self.cluster = Cluster(BrokerSettings.of(log_retention_ms=-1, group_share_delivery_count_limit=LIMIT), sim.random)
        self.nodes = {number: self._node(number) for number in range(1, NODES + 1)}
        self.nodes[1].create_topic(TOPIC, PARTITIONS, {})
        self.members: list[Program] = []
        self.written: Counter[int] = Counter()
        self.accepted: set[tuple[int, int]] = set()
        """What a program was told that it is accepted, or rejected."""
        self.perhaps: set[tuple[int, int]] = set()
        """What may be, as nobody knows whether the acknowledgement arrived."""
        self.deliveries: Counter[tuple[int, int]] = Counter()
        self._joined = 0
        self._moved: set[int] = set()
        self._mender = Mender()
        sim.network.add_server(self._mender, "mender", PORT)
        with sim.client(bootstrap_servers=SERVERS) as client:
            configure_group(client, GROUP, share_auto_offset_reset="earliest", share_record_lock_duration_ms="15000")

    def _node(self, number: int) -> BrokerNode:
        settings: dict[str, Any] = {"cluster": self.cluster, "random": self.sim.random, "log_retention_ms": -1}
        node = BrokerNode(node_id=number, host=f"b{number}", port=PORT, wall_offset_ms=EPOCH_MS, **settings)
        self.sim.network.add_server(node, f"b{number}", PORT)
        shares: Any = node._state.shares
        acquire = shares.acquire

        def noted(opened: OpenShare, *arguments: Any, **keywords: Any) -> Delivery:
            """Note deliveries that never arrive, too."""
            delivery: Delivery = acquire(opened, *arguments, **keywords)
            for part in delivery.acquired:
                for offset in range(part.first, part.last + 1):
                    place = opened.key.partition, offset
                    self.deliveries[place] = max(self.deliveries[place], part.deliveries)
            return delivery

        shares.acquire = noted
        return node

    # What programs tell

    def delivered(self, program: Program, partition: int, offset: int, count: int) -> None:
        place = partition, offset
        # A member does not know at once that the leader which gave it a record is none any more, and its locks are over.
        if place in self.accepted and partition not in self._moved:
            self.findings.append(f"program {program.number} got {place}, which was accepted or rejected before")
        if count > LIMIT:
            self.findings.append(f"program {program.number} got {place} for the {count}th time")

    def settled(self, partition: int, offset: int, kind: str, error: KafkaError | None) -> None:
        if kind in ("accept", "reject"):
            is_refused = getattr(error, "code", None) is ErrorCode.INVALID_RECORD_STATE
            # Brokers take a late one, too, of a record that the group is done with by now.
            if error is None:
                self.accepted.add((partition, offset))
            elif not is_refused:
                self.perhaps.add((partition, offset))

    # Steps

    def write(self, partition: int, count: int) -> None:
        found = self.cluster.topics[TOPIC].partitions[partition]
        data = batch(0, [b"v"] * count, epoch=0)
        found.log.append(RecordBatch(memoryview(bytearray(data))), leader_epoch=found.leader_epoch)
        self.cluster.replicate(found)
        self.written[partition] += count

    def join(self) -> None:
        if len(self.members) < MOST_MEMBERS:
            self._joined += 1
            self.members.append(Program(self, self._joined, self.plan.settings))

    def poll(self, member: int, ms: int, columns: bool) -> None:
        if self.members:
            self.members[member % len(self.members)].poll(ms, columns=columns)

    def commit(self, member: int) -> None:
        if self.members:
            self.members[member % len(self.members)].commit()

    def close(self, member: int) -> None:
        if self.members:
            self.members.pop(member % len(self.members)).close()

    def die(self, member: int) -> None:
        if self.members:
            self.members.pop(member % len(self.members)).die()

    def idle(self, ms: int) -> None:
        self.sim.advance(ms)

    def slow(self, member: int, ms: int) -> None:
        """One member is slow, the others go on."""
        slow = self.members[member % len(self.members)] if self.members else None
        end_ms = self.sim.now_ms + ms
        while self.sim.now_ms < end_ms:
            self.sim.advance(1000)
            for program in self.members:
                if program is not slow:
                    program.poll(1000, columns=False)

    def lead(self, partition: int, node: int) -> None:
        self._moved.add(partition)
        self.cluster.move_leader(self.cluster.topics[TOPIC].partitions[partition], node)

    def move(self, node: int) -> None:
        self.cluster.group_coordinators.move(GROUP, node)

    def fail(self, api: str, code: str, times: int) -> None:
        for node in self.nodes.values():
            node.faults.fail_next(api, ErrorCode[code], times=times)

    def cut(self, api: str, applied: bool) -> None:
        for node in self.nodes.values():
            node.faults.disconnect(api, applied=applied)

    def lose(self, api: str) -> None:
        for node in self.nodes.values():
            node.faults.drop_response(api)

    def stop(self, node: int, ms: int) -> None:
        self.sim.network.stop(f"b{node}", PORT)
        self._mender.at(self.sim.now_ms + ms, lambda: self.sim.network.start(f"b{node}", PORT))

    # The verdict

    def verdict(self) -> list[str]:
        """Heal, let the group work everything off, close its members, and return what is wrong."""
        for number, node in self.nodes.items():
            node.faults.clear()
            self.sim.network.start(f"b{number}", PORT)
        self._mender.clear()
        if not self._settles():
            self.findings.append(f"the group does not come to its end: {self._open()} of {dict(self.written)}")
        for program in self.members:
            program.close()
        self.findings += [
            f"{(partition, offset)} was lost after {self.deliveries[partition, offset]} deliveries"
            for partition, count in self.written.items()
            for offset in range(count)
            if not self._is_accounted_for((partition, offset))
        ]
        return self.findings

    def _is_accounted_for(self, place: tuple[int, int]) -> bool:
        return place in self.accepted or place in self.perhaps or self.deliveries[place] >= LIMIT

    def _settles(self) -> bool:
        for _ in range(ROUNDS):
            if not self.members:
                self.join()
            for program in self.members:
                program.poll(500, columns=False, kinds=("accept",))
                program.commit()
            if not self._open():
                return True
        return False

    def _open(self) -> dict[int, int]:
        """Return what the group is not done with: partitions, and from which offset on."""
        open_from = {}
        for partition, count in self.written.items():
            shared = self._shared(partition)
            done = 0 if shared is None else shared.start_offset
            if done < count:
                open_from[partition] = done
        return open_from

    def _shared(self, partition: int) -> SharePartition | None:
        state = self.cluster.share_states.find(ShareKey(GROUP, self.cluster.topics[TOPIC].id, partition))
        return None if state is None else state.partition


def run_share(plan: Plan, prepare: Callable[[ShareWorld], object] = lambda world: None) -> list[str]:
    """Do a plan's steps and return what is wrong. prepare: what to do with the world first."""
    with Simulation(seed=plan.seed, latency_ms=(1, 20)) as sim:
        world = ShareWorld(sim, plan)
        prepare(world)
        for step in plan.steps:
            getattr(world, step.name)(*step.arguments)
        return world.verdict()
