"""What can go wrong, as types.

Three bits drive every retry loop and tell a user what to do: `retriable` (the same call may succeed later), `fatal` (this client
object cannot go on) and `persisted` (whether a record may nevertheless be in the log).
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from enum import Enum
from typing import ClassVar

from levada.error_codes import ErrorCode
from levada.types import AnyRecord, TopicPartition


class Persisted(Enum):
    """Whether a failed record may be in the log all the same."""

    NO = "no"
    UNKNOWN = "unknown"


class KafkaError(Exception):
    """Base of everything levada raises on purpose."""

    retriable: bool = False
    fatal: bool = False
    persisted: Persisted = Persisted.NO


class ConfigError(KafkaError, ValueError):
    """A setting is unknown, has a bad value or contradicts another; raised at construction."""


class ClosedError(KafkaError):
    """The client was closed, before or during the call."""


class IllegalStateError(KafkaError, RuntimeError):
    """The call does not fit the state of the object, such as seek() on a partition that is not assigned."""


class ForkedError(IllegalStateError):
    """The client was created in the parent process; its sockets and thread do not exist in this one."""


class ConcurrentUseError(IllegalStateError):
    """Two threads used a consumer at once."""


class WakeupError(KafkaError):
    """wakeup() ended the running call, or the first one after it. Nothing is lost; the call may be repeated."""


class SerializationError(KafkaError, ValueError):
    """A key or value could not be turned into bytes, or bytes into a key or value."""


class RecordDeserializationError(SerializationError):
    """A deserializer failed on a record. The next poll meets the same record again; seek past it to skip it.

    record: the record as it came, with key and value as raw bytes.
    """

    def __init__(self, message: str, record: AnyRecord) -> None:
        super().__init__(message)
        self.record = record


class TimeoutError(KafkaError, builtins.TimeoutError):
    """A call or a record reached its deadline."""

    retriable = True


class BufferExhaustedError(TimeoutError):
    """`buffer.memory` stayed full for `max.block.ms`."""


class DeliveryTimeout(TimeoutError):
    """A record was not acknowledged within `delivery.timeout.ms`."""

    def __init__(self, message: str, persisted: Persisted) -> None:
        super().__init__(f"{message}; persisted: {persisted.value}")
        self.persisted = persisted


class ConnectError(KafkaError, ConnectionError):
    """A connection could not be made or used; the message names the address and the probable cause."""

    retriable = True


class DisconnectError(ConnectError):
    """A connection ended while a request waited for its answer."""

    persisted = Persisted.UNKNOWN

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class BootstrapError(ConnectError, TimeoutError):
    """No broker could be reached within the time of the call.

    causes: what became of each address, in the order tried.
    """

    def __init__(self, message: str, causes: Mapping[str, str]) -> None:
        width = max((len(address) for address in causes), default=0)
        lines = [f"  {address:<{width}}  {cause}" for address, cause in causes.items()]
        super().__init__("\n".join([message, *lines]))
        self.causes = dict(causes)


class ProtocolError(KafkaError):
    """Bytes from the network break the protocol; the message names the API, its version, the position and the fault."""


class TruncatedError(ProtocolError):
    """The bytes end before the structure does."""


class FrameTooLargeError(ProtocolError):
    """A frame announces more bytes than the limit; nothing was allocated for it."""


class CorruptRecordError(ProtocolError):
    """A record batch fails its checksum or contradicts itself."""


class UnsupportedRecordFormatError(ProtocolError):
    """Records cannot be had in the format that is asked for, as headers in a message set of before Kafka 0.11."""


class DecompressionError(CorruptRecordError):
    """Compressed records do not decompress, or decompress to more than the limit."""


class BrokerError(KafkaError):
    """A broker answered with an error code. `code` is the code; subclasses exist for those a program tells apart.

    reason: the message without the code.
    """

    CODE: ClassVar[ErrorCode | None] = None

    def __init__(self, message: str = "", *, code: ErrorCode | None = None) -> None:
        self.code: ErrorCode = code if code is not None else (self.CODE or ErrorCode.UNKNOWN_SERVER_ERROR)
        self.reason = message
        super().__init__(f"{message}: {self.code.name} ({self.code.value})" if message else f"{self.code.name} ({self.code.value})")

    @property
    def retriable(self) -> bool:  # type: ignore[override]
        """Whether Kafka lists the code as retriable."""
        return self.code.retriable


class UnknownServerError(BrokerError):
    """The broker failed in an unexpected way; its own log tells more."""

    CODE = ErrorCode.UNKNOWN_SERVER_ERROR


class OffsetOutOfRangeError(BrokerError):
    """The offset asked for is before the log start or after the log end."""

    CODE = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(
        self, message: str = "", *, code: ErrorCode | None = None, partition: TopicPartition | None = None, offset: int | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.partition = partition
        self.offset = offset


class LogTruncationError(OffsetOutOfRangeError):
    """The log was cut before the position, by a leader that lacked records: some that were read are gone or replaced (KIP-320).

    divergent_offset: where what was read and what is there part, None when the broker cannot tell. seek() there to go on.
    """

    def __init__(
        self,
        message: str = "",
        *,
        code: ErrorCode | None = None,
        partition: TopicPartition | None = None,
        offset: int | None = None,
        divergent_offset: int | None = None,
    ) -> None:
        super().__init__(message, code=code, partition=partition, offset=offset)
        self.divergent_offset = divergent_offset


class TopicRecreatedError(OffsetOutOfRangeError):
    """The topic was deleted and another one of the same name created, which the position says nothing about. seek() to go on."""


class UnknownTopicOrPartitionError(BrokerError):
    """The topic or partition does not exist, or may not be described by this user."""

    CODE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class InvalidTopicError(BrokerError):
    """The name is not a legal topic name (1 to 249 of a-z A-Z 0-9 . _ -)."""

    CODE = ErrorCode.INVALID_TOPIC_EXCEPTION


class TopicAlreadyExistsError(BrokerError):
    """A topic of this name exists."""

    CODE = ErrorCode.TOPIC_ALREADY_EXISTS


class RecordTooLargeError(BrokerError):
    """A record is larger than `max.request.size`, `buffer.memory` or the topic's `max.message.bytes`."""

    CODE = ErrorCode.MESSAGE_TOO_LARGE


