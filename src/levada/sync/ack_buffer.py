"""AckBuffer for threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from levada.api.ack_waiting import Sleeping, WaitingAckBuffer, Wake
from levada.api.lifecycle import CALLBACK_THREADS
from levada.base.clock import NEVER_MS
from levada.errors import IllegalStateError, not_written
from levada.sync.waiter import Waiter

T = TypeVar("T")


class AckBuffer(WaitingAckBuffer):
    """Turns acknowledgements in any order into the id up to which everything is safe.

    It is for a program that reads a queue or a log, sends each message somewhere, and has to know where to continue after a restart. Each
    message has an id that is larger than the one before: an offset, a position in a file, a tuple (file, position), anything that can be
    compared.

        sequence = buffer.put(position)
        producer.send(topic, value, ack=(buffer, sequence))     # marks the sequence when the record is written, fails it if it is not
        store(buffer.safe)

    size: the number of slots for ids; put() waits while all of them are used. Make it larger than the number of messages in flight.

    after: the id that is safe at the beginning, as the program has stored it. The first id must be larger.

    retain: keep ids in their slots until get() or drain() take them. With False, a slot is free as soon as its id is safe, for a program
    that reads only `safe`.

    Any thread may call any method. But in a client's callback, put() raises IllegalStateError, and so do get() and wait_empty() if they
    would wait: acknowledgements are marked after the callback. A call that would wait in a running event loop raises it, too; see
    levada.aio.AckBuffer. Ctrl-C and other signal handlers that raise end a wait; an id whose put() raised is not in the buffer. Leaving a
    `with` block closes the buffer. In a child made by fork(), methods that wait or change something raise ForkedError.
    """

    def put(self, id: Any, timeout: float | None = None) -> int:
        """Add an id, and return its sequence: 0, 1, 2, ... Waits while there is no free slot.

        An id that has failed may be put again: it keeps its place and its sequence, is pending again, and needs no free slot. Later ids
        stay as they are, marked or not, so sending its record again changes the order in which records reach Kafka.

        timeout: seconds; None waits without limit. Raises ValueError when the id is not larger than the one before; TimeoutError, with the
        id not added; NotAcknowledgedError instead of waiting when an id has failed; IllegalStateError in a client's callback; ClosedError.
        """
        if threading.get_ident() in CALLBACK_THREADS:
            raise not_written(IllegalStateError("AckBuffer.put() in a callback could wait for acknowledgements that come after it"))
        taken: list[Any] = []
        try:
            sequence = self._try_put(id, taken)
            return sequence if sequence is not None else _sleep_through(lambda wake: self._putting(id, taken, timeout, wake))
        except BaseException as broken_off:
            self._take_back(taken, broken_off)
            raise

    def get(self, timeout: float | None = None) -> Any:
        """Return the next id in the order of put(), once it and all ids before it are marked, and free its slot.

        timeout: seconds; None waits without limit. Raises TimeoutError; NotAcknowledgedError when that id has failed; ClosedError;
        IllegalStateError with retain=False.
        """
        id = self._take()
        return id if id is not None else _sleep_through(lambda wake: self._getting(timeout, wake))

    def wait_empty(self, timeout: float | None = None) -> None:
        """Wait until every id that was put is safe. timeout: seconds; None waits without limit.

        Raises TimeoutError, ClosedError, and NotAcknowledgedError as soon as an id has failed.
        """
        if not self._is_empty():
            _sleep_through(lambda wake: self._emptying(timeout, wake))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _sleep_through(start: Callable[[Wake], Sleeping[T]]) -> T:
    """Run a flow that yields sleeping times, and sleep for each of them. An exception of a signal handler ends the sleep, and changes
    nothing.
    """
    _refuse_to_wait_for_itself()
    waiter = Waiter()
    steps = start(waiter.wake)
    try:
        while True:
            left_s = next(steps)
            waiter.sleep(NEVER_MS if left_s is None else int(left_s * 1000) + 1)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        steps.close()


def _refuse_to_wait_for_itself() -> None:
    if threading.get_ident() in CALLBACK_THREADS:
        raise not_written(IllegalStateError("an AckBuffer cannot be waited for in a callback: the acknowledgements come after it"))
    asyncio: Any = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        raise not_written(IllegalStateError("waiting for this AckBuffer would stop the running event loop; use levada.aio.AckBuffer there"))
