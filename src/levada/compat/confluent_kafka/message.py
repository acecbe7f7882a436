"""Message, also before its delivery, and TopicPartition; and the numbers that stand for special offsets and timestamps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Any, TypeAlias

from levada import types as levada_types
from levada.compat.confluent_kafka.error import ErrorCodes, KafkaError, exception

OFFSET_BEGINNING = -2
OFFSET_END = -1
OFFSET_STORED = -1000
OFFSET_INVALID = -1001
TIMESTAMP_NOT_AVAILABLE = 0
TIMESTAMP_CREATE_TIME = 1
TIMESTAMP_LOG_APPEND_TIME = 2

Headers: TypeAlias = list[tuple[str, bytes | None]]


class Message:
    """A record that was consumed or produced, or an error of a consumer; everything is read by calling methods."""

    __slots__ = (
        "_error",
        "_headers",
        "_key",
        "_latency",
        "_leader_epoch",
        "_offset",
        "_partition",
        "_timestamp",
        "_topic",
        "_value",
    )

    def __init__(
        self,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        key: Any = None,
        value: Any = None,
        headers: Headers | None = None,
        error: KafkaError | None = None,
        timestamp: tuple[int, int] = (TIMESTAMP_NOT_AVAILABLE, 0),
        latency: float | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        self._topic = topic
        self._value = value
        self._key = key
        self._headers = headers
        self._error = error
        self._timestamp = timestamp
        self._latency = latency
        self._leader_epoch = leader_epoch
        self._partition = partition
        self._offset = offset

    def topic(self) -> str | None:
        """Return the topic; None for an error that is not about a topic."""
        return self._topic

    def partition(self) -> int | None:
        """Return the partition; None if none was chosen."""
        return self._partition

    def offset(self) -> int | None:
        """Return the offset; None if the record is in no log or the offset is unknown, and for most errors."""
        return self._offset

    def key(self) -> Any:
        """Return the key: bytes, or what a deserializer made of them."""
        return self._key

    def value(self) -> Any:
        """Return the value: bytes, or what a deserializer made of them; for an error of a consumer, its text in bytes."""
        return self._value

    def headers(self) -> Headers | None:
        """Return the headers; None if there are none, and in delivery reports."""
        return self._headers

    def error(self) -> KafkaError | None:
        """Return the error; None for a record."""
        return self._error

    def timestamp(self) -> tuple[int, int]:
        """Return (type, milliseconds since the epoch). The type is TIMESTAMP_NOT_AVAILABLE if there is no timestamp."""
        return self._timestamp

    def latency(self) -> float | None:
        """Return the seconds from produce() until the delivery report was served; None for consumed records."""
        return self._latency

    def leader_epoch(self) -> int | None:
        """Return the leader epoch of the record's batch; None if it is unknown, and in delivery reports."""
        return self._leader_epoch

    def set_topic(self, topic: str) -> None:
        """Replace the topic."""
        self._topic = topic

    def set_headers(self, headers: Headers) -> None:
        """Replace the headers."""
        self._headers = headers

    def set_key(self, key: Any) -> None:
        """Replace the key."""
        self._key = key

    def set_value(self, value: Any) -> None:
        """Replace the value."""
        self._value = value

    def set_error(self, error: KafkaError | None) -> None:
        """Replace the error."""
        self._error = error

    def __len__(self) -> int:
        return 0 if self._value is None else len(self._value)


DeliveryCallback: TypeAlias = Callable[[KafkaError | None, Message], object]


class Outgoing:
    """A message between produce() and its delivery report: the arguments of produce(), and when it was called."""

    __slots__ = ("began_s", "callback", "headers", "key", "partition", "timestamp", "topic", "value")

    def __init__(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp: int | None,
        headers: Headers | None,
        callback: DeliveryCallback | None,
    ) -> None:
        self.topic = topic
        self.value = value
        self.key = key
        self.partition = partition
        self.timestamp = timestamp
        self.headers = headers
        self.callback = callback
        self.began_s = monotonic()

    @property
    def size(self) -> int:
        """The bytes of key and value, which queue.buffering.max.kbytes and message.max.bytes limit."""
        return len(self.value or b"") + len(self.key or b"")

    def age_s(self) -> float:
        """Return the seconds since produce()."""
        return monotonic() - self.began_s

    def delivered(self, metadata: levada_types.RecordMetadata) -> Message:
        """Return the message of the report of a delivery. Its offset is None if the broker did not tell it (acks=0)."""
        offset = metadata.offset if metadata.offset >= 0 else None
        return self._message(metadata.partition, offset, None, (TIMESTAMP_CREATE_TIME, metadata.timestamp))

    def failed(self, error: KafkaError, partition: int | None) -> Message:
        """Return the message of the report of a failure. partition: None if none was chosen."""
        return self._message(partition, None, error, (TIMESTAMP_NOT_AVAILABLE, -1))

    def _message(self, partition: int | None, offset: int | None, error: KafkaError | None, timestamp: tuple[int, int]) -> Message:
        # As in confluent-kafka, delivery reports have no headers.
        return Message(self.topic, partition, offset, self.key, self.value, None, error, timestamp, self.age_s(), None)


