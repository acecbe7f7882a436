"""The nouns that every layer shares."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias

if TYPE_CHECKING:
    # Type checkers know defaults of type variables (PEP 696) under every Python, the interpreter from 3.13 on.
    from typing_extensions import TypeVar

    from levada.errors import RecordDeserializationError

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
HeadersIn: TypeAlias = Sequence[tuple[str, bytes | str | None]] | Mapping[str, bytes | str | None]
"""Headers as a program may give them to send(); a str is sent in UTF-8."""

NO_TIMESTAMP = -1
UNKNOWN_OFFSET = -1
NO_LEADER_EPOCH = -1


_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Whether Kafka allows a topic of this name."""
    return name not in (".", "..") and _TOPIC_NAME.fullmatch(name) is not None


class Persisted(Enum):
    """Whether a record whose send() failed may be in the log all the same."""

    NO = "no"
    UNKNOWN = "unknown"


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

    @property
    def raw_key(self) -> bytes | None:
        """The key's bytes as they were read, whatever a deserializer made of them; None is null."""
        return self.key  # type: ignore[return-value]

    @property
    def raw_value(self) -> bytes | None:
        """The value's bytes as they were read, whatever a deserializer made of them; None is null."""
        return self.value  # type: ignore[return-value]

    @property
    def decode_error(self) -> RecordDeserializationError | None:
        """Why key or value is None although it has bytes, with on.decode.error=null; None where both deserialized."""
        return None


class DecodedRecord(ConsumerRecord[K, V]):
    """A record that went through a deserializer, and keeps what was read. The fields, and equality, are those of ConsumerRecord."""

    _raw: AnyRecord
    _error: RecordDeserializationError | None

    @classmethod
    def of(cls, raw: AnyRecord, key: Any, value: Any, error: RecordDeserializationError | None = None) -> AnyRecord:
        """Return a record as it was read with its key and value deserialized; error: why one of them could not be."""
        made = tuple.__new__(cls, (*raw[:5], key, value, *raw[7:]))
        made._raw, made._error = raw, error
        return made

    @property
    def raw_key(self) -> bytes | None:
        """See ConsumerRecord."""
        return self._raw.raw_key

    @property
    def raw_value(self) -> bytes | None:
        """See ConsumerRecord."""
        return self._raw.raw_value

    @property
    def decode_error(self) -> RecordDeserializationError | None:
        """See ConsumerRecord."""
        return self._error

    def _replace(self, **changes: Any) -> DecodedRecord[K, V]:
        """Return a changed record, which has the same bytes."""
        made = super()._replace(**changes)
        made._raw, made._error = self._raw, self._error
        return made


class ShareRecord(ConsumerRecord[K, V]):
    """A record as a share consumer hands it out. The fields, and equality, are those of ConsumerRecord."""

    _inner: AnyRecord
    delivery_count: int
    """How often it was delivered to members of the group, this time included (KIP-932)."""

    @classmethod
    def delivered(cls, inner: AnyRecord, delivery_count: int) -> ShareRecord[Any, Any]:
        """Return a record, deserialized or not, with its count."""
        made = tuple.__new__(cls, inner)
        made._inner, made.delivery_count = inner, delivery_count
        return made

    @property
    def raw_key(self) -> bytes | None:
        """See ConsumerRecord."""
        return self._inner.raw_key

    @property
    def raw_value(self) -> bytes | None:
        """See ConsumerRecord."""
        return self._inner.raw_value

    @property
    def decode_error(self) -> RecordDeserializationError | None:
        """See ConsumerRecord."""
        return self._inner.decode_error

    def _replace(self, **changes: Any) -> ShareRecord[K, V]:
        """Return a changed record, which has the same bytes and the same count."""
        made = super()._replace(**changes)
        made._inner, made.delivery_count = self._inner, self.delivery_count
        return made


class AcknowledgeType(IntEnum):
    """What became of a record of a share group (KIP-932)."""

    ACCEPT = 1
    """It was worked off: nobody gets it again."""
    RELEASE = 2
    """It was not worked off: another member, or this one, gets it again, up to the group's limit of deliveries."""
    REJECT = 3
    """It cannot be worked off: nobody gets it again."""
    RENEW = 4
    """It is still being worked on: its lock runs anew, and it is to be acknowledged again (KIP-1222, Kafka 4.2)."""


R = TypeVar("R", bound="ConsumerRecord[Any, Any]")


class RecordList(list[R]):
    """Records of one call, in order within each partition."""

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions that have records here, in order of appearance."""
        return list(dict.fromkeys(TopicPartition(record.topic, record.partition) for record in self))

    def records(self, tp: TopicPartition) -> list[R]:
        """Return the records of one partition."""
        return [record for record in self if (record.topic, record.partition) == tp]


class ConsumerRecords(RecordList[ConsumerRecord[K, V]]):
    """The records of one poll() of a consumer, in order within each partition."""


class ShareRecords(RecordList[ShareRecord[K, V]]):
    """The records of one poll() of a share consumer, in order within each partition."""


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


class SealedBatch(NamedTuple):
    """A record batch that a producer has sealed and not sent (seal_arrow()): send_sealed() sends it, in any process. It can be pickled.

    data: the whole batch, without a producer id.
    """

    topic: str
    partition: int
    data: bytes
    records_count: int


class PartitionInfo(NamedTuple):
    """A partition as metadata describes it. leader is -1 while there is none.

    eligible_leader_replicas: that are not in sync, and have every committed record all the same (KIP-966). last_known_elr: those that were
    last known to be, and have restarted since without a clean end. Both are told by KafkaAdmin.describe_topics() alone, by brokers since
    4.0, and are None elsewhere.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    error_code: int = 0
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


def setting_text(value: object) -> str:
    """Return the value of a topic's, group's or broker's setting as it is on the wire, where it is text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class NewTopic(NamedTuple):
    """A topic to be created. -1 leaves partitions or replication_factor to the broker's default.

    assignment: the brokers of each partition by its number, the preferred leader first, instead of partitions and replication_factor.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    config: dict[str, str] | None = None
    assignment: Mapping[int, Sequence[int]] | None = None


class NewPartitions(NamedTuple):
    """How many partitions a topic is to have, those that it has included.

    assignment: the brokers of each new partition, the preferred leader first; None leaves the choice to the cluster.
    """

    total_count: int
    assignment: Sequence[Sequence[int]] | None = None


class TopicPartitionReplica(NamedTuple):
    """One broker's replica of a partition."""

    topic: str
    partition: int
    broker_id: int


AnyRecord: TypeAlias = ConsumerRecord[Any, Any]


class OffsetSpec(IntEnum):
    """Which offset of a partition is asked for, where it is not the first one at or after a time.

    LATEST: that of the next record, or with read_committed that of the first record of an open transaction. MAX_TIMESTAMP: of the record
    with the largest timestamp (Kafka since 3.0). With tiered storage: EARLIEST_LOCAL, the first on the broker's own disk (3.4);
    LATEST_TIERED, the last in remote storage (3.9); EARLIEST_PENDING_UPLOAD, the first that is not there yet (4.2).
    """

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6
