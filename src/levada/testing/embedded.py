"""A Kafka broker for a test, started in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from random import SystemRandom
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from levada.broker.cluster import DEFAULT
from levada.broker.control import Faults
from levada.broker.node import BrokerNode
from levada.broker.partition import Partition
from levada.broker.server import BrokerServer
from levada.errors import UnknownTopicOrPartitionError
from levada.face import arguments


class EmbeddedKafka:
    """A broker on a free port of 127.0.0.1, in a thread of this process, for as long as the `with` block lasts.

    Any Kafka client can use it::

        with EmbeddedKafka(num_partitions=3) as kafka:
            producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

    Keyword arguments are broker settings with Kafka's names in snake_case (`num_partitions`, `auto_create_topics_enable`,
    `message_max_bytes`, `log_retention_ms`, ...); see levada.broker.settings. Everything is forgotten when it ends.
    """

    def __init__(self, *, port: int = 0, **settings: Any) -> None:
        self.node = BrokerNode(random=SystemRandom(), **settings)
        self._server = BrokerServer(self.node, port=port)

    def start(self) -> Self:
        """Start it without a `with` block; close() is then yours to call."""
        self._server.start()
        return self

    def close(self) -> None:
        """End the broker: the port, its connections and its thread are gone afterwards."""
        self._server.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """host:port, for any client's bootstrap.servers. Raises RuntimeError while the port is not known yet, before start()."""
        if not self._server.port:
            raise RuntimeError("EmbeddedKafka has no port yet: enter its `with` block, or call start(), first")
        return self._server.address

    @property
    def faults(self) -> Faults:
        """What is to go wrong next: errors, lost answers, delays, disconnects, older versions."""
        return self.node.faults

    def create_topic(self, name: str, partitions: int = DEFAULT, config: Mapping[str, str | None] | None = None) -> UUID:
        """Create a topic and return its id. Raises BrokerError or ConfigError with the reason."""
        return self._server.call(lambda: self.node.create_topic(name, partitions, config)).id

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """The offset the partition's next record will get. Raises UnknownTopicOrPartitionError."""
        return self._server.call(lambda: self._partition(topic, partition).log.end_offset)

    def elect_leader(self, topic: str, partition: int = 0, *, lose_from: int | None = None) -> None:
        """Begin a new leader epoch. lose_from: the batches that reach beyond this offset are lost, as after an unclean election.

        Raises UnknownTopicOrPartitionError.
        """
        if lose_from is not None and arguments.whole("lose_from", lose_from) < 0:
            raise ValueError(f"lose_from is an offset, got {lose_from}")
        self._server.call(lambda: self._elect(topic, partition, lose_from))

    def _elect(self, topic: str, partition: int, lose_from: int | None) -> None:
        found = self._partition(topic, partition)
        self.node.cluster.move_leader(found, found.leader, lose_from=lose_from)

    def _partition(self, topic: str, partition: int) -> Partition:
        known = self.node.cluster.topic(topic)
        if known is None:
            raise UnknownTopicOrPartitionError(f"topic {topic!r} does not exist")
        if not 0 <= partition < len(known.partitions):
            raise UnknownTopicOrPartitionError(f"topic {topic!r} has no partition {partition}; it has {len(known.partitions)}, from 0")
        return known.partitions[partition]