class TopicPartition:
    """A partition, and an offset in it. Equality and order are those of topic and partition alone."""

    def __init__(
        self,
        topic: str,
        partition: int = -1,
        offset: int = OFFSET_INVALID,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        if not isinstance(topic, str):
            raise TypeError(f"topic must be str, not {type(topic).__name__}")
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.metadata = metadata
        self.leader_epoch = None if leader_epoch is None or leader_epoch < 0 else leader_epoch
        self.error: KafkaError | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicPartition) and _place(self) == _place(other)

    def __lt__(self, other: TopicPartition) -> bool:
        return _place(self) < _place(other)

    def __hash__(self) -> int:
        return hash(_place(self))

    def __repr__(self) -> str:
        return (
            f"TopicPartition{{topic={self.topic},partition={self.partition},offset={self.offset},"
            f"leader_epoch={self.leader_epoch},error={self.error}}}"
        )


def _place(partition: TopicPartition) -> levada_types.TopicPartition:
    return levada_types.TopicPartition(partition.topic, partition.partition)


def place(partition: TopicPartition) -> levada_types.TopicPartition:
    """Return levada's TopicPartition of a partition. Raises TypeError for anything else."""
    if not isinstance(partition, TopicPartition):
        raise TypeError(f"expected TopicPartition, got {type(partition).__name__}")
    return _place(partition)


def places(partitions: Iterable[TopicPartition]) -> list[levada_types.TopicPartition]:
    """Return levada's TopicPartitions. Raises TypeError as place() does."""
    return [place(partition) for partition in partitions]


def to_commit(partitions: Iterable[TopicPartition]) -> dict[levada_types.TopicPartition, levada_types.OffsetAndMetadata]:
    """Return the offsets of partitions in levada's form. Partitions without an offset are left out."""
    return {
        place(partition): levada_types.OffsetAndMetadata(
            partition.offset,
            levada_types.NO_LEADER_EPOCH if partition.leader_epoch is None else partition.leader_epoch,
            partition.metadata or "",
        )
        for partition in partitions
        if partition.offset >= 0
    }


def from_committed(committed: Mapping[levada_types.TopicPartition, levada_types.OffsetAndMetadata | None]) -> list[TopicPartition]:
    """Return offsets in confluent-kafka's form; OFFSET_INVALID where there is none."""
    return [
        TopicPartition(*tp) if at is None else TopicPartition(*tp, at.offset, at.metadata or None, at.leader_epoch)
        for tp, at in committed.items()
    ]


def consumed(record: levada_types.ConsumerRecord[bytes, bytes]) -> Message:
    """Convert a record of levada's consumer to a Message."""
    kind = record.timestamp_type + 1
    return Message(
        record.topic,
        record.partition,
        record.offset,
        record.key,
        record.value,
        list(record.headers) or None,
        None,
        (kind, record.timestamp) if kind else (TIMESTAMP_NOT_AVAILABLE, -1),
        None,
        record.leader_epoch if record.leader_epoch >= 0 else None,
    )


def checked_headers(headers: Any) -> Headers:
    """Return the headers of produce(), a mapping or pairs, as pairs of name and bytes or None. Raises TypeError for other types."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    checked: Headers = []
    for name, value in pairs:
        if not isinstance(name, str):
            raise TypeError(f"header names must be str, not {type(name).__name__}")
        if value is not None and not isinstance(value, (str, bytes)):
            raise TypeError(f"header values must be bytes, str or None, not {type(value).__name__}")
        checked.append((name, value.encode() if isinstance(value, str) else value))
    return checked


def checked_bytes(data: Any) -> bytes | None:
    """Return a key or value as bytes. Raises TypeError if produce() does not take its type."""
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise TypeError(f"a bytes-like object is required, not '{type(data).__name__}'")


def seconds(timeout: float | None) -> float | None:
    """Return a timeout in levada's form: None if it is None or negative."""
    return None if timeout is None or timeout < 0 else timeout


def checked_offset(partition: TopicPartition) -> int:
    """Return the offset at which a partition shall be read. Raises KafkaException for one that is not supported."""
    if partition.offset >= 0 or partition.offset in (OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED, OFFSET_INVALID):
        return partition.offset
    raise exception(
        ErrorCodes._INVALID_ARG,
        f"{partition}: use an offset from 0, OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED or OFFSET_INVALID",
    )
