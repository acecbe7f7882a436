"""What can go wrong, as types. KafkaError says what their three attributes mean: `retriable`, `fatal` and `persisted`."""

from __future__ import annotations

import builtins
import copyreg
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from levada.base.text import as_text, escaped, shown
from levada.base.unsupported_names import ERROR, lacks
from levada.error_codes import OF_GROUPS, ErrorCode
from levada.types import AnyRecord, TopicPartition
from levada.types import Persisted as Persisted

E = TypeVar("E", bound="KafkaError")


@lacks(ERROR)
class KafkaError(Exception):
    """Base of everything levada raises on purpose.

    retriable: the operation is over and failed, for a reason that may pass: doing it again may succeed. levada has tried again by itself
    until the time of the operation was over. False for a wait that merely ended, such as result(timeout=1): what it waited for goes on.
    fatal: this client object cannot go on; close it.
    persisted: whether the record that an error of the producer is about may be in the log. NO only where that is certain, UNKNOWN else.
    outcomes: of a call about several topics, partitions or ids, what became of each: its error, or None where it was done. Empty elsewhere.
    results: what such a call would have returned of those that it was done for.
    A record may be sent again without harm if `persisted` is NO. If it is UNKNOWN and the error retriable, sending it again writes it once
    or twice. If it is UNKNOWN and the error not retriable, the first one may still be on its way: wait for it.
    """

    retriable: bool = False
    fatal: bool = False
    persisted: Persisted = Persisted.UNKNOWN
    outcomes: Mapping[Any, KafkaError | None] = MappingProxyType({})
    results: Mapping[Any, Any] = MappingProxyType({})

    def __str__(self) -> str:
        return escaped(super().__str__())  # What brokers and records bring into it ends up in logs and on terminals.

    def __reduce__(self) -> Any:
        # A copy is made of what an error became, and not by its constructor, which makes a message out of what it is given.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


def not_written(error: E) -> E:
    """Mark the error of a record that is certainly not in any log: it was refused before it could be appended."""
    error.persisted = Persisted.NO
    return error


class ConfigError(KafkaError, ValueError):
    """A setting is unknown, has a bad value or contradicts another; raised at construction."""

    persisted = Persisted.NO


class ClosedError(KafkaError):
    """The client was closed, before or during the call."""


class AbortedError(KafkaError):
    """The program gave the record up with abort_pending(), before it was acknowledged. `persisted` says whether it may be in the log."""


class CrashedError(KafkaError):
    """A bug in levada stopped the client; the bug's own error is the cause, and was logged."""

    fatal = True

    def __init__(self, client: str, bug: BaseException) -> None:
        super().__init__(f"{client} stopped because of a bug in levada: {bug!r}")
        self.__cause__ = bug


class IllegalStateError(KafkaError, RuntimeError):
    """The call does not fit the state of the object, such as seek() on a partition that is not assigned."""


class ForkedError(IllegalStateError):
    """The client was created in the parent process; its sockets and thread do not exist in this one."""


class ConcurrentUseError(IllegalStateError):
    """Two threads used a consumer at once."""


class NotAcknowledgedError(KafkaError):
    """An id in an AckBuffer has failed, so that nothing from it on becomes safe; the record's own error is the cause.

    id: what was put. sequence: what put() returned for it. safe: up to where everything is acknowledged. `retriable` and `persisted` are
    those of the cause. Put the same id again, for the same sequence, and send its record again; or close the buffer and go on after `safe`.
    """

    def __init__(self, id: Any, sequence: int, cause: BaseException, safe: Any) -> None:
        super().__init__(
            f"id {shown(id)} (sequence {sequence}) was not acknowledged: {as_text(cause)}; everything up to {shown(safe)} is safe; "
            "put the same id again and send its record again, or close the AckBuffer and go on after what is safe"
        )
        self.id, self.sequence, self.safe, self.__cause__ = id, sequence, safe, cause
        if isinstance(cause, KafkaError):
            self.retriable, self.persisted = cause.retriable, cause.persisted


class WakeupError(KafkaError):
    """wakeup() ended the running call, or the first one after it. Nothing is lost; the call may be repeated."""


class SerializationError(KafkaError, ValueError):
    """A key or value could not be turned into bytes, or bytes into a key or value."""

    persisted = Persisted.NO

    @property
    def retriable(self) -> bool:  # type: ignore[override]
        """Whether what stopped the serializer may pass, such as a schema registry that cannot be reached."""
        return isinstance(self.__cause__, KafkaError) and self.__cause__.retriable


class RecordDeserializationError(SerializationError):
    """A deserializer failed on a record. The next poll meets the same record again; seek past it to skip it, or see on.decode.error.

    record: the record as it came, with key and value as raw bytes. part: which of the two failed, "key" or "value" (KIP-1036).
    """

    persisted = Persisted.UNKNOWN  # It was read from a log.

    def __init__(self, message: str, record: AnyRecord, part: str = "value") -> None:
        super().__init__(message)
        self.record, self.part = record, part


