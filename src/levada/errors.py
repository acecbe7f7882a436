"""All errors of levada. KafkaError explains the attributes that they share: `retriable`, `fatal`, `persisted`, `outcomes` and `results`."""

from __future__ import annotations

import builtins
import copyreg
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from levada.base.text import as_text, escaped, shown
from levada.base.unsupported_names import ERROR, lacks, no_such_error
from levada.error_codes import OF_GROUPS, ErrorCode
from levada.types import AnyRecord, TopicPartition
from levada.types import Persisted as Persisted

E = TypeVar("E", bound="KafkaError")


@lacks(ERROR)
class KafkaError(Exception):
    """Base of all errors that levada raises on purpose.

    retriable: the operation failed for a temporary reason, and may succeed if the program repeats it. Most calls have already retried it
    until their time was over. False if only a wait has ended, such as result(timeout=1), because the operation itself continues.
    fatal: this client object cannot continue; close it. (KafkaClient and KafkaAdmin can continue, except after CrashedError.)
    persisted: in errors of a producer, whether the record may be in the log: NO only if it is certainly not there, otherwise UNKNOWN.
    outcomes: after a call about several topics, partitions or ids, the error of each, or None if it succeeded. Empty after other calls.
    results: the results of such a call for those that succeeded.

    If `persisted` is NO, the record may be sent again without harm. If it is UNKNOWN and the error is retriable, sending it again writes it
    once or twice. If it is UNKNOWN and the error is not retriable, the first record may still be in flight: wait for it.
    """

    retriable: bool = False
    fatal: bool = False
    persisted: Persisted = Persisted.UNKNOWN
    outcomes: Mapping[Any, KafkaError | None] = MappingProxyType({})
    results: Mapping[Any, Any] = MappingProxyType({})

    def __str__(self) -> str:
        return escaped(super().__str__())  # The text may contain data of brokers and records, and is shown in logs and on terminals.

    def __reduce__(self) -> Any:
        # A copy gets the attributes directly. The constructor would make another message from its arguments.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


def not_written(error: E) -> E:
    """Mark the error of a record that is certainly in no log, because it was refused before it could be appended."""
    error.persisted = Persisted.NO
    return error


class ConfigError(KafkaError, ValueError):
    """A setting is unknown, has a bad value or contradicts another; raised at construction. Change the setting that the message names."""

    persisted = Persisted.NO


class ClosedError(KafkaError):
    """The client was closed, before or during the call; create a new one to continue.

    From a producer, `persisted` says whether the record may be in the log. Other requests may have been executed.
    """


class AbortedError(KafkaError):
    """The program called abort_pending() before the record was acknowledged.

    `persisted` says whether it may be in the log. If the record is still needed, send it again.
    """


class CrashedError(KafkaError):
    """A bug in levada stopped the client. The error of the bug is the cause, and was logged.

    Please report it. Close the client and create a new one; records that were not acknowledged may be in the log.
    """

    fatal = True

    def __init__(self, client: str, bug: BaseException) -> None:
        super().__init__(f"{client} stopped because of a bug in levada: {bug!r}")
        self.__cause__ = bug


class IllegalStateError(KafkaError, RuntimeError):
    """The call does not fit the state of the object, such as seek() on a partition that is not assigned. Correct the program: the message
    says what the call needs.
    """


class ForkedError(IllegalStateError):
    """The client was used in the parent process; its sockets and thread do not exist in this one. Create the client after fork(), or do not
    use it before.
    """


class ConcurrentUseError(IllegalStateError):
    """Two threads used a consumer at once; in levada.aio, two tasks. Use one consumer per thread or task, or a lock. Only wakeup() and
    metrics() may be called from any thread.
    """


