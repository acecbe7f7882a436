"""Failed records whose error the program has not read. flush() and close() log a warning about them.

An error counts as read if the record's callback or AckBuffer got the error, if result() or exception() or a report of send_arrow() returned
it, or if a transactional call raised an error with this error as its cause. The object with the error notes this, so successful records
cost nothing. Methods are called under the engine's lock.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol
from weakref import ReferenceType, ref

from levada.errors import KafkaError

KEPT = 100
"""How many failures are kept, because the program may still read their errors. Older failures are only counted, with the first error."""


class Failed(Protocol):
    """Records that failed together: a ProducerBatch, a FailedSend, or the rejected rows of send_arrow()."""

    @property
    def unasked(self) -> int:
        """How many of the records have an error that the program has not read."""
        ...

    @property
    def error(self) -> KafkaError | None:
        """The error of the records, or of the first of them."""
        ...


class UnreadFailures:
    """The unread failures of one producer."""

    def __init__(self) -> None:
        self._kept: deque[Failed] = deque()
        self._older = 0
        self._first: KafkaError | None = None
        # A weak reference, because a traceback refers to objects of the program, and even to the producer.
        self._told: ReferenceType[KafkaError] | None = None

    def raised_by_call(self, cause: KafkaError) -> None:
        """Do not count records that failed with this error, or with an error that it caused, because a call raises it to the program."""
        self._told = ref(cause)
        # add() checks this error as well, because failed records are added only after their callbacks, perhaps after the call has raised.
        self._kept = deque(failed for failed in self._kept if not self._is_told(failed))

    def add(self, failed: Failed) -> None:
        """Add failed records. Called after their callbacks have run."""
        if self._is_told(failed):
            return
        self._kept.append(failed)
        if len(self._kept) > KEPT:
            self._count(self._kept.popleft())

    def take(self) -> tuple[int, KafkaError | None]:
        """Return how many records failed since the last call with an error that was not read, and the first such error.

        The error is None if none failed.
        """
        while self._kept:
            self._count(self._kept.popleft())
        told = self._older, self._first
        self._older, self._first = 0, None
        return told

    def _is_told(self, failed: Failed) -> bool:
        error, told = failed.error, None if self._told is None else self._told()
        return told is not None and error is not None and told in (error, error.__cause__)

    def _count(self, failed: Failed) -> None:
        if failed.unasked:
            self._older += failed.unasked
            self._first = self._first or failed.error
