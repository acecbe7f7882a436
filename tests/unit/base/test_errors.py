"""Errors carry the three bits that retry loops and people need."""

from __future__ import annotations

import builtins

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


def test_P3_a_delivery_timeout_says_whether_the_record_may_be_there() -> None:
    error = errors.DeliveryTimeout("orders-3: not acknowledged within delivery.timeout.ms=120000", errors.Persisted.UNKNOWN)
    assert str(error).endswith("; persisted: unknown")
    assert error.retriable


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
    codes = [cls.CODE for cls in errors.BrokerError.__subclasses__()]
    assert len(codes) == len(set(codes))
    with pytest.raises(errors.BrokerError, match=r"^NONE \(0\)$"):
        raise errors.BrokerError(code=ErrorCode.NONE)
