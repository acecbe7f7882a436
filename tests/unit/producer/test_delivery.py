"""What a Delivery says when its wait, its record or its send() fails."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from levada import aio
from levada.base.promise import Promise
from levada.errors import BootstrapError, KafkaError, Persisted, RecordTooLargeError, TimeoutError
from levada.producer.delivery.arrow_delivery import ArrowDelivery
from levada.producer.delivery.delivery import Delivery, FailedSend, Waiter
from levada.record.columnar import RejectedRow
from levada.types import RecordMetadata, TopicPartition

TP = TopicPartition("orders", 3)


class Pending:
    """A producer batch that is still on its way, and whose waits end as given."""

    succeeded = False
    tp = TP

    waiter: Waiter | None

    def __init__(self, late: TimeoutError) -> None:
        self.promise: Promise[Any] = Promise()
        self.waiter = self.wait
        self.late = late

    def wait(self, promise: Promise[Any], timeout: float | None, what: str) -> None:
        raise self.late

    def metadata(self, index: int, timestamp: int, key_size: int = -1, value_size: int = -1) -> RecordMetadata:
        raise AssertionError("nothing is known yet")

    def error_of(self, index: int) -> KafkaError | None:
        raise AssertionError("nothing is known yet")

    def failure_of(self, index: int) -> KafkaError | None:
        raise AssertionError("nothing is known yet")


@pytest.mark.parametrize(
    "late", [TimeoutError("not done within 1 s"), BootstrapError("no broker could be reached", {})], ids=lambda error: type(error).__name__
)
def test_M_P3_a_wait_that_ends_does_not_say_that_the_record_may_be_sent_again(late: TimeoutError) -> None:
    with pytest.raises(type(late)) as raised:
        Delivery(Pending(late), 0, -1).result(timeout=1)
    assert (raised.value.retriable, raised.value.persisted) == (False, Persisted.UNKNOWN)


@pytest.mark.parametrize(
    "late", [TimeoutError("not done within 1 s"), BootstrapError("no broker could be reached", {})], ids=lambda error: type(error).__name__
)
def test_M_P3_nor_does_a_wait_for_rows(late: TimeoutError) -> None:
    outcome = Pending(late)
    delivery = ArrowDelivery("orders", lambda promises, timeout, what: outcome.wait(outcome.promise, timeout, what))
    delivery.add(outcome, 0, [0, 1])
    with pytest.raises(type(late)) as raised:
        delivery.result(timeout=1)
    assert (raised.value.retriable, raised.value.persisted) == (False, Persisted.UNKNOWN)


@pytest.mark.parametrize(
    "error", [BootstrapError("no broker could be reached", {}), RecordTooLargeError("too large")], ids=lambda error: type(error).__name__
)
def test_M_P3_a_record_that_never_got_into_a_batch_is_not_written(error: KafkaError) -> None:
    with pytest.raises(type(error)) as raised:
        Delivery(FailedSend(TP, error), 0, -1).result()
    assert raised.value.persisted is Persisted.NO


def test_M_P3_neither_is_a_row_that_cannot_be_encoded() -> None:
    delivery = ArrowDelivery("orders", lambda promises, timeout, what: None)
    delivery.reject([RejectedRow(7, "a key is null")])
    error = delivery.exception()
    assert error is not None
    assert error.persisted is Persisted.NO


def failed_record() -> Callable[[], object]:
    return Delivery(FailedSend(TP, KafkaError("too late")), 0, -1).result


def failed_rows() -> Callable[[], object]:
    delivery = ArrowDelivery("orders", lambda promises, timeout, what: None)
    delivery.add(FailedSend(TP, KafkaError("too late")), 0, [0, 1])
    return delivery.result


def failed_rows_on_asyncio() -> Callable[[], object]:
    driver: Any = None
    delivery = aio.ArrowDelivery("orders", driver)
    delivery.add(FailedSend(TP, KafkaError("too late")), 0, [0, 1])
    return lambda: delivery.result().send(None)


@pytest.mark.parametrize("failed", [failed_record, failed_rows, failed_rows_on_asyncio])
def test_an_error_that_is_raised_again_and_again_has_one_traceback(failed: Callable[[], Callable[[], object]]) -> None:
    result = failed()
    lengths = set()
    for _ in range(3):
        with pytest.raises(KafkaError) as raised:
            result()
        lengths.add(len(traceback.extract_tb(raised.value.__traceback__)))
    assert len(lengths) == 1
