"""KafkaError and the one table from levada's errors: codes and names are confluent-kafka's."""

from __future__ import annotations

import confluent_kafka as theirs
import pytest

from levada import errors, types
from levada.compat import confluent_kafka as ours
from levada.compat.confluent_kafka.error import code_of, exception, raising_kafka_exceptions, to_kafka_error
from levada.compat.confluent_kafka.error_codes import NAMES
from levada.error_codes import ErrorCode


def test_every_code_of_confluent_kafka_is_there() -> None:
    codes = {name: value for name in dir(theirs.KafkaError) if isinstance(value := getattr(theirs.KafkaError, name), int)}
    assert {name: getattr(ours.KafkaError, name, None) for name in codes} == codes
    assert {code: theirs.KafkaError(code).name() for code in NAMES} == NAMES


def test_every_code_of_a_broker_keeps_its_number() -> None:
    for code in ErrorCode:
        if code is not ErrorCode.NONE:
            assert code_of(errors.broker_error(int(code))) in (int(code), *SPECIAL.get(code, ()))


SPECIAL: dict[ErrorCode, tuple[int, ...]] = {
    ErrorCode.PRODUCER_FENCED: (ours.KafkaError._FENCED,),
    ErrorCode.SASL_AUTHENTICATION_FAILED: (ours.KafkaError._AUTHENTICATION,),
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: (ours.KafkaError._AUTHENTICATION,),
}


def caused(error: errors.KafkaError, cause: Exception) -> errors.KafkaError:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (errors.ConfigError("?"), "_INVALID_ARG"),
        (errors.ClosedError("?"), "_DESTROY"),
        (errors.IllegalStateError("?"), "_STATE"),
        (errors.AbortedError("?"), "_PURGE_INFLIGHT"),
        (errors.not_written(errors.AbortedError("?")), "_PURGE_QUEUE"),
        (errors.DeliveryTimeout("?", types.Persisted.UNKNOWN), "_MSG_TIMED_OUT"),
        (errors.BufferExhaustedError("?"), "_QUEUE_FULL"),
        (errors.BootstrapError("?", {}), "_TRANSPORT"),
        (errors.DisconnectError("?"), "_TRANSPORT"),
        (errors.TimeoutError("?"), "_TIMED_OUT"),
        (errors.SslAuthenticationError("?"), "_SSL"),
        (errors.ProducerFencedError("?"), "_FENCED"),
        (errors.NoOffsetForPartitionError("?"), "_AUTO_OFFSET_RESET"),
        (errors.LogTruncationError("?"), "_LOG_TRUNCATION"),
        (errors.CorruptRecordError("?"), "_BAD_MSG"),
        (errors.DecompressionError("?"), "_BAD_COMPRESSION"),
        (errors.UnknownTopicOrPartitionError("?"), "UNKNOWN_TOPIC_OR_PART"),
        (errors.RecordTooLargeError("?"), "MSG_SIZE_TOO_LARGE"),
        (errors.TopicAlreadyExistsError("?"), "TOPIC_ALREADY_EXISTS"),
        (errors.RebalanceInProgressError("?"), "REBALANCE_IN_PROGRESS"),
        (errors.WakeupError("?"), "_INTR"),
        (caused(errors.TransactionAbortableError("?"), errors.RecordTooLargeError("?")), "MSG_SIZE_TOO_LARGE"),
        (caused(errors.TransactionAbortableError("?"), errors.broker_error(47)), "_FENCED"),
        (errors.DataLossError("?"), "_FAIL"),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_errors_have_the_codes_that_programs_look_for(error: errors.KafkaError, name: str) -> None:
    assert to_kafka_error(error).name() == name


def test_flags_are_for_the_transactional_api() -> None:
    abortable = errors.TransactionAbortableError("?")
    assert to_kafka_error(abortable, flags=True).txn_requires_abort()
    assert not to_kafka_error(abortable).txn_requires_abort()
    assert to_kafka_error(errors.ConnectError("?"), flags=True).retriable()
    assert not to_kafka_error(errors.ConnectError("?")).retriable()
    fenced = to_kafka_error(errors.ProducerFencedError("?"), flags=True)
    assert fenced.fatal() and not fenced.txn_requires_abort()


def test_exceptions_carry_the_error_and_what_levada_raised() -> None:
    with pytest.raises(ours.KafkaException) as raised, raising_kafka_exceptions("Failed"):
        raise errors.TimeoutError("too late")
    assert raised.value.args[0].str() == "Failed: too late"
    assert isinstance(raised.value.__cause__, errors.TimeoutError)
    assert exception(ours.KafkaError._STATE).args[0] == ours.KafkaError._STATE


@pytest.mark.parametrize("package", [theirs, ours])
def test_an_error_is_a_value(package: type[ours.KafkaError]) -> None:
    kind, raised = package.KafkaError, package.KafkaException  # type: ignore[attr-defined]
    error = kind(kind.UNKNOWN_TOPIC_OR_PART, "gone")
    assert error == 3 and error == kind(3) and error != kind(4) and error < kind(4) and error >= 3
    assert (error.code(), error.name(), error.str(), bool(error)) == (3, "UNKNOWN_TOPIC_OR_PART", "gone", True)
    assert not (error.fatal() or error.retriable() or error.txn_requires_abort())
    assert str(error) == repr(error) == 'KafkaError{code=UNKNOWN_TOPIC_OR_PART,val=3,str="gone"}'
    assert {error: 1}[kind(3)] == 1
    assert raised(error).args[0] is error
    assert kind(9999).name() == "ERR_9999?"


@pytest.mark.parametrize("package", [theirs, ours])
def test_messages_and_partitions_are_values(package: type[ours.KafkaError]) -> None:
    message = package.Message(topic="t", partition=1, offset=2, key=b"k", value=b"value")  # type: ignore[attr-defined]
    assert (message.topic(), message.partition(), message.offset(), message.key(), message.value()) == ("t", 1, 2, b"k", b"value")
    assert (message.error(), message.headers(), message.latency(), message.leader_epoch(), len(message)) == (None, None, None, None, 5)
    message.set_value({"a": 1})
    message.set_key("k")
    message.set_headers([("h", b"1")])
    message.set_topic("u")
    assert (message.value(), message.key(), message.headers(), message.topic()) == ({"a": 1}, "k", [("h", b"1")], "u")

    place = package.TopicPartition("t", 1, 5, "note", 3)  # type: ignore[attr-defined]
    other = package.TopicPartition("t", 1)  # type: ignore[attr-defined]
    assert place == other and hash(place) == hash(other) and not place < other and sorted([place, other]) == [place, other]
    assert (place.offset, place.metadata, place.leader_epoch, place.error, other.offset) == (5, "note", 3, None, -1001)
    assert str(place) == "TopicPartition{topic=t,partition=1,offset=5,leader_epoch=3,error=None}"
