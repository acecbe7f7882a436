"""How the end of a client is told to those who wait for something then, or ask for something afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from levada.base.promise import Promise
from levada.errors import ClosedError, CrashedError, KafkaError

Ended: TypeAlias = Callable[[str], KafkaError]
"""Makes the error for what the end broke off, which it is given in words. Each waiter gets an error of its own: raising one changes it."""

ENDED = (ClosedError, CrashedError)
"""What such an error can be. It is never an answer, and there is nothing to be tried again."""


def how_it_ended(name: str, bug: BaseException | None) -> Ended:
    """Return how the end of a client is told: one that was closed, or that a bug stopped."""
    return closed if bug is None else lambda _: CrashedError(name, bug)


def closed(what: str) -> KafkaError:
    """Return the error for what close() broke off."""
    return ClosedError(f"the client was closed during {what}")


def raise_bug(done: Promise[None]) -> None:
    """Report an error of a flow beside, whose result no caller waits for: to be given to its promise's on_done()."""
    if done.error is not None and not isinstance(done.error, ENDED):
        raise done.error
