"""The calls of AckBuffer that wait, for both APIs: flows that yield how long to sleep."""

from __future__ import annotations

from collections.abc import Callable, Generator
from math import inf
from time import monotonic
from typing import Any, TypeAlias, TypeVar

from levada.ack_buffer import AckWindow
from levada.api.arguments import checked_timeout, whole
from levada.base.text import shown
from levada.errors import TimeoutError, not_written

T = TypeVar("T")

MOST_SLOTS = 1 << 31
"""Each slot takes 17 bytes from the beginning."""

Wake: TypeAlias = Callable[[], object]
Sleeping: TypeAlias = Generator[float | None, None, T]
"""Yields the number of seconds to sleep unless `wake` is called before; None: sleep until it is called."""


class WaitingAckBuffer(AckWindow):
    """An AckWindow with calls that wait. They are flows, which yield the number of seconds to sleep.

    Each takes `wake`, a function that ends the sleep; any thread may call it.
    """

    def __init__(self, size: int, *, after: Any = None, retain: bool = True) -> None:
        if not isinstance(retain, bool):
            raise TypeError(f"retain is True or False, got {retain!r}")
        slots = whole("size", size)
        if not 1 <= slots <= MOST_SLOTS:
            raise ValueError(f"an AckBuffer has room for 1 to {MOST_SLOTS:,} ids, got size={size}")
        super().__init__(slots, after, retain)

    @property
    def oldest_age(self) -> float:
        """The time in seconds since the put() of the oldest id that is not safe; 0.0 if all ids are safe."""
        put_at_s = self._oldest_put_at_s()
        return 0.0 if put_at_s is None else monotonic() - put_at_s

    def _try_put(self, id: Any, taken: list[Any]) -> int | None:
        """Put an id if there is a free slot; return its sequence, or None if there is no free slot. taken: see _offer()."""
        sequence = self._offer(id, monotonic(), taken)
        return sequence if sequence >= 0 else None

    def _putting(self, id: Any, taken: list[Any], timeout: float | None, wake: Wake) -> Sleeping[int]:
        """Put an id, after waiting for a free slot."""
        began_s = monotonic()
        try:
            what = "AckBuffer.put(): no free slot"
            return (yield from self._until(lambda: self._try_put(id, taken), timeout, wake, room=True, what=what))
        except TimeoutError as late:
            raise not_written(late) from None
        finally:
            self._note_blocked(monotonic() - began_s)

    def _getting(self, timeout: float | None, wake: Wake) -> Sleeping[Any]:
        """Take the next id, after waiting until it is marked."""
        return (yield from self._until(self._take, timeout, wake, room=False, what="AckBuffer.get(): the next id is not marked"))

    def _emptying(self, timeout: float | None, wake: Wake) -> Sleeping[bool]:
        """Wait until every id is safe."""
        what = "AckBuffer.wait_empty(): not everything is safe"
        return (yield from self._until(lambda: self._is_empty() or None, timeout, wake, room=False, what=what))

    def _until(self, look: Callable[[], T | None], timeout: float | None, wake: Wake, *, room: bool, what: str) -> Sleeping[T]:
        """Call `look` until its result is not None, and return the result. room: whether to wait for a free slot. what: names the wait in
        errors.
        """
        over_s = None if timeout is None or timeout == inf else monotonic() + checked_timeout(timeout)
        try:
            while True:
                self._await_change(wake, room=room)
                found = look()
                if found is not None:
                    return found
                left_s = None if over_s is None else over_s - monotonic()
                if left_s is not None and left_s <= 0:
                    raise TimeoutError(f"{what} within {timeout:g} s; {self._standing()}")
                yield left_s
                self._forget(wake, room=room)
        finally:
            self._forget(wake, room=room)

    def _standing(self) -> str:
        return f"{self.in_flight} ids are not safe, the oldest for {self.oldest_age:.1f} s; safe: {shown(self.safe)}"

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self)} of {self.size} slots used, {self.in_flight} ids not safe"
        return f"<AckBuffer: {state}, safe: {shown(self.safe)}>"
