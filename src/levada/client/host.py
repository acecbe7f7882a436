"""What runs an engine, as far as a caller's flow needs it: the blocking, asyncio and simulated drivers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

T = TypeVar("T")


class Host(Protocol):
    """A driver, as the code below the APIs sees it."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """What guards the engine."""
        ...

    def now_ms(self) -> int:
        """Monotonic milliseconds, as handed to the engine."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, by the clock that people share."""
        ...

    def look(self) -> None:
        """Have the engine act on what has just changed under the lock."""
        ...

    def due_now(self) -> None:
        """Have the engine act with the next step, after that has taken in what happened to the connections meanwhile."""
        ...

    def change(self, change: Callable[[int], T]) -> T:
        """Change something under the lock, at a time in ms, and have the engine act on it. Raises as check_usable()."""
        ...

    def undisturbed(self) -> AbstractContextManager[object]:
        """Return a context in which signal handlers wait: what they raise comes out at its end."""
        ...

    def user_code(self) -> AbstractContextManager[object]:
        """Return a context around code of the user's in a caller's flow: signal handlers run in there, and what they raise comes out."""
        ...

    def run_handlers(self) -> None:
        """Run the signal handlers that wait; what they raise comes out."""
        ...

    def wakeup(self) -> None:
        """Have the engine act soon. From any thread, a signal handler and a finalizer."""
        ...

    def check_usable(self) -> None:
        """Raise what says why the client cannot be used: ClosedError, CrashedError, ForkedError, IllegalStateError."""
        ...

    def check_open(self) -> None:
        """Raise as check_usable(), but take any thread and any event loop: for what only reads, under the lock."""
        ...
