"""A result that is not there yet.

Promises belong to one engine and are touched only by who holds its lock; they have no lock of their own and know nothing of threads
or loops. Drivers turn one into a wait (`threading.Event`, `asyncio.Future`) by adding a callback.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from levada.errors import IllegalStateError

T = TypeVar("T")


class Promise(Generic[T]):
    """Resolved or rejected once; later attempts are ignored and answer False.

    Callbacks run inside resolve() or reject(), in the order added, so they must be short and are never user code. One that raises is a
    bug, and does not keep the others from hearing: all run, then the first error goes up to who settled the promise.
    """

    __slots__ = ("_callbacks", "_error", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Promise[T]], None]] = []

    @classmethod
    def resolved(cls, value: T) -> Promise[T]:
        """Return a promise that already has its value."""
        promise = cls()
        promise.resolve(value)
        return promise

    @classmethod
    def rejected(cls, error: BaseException) -> Promise[T]:
        """Return a promise that has already failed."""
        promise: Promise[T] = cls()
        promise.reject(error)
        return promise

    @property
    def error(self) -> BaseException | None:
        """The error it was rejected with, None while pending or after success."""
        return self._error

    @property
    def is_awaited(self) -> bool:
        """Whether anybody would hear of its being settled."""
        return bool(self._callbacks)

    def result(self) -> T:
        """Return the value or raise the error; IllegalStateError while pending."""
        if not self.done:
            raise IllegalStateError("the promise is still pending")
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def resolve(self, value: T) -> bool:
        """Settle with a value; False when already settled."""
        if self.done:
            return False
        self._value = value
        self._settle()
        return True

    def reject(self, error: BaseException) -> bool:
        """Settle with an error; False when already settled."""
        if self.done:
            return False
        self._error = error
        self._settle()
        return True

    def on_done(self, callback: Callable[[Promise[T]], None]) -> None:
        """Call back when settled; at once if it is already."""
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def forget(self, callback: Callable[[Promise[T]], None]) -> None:
        """Do not call back any more; harmless when it has been. A promise may outlive by far those who waited for it."""
        if callback in self._callbacks:
            self._callbacks.remove(callback)

    def _settle(self) -> None:
        self.done = True
        callbacks, self._callbacks = self._callbacks, []
        fault: Exception | None = None
        for callback in callbacks:
            try:
                callback(self)
            except Exception as error:
                fault = fault or error
        if fault is not None:
            raise fault
