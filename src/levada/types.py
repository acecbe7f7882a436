"""The types that all layers share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias

from levada.base.unsupported_names import (
    MORE_THAN_PARTITION,
    NEW_PARTITIONS,
    NEW_TOPIC,
    RECORD,
    RECORDS,
    TOPIC_PARTITION,
    explains_arguments,
    lacks,
)

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
"""The headers that a program may pass to send(). A str is sent in UTF-8."""

NO_TIMESTAMP = -1
UNKNOWN_OFFSET = -1
NO_LEADER_EPOCH = -1


_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Whether Kafka allows this topic name."""
    return name not in (".", "..") and _TOPIC_NAME.fullmatch(name) is not None


class Persisted(Enum):
    """Whether a record whose send() failed may be in the log nevertheless."""

    NO = "no"
    UNKNOWN = "unknown"


@explains_arguments(TOPIC_PARTITION, MORE_THAN_PARTITION)
class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Node(NamedTuple):
    """An endpoint of the cluster. Bootstrap addresses have the ids -1, -2, ..., which are internal."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """host:port, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class TimestampType(IntEnum):
    """Who set a record's timestamp: its producer, or the broker when it appended the record.

    Records before Kafka 0.10 (magic 0) have none.
    """

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class IsolationLevel(IntEnum):
    """Which transactional records a consumer reads (KIP-98)."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@lacks(RECORD)
class ConsumerRecord(NamedTuple, Generic[K, V]):
    """A record that a consumer returns. timestamp: milliseconds since the epoch, -1 for none.

    K and V are the types that the deserializers return; bytes without them. A key or value is None if it is null in the log.
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
        """The key in bytes, before deserialization; None is null."""
        return self.key  # type: ignore[return-value]

    @property
    def raw_value(self) -> bytes | None:
        """The value in bytes, before deserialization; None is null."""
        return self.value  # type: ignore[return-value]

    @property
    def decode_error(self) -> RecordDeserializationError | None:
        """The error of a key or value that could not be deserialized and is None instead (on.decode.error=null). None without an error."""
        return None


class DecodedRecord(ConsumerRecord[K, V]):
    """A deserialized record that also keeps the record in bytes. Its fields and equality are those of ConsumerRecord."""

    _raw: AnyRecord
    _error: RecordDeserializationError | None = None

    @classmethod
    def of(cls, raw: AnyRecord, key: Any, value: Any, error: RecordDeserializationError | None = None) -> AnyRecord:
        """Return a record with its deserialized key and value.

        raw: the record in bytes. error: why key or value could not be deserialized.
        """
        topic, partition, offset, timestamp, timestamp_type, _, _, headers, leader_epoch = raw
        made = tuple.__new__(cls, (topic, partition, offset, timestamp, timestamp_type, key, value, headers, leader_epoch))
        made._raw = raw
        if error is not None:
            made._error = error
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
        """Return a changed copy with the same raw key and value."""
        made = super()._replace(**changes)
        made._raw, made._error = self._raw, self._error
        return made


class ShareRecord(ConsumerRecord[K, V]):
    """A record that a share consumer returns. Its fields and equality are those of ConsumerRecord."""

    _inner: AnyRecord
    delivery_count: int
    """How often the record was delivered to members of the group, including this time (KIP-932)."""

    @classmethod
    def delivered(cls, inner: AnyRecord, delivery_count: int) -> ShareRecord[Any, Any]:
        """Return a ShareRecord of a record, deserialized or not, with its delivery count."""
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
        """Return a changed copy with the same raw key and value, and the same delivery count."""
        made = super()._replace(**changes)
        made._inner, made.delivery_count = self._inner, self.delivery_count
        return made


class AcknowledgeType(IntEnum):
    """How a member of a share group acknowledges a record (KIP-932)."""

    ACCEPT = 1
    """The record was processed. It is not delivered again."""
    RELEASE = 2
    """The record was not processed. It is delivered again, to any member, up to the group's limit of deliveries."""
    REJECT = 3
    """The record cannot be processed. It is not delivered again."""
    RENEW = 4
    """The record is still being processed. Its acquisition lock is extended; acknowledge it again later (KIP-1222, Kafka 4.2)."""


R = TypeVar("R", bound="ConsumerRecord[Any, Any]")


