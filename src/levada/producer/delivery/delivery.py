# cython: annotation_typing=False
"""The result of send(): a small object with the outcome of one record.

A [c] module, because send() makes a Delivery for every record; the C types are in delivery.pxd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol, TypeAlias

from levada.base.promise import Promise
from levada.base.unsupported_names import DELIVERY, no_such_attribute
from levada.errors import KafkaError, Persisted, TimeoutError, not_written
from levada.types import RecordMetadata, TopicPartition

Waiter: TypeAlias = Callable[[Promise[Any], float | None, str], object]
"""A function that blocks the calling thread until a promise is settled: (promise, timeout in seconds or None, text for a TimeoutError)."""


class Outcome(Protocol):
    """The object that has the outcome of a Delivery: a ProducerBatch or a FailedSend. waiter: None means that result() does not wait."""

    promise: Promise[Any]
    waiter: Waiter | None

    @property
    def tp(self) -> TopicPartition:
        """The partition of the record; its number is -1 if no partition was chosen."""
        ...

    @property
    def succeeded(self) -> bool:
        """Whether all records were written (with acks=0: sent). Always False for a batch that was split."""
        ...

    def metadata(self, index: int, timestamp: int, key_size: int = -1, value_size: int = -1) -> RecordMetadata:
        """Return the metadata of the record at an index. The offset is -1 while it is unknown, and if the record has failed.

        timestamp: the record's own, in ms since the epoch. key_size, value_size: bytes; -1 for null or unknown.
        """
        ...

    def error_of(self, index: int) -> KafkaError | None:
        """Return the error of the record at an index, None without one, and note that the program has read the error."""
        ...

    def failure_of(self, index: int) -> KafkaError | None:
        """Return the error of the record at an index, None without one, but do not note that the program has read it."""
        ...


class Delivery:
    """The outcome of one record. The record is sent even if the program drops this object."""

    __slots__ = ("_outcome", "index", "key_size", "timestamp", "value_size")

    def __init__(self, outcome: Outcome, index: int, timestamp: int, key_size: int = -1, value_size: int = -1) -> None:
        self._outcome = outcome
        self.index = index
        self.timestamp = timestamp
        self.key_size = key_size
        self.value_size = value_size

    def __getattr__(self, name: str) -> NoReturn:
        raise no_such_attribute(self, name, DELIVERY)

    def done(self) -> bool:
        """Whether the record was acknowledged or has failed, and its callback has run."""
        return self._outcome.promise.done

    @property
    def promise(self) -> Promise[Any]:
        """The promise that is settled when done() becomes true. For the public APIs, not for programs."""
        return self._outcome.promise

    @property
    def tp(self) -> TopicPartition:
        """The partition of the record; its number is -1 if no partition was chosen."""
        return self._outcome.tp

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait until the record is acknowledged and return its metadata. With acks=0, wait until it is sent; the offset is -1 then.

        timeout: seconds; None waits until the record is done, for about delivery.timeout.ms at most. Raises TimeoutError if the time is
        over first; the record is still being sent then. Raises the error of a failed record; `persisted` of this error says whether the
        record may be in the log.
        """
        error = self.exception(timeout)
        if error is not None:
            # All records of a batch share one error. Without this, every raise would make its traceback longer and keep more objects alive.
            raise error.with_traceback(None)
        return self.metadata()

    def metadata(self) -> RecordMetadata:
        """Return the record's metadata without waiting.

        The offset is -1 before the record is acknowledged, if it has failed, and if the broker has not sent the offset, as with acks=0.
        """
        return self._outcome.metadata(self.index, self.timestamp, self.key_size, self.value_size)

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Wait until the record is acknowledged or has failed. Return its error; None if it was written (with acks=0: sent).

        timeout: as for result(). Raises TimeoutError if the time is over first.
        """
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
    """The outcome of records that failed before they were in a batch. All of them have the same error.

    callback_promise: settled when the callback of the record has run; None without a callback.
    """

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
        """Return metadata with offset -1. timestamp: in ms since the epoch. The sizes are in bytes, -1 for null or unknown."""
        return RecordMetadata(self.tp.topic, self.tp.partition, -1, timestamp, key_size, value_size)

    def error_of(self, index: int) -> KafkaError | None:
        """Return the error, and note that the program has read it for the record at this index."""
        self._asked.add(index)
        return self.error

    def failure_of(self, index: int) -> KafkaError | None:
        """Return the error, but do not note that the program has read it."""
        return self.error

    @property
    def unasked(self) -> int:
        """How many of the records have an error that the program has not read."""
        return self.records_count - len(self._asked)


def mark_under_way(late: TimeoutError) -> None:
    """Mark a TimeoutError of result() as not retriable. The records are still being sent, so sending them again could write them twice."""
    late.retriable = False
    late.persisted = Persisted.UNKNOWN
