"""Random faults, seeded: what was acknowledged is in the log, once and in order, and "not persisted" is true (M-P1 to 3)."""

from __future__ import annotations

import pytest

from levada.broker.node import BrokerNode
from levada.error_codes import ErrorCode
from levada.errors import Persisted
from levada.producer.delivery import Delivery
from levada.record.compression import Codec
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS
from producer_kit import SimProducer, batches, values
from sim_kit import broker as add_broker

PARTITIONS = 2
RECORDS = 150
NODES = {1: ("a", 1), 2: ("b", 1)}
CODES = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


class Nemesis:
    """Does one bad thing at a time to a cluster of two."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        first = add_broker(sim, *NODES[1], wall_offset_ms=EPOCH_MS, node_id=1)
        second = add_broker(sim, *NODES[2], wall_offset_ms=EPOCH_MS, node_id=2, cluster=first.cluster)
        self.nodes: list[BrokerNode] = [first, second]
        first.create_topic("t", PARTITIONS, {"max.message.bytes": "700"})

    def strike(self) -> None:
        node = self.sim.random.choice(self.nodes)
        self.sim.random.choice([self.refuse, self.lose, self.cut, self.slow, self.elect, self.restart, self.write_and_fail])(node)

    def refuse(self, node: BrokerNode) -> None:
        partition = self.sim.random.randrange(PARTITIONS)
        node.faults.fail_next("Produce", self.sim.random.choice(CODES), topic="t", partition=partition, times=self.sim.random.randint(1, 3))

    def write_and_fail(self, node: BrokerNode) -> None:
        code = self.sim.random.choice([ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
        node.faults.fail_next("Produce", code, applied=True)

    def lose(self, node: BrokerNode) -> None:
        node.faults.drop_response("Produce")

    def cut(self, node: BrokerNode) -> None:
        node.faults.disconnect("Produce", nth=self.sim.random.randint(1, 3), applied=self.sim.random.random() < 0.5)

    def slow(self, node: BrokerNode) -> None:
        node.faults.delay("Produce", ms=self.sim.random.randint(10, 3000), times=self.sim.random.randint(1, 3))

    def elect(self, node: BrokerNode) -> None:
        partition = self.sim.random.choice(node.cluster.topics["t"].partitions)
        node.cluster.move_leader(partition, 3 - partition.leader)

    def restart(self, node: BrokerNode) -> None:
        host, port = NODES[self.nodes.index(node) + 1]
        self.sim.network.stop(host, port)
        self.sim.advance(self.sim.random.randint(1, 1500))
        self.sim.network.start(host, port)

    def heal(self) -> None:
        for node in self.nodes:
            node.faults.clear()


def produce_under(nemesis: Nemesis, producer: SimProducer) -> dict[int, dict[bytes, Delivery]]:
    random = nemesis.sim.random
    sent: dict[int, dict[bytes, Delivery]] = {partition: {} for partition in range(PARTITIONS)}
    for number in range(RECORDS):
        if random.random() < 0.12:
            nemesis.strike()
        value = b"%d." % number + b"x" * random.randint(0, 120)
        partition = random.randrange(PARTITIONS)
        sent[partition][value] = producer.send("t", value, partition=partition)
        if random.random() < 0.3:
            nemesis.sim.advance(random.randint(0, 50))
    nemesis.heal()
    producer.flush()
    return sent


def check(nemesis: Nemesis, sent: dict[int, dict[bytes, Delivery]]) -> None:
    for partition, deliveries in sent.items():
        log = values(nemesis.nodes[0], "t", partition)
        assert len(log) == len(set(log)), "duplicates"
        assert log == [value for value in deliveries if value in set(log)], "order"
        for value, delivery in deliveries.items():
            error = delivery.exception(0)
            if error is None:
                assert value in log, "acknowledged and lost"
                offset = delivery.result().offset
                assert offset in (-1, log.index(value)), "the offset told is the offset in the log"
            elif error.persisted is Persisted.NO:
                assert value not in log, f"said not to be persisted: {error}"


@pytest.mark.parametrize("seed", range(100))
def test_M_P1_M_P2_M_P3_hold_whatever_happens(seed: int) -> None:
    with Simulation(seed=seed, latency_ms=(1, 20)) as sim:
        nemesis = Nemesis(sim)
        producer = SimProducer(
            sim,
            bootstrap=list(NODES.values()),
            batch_size=sim.random.choice([1, 200, 1000]),
            linger_ms=sim.random.choice([0, 5]),
            codec=sim.random.choice([Codec.NONE, Codec.LZ4]),
            request_timeout_ms=2000,
            delivery_timeout_ms=sim.random.choice([3000, 8000, 60_000]),
            buffer_memory=sim.random.choice([5000, 1 << 20]),
        )
        check(nemesis, produce_under(nemesis, producer))
        assert (
            producer.core.pool.available + sum(batch.charged for batch in producer.core.accumulator.incomplete) <= producer.core.pool.total
        )
        sim.advance(10_000)
        assert producer.core.pool.available == producer.core.pool.total, "all memory came back"
        assert producer.send("t", b"at last", partition=0).result().offset >= 0
        assert batches(nemesis.nodes[0], "t")