class DeadLetterError(RecordDeserializationError):
    """The record could not be written to the dead-letter topic either; the producer's error is the cause. The next poll tries it again."""


class ProcessingError(KafkaError):
    """A record of consumer.acks() or consumer.process() was not processed.

    Its handler failed for the last time or does not end, the executor failed (a process of it died), or it could not be written to the
    dead-letter topic. What happened is the cause.

    record: which one. attempts: how often it was handed out. Nothing is committed past it: whoever reads the partition next gets it again.
    """

    def __init__(self, message: str, record: AnyRecord, attempts: int) -> None:
        super().__init__(message)
        self.record, self.attempts = record, attempts


class HandlerError(KafkaError):
    """Stands for an exception that a handler of consumer.process() raised in another process and that cannot be pickled and unpickled.
    The message has its repr(); the cause is its traceback, as text.
    """


class TimeoutError(KafkaError, builtins.TimeoutError):
    """The time that a caller gave to a call, or to a wait, is over.
    Not retriable: what was waited for goes on, and a request may still be carried out. Subclasses are about an operation that has ended.
    """


class FlushTimeout(TimeoutError):
    """flush() was given less time than the records needed. They go on their way; a later flush() waits for them again.

    remaining: how many of the records that it waited for are neither acknowledged nor failed, their callbacks included.
    """

    def __init__(self, message: str, remaining: int) -> None:
        super().__init__(message)
        self.remaining = remaining


class BufferExhaustedError(TimeoutError):
    """`buffer.memory` stayed full for `max.block.ms`; the record was not taken."""

    retriable = True
    persisted = Persisted.NO


class MetadataTimeout(TimeoutError):
    """No leader of the topic's partitions became known within `max.block.ms`; the record was not taken."""

    retriable = True
    persisted = Persisted.NO


class DeliveryTimeout(TimeoutError):
    """A record was not acknowledged within `delivery.timeout.ms`, and is given up. `persisted` says whether it may be in the log."""

    retriable = True

    def __init__(self, message: str, persisted: Persisted) -> None:
        super().__init__(f"{message}; persisted: {persisted.value}")
        self.persisted = persisted


class ConnectError(KafkaError, ConnectionError):
    """A connection could not be made or used; the message names the address and the probable cause."""

    retriable = True


class DisconnectError(ConnectError):
    """A connection ended while a request waited for its answer."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class BootstrapError(ConnectError, TimeoutError):
    """No broker could be reached within the time of the call. causes: what became of each address, in the order tried."""

    def __init__(self, message: str, causes: Mapping[str, str]) -> None:
        width = max((len(address) for address in causes), default=0)
        lines = [f"  {address:<{width}}  {cause}" for address, cause in causes.items()]
        super().__init__("\n".join([message, *lines]))
        self.causes = dict(causes)


class ProtocolError(KafkaError):
    """Bytes from the network break the protocol; the message names the API, its version, the position and the fault."""


class UnwritableError(ProtocolError):
    """What was to be sent does not fit the protocol, as a string of 40000 bytes; nothing was sent."""


class TruncatedError(ProtocolError):
    """The bytes end before the structure does."""


class FrameTooLargeError(ProtocolError):
    """A frame announces more bytes than the limit; nothing was allocated for it."""


class TooManyElementsError(ProtocolError):
    """A message has more unknown tagged fields (KIP-482), or a request more array elements, than is accepted."""


class CorruptRecordError(ProtocolError):
    """A record batch fails its checksum or contradicts itself."""


class UnsupportedRecordFormatError(ProtocolError):
    """Records cannot be converted to the needed record format: message sets from before Kafka 0.11 cannot hold headers, for example."""


class DecompressionError(CorruptRecordError):
    """Compressed records do not decompress, or decompress to more than the limit."""


class BrokerError(KafkaError):
    """A broker answered with an error code. code: which; there are subclasses for many. reason: the message without it."""

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
        self.partition, self.offset = partition, offset


class LogTruncationError(OffsetOutOfRangeError):
    """The log was cut before the position, by a leader that lacked records: some that were read are gone or replaced (KIP-320).

    divergent_offset: where what was read and what is there part, None when the broker cannot tell. seek() there to go on.
    """

    def __init__(self, message: str = "", *, divergent_offset: int | None = None, **about: Any) -> None:
        super().__init__(message, **about)
        self.divergent_offset = divergent_offset


class TopicRecreatedError(OffsetOutOfRangeError):
    """The topic was deleted and another one of the same name created, in which the offset means nothing. seek() to read on."""


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


class AuthenticationError(KafkaError):
    """The broker, or the client, could not be sure who the other one is. Base of the errors of TLS and SASL."""


class SslAuthenticationError(AuthenticationError):
    """TLS was refused: the broker's certificate is not accepted here, or the client's there, or they share no version. Not retried."""


class SaslAuthenticationError(AuthenticationError, BrokerError):
    """The broker refused the credentials."""

    CODE = ErrorCode.SASL_AUTHENTICATION_FAILED


class UnsupportedSaslMechanismError(AuthenticationError, BrokerError):
    """The broker's listener does not offer the `sasl.mechanism`."""

    CODE = ErrorCode.UNSUPPORTED_SASL_MECHANISM


