"""KafkaError and KafkaException, the errors of serializing clients, and the one table from levada's errors to error codes."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import total_ordering
from typing import Any

from levada import errors
from levada.compat.confluent_kafka.error_codes import NAMES
from levada.compat.confluent_kafka.error_codes import ErrorCodes as ErrorCodes


@total_ordering
class KafkaError(ErrorCodes):
    """An error as a value: it is passed to callbacks, returned by Message.error(), and the first argument of a KafkaException.

    It can be compared with a number: `error == KafkaError._PARTITION_EOF`.
    """

    def __init__(
        self,
        code: int,
        reason: builtins.str | None = None,
        fatal: bool = False,
        retriable: bool = False,
        txn_requires_abort: bool = False,
    ) -> None:
        self._code = int(code)
        self._reason = _described(self._code) if reason is None else reason
        self._fatal = fatal
        self._retriable = retriable
        self._txn_requires_abort = txn_requires_abort

    def code(self) -> int:
        """Return the number."""
        return self._code

    def name(self) -> builtins.str:
        """Return the name of the number."""
        return NAMES.get(self._code, f"ERR_{self._code}?")

    def str(self) -> builtins.str:
        """Return the text for people."""
        return self._reason

    def fatal(self) -> bool:
        """Return whether the client cannot continue."""
        return self._fatal

    def retriable(self) -> bool:
        """Return whether the call of the transactional API may be repeated. False for errors from elsewhere, as in confluent-kafka."""
        return self._retriable

    def txn_requires_abort(self) -> bool:
        """Return whether the transaction has to be aborted. False for errors that are not from the transactional API."""
        return self._txn_requires_abort

    def __eq__(self, other: object) -> bool:
        return self._code == (other._code if isinstance(other, KafkaError) else other)

    def __lt__(self, other: KafkaError | int) -> bool:
        return self._code < int(other)

    def __int__(self) -> int:
        return self._code

    def __hash__(self) -> int:
        return hash(self._code)

    def __repr__(self) -> builtins.str:
        kinds = "".join(f"{kind}," for kind, is_so in (("FATAL", self._fatal), ("RETRIABLE", self._retriable)) if is_so)
        return f'KafkaError{{{kinds}code={self.name()},val={self._code},str="{self._reason}"}}'


class KafkaException(Exception):
    """Raised by calls. args[0] is the KafkaError."""


def _described(code: int) -> str:
    name = NAMES.get(code)
    if name is None:
        return f"Err-{code}?"
    return f"{'Local' if name.startswith('_') else 'Broker'}: {name.strip('_').replace('_', ' ').capitalize()}"


def exception(code: int, reason: str | None = None, **flags: bool) -> KafkaException:
    """Return a KafkaException with a new KafkaError. flags: further arguments of KafkaError."""
    return KafkaException(KafkaError(code, reason, **flags))


def _aborted(error: errors.KafkaError) -> int:
    return ErrorCodes._PURGE_QUEUE if error.persisted is errors.Persisted.NO else ErrorCodes._PURGE_INFLIGHT


def _of_the_cause(error: errors.KafkaError) -> int:
    code = code_of(error.__cause__) if isinstance(error.__cause__, errors.KafkaError) else ErrorCodes._STATE
    # To librdkafka a transactional producer with an old epoch is fenced. Levada may still be able to abort and go on.
    return ErrorCodes._FENCED if code in (ErrorCodes.INVALID_PRODUCER_EPOCH, ErrorCodes.PRODUCER_FENCED) else code


def _of_the_broker(error: errors.KafkaError) -> int:
    return int(error.code) if isinstance(error, errors.BrokerError) else ErrorCodes._FAIL


_CODES: Mapping[type[errors.KafkaError], int | Callable[[errors.KafkaError], int]] = {
    errors.ConfigError: ErrorCodes._INVALID_ARG,
    errors.ClosedError: ErrorCodes._DESTROY,
    errors.CrashedError: ErrorCodes._FATAL,
    errors.IllegalStateError: ErrorCodes._STATE,
    errors.WakeupError: ErrorCodes._INTR,
    errors.SerializationError: ErrorCodes._INVALID_ARG,
    # Records that were not delivered.
    errors.AbortedError: _aborted,
    errors.TransactionAbortedError: ErrorCodes._PURGE_QUEUE,
    errors.DeliveryTimeout: ErrorCodes._MSG_TIMED_OUT,
    errors.MetadataTimeout: ErrorCodes._MSG_TIMED_OUT,
    errors.BufferExhaustedError: ErrorCodes._QUEUE_FULL,
    # Transactions.
    errors.ProducerFencedError: ErrorCodes._FENCED,
    errors.TransactionAbortableError: _of_the_cause,
    # Connections. BootstrapError is a TimeoutError, too.
    errors.ConnectError: ErrorCodes._TRANSPORT,
    errors.SslAuthenticationError: ErrorCodes._SSL,
    errors.AuthenticationError: ErrorCodes._AUTHENTICATION,
    errors.ProtocolError: ErrorCodes._BAD_MSG,
    errors.DecompressionError: ErrorCodes._BAD_COMPRESSION,
    errors.TimeoutError: ErrorCodes._TIMED_OUT,
    # Positions.
    errors.NoOffsetForPartitionError: ErrorCodes._AUTO_OFFSET_RESET,
    errors.LogTruncationError: ErrorCodes._LOG_TRUNCATION,
    errors.RetriableCommitError: _of_the_cause,
    errors.BrokerError: _of_the_broker,
    errors.KafkaError: ErrorCodes._FAIL,
}
"""The code of each of levada's errors. The nearest class in the error's __mro__ counts."""


def code_of(error: errors.KafkaError) -> int:
    """Return confluent-kafka's code for an error of levada."""
    entry = next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)
    return entry(error) if callable(entry) else entry