class TopicAuthorizationError(BrokerError):
    """This user may not do that with this topic."""

    CODE = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class ClusterAuthorizationError(BrokerError):
    """This user may not do that with this cluster."""

    CODE = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    fatal = True


class UnsupportedVersionError(BrokerError):
    """Client and broker share no version of the API, or the shared one lacks a field that was set."""

    CODE = ErrorCode.UNSUPPORTED_VERSION


class UnsupportedCompressionError(BrokerError):
    """The codec is newer than the broker or the record format."""

    CODE = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class InvalidRecordError(BrokerError):
    """The broker refused a record's contents."""

    CODE = ErrorCode.INVALID_RECORD


class ProducerFencedError(BrokerError):
    """Another producer took over the transactional id."""

    CODE = ErrorCode.PRODUCER_FENCED
    fatal = True


class OutOfOrderSequenceError(BrokerError):
    """The broker holds a gap in this producer's sequence."""

    CODE = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


_BY_CODE: Mapping[ErrorCode, type[BrokerError]] = {cls.CODE: cls for cls in BrokerError.__subclasses__() if cls.CODE is not None}


FINAL_TOPIC_ERRORS: Mapping[ErrorCode, str] = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a topic's name is 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', but not '.' or '..'",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "this user may not describe it; ask for the DESCRIBE permission",
}
"""What brokers say of a topic that will not change by asking again, and what to do about it."""


class NoOffsetForPartitionError(KafkaError):
    """A partition has no position and `auto.offset.reset` is `none`."""


class DataLossError(KafkaError):
    """Records between the offset asked for and the log start are gone."""


def broker_error(code: int, message: str = "") -> BrokerError:
    """Return the exception for an error code from a response, with the most specific type there is."""
    known = ErrorCode.of(code)
    text = message if int(known) == code else f"{message} (code {code})"
    return _BY_CODE.get(known, BrokerError)(text, code=known)


def topic_error(code: ErrorCode, name: str) -> BrokerError:
    """Return the exception for what brokers hold against a topic as a whole."""
    return broker_error(code, ": ".join([f"topic '{name}'", *filter(None, [FINAL_TOPIC_ERRORS.get(code)])]))