class TokenError(AuthenticationError):
    """Who gives out tokens, or AWS credentials, refused or did not answer; `retriable` where the client tries again by itself."""


class AuthorizationError(BrokerError):
    """This user may not do that. Subclasses say with what."""


class TopicAuthorizationError(AuthorizationError):
    """This user may not do that with this topic."""

    CODE = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class ClusterAuthorizationError(AuthorizationError):
    """This user may not do that with this cluster."""

    CODE = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    fatal = True


class TransactionalIdAuthorizationError(AuthorizationError):
    """This user may not use this transactional id."""

    CODE = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    fatal = True


class GroupError(BrokerError):
    """A consumer group refused a member, or what was asked of it."""


class GroupAuthorizationError(AuthorizationError, GroupError):
    """This user may not do that with this group."""

    CODE = ErrorCode.GROUP_AUTHORIZATION_FAILED


class InvalidGroupIdError(GroupError):
    """There is no `group.id`, or it is none that a group can have."""

    CODE = ErrorCode.INVALID_GROUP_ID


class CommitFailedError(GroupError):
    """Offsets were not committed, because the consumer is not the member of its group any more that they were read by.

    Its partitions are somebody else's by now, who reads again what was read here since the last commit. The next poll() joins again.
    """


class RebalanceInProgressError(GroupError):
    """Offsets were not committed, because the group is being rebalanced. poll() takes part in that; then commit what is still owned."""

    CODE = ErrorCode.REBALANCE_IN_PROGRESS


class FencedInstanceIdError(GroupError):
    """Another consumer has joined the group with the same `group.instance.id`, and this one is no member any more."""

    CODE = ErrorCode.FENCED_INSTANCE_ID
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


class TransactionAbortableError(KafkaError):
    """The transaction cannot be committed, for the reason that the message names and `__cause__` has; abort_transaction() goes on.

    Raised by every call on the transaction but abort_transaction(), send() included, whose record was not taken then (`persisted` "no").
    From other calls it is about the transaction: nothing of it is or will be committed, but records that were sent before may be in the
    log, for readers with isolation.level=read_uncommitted. So `persisted` is "unknown" there, whatever the cause says of its own record.
    """


class TransactionAbortedError(KafkaError):
    """The record belongs to a transaction that was aborted, or has to be: no reader with isolation.level=read_committed gets it."""


class TransactionOutcomeUnknownError(TimeoutError):
    """The end of a transaction was asked for and not answered in time: it may be carried out, now or later, or not at all.

    Repeat the same call to learn the outcome: it asks for the same end, which is carried out once.
    """


class OutOfOrderSequenceError(BrokerError):
    """The broker holds a gap in this producer's sequence."""

    CODE = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def _coded(base: type[BrokerError]) -> Iterator[tuple[ErrorCode, type[BrokerError]]]:
    for cls in base.__subclasses__():
        if "CODE" in vars(cls) and cls.CODE is not None:
            yield cls.CODE, cls
        yield from _coded(cls)


_BY_CODE: Mapping[ErrorCode, type[BrokerError]] = {
    # What no program tells apart so far, under the class that covers it.
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: AuthorizationError,
    **dict.fromkeys(OF_GROUPS, GroupError),
    **dict(_coded(BrokerError)),
}


class NoOffsetForPartitionError(KafkaError):
    """A partition has no position and `auto.offset.reset` is `none`."""


class RetriableCommitError(KafkaError):
    """Offsets could not be committed, for a reason that may pass; commit them again, or let a later commit do it."""

    retriable = True


class AcknowledgeError(KafkaError):
    """Acknowledgements in a share group were not taken, or may not have been (KIP-932). `outcomes` has the error of each partition.
    offsets: of the records that this is about, by partition; those whose acknowledgement was not taken are delivered again.
    """

    offsets: Mapping[TopicPartition, list[int]] = MappingProxyType({})


class DataLossError(KafkaError):
    """Records between the offset asked for and the log start are gone."""


def broker_error(code: int, message: str = "") -> BrokerError:
    """Return the exception for an error code from a response, with the most specific type there is."""
    known = ErrorCode.of(code)
    text = message if int(known) == code else f"{message} (code {code})"
    return _BY_CODE.get(known, BrokerError)(text, code=known)
