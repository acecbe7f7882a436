"""Records that failed, and whose failure the program has not looked at: flush() and close() log a warning about them.

A failure counts as looked at when its error is read: by its callback, its AckBuffer, result() or exception(), or in a report of
send_arrow(); and when a call on its transaction raises with that error as the cause. Reading is noted where the error is, so a record
that is written costs nothing. Methods are called under the engine's lock.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol
from weakref import ReferenceType, ref

from levada.errors import KafkaError

KEPT = 100
"""How many failures are kept, to see whether they are asked about yet. Of older ones a number remains, and one error."""


class Failed(Protocol):
    """Records that failed together: a producer batch, a send that never became part of one, rows that could not be sent."""

    @property
    def unasked(self) -> int:
        """How many of its failed records the program has not looked at."""
        ...

    @property
    def error(self) -> KafkaError | None:
        """What they failed with."""
        ...


class UnreadFailures:
    """See the module's text."""

    def __init__(self) -> None:
        self._kept: deque[Failed] = deque()
        self._older = 0
        self._first: KafkaError | None = None
        # A traceback leads to the program's own objects, the producer among them: a strong reference would keep them all for ever.
        self._told: ReferenceType[KafkaError] | None = None

    def raised_by_call(self, cause: KafkaError) -> None:
        """Count no records that failed with this error, or because of it: the program is told of it by another error."""
        self._told = ref(cause)
        # A callback may run after the call that raises: add() looks, too.
        self._kept = deque(failed for failed in self._kept if not self._is_told(failed))

    def add(self, failed: Failed) -> None:
        """Take up records that have failed, and whose callbacks have run."""
        if self._is_told(failed):
            return
        self._kept.append(failed)
        if len(self._kept) > KEPT:
            self._count(self._kept.popleft())

    def take(self) -> tuple[int, KafkaError | None]:
        """Return how many have not been asked about since the last call, and what the first of them failed with."""
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
