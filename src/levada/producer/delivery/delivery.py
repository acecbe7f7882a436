# cython: annotation_typing=False
"""What send() hands out: a light handle on one record's outcome.

A [c] module, because one is made for every record; the C types are in delivery.pxd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol, TypeAlias

from levada.base.promise import Promise
from levada.errors import KafkaError, Persisted, TimeoutError, not_written
from levada.types import RecordMetadata, TopicPartition

Waiter: TypeAlias = Callable[[Promise[Any], float | None, str], object]
"""How the blocking API lets the calling thread wait: (promise, timeout in seconds, what for)."""


class Outcome(Protocol):
    """What a Delivery looks at: a producer batch, or a send that never became part of one."""

    promise: Promise[Any]
    waiter: Waiter | None

    @property
    def tp(self) -> TopicPartition:
        """Where the record is to go; partition -1 when none was chosen."""
        ...

    @property
    def succeeded(self) -> bool:
        """Whether every record is known to be written, in one batch."""
        ...

    def metadata(self, index: int, timestamp: int, key_size: int = -1, value_size: int = -1) -> RecordMetadata:
        """Return where the record is, or a placeholder with offset -1. key_size, value_size: bytes, -1 for null or not known."""
        ...

    def error_of(self, index: int) -> KafkaError | None:
        """Return what the record failed with, and note that it was asked for."""
        ...

    def failure_of(self, index: int) -> KafkaError | None:
        """Return what the record failed with, without noting it: for those who only watch."""
        ...


class Delivery:
    """One record's outcome. Small, since there is one for every record; may be dropped without effect on the record."""

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
        """What settles when the record is done; for the blocking and asyncio APIs."""
        return self._outcome.promise

    @property
    def tp(self) -> TopicPartition:
        """Where the record is to go; partition -1 when none was chosen."""
        return self._outcome.tp

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the outcome and return where the record is.

        timeout: seconds; None waits until the record is done, which delivery.timeout.ms bounds. Raises TimeoutError when the time is over
        (the record goes on its way), or what the record failed with: `error.persisted` says whether it may be in the log all the same.
        """
        error = self.exception(timeout)
        if error is not None:
            # The records of a batch share the error, and each raise would add to its traceback, whose frames hold what they refer to.
            raise error.with_traceback(None)
        return self.metadata()

    def metadata(self) -> RecordMetadata:
        """Return where the record is, as far as that is known now; offset -1 before it is acknowledged, and when it failed."""
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
    """The outcome of records that never reached a batch. callback_promise: settles when their callback has run; None without one."""

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
        """Return the one error."""
        self._asked.add(index)
        return self.error

    def failure_of(self, index: int) -> KafkaError | None:
        """Return the one error."""
        return self.error

    @property
    def unasked(self) -> int:
        """How many of its failed records the program has not looked at."""
        return self.records_count - len(self._asked)


def mark_under_way(late: TimeoutError) -> None:
    """Mark the error of a wait for records, a BootstrapError included: they go on their way, and sent again would be written twice."""
    late.retriable = False
    late.persisted = Persisted.UNKNOWN
