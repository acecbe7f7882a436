"""The nouns that every layer shares."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias

if TYPE_CHECKING:
    # Type checkers know defaults of type variables (PEP 696) under every Python, the interpreter from 3.13 on.
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

NO_TIMESTAMP = -1
UNKNOWN_OFFSET = -1
NO_LEADER_EPOCH = -1


_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Whether Kafka allows a topic of this name (W15)."""
    return name not in (".", "..") and _TOPIC_NAME.fullmatch(name) is not None


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Node(NamedTuple):
    """An endpoint of the cluster. Bootstrap addresses carry ids -1, -2, ... until metadata names the real ones."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """host:port, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class TimestampType(IntEnum):
    """Who set a record's timestamp: its producer, or the broker when it appended the record; unknown before Kafka 0.10 (magic 0)."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class IsolationLevel(IntEnum):
    """Which transactional records a reader sees (KIP-98)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """A record as a consumer hands it out. timestamp is in milliseconds since the epoch, -1 for none.

    K and V are what the deserializers return, bytes without them. Keys and values may be null, whoever wrote them.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: K | None
    value: V | None
    headers: Headers
    leader_epoch: int = NO_LEADER_EPOCH


class ConsumerRecords(list[ConsumerRecord[K, V]]):
    """The records of one poll(), in order within each partition."""

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions that have records here, in order of appearance."""
        return list(dict.fromkeys(TopicPartition(record.topic, record.partition) for record in self))

    def records(self, tp: TopicPartition) -> list[ConsumerRecord[K, V]]:
        """Return the records of one partition."""
        return [record for record in self if (record.topic, record.partition) == tp]


class RecordMetadata(NamedTuple):
    """Where a record was written. offset is -1 when the broker did not say (acks=0, or a duplicate it had forgotten).

    serialized_key_size, serialized_value_size: bytes of key and value before compression, -1 for null, and for a record that was refused
    before it became part of a batch.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    serialized_key_size: int = -1
    serialized_value_size: int = -1


class OffsetAndTimestamp(NamedTuple):
    """Answer of offsets_for_times: the first record at or after a time."""

    offset: int
    timestamp: int
    leader_epoch: int = NO_LEADER_EPOCH


class OffsetAndMetadata(NamedTuple):
    """A committed offset: that of the next record to read. metadata: a text of the committer's own, up to offset.metadata.max.bytes."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


class ConsumerGroupMetadata(NamedTuple):
    """On whose behalf offsets are committed (KIP-447). The defaults are those of a consumer of assigned partitions, which is no member."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class AbortTransactionSpec(NamedTuple):
    """A transaction that hangs in one partition, as KafkaAdmin.describe_producers() shows it.

    coordinator_epoch: of the producer's last transaction there, 0 where there was none before.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int = 0


class TransactionHandle(NamedTuple):
    """An open transaction that its producer has handed over: KafkaAdmin ends it, in this process or another one. It can be pickled.

    end_version: the version of EndTxn that ends it; another one would not be recognized as a repetition. partitions: what was written to.
    groups: whose offsets are part of it. A transaction with neither was never begun at the coordinator, and ending it does nothing.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    end_version: int
    partitions: tuple[TopicPartition, ...] = ()
    groups: tuple[str, ...] = ()


class PartitionInfo(NamedTuple):
    """A partition as metadata describes it. leader is -1 while there is none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    error_code: int = 0


class NewTopic(NamedTuple):
    """A topic to be created. -1 leaves partitions or replication_factor to the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    config: dict[str, str] | None = None


AnyRecord: TypeAlias = ConsumerRecord[Any, Any]