class NotAcknowledgedError(KafkaError):
    """An id in an AckBuffer has failed, so that neither it nor later ids become safe. The record's error is the cause.

    id: the failed id. sequence: the number that put() returned for it. safe: the id up to which everything is acknowledged. `retriable` and
    `persisted` are those of the cause. Put the same id again, which returns the same sequence, and send its record again; or close the
    buffer and continue after `safe`.
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
    """wakeup() ended the running call, or the next call. Nothing is lost; the call may be repeated."""


class SerializationError(KafkaError, ValueError):
    """A key or value could not be converted to bytes, or bytes to a key or value. A producer has not sent the record.

    Correct the value or the serializer. If the error is retriable, repeat the call.
    """

    persisted = Persisted.NO

    @property
    def retriable(self) -> bool:  # type: ignore[override]
        """Whether the serializer failed for a temporary reason, such as a schema registry that cannot be reached."""
        return isinstance(self.__cause__, KafkaError) and self.__cause__.retriable


class RecordDeserializationError(SerializationError):
    """A key or value of a record could not be deserialized. Each poll raises the error again: seek() past the record to skip it, or set
    on.decode.error. A share consumer releases the record instead.

    record: the record with its key and value in bytes. part: "key" or "value", whichever failed (KIP-1036).
    """

    persisted = Persisted.UNKNOWN  # The record was read from a log.

    def __init__(self, message: str, record: AnyRecord, part: str = "value") -> None:
        super().__init__(message)
        self.record, self.part = record, part


class DeadLetterError(RecordDeserializationError):
    """The record could not be written to the dead-letter topic. The producer's error is the cause.

    The next poll tries to write it again. seek() past the record to skip it.
    """


class ProcessingError(KafkaError):
    """A record of consumer.acks() or consumer.process() was not processed.

    Its handler failed for the last time or does not end, retry_delay or the executor failed (a worker process died, for example), or the
    record could not be written to the dead-letter topic. The cause, if there is one, is that failure. No offset after the record is
    committed. Remove the cause and continue: the same acks(), the next process(), or the next consumer of the partition gets the record
    again.

    record: the record itself. attempts: how often it was delivered.
    """

    def __init__(self, message: str, record: AnyRecord, attempts: int) -> None:
        super().__init__(message)
        self.record, self.attempts = record, attempts


class HandlerError(KafkaError):
    """Replaces an exception that a handler of consumer.process() raised in another process, and that cannot be pickled and unpickled.

    The message has the repr() of the exception; the cause has its traceback as text. To get the exception itself, raise one that can be
    pickled.
    """


class TimeoutError(KafkaError, builtins.TimeoutError):
    """The time limit of a call, or of a wait, is over.

    Not retriable, because the operation may continue, and a broker may still execute a request: find out whether it did before you repeat
    the call. The retriable subclasses are for operations that have ended.
    """


class FlushTimeout(TimeoutError):
    """The time limit of flush() was over before all records were finished. They stay in flight; a later flush() waits for them again.

    remaining: how many of these records are not finished: neither acknowledged nor failed, or their callbacks have not returned.
    """

    def __init__(self, message: str, remaining: int) -> None:
        super().__init__(message)
        self.remaining = remaining


class BufferExhaustedError(TimeoutError):
    """`buffer.memory` stayed full for `max.block.ms`, or is full in a callback, which does not wait. The record was not appended.

    Send it again later: the brokers do not take records as fast as the program sends them.
    """

    retriable = True
    persisted = Persisted.NO


class MetadataTimeout(TimeoutError):
    """The topic's partitions did not become known within `max.block.ms`; a callback does not wait for them at all. The record was not
    appended.

    Check that the topic exists and that brokers can be reached, and send it again.
    """

    retriable = True
    persisted = Persisted.NO


class DeliveryTimeout(TimeoutError):
    """A record was not acknowledged within `delivery.timeout.ms` and has failed.

    `persisted` says whether it may be in the log. Send it again; if it is UNKNOWN, the record may then be there twice.
    """

    retriable = True

    def __init__(self, message: str, persisted: Persisted) -> None:
        super().__init__(f"{message}; persisted: {persisted.value}")
        self.persisted = persisted


class ConnectError(KafkaError, ConnectionError):
    """A connection could not be made or used; the message names the address and the probable cause. Remove it and repeat the call."""

    retriable = True


class DisconnectError(ConnectError):
    """A connection was closed while a request waited for its response. The broker may have executed the request.

    Repeat the call if it may be executed twice. timed_out: the client closed the connection, because no response came in time.
    """

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class BootstrapError(ConnectError, TimeoutError):
    """No broker could be reached within the time limit of the call.

    The message has the failure of each address. Check `bootstrap.servers`, `security.protocol` and whether the brokers run.

    causes: the failure of each address, in the order of the attempts.
    """

    def __init__(self, message: str, causes: Mapping[str, str]) -> None:
        width = max((len(address) for address in causes), default=0)
        lines = [f"  {address:<{width}}  {cause}" for address, cause in causes.items()]
        super().__init__("\n".join([message, *lines]))
        self.causes = dict(causes)


class ProtocolError(KafkaError):
    """Bytes from the network violate the protocol. The message names the API, its version, the position and the fault.

    Check that the address is that of a Kafka broker, with the right `security.protocol`. If it is, report a bug: of levada or of the
    broker.
    """


class UnwritableError(ProtocolError):
    """A field of a request does not fit the protocol, for example a string of 40000 bytes. Nothing was sent; shorten the field."""


class TruncatedError(ProtocolError):
    """The bytes end before the structure does. ProtocolError says what to check."""


class FrameTooLargeError(ProtocolError):
    """A frame announces more bytes than the limit; nothing was allocated for it.

    If the first bytes in the message look like HTTP or TLS, correct the address or `security.protocol`. If it is a response of a broker,
    raise `max.response.bytes`.
    """


class TooManyElementsError(ProtocolError):
    """A message has more unknown tagged fields (KIP-482) than are accepted, or a request has more array elements. Split such a request;
    otherwise ProtocolError says what to check.
    """


class CorruptRecordError(ProtocolError):
    """A record batch does not match its checksum, or its fields contradict each other. Each poll() of a consumer raises it again: seek()
    past the batch to skip it. A share consumer rejects the batch, and send_sealed() does not send it.
    """


class UnsupportedRecordFormatError(ProtocolError):
    """Records cannot be converted to the needed record format: message sets from before Kafka 0.11 cannot hold headers, for example. Leave
    out what that format lacks, or upgrade the broker.
    """


class DecompressionError(CorruptRecordError):
    """Compressed records do not decompress, or decompress to more than the limit. If it is the limit, raise `max.decompressed.bytes`;
    otherwise CorruptRecordError says what happens to the batch.
    """


class BrokerError(KafkaError):
    """A broker answered with an error code. Many codes have subclasses. code: the error code. reason: the message without the code.

    If the error is retriable, repeat the call. Otherwise first remove the reason.
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
    """The broker failed in an unexpected way. Read the reason in the broker's log before you repeat the call."""

    CODE = ErrorCode.UNKNOWN_SERVER_ERROR


