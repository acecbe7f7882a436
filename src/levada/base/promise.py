"""Promise: a result that comes later.

A promise belongs to one engine and is used only under the engine's lock. It has no lock of its own, and does not depend on threads or event
loops. A driver waits for a promise with a callback that sets a `threading.Event` or an `asyncio.Future`, for example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from levada.errors import IllegalStateError

T = TypeVar("T")


class Promise(Generic[T]):
    """A result that is resolved or rejected once. Later attempts have no effect and return False.

    Callbacks run inside resolve() or reject(), in the order in which they were added. They must be short, and never run code of the
    program. A callback that raises is a bug; the other callbacks still run, and then the first error is raised to the caller of resolve()
    or reject().
    """

    __slots__ = ("_callbacks", "_error", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Promise[T]], None]] = []

    @classmethod
    def resolved(cls, value: T) -> Promise[T]:
        """Return a promise that is already resolved with this value."""
        promise = cls()
        promise.resolve(value)
        return promise

    @classmethod
    def rejected(cls, error: BaseException) -> Promise[T]:
        """Return a promise that is already rejected with this error."""
        promise: Promise[T] = cls()
        promise.reject(error)
        return promise

    @property
    def error(self) -> BaseException | None:
        """The error with which the promise was rejected; None if it is pending or resolved."""
        return self._error

    @property
    def is_awaited(self) -> bool:
        """Whether a callback is registered."""
        return bool(self._callbacks)

    def result(self) -> T:
        """Return the value or raise the error. Raises IllegalStateError if the promise is pending."""
        if not self.done:
            raise IllegalStateError("the promise is still pending")
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def resolve(self, value: T) -> bool:
        """Settle the promise with a value. Return False if it was settled before."""
        if self.done:
            return False
        self._value = value
        self._settle()
        return True

    def reject(self, error: BaseException) -> bool:
        """Settle the promise with an error. Return False if it was settled before."""
        if self.done:
            return False
        self._error = error
        self._settle()
        return True

    def on_done(self, callback: Callable[[Promise[T]], None]) -> None:
        """Call a function when the promise is settled; at once if it is settled already."""
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def forget(self, callback: Callable[[Promise[T]], None]) -> None:
        """Remove a callback that was not called yet; no effect if the promise does not have it.

        A promise may exist much longer than the code that waits for it.
        """
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
