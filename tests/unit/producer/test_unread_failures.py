"""Failures that nobody asks about are counted in bounded memory."""

from __future__ import annotations

from weakref import ref

from levada.errors import KafkaError
from levada.producer.delivery.delivery import FailedSend
from levada.producer.delivery.unread_failures import KEPT, UnreadFailures
from levada.types import TopicPartition


def failed(text: str) -> FailedSend:
    return FailedSend(TopicPartition("t", 0), KafkaError(text), records_count=2)


def test_each_failure_is_told_once_and_the_first_by_its_error() -> None:
    unasked = UnreadFailures()
    sends = [failed(str(number)) for number in range(3)]
    for send in sends:
        unasked.add(send)
    for index in range(2):
        sends[0].error_of(index)
    sends[1].error_of(0)
    count, first = unasked.take()
    assert (count, str(first)) == (3, "1")
    assert unasked.take() == (0, None)


def test_of_old_failures_a_number_and_the_first_error_remain() -> None:
    unasked = UnreadFailures()
    for number in range(3 * KEPT):
        unasked.add(failed(str(number)))
    count, first = unasked.take()
    assert (count, str(first)) == (6 * KEPT, "0")


def test_what_a_transaction_was_said_to_fail_with_is_told() -> None:
    unasked = UnreadFailures()
    cause, before, after = failed("cause"), failed("before"), failed("after")
    for collateral in (before, after):
        collateral.error.__cause__ = cause.error
    for one in (failed("another"), cause, before):
        unasked.add(one)
    unasked.raised_by_call(cause.error)
    unasked.add(after)
    count, first = unasked.take()
    assert (count, str(first)) == (2, "another")


def test_X_K13_the_error_that_a_transaction_failed_with_is_not_kept() -> None:
    """Its traceback leads to the program's frames, and from there to the producer."""
    unasked, cause = UnreadFailures(), KafkaError("buffer.memory is full")
    watched = ref(cause)
    unasked.raised_by_call(cause)
    del cause
    assert watched() is None
    unasked.add(failed("another"))
    assert unasked.take()[0] == 2
