"""A broker and its clients in virtual time. EmbeddedKafka is the same on sockets."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID

from levada.broker.cluster.cluster import DEFAULT
from levada.broker.node.faults import Faults
from levada.broker.node.node import BrokerNode
from levada.sync.admin import KafkaAdmin
from levada.sync.consumer import KafkaConsumer
from levada.sync.producer import KafkaProducer
from levada.testing.simulation import EPOCH_MS, Simulation

_HOST: Final = "kafka"
_PORT: Final = 9092


class SimulatedKafka:
    """A broker on the network of a simulation, whose clock jumps to the next time at which work is due::

        with SimulatedKafka() as kafka:
            kafka.create_topic("bills")
            producer = kafka.producer()
            kafka.advance(3600)

    Its clients are the real ones. While they wait, virtual time passes. seed: the same seed gives the same run. Other keyword arguments are
    broker settings, like those of EmbeddedKafka.
    """

    bootstrap_servers: Final = f"{_HOST}:{_PORT}"

    def __init__(self, seed: int = 0, **settings: Any) -> None:
        self.simulation = Simulation(seed)
        self.node = BrokerNode(host=_HOST, port=_PORT, wall_offset_ms=EPOCH_MS, random=Random(seed), **settings)
        self.simulation.network.add_server(self.node, _HOST, _PORT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.simulation.__exit__(kind, error, trace)

    def close(self) -> None:
        """Close all clients that the test has not closed."""
        self.simulation.__exit__(None, None, None)

    @property
    def faults(self) -> Faults:
        """The faults to inject, like EmbeddedKafka.faults."""
        return self.node.faults

    @property
    def wall_ms(self) -> int:
        """The present virtual time in milliseconds since the epoch, for brokers and clients."""
        return self.simulation.now_ms + EPOCH_MS

    def advance(self, seconds: float) -> None:
        """Let virtual time pass, and do all work that becomes due. seconds: how long."""
        self.simulation.advance(round(seconds * 1000))

    def create_topic(self, name: str, partitions: int = DEFAULT, config: Mapping[str, str | float | None] | None = None) -> UUID:
        """Create a topic and return its id. partitions: by default the broker setting num_partitions. config: settings of the topic by
        Kafka's names. Raises BrokerError or ConfigError with the reason.
        """
        return self.node.create_topic(name, partitions, config).id

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Raises UnknownTopicOrPartitionError."""
        self.node.delete_topic(name)

    def configure_group(self, group: str, config: Mapping[str, str | float | None]) -> None:
        """Change settings of a group, such as share.auto.offset.reset. None restores the default. Raises ConfigError with the reason."""
        self.node.configure_group(group, config)

    def producer(self, **settings: Any) -> KafkaProducer[Any, Any]:
        """Return a KafkaProducer that is connected to this broker."""
        return self.simulation.producer(bootstrap_servers=self.bootstrap_servers, **settings)

    def consumer(self, **settings: Any) -> KafkaConsumer[Any, Any]:
        """Return a KafkaConsumer that is connected to this broker."""
        return self.simulation.consumer(bootstrap_servers=self.bootstrap_servers, **settings)

    def admin(self, **settings: Any) -> KafkaAdmin:
        """Return a KafkaAdmin that is connected to this broker."""
        return self.simulation.admin(bootstrap_servers=self.bootstrap_servers, **settings)
