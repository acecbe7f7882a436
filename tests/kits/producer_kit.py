"""A producer in virtual time, for simulated tests: the real core on a simulated network, and a send() that waits by letting time pass."""

from __future__ import annotations

from typing import Any

from levada.broker.node.node import BrokerNode
from levada.producer.append.record_accumulator import ToSend
from levada.producer.core import ProducerCore
from levada.producer.delivery.delivery import Delivery
from levada.record.batch import Record, RecordBatch
from levada.record.compression import Codec
from levada.testing import Simulation
from settings_kit import PLAIN_PARTITIONING, new_engine, producer_settings
from sim_kit import HOST, PORT

PATIENCE_S = 600


class SimProducer:
    """settings: as for producer_settings(), and partitioning."""

    def __init__(self, sim: Simulation, *, bootstrap: list[tuple[str, int]] | None = None, **settings: Any) -> None:
        self.sim = sim
        selectable = sim.network.selectable()
        partitioning = settings.pop("partitioning", PLAIN_PARTITIONING)
        given = producer_settings(**settings)
        self.engine = new_engine(
            selectable=selectable,
            bootstrap=bootstrap or [(HOST, PORT)],
            random=sim.random,
            request_timeout_ms=given.sender.request_timeout_ms,
            max_in_flight=given.sender.max_in_flight,
        )
        self.driver = sim.driver(self.engine, selectable, name="the producer")
        self.core = ProducerCore(given, self.engine, host=self.driver, random=sim.random, partitioning=partitioning)
        self.core.wait_with(self.driver.wait)

    def send(
        self,
        topic: str,
        value: bytes | None = b"v",
        key: bytes | None = None,
        partition: int | None = None,
        on_delivery: Any = None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
        ack: Any = None,
    ) -> Delivery:
        record = ToSend(topic, partition, key, value, headers, self.driver.wall_ms(), on_delivery, ack)
        return self.driver.call(self.core.appending.send(record))

    def flush(self) -> None:
        self.driver.run(self.core.flushing().run(), PATIENCE_S, "flush")

    def identity(self) -> tuple[int, int]:
        assert self.core.idempotence is not None
        return self.core.idempotence.identity


def batches(node: BrokerNode, topic: str, partition: int = 0) -> list[RecordBatch]:
    return list(node.log(topic, partition).batches())


def records(node: BrokerNode, topic: str, partition: int = 0) -> list[Record]:
    return [record for batch in batches(node, topic, partition) for record in batch.records()]


def values(node: BrokerNode, topic: str, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in records(node, topic, partition)]


def codec_of(node: BrokerNode, topic: str) -> set[Codec]:
    return {batch.codec for batch in batches(node, topic)}