class OffsetOutOfRangeError(BrokerError):
    """The requested offset is before the log start or after the log end.

    In a consumer, seek() to another one, or set `auto.offset.reset`, which does not apply to partitions with an end (assign()). For
    delete_records(), give an offset up to the high watermark. partition, offset: None if they are not known.
    """

    CODE = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(
        self, message: str = "", *, code: ErrorCode | None = None, partition: TopicPartition | None = None, offset: int | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.partition, self.offset = partition, offset


class LogTruncationError(OffsetOutOfRangeError):
    """The log was truncated before the consumer's position, because a new leader lacked records (KIP-320).

    Some records that were read are lost or replaced. divergent_offset: the offset from which the log differs from the records that were
    read; None if the broker cannot tell. seek() to this offset to continue.
    """

    def __init__(self, message: str = "", *, divergent_offset: int | None = None, **about: Any) -> None:
        super().__init__(message, **about)
        self.divergent_offset = divergent_offset


class TopicRecreatedError(OffsetOutOfRangeError):
    """The topic was deleted and created again with the same name. Offsets of the old topic mean nothing there.

    From poll(): seek() to continue. From commit(): the offset was not committed; if it is one of the new topic, commit it again.
    """


class UnknownTopicOrPartitionError(BrokerError):
    """The topic or partition does not exist, or may not be described by this user. Create it, correct its name, or grant Describe."""

    CODE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class InvalidTopicError(BrokerError):
    """The name is not a legal topic name (1 to 249 of a-z A-Z 0-9 . _ -, but not "." or ".."), or the broker refuses it, because it differs
    from that of another topic only in "." and "_", or is that of an internal topic. Choose another one.
    """

    CODE = ErrorCode.INVALID_TOPIC_EXCEPTION


class TopicAlreadyExistsError(BrokerError):
    """A topic of this name exists, and was not changed. If an earlier attempt of the call may have created it, the message says so. Use it,
    or choose another name.
    """

    CODE = ErrorCode.TOPIC_ALREADY_EXISTS


class RecordTooLargeError(BrokerError):
    """A record is larger than `max.request.size`, `buffer.memory` or the topic's `max.message.bytes`, and was not written. In a consumer: a
    message is larger than `max.partition.fetch.bytes`, and the broker is older than Kafka 0.10.1.

    Raise the limit that the message names; or make the record smaller, or seek() past the message.
    """

    CODE = ErrorCode.MESSAGE_TOO_LARGE


class AuthenticationError(KafkaError):
    """The broker or the client could not authenticate the other side. Base of the errors of TLS and SASL.

    Correct the credentials or certificates. A client keeps the settings that it was created with.
    """


class SslAuthenticationError(AuthenticationError):
    """The TLS handshake failed: one side does not accept the other's certificate, or they share no version. It is not retried. Correct the
    settings `ssl.*`, or the certificates.
    """


class ProxyAuthenticationError(AuthenticationError):
    """The proxy of `proxy.url` refused the user and password, or wants them. It is not retried. Correct them in `proxy.url`."""


class SaslAuthenticationError(AuthenticationError, BrokerError):
    """The broker refused the credentials, the client did not accept the broker's answer, or the mechanism failed in the client. Correct the
    settings `sasl.*`, or the user at the broker.
    """

    CODE = ErrorCode.SASL_AUTHENTICATION_FAILED


class UnsupportedSaslMechanismError(AuthenticationError, BrokerError):
    """The broker's listener does not offer the `sasl.mechanism`, or no SASL at all. Choose another mechanism or another listener."""

    CODE = ErrorCode.UNSUPPORTED_SASL_MECHANISM


class TokenError(AuthenticationError):
    """There is no token, or there are no AWS credentials, for a login: their server refused or did not answer, the program's function
    failed, or its token cannot be used. `retriable` says whether the client tries again by itself; if not, correct the settings or the
    function.
    """


class AuthorizationError(BrokerError):
    """The user is not authorized for the operation. Subclasses name the type of the resource.

    It was not carried out. An administrator has to grant the permission (`levada acls`, or KafkaAdmin.create_acls()); then repeat the call.
    """


class TopicAuthorizationError(AuthorizationError):
    """The user is not authorized for the operation on the topic. Grant Read, Write or what else it needs, and repeat it."""

    CODE = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class ClusterAuthorizationError(AuthorizationError):
    """The user is not authorized for the operation on the cluster. Grant it and repeat the call, in a producer with a new producer."""

    CODE = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    fatal = True


class TransactionalIdAuthorizationError(AuthorizationError):
    """The user is not authorized to use the transactional id. Grant Write and Describe. If `fatal` is true, create a new producer then."""

    CODE = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    fatal = True


class GroupError(BrokerError):
    """The group coordinator refused a member or a request; the message says why. A consumer that is no longer a member joins again by
    itself in the next poll().
    """


class GroupAuthorizationError(AuthorizationError, GroupError):
    """The user is not authorized for the operation on the group. Grant Read or what else it needs, and repeat it."""

    CODE = ErrorCode.GROUP_AUTHORIZATION_FAILED


class InvalidGroupIdError(GroupError):
    """There is no `group.id`, or it is not a valid group id. Set a valid one."""

    CODE = ErrorCode.INVALID_GROUP_ID


class CommitFailedError(GroupError):
    """Offsets were not committed, because the consumer is no longer the member of its group that read the records.

    Its partitions may now belong to other members, who read again all records after the last committed offset. The next poll() joins the
    group again. If it happens often, poll more often or raise `max.poll.interval.ms`.
    """


class RebalanceInProgressError(GroupError):
    """Offsets were not committed, because the group is being rebalanced.

    Call poll() to complete it, then commit for partitions still owned.
    """

    CODE = ErrorCode.REBALANCE_IN_PROGRESS


class FencedInstanceIdError(GroupError):
    """Another consumer has joined the group with the same `group.instance.id`, so this consumer is no longer a member.

    Its offsets are not committed any more. Close it, and give each consumer an id of its own.
    """

    CODE = ErrorCode.FENCED_INSTANCE_ID
    fatal = True


class UnsupportedVersionError(BrokerError):
    """Client and broker share no version of the API, the shared version lacks a field that was set, or the feature is not enabled in the
    cluster. Leave that field out, enable the feature, or upgrade the older side.
    """

    CODE = ErrorCode.UNSUPPORTED_VERSION


class UnsupportedCompressionError(BrokerError):
    """The codec is newer than the broker or the record format. The records were not written; choose another `compression.type`."""

    CODE = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class InvalidRecordError(BrokerError):
    """The contents of a record are not valid, and it was not written: the broker refused it, or it is a row of send_arrow() that cannot be
    sent. Correct the record: in a compacted topic it needs a key, for example.
    """

    CODE = ErrorCode.INVALID_RECORD


class ProducerFencedError(BrokerError):
    """Another producer took over the transactional id, or the transaction was open for longer than `transaction.timeout.ms`. The
    coordinator has aborted the open transaction, unless the message says that its outcome is not known.

    Close this producer. If several are meant to run, give each an id of its own. From KafkaAdmin.commit_detached() and abort_detached():
    the transaction is no longer open.
    """

    CODE = ErrorCode.PRODUCER_FENCED
    fatal = True


class TransactionAbortableError(KafkaError):
    """The transaction cannot be committed; call abort_transaction() to continue. The message and `__cause__` have the reason.

    Every call on the transaction except abort_transaction() raises it. From send() it means that the record was not appended (`persisted`
    is NO). From other calls it is about the whole transaction: nothing of it is or will be committed, but earlier records may be in the
    log, and visible with isolation.level=read_uncommitted. So `persisted` is UNKNOWN there, whatever the cause says about its own record.
    """


class TransactionAbortedError(KafkaError):
    """The record belongs to a transaction that was aborted or must be aborted. No consumer with isolation.level=read_committed gets it.

    Send it again in the next transaction.
    """


class TransactionOutcomeUnknownError(TimeoutError):
    """It is not known whether a transaction was committed or aborted as requested: its coordinator did not answer in time, or has forgotten
    it. The transaction may be ended now, later or not at all.

    Repeat the same call to learn the outcome: it requests the same end, which the coordinator executes once. If that is not possible any
    more, the message says how to continue.
    """


class OutOfOrderSequenceError(BrokerError):
    """The broker found a gap in the producer's sequence numbers. `persisted` says whether the record may be in the log.

    Send it again; if `persisted` is UNKNOWN, it may then be there twice. In a transaction, abort first.
    """

    CODE = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def _coded(base: type[BrokerError]) -> Iterator[tuple[ErrorCode, type[BrokerError]]]:
    for cls in base.__subclasses__():
        if "CODE" in vars(cls) and cls.CODE is not None:
            yield cls.CODE, cls
        yield from _coded(cls)


_BY_CODE: Mapping[ErrorCode, type[BrokerError]] = {
    # Codes without a class of their own, with the class that covers them.
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: AuthorizationError,
    **dict.fromkeys(OF_GROUPS, GroupError),
    **dict(_coded(BrokerError)),
}


class NoOffsetForPartitionError(KafkaError):
    """A partition has no position and `auto.offset.reset` is `none`. seek() to one, or choose another reset."""


class RetriableCommitError(KafkaError):
    """It is not certain that offsets were committed, for a temporary reason. Commit them again, or let a later commit do it."""

    retriable = True


class AcknowledgeError(KafkaError):
    """Acknowledgements in a share group failed, or may have failed (KIP-932). `outcomes` has the error of each partition.

    offsets: the offsets of these records by partition. Records whose acknowledgement failed are delivered again: process them then.
    """

    offsets: Mapping[TopicPartition, list[int]] = MappingProxyType({})


class DataLossError(KafkaError):
    """Records that were to be read are gone: they are before the log start or after the log end, the log was truncated, or the topic was
    created again.

    scan(): choose another start, or on_data_loss="skip". Spark: choose failOnDataLoss=false or onDataLoss, or begin with a new checkpoint.
    """


def __getattr__(name: str) -> Any:
    raise no_such_error(__name__, name)


def broker_error(code: int, message: str = "") -> BrokerError:
    """Return the exception for an error code of a response, of the most specific type."""
    known = ErrorCode.of(code)
    text = message if int(known) == code else f"{message} (code {code})"
    return _BY_CODE.get(known, BrokerError)(text, code=known)
