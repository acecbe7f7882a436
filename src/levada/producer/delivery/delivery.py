# cython: annotation_typing=False
"""The result of send(): a small object with the outcome of one record.

A [c] module, because every record has one; the C types are in delivery.pxd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol, TypeAlias

from levada.base.promise import Promise
from levada.errors import KafkaError, Persisted, TimeoutError, not_written
from levada.types import RecordMetadata, TopicPartition

Waiter: TypeAlias = Callable[[Promise[Any], float | None, str], object]
"""Blocks the calling thread: (promise, timeout in seconds, what it waits for)."""


class Outcome(Protocol):
    """Where a Delivery gets its outcome from: a producer batch, or a send that failed before it had one."""

    promise: Promise[Any]
    waiter: Waiter | None

    @property
    def tp(self) -> TopicPartition:
        """The partition of the record; its number is -1 if none was chosen."""
        ...

    @property
    def succeeded(self) -> bool:
        """Whether all records are written, in one batch."""
        ...

    def metadata(self, index: int, timestamp: int, key_size: int = -1, value_size: int = -1) -> RecordMetadata:
        """Return the record's metadata, or a placeholder with offset -1. key_size, value_size: bytes, -1 for null or unknown."""
        ...

    def error_of(self, index: int) -> KafkaError | None:
        """Return the error of the record, and note that the program has read it."""
        ...

    def failure_of(self, index: int) -> KafkaError | None:
        """Return the error of the record, without noting that: for internal checks."""
        ...


class Delivery:
    """The outcome of one record. It may be dropped without effect on the record."""

    __slots__ = ("_outcome", "index", "key_size", "timestamp", "value_size")

    def __init__(self, outcome: Outcome, index: int, timestamp: int, key_size: int = -1, value_size: int = -1) -> None:
        self._outcome = outcome
        self.index = index
        self.timestamp = timestamp
        self.key_size = key_size
        self.value_size = value_size

    def done(self) -> bool:
        """Whether the record was acknowledged or has failed, and its callback has run."""
        return self._outcome.promise.done

    @property
    def promise(self) -> Promise[Any]:
        """The promise that is settled when the record is done; for the public APIs."""
        return self._outcome.promise

    @property
    def tp(self) -> TopicPartition:
        """The partition of the record; its number is -1 if none was chosen."""
        return self._outcome.tp

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the outcome and return the record's metadata.

        timeout: seconds; None waits until the record is done, which delivery.timeout.ms bounds. Raises TimeoutError when the time is over
        (the record is still being sent), or the error of the record: `error.persisted` tells whether it may be in the log nevertheless.
        """
        error = self.exception(timeout)
        if error is not None:
            # The records of a batch share the error. Each raise would add to its traceback, whose frames keep objects alive.
            raise error.with_traceback(None)
        return self.metadata()

    def metadata(self) -> RecordMetadata:
        """Return the record's metadata as known now; offset -1 before it is acknowledged, and if it failed."""
        return self._outcome.metadata(self.index, self.timestamp, self.key_size, self.value_size)

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Wait for the outcome and return the error, None for success. Raises TimeoutError when the time is over."""
        outcome = self._outcome
        if not outcome.promise.done and outcome.waiter is not None:
            try:
                outcome.waiter(outcome.promise, timeout, f"{outcome.tp}: the acknowledgement of a record")
            except TimeoutError as late:
                mark_under_way(late)
                raise
        return outcome.error_of(self.index)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Delivery belongs to the process of its producer, and cannot be pickled or copied; hand over its result()")

    def __repr__(self) -> str:
        tp = self._outcome.tp
        where = tp if tp.partition >= 0 else tp.topic
        if not self.done():
            return f"<Delivery to {where}: pending>"
        error = self._outcome.error_of(self.index)
        return f"<Delivery to {where}: {error or self.metadata()}>"


class FailedSend:
    """The outcome of records that failed without a batch. callback_promise: settled when their callback has run; None without one."""

    __slots__ = ("_asked", "error", "promise", "records_count", "tp", "waiter")

    succeeded = False

    def __init__(
        self,
        tp: TopicPartition,
        error: KafkaError,
        *,
        records_count: int = 1,
        callback_promise: Promise[Any] | None = None,
        waiter: Waiter | None = None,
    ) -> None:
        self.tp = tp
        self.error = not_written(error)
        self.records_count = records_count
        self._asked: set[int] = set()
        self.waiter = waiter
        self.promise: Promise[Any] = Promise.resolved(None) if callback_promise is None else callback_promise

    def metadata(self, index: int, timestamp: int, key_size: int = -1, value_size: int = -1) -> RecordMetadata:
        """Return a placeholder."""
        return RecordMetadata(self.tp.topic, self.tp.partition, -1, timestamp, key_size, value_size)

    def error_of(self, index: int) -> KafkaError | None:
        """Return the error."""
        self._asked.add(index)
        return self.error

    def failure_of(self, index: int) -> KafkaError | None:
        """Return the error."""
        return self.error

    @property
    def unasked(self) -> int:
        """How many of its failed records have an error that the program has not read."""
        return self.records_count - len(self._asked)


def mark_under_way(late: TimeoutError) -> None:
    """Mark the error of a wait for records: they are still being sent, and sending them again would write them twice."""
    late.retriable = False
    late.persisted = Persisted.UNKNOWN