@lacks(RECORDS)
class RecordList(list[R]):
    """Records of one call, in order within each partition."""

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions of the records, in order of appearance."""
        return list(dict.fromkeys(TopicPartition(record.topic, record.partition) for record in self))

    def records(self, tp: TopicPartition) -> list[R]:
        """Return the records of one partition."""
        return [record for record in self if (record.topic, record.partition) == tp]


class ConsumerRecords(RecordList[ConsumerRecord[K, V]]):
    """The records of one poll() of a consumer, in order within each partition."""


class ShareRecords(RecordList[ShareRecord[K, V]]):
    """The records of one poll() of a share consumer, in order within each partition."""


class RecordMetadata(NamedTuple):
    """Where a record was written.

    partition: -1 if the record has failed before a partition was chosen. offset: -1 if the record has failed, or the broker did not return
    the offset (acks=0, or a duplicate whose offset the broker no longer knows). timestamp: milliseconds since the epoch.
    serialized_key_size, serialized_value_size: bytes of key and value before compression; -1 for null, and for a record that was refused
    before it was appended to a batch.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    serialized_key_size: int = -1
    serialized_value_size: int = -1


class OffsetAndTimestamp(NamedTuple):
    """A result of offsets_for_times() or KafkaAdmin.list_offsets(): the offset and the timestamp of a record.

    timestamp: milliseconds since the epoch; -1 for the beginning or the end of a log. leader_epoch: -1 if the broker does not report it.
    """

    offset: int
    timestamp: int
    leader_epoch: int = NO_LEADER_EPOCH


class OffsetAndMetadata(NamedTuple):
    """A committed offset, which is the offset of the next record to read.

    metadata: text of the program, up to offset.metadata.max.bytes.
    """

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


OF_SPARK = "levada spark"
"""The metadata of offsets that a Spark query commits (commitOffsets). `levada top` knows its group by it."""


class ConsumerGroupMetadata(NamedTuple):
    """The group member for which offsets are committed (KIP-447). The defaults are for a consumer with assign(), which is not a member."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class AbortTransactionSpec(NamedTuple):
    """A hanging transaction in one partition, for KafkaAdmin.abort_transaction(). KafkaAdmin.describe_producers() returns the numbers.

    coordinator_epoch: the epoch of the coordinator that ended the producer's last transaction in this partition; 0 if none has ended.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int = 0


class TransactionHandle(NamedTuple):
    """An open transaction that its producer has detached. KafkaAdmin ends it, in this process or another one. It can be pickled.

    end_version: the version of EndTxn that ends it; a broker would not recognize a retry with another version. partitions: the partitions
    written to. groups: the groups whose offsets are part of it. Without partitions and groups the transaction has not begun at the
    coordinator, and ending it does nothing.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    end_version: int
    partitions: tuple[TopicPartition, ...] = ()
    groups: tuple[str, ...] = ()


class SealedBatch(NamedTuple):
    """A record batch that a producer has sealed but not sent, see seal_arrow(). send_sealed() sends it, in any process. It can be pickled.

    data: the whole batch, without a producer id.
    """

    topic: str
    partition: int
    data: bytes
    records_count: int


class PartitionInfo(NamedTuple):
    """A partition as metadata describes it. leader: -1 while there is none.

    eligible_leader_replicas: replicas that are not in sync, but have every committed record (KIP-966). last_known_elr: replicas that were
    the last eligible ones, but have restarted since then after an unclean shutdown. Only KafkaAdmin.describe_topics() sets both, and only
    brokers since 4.0 know them; otherwise they are empty or None.
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
    """Return the value of a topic's, group's or broker's setting as text, as the protocol has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@explains_arguments(NEW_TOPIC)
class NewTopic(NamedTuple):
    """A topic to be created. -1 leaves partitions or replication_factor to the broker's default.

    assignment: the brokers of each partition by its number, the preferred leader first, instead of partitions and replication_factor.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    config: dict[str, str] | None = None
    assignment: Mapping[int, Sequence[int]] | None = None


@explains_arguments(NEW_PARTITIONS)
class NewPartitions(NamedTuple):
    """The number of partitions that a topic shall have, including those that exist.

    assignment: the brokers of each new partition, the preferred leader first; None lets the cluster choose.
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
    """A special offset of a partition, which can be requested in place of a timestamp (ListOffsets).

    LATEST: the offset of the next record; with read_committed the last stable offset, where the first open transaction begins.
    MAX_TIMESTAMP: the offset of the record with the largest timestamp (since Kafka 3.0). With tiered storage: EARLIEST_LOCAL, the first
    offset on the broker's own disk (3.4); LATEST_TIERED, the last offset in remote storage (3.9); EARLIEST_PENDING_UPLOAD, the first offset
    not in remote storage yet (4.2).
    """

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6
