"""Small types that several modules of confluent-kafka share."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from enum import Enum
from typing import Any
from uuid import UUID

from levada.compat.confluent_kafka.message import TopicPartition

VERSION, LIBRARY_VERSION = "2.16.1", "2.16.0"
"""The versions of confluent-kafka and librdkafka whose behaviour this package follows. Programs check whether they are new enough."""


class Node:
    """A broker: id, host, port and rack."""

    def __init__(self, id: int, host: str, port: int, rack: str | None = None) -> None:
        self.id, self.host, self.port, self.rack = id, host, port, rack
        self.id_string = str(id)

    def __str__(self) -> str:
        return f"({self.id}) {self.host}:{self.port} {f'(Rack - {self.rack})' if self.rack else ''}"


class ConsumerGroupTopicPartitions:
    """A group, and some of its partitions; None for all."""

    def __init__(self, group_id: str, topic_partitions: list[TopicPartition] | None = None) -> None:
        self.group_id = group_id
        self.topic_partitions = topic_partitions


class ConsumerGroupState(Enum):
    """The state of a group."""

    UNKNOWN = 0
    PREPARING_REBALANCE = 1
    COMPLETING_REBALANCE = 2
    STABLE = 3
    DEAD = 4
    EMPTY = 5


class ConsumerGroupType(Enum):
    """The protocol of a group."""

    UNKNOWN = 0
    CONSUMER = 1
    CLASSIC = 2


class IsolationLevel(Enum):
    """Whether the end of a log is its high watermark or its last stable offset."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class ElectionType(Enum):
    """Which replica becomes the leader."""

    PREFERRED = 0
    UNCLEAN = 1


class TopicCollection:
    """The topics of AdminClient.describe_topics()."""

    def __init__(self, topic_names: Iterable[str]) -> None:
        self.topic_names = list(topic_names)


class TopicPartitionInfo:
    """A partition as AdminClient.describe_topics() returns it."""

    def __init__(self, id: int, leader: Node | None, replicas: list[Node], isr: list[Node]) -> None:
        self.id, self.leader, self.replicas, self.isr = id, leader, replicas, isr


class Uuid:
    """The id of a topic."""

    def __init__(self, most_significant_bits: int, least_significant_bits: int) -> None:
        self._uuid = UUID(int=(most_significant_bits & _MASK) << 64 | (least_significant_bits & _MASK))

    @classmethod
    def of(cls, uuid: UUID) -> Uuid:
        """Convert a UUID of Python."""
        return cls(uuid.int >> 64, uuid.int & _MASK)

    def get_most_significant_bits(self) -> int:
        """Return the first eight bytes as a signed number."""
        return _signed(self._uuid.int >> 64)

    def get_least_significant_bits(self) -> int:
        """Return the last eight bytes as a signed number."""
        return _signed(self._uuid.int & _MASK)

    def __str__(self) -> str:
        return urlsafe_b64encode(self._uuid.bytes).decode().rstrip("=")

    def __repr__(self) -> str:
        return str(self)

    def __int__(self) -> int:
        return self._uuid.int

    def __hash__(self) -> int:
        return hash(self._uuid)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Uuid) and self._uuid == other._uuid


_MASK = (1 << 64) - 1


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def version() -> str:
    """Return the version of confluent-kafka that this package stands for."""
    return VERSION


def libversion() -> tuple[str, int]:
    """Return the version of librdkafka that this package stands for, as text and as the number 0xMMmmrrff."""
    return LIBRARY_VERSION, int.from_bytes([*map(int, LIBRARY_VERSION.split(".")), 0xFF])


def node(found: Any) -> Node | None:
    """Convert a Node of levada; None stays None."""
    return None if found is None else Node(found.id, found.host, found.port, found.rack)