def to_kafka_error(error: BaseException, before: str = "", *, flags: bool = False) -> KafkaError:
    """Return an error as a KafkaError. The code of an error that is not levada's is _FAIL.

    before: a text before the error's own. flags: whether retriable() and txn_requires_abort() may be True, as in the transactional API.
    """
    if not isinstance(error, errors.KafkaError):
        return KafkaError(ErrorCodes._FAIL, f"{before}{error!r}")
    code = code_of(error)
    is_fatal = error.fatal or code == ErrorCodes._FENCED
    must_abort = flags and not is_fatal and isinstance(error, errors.TransactionAbortableError)
    return KafkaError(code, f"{before}{error}", is_fatal, flags and error.retriable, must_abort)


@contextmanager
def raising_kafka_exceptions(before: str = "", *, flags: bool = False) -> Iterator[None]:
    """Turn errors of levada that leave the `with` block into KafkaException. before: a text before the error's own, without ": ". flags: as
    in to_kafka_error().
    """
    try:
        yield
    except errors.KafkaError as error:
        raise KafkaException(to_kafka_error(error, before and f"{before}: ", flags=flags)) from error


class _ClientError(KafkaException):
    """Base of the errors of SerializingProducer and DeserializingConsumer.

    exception: what the serializer or deserializer raised. kafka_message: the consumed message in bytes; None for a SerializingProducer.
    """

    def __init__(self, kafka_error: KafkaError, exception: Exception | None = None, kafka_message: Any = None) -> None:
        super().__init__(kafka_error)
        self.exception = exception
        self.kafka_message = kafka_message

    @property
    def code(self) -> int:
        """The error code."""
        return int(self.args[0].code())

    @property
    def name(self) -> str:
        """The name of the error code."""
        return str(self.args[0].name())


class SerializationError(KafkaException):
    """A serializer or deserializer failed. It is also a name of the module serialization."""


class ConsumeError(_ClientError):
    """poll() of a DeserializingConsumer got a message with an error."""


class KeyDeserializationError(ConsumeError, SerializationError):
    """A key could not be deserialized."""

    def __init__(self, exception: Exception | None = None, kafka_message: Any = None) -> None:
        super().__init__(KafkaError(ErrorCodes._KEY_DESERIALIZATION, str(exception)), exception, kafka_message)


class ValueDeserializationError(ConsumeError, SerializationError):
    """A value could not be deserialized."""

    def __init__(self, exception: Exception | None = None, kafka_message: Any = None) -> None:
        super().__init__(KafkaError(ErrorCodes._VALUE_DESERIALIZATION, str(exception)), exception, kafka_message)


class ProduceError(_ClientError):
    """A message of a SerializingProducer could not be produced."""


class KeySerializationError(ProduceError, SerializationError):
    """A key could not be serialized."""

    def __init__(self, exception: Exception | None = None) -> None:
        super().__init__(KafkaError(ErrorCodes._KEY_SERIALIZATION, str(exception)), exception)


class ValueSerializationError(ProduceError, SerializationError):
    """A value could not be serialized."""

    def __init__(self, exception: Exception | None = None) -> None:
        super().__init__(KafkaError(ErrorCodes._VALUE_SERIALIZATION, str(exception)), exception)
