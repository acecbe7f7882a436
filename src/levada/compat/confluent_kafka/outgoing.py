"""A message between produce() and its delivery report."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from levada import RecordMetadata
from levada.compat.confluent_kafka.error import KafkaError
from levada.compat.confluent_kafka.message import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Headers, Message

DeliveryCallback = Callable[[KafkaError | None, Message], object]


class Outgoing:
    """The arguments of a produce(), and when it was called."""

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

    def delivered(self, metadata: RecordMetadata) -> Message:
        """Return the message of the report of a delivery. Its offset is None if the broker did not tell it (acks=0)."""
        offset = metadata.offset if metadata.offset >= 0 else None
        return self._message(metadata.partition, offset, None, (TIMESTAMP_CREATE_TIME, metadata.timestamp))

    def failed(self, error: KafkaError, partition: int | None) -> Message:
        """Return the message of the report of a failure. partition: None if none was chosen."""
        return self._message(partition, None, error, (TIMESTAMP_NOT_AVAILABLE, -1))

    def _message(self, partition: int | None, offset: int | None, error: KafkaError | None, timestamp: tuple[int, int]) -> Message:
        # As in confluent-kafka, delivery reports have no headers.
        return Message(self.topic, partition, offset, self.key, self.value, None, error, timestamp, self.age_s(), None)
