"""Errors carry the three bits that retry loops and people need."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from levada import errors
from levada.error_codes import RETRIABLE, STALE_METADATA, ErrorCode


def test_every_code_becomes_an_exception_that_names_it() -> None:
    for code in ErrorCode:
        error = errors.broker_error(code, "orders-3")
        assert error.code is code
        assert str(error) == f"orders-3: {code.name} ({code.value})"
        assert error.retriable == (code in RETRIABLE)


def test_an_unknown_code_is_an_unknown_server_error_that_keeps_the_number() -> None:
    error = errors.broker_error(31_000, "orders-3")
    assert isinstance(error, errors.UnknownServerError)
    assert "31000" in str(error)


def test_codes_that_mean_stale_metadata_are_retriable() -> None:
    assert STALE_METADATA < RETRIABLE
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.stale_metadata
    assert ErrorCode.REQUEST_TIMED_OUT.retriable
    assert not ErrorCode.REQUEST_TIMED_OUT.stale_metadata
    assert not ErrorCode.MESSAGE_TOO_LARGE.retriable


def test_the_most_specific_type_is_raised() -> None:
    assert type(errors.broker_error(3)) is errors.UnknownTopicOrPartitionError
    assert type(errors.broker_error(10)) is errors.RecordTooLargeError
    assert type(errors.broker_error(44)) is errors.BrokerError


def test_M_P3_a_delivery_timeout_says_whether_the_record_may_be_there() -> None:
    error = errors.DeliveryTimeout("orders-3: not acknowledged within delivery.timeout.ms=120000", errors.Persisted.UNKNOWN)
    assert str(error).endswith("; persisted: unknown")
    assert error.retriable


CLASSES = [cls for name, cls in vars(errors).items() if isinstance(cls, type) and issubclass(cls, errors.KafkaError)]

RETRIABLE_CLASSES = {
    "BufferExhaustedError",
    "MetadataTimeout",
    "DeliveryTimeout",
    "ConnectError",
    "DisconnectError",
    "BootstrapError",
    "RetriableCommitError",
}
FATAL_CLASSES = {
    "CrashedError",
    "ClusterAuthorizationError",
    "TransactionalIdAuthorizationError",
    "ProducerFencedError",
    "FencedInstanceIdError",
}
NOT_WRITTEN_CLASSES = {"ConfigError", "SerializationError", "BufferExhaustedError", "MetadataTimeout"}
"""Of these alone the type proves that nothing was written. TimeoutError, ClosedError and IllegalStateError also come from waits for a
record that is on its way, RecordTooLargeError also from a broker that answers a second attempt."""


def made(cls: type[errors.KafkaError]) -> errors.KafkaError:
    arguments: dict[str, Any] = {
        "BootstrapError": {"causes": {}},
        "CrashedError": {"bug": ZeroDivisionError()},
        "FlushTimeout": {"remaining": 1},
        "DeliveryTimeout": {"persisted": errors.Persisted.UNKNOWN},
        "NotAcknowledgedError": {"sequence": 0, "cause": ZeroDivisionError(), "safe": None},
        "RecordDeserializationError": {"record": None},
        "DeadLetterError": {"record": None},
        "ProcessingError": {"record": None, "attempts": 1},
    }
    return cls("what happened", **arguments.get(cls.__name__, {}))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_M_P3_every_class_says_what_may_be_done_about_it(cls: type[errors.KafkaError]) -> None:
    error = made(cls)
    retriable = error.code.retriable if isinstance(error, errors.BrokerError) else cls.__name__ in RETRIABLE_CLASSES
    assert error.retriable is retriable
    assert error.fatal is (cls.__name__ in FATAL_CLASSES)
    assert error.persisted is (errors.Persisted.NO if cls.__name__ in NOT_WRITTEN_CLASSES else errors.Persisted.UNKNOWN)


def test_M_P3_an_error_is_marked_where_it_is_certain_that_nothing_was_written() -> None:
    error = errors.not_written(errors.ClosedError("the producer is closed"))
    assert error.persisted is errors.Persisted.NO
    assert errors.ClosedError("another").persisted is errors.Persisted.UNKNOWN


@pytest.mark.parametrize(
    ("base", "codes"),
    [
        (errors.AuthorizationError, {29, 30, 31, 53, 65}),
        (errors.AuthenticationError, {33, 58}),
        (errors.GroupError, {22, 23, 24, 25, 26, 27, 30, 68, 69, 79, 81, 82, 86, 110, 111, 112, 113, 134}),
    ],
)
def test_codes_of_one_subject_have_one_base(base: type[errors.KafkaError], codes: set[int]) -> None:
    assert {code.value for code in ErrorCode if isinstance(errors.broker_error(code), base)} == codes


def test_a_timeout_is_also_pythons_own() -> None:
    assert issubclass(errors.BootstrapError, builtins.TimeoutError)
    assert issubclass(errors.BootstrapError, ConnectionError)
    assert issubclass(errors.ConfigError, ValueError)


def test_a_bootstrap_error_lists_every_address_with_its_cause() -> None:
    error = errors.BootstrapError("no broker could be reached within 5.0 s", {"host:9092": "connection refused", "h:1": "no such host"})
    assert str(error).splitlines() == [
        "no broker could be reached within 5.0 s",
        "  host:9092  connection refused",
        "  h:1        no such host",
    ]


def test_an_error_subclass_for_a_code_exists_only_once() -> None:
    codes = [cls.CODE for cls in CLASSES if issubclass(cls, errors.BrokerError) and cls.__dict__.get("CODE")]
    assert len(codes) == len(set(codes))
    with pytest.raises(errors.BrokerError, match=r"^NONE \(0\)$"):
        raise errors.BrokerError(code=ErrorCode.NONE)
