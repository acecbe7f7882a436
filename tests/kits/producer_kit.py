"""A producer in virtual time, for simulated tests: the real core on a simulated network, and a send() that waits by letting time pass."""

from __future__ import annotations

from typing import Any

from levada.broker.node.node import BrokerNode
from levada.producer.append.record_accumulator import ToSend
from levada.producer.core import ProducerCore
from levada.producer.delivery.delivery import Delivery
from levada.producer.send.sender import SenderSettings
from levada.record.batch import Record, RecordBatch
from levada.record.compression import Codec
from levada.testing import Simulation
from settings_kit import new_engine, producer_settings, sender_settings
from sim_kit import HOST, PORT

SENDING = SenderSettings._fields
PATIENCE_S = 600


class SimProducer:
    """Settings are those of ProducerCore, SenderSettings and Engine."""

    def __init__(self, sim: Simulation, *, bootstrap: list[tuple[str, int]] | None = None, **settings: Any) -> None:
        self.sim = sim
        selectable = sim.network.selectable()
        sending = sender_settings(**{name: settings.pop(name) for name in SENDING if name in settings})
        self.engine = new_engine(
            selectable=selectable,
            bootstrap=bootstrap or [(HOST, PORT)],
            random=sim.random,
            request_timeout_ms=sending.request_timeout_ms,
            max_in_flight=sending.max_in_flight,
        )
        self.driver = sim.driver(self.engine, selectable, name="the producer")
        self.core = ProducerCore(self.engine, host=self.driver, random=sim.random, sending=sending, **producer_settings(**settings))
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
