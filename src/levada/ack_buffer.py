# cython: annotation_typing=False, wraparound=False
"""Acknowledgements in any order in, a contiguous prefix out: what the AckBuffer of both APIs is, but for the waiting.

A reader of a queue or of a database's log numbers its messages with rising ids and sends them to many partitions. Kafka acknowledges in
order within a partition only, and the reader has to know the id up to which everything is safe: from there it reads on after a restart.

Theory. Ids stand in a ring in the order in which they were put; a sequence counts them, from 0 and without wrap, and its slot is
`sequence % size`. Three sequences divide them:

    taken <= safe <= next <= taken + size

    below taken         slots that are free again: their ids were handed out by get() or drain(); without `retain` taken is safe
    taken .. safe       marked, and every id before them is marked too
    safe .. next        the window: the first is not marked, those behind it may be
    from next on        not put yet

An id in the window is PENDING, MARKED or FAILED:

    PENDING -> MARKED   mark(): once, for good
    PENDING -> FAILED   fail()
    FAILED  -> PENDING  put() of the same id; it keeps its sequence, and those behind it stay as they are

Nothing else changes a state, so `safe` never goes back and never passes an id that is pending or failed. Marking the first id of the window
moves `safe` over all marked ids behind it; each is passed once, so an operation is O(1) in the mean. After close() no state changes.

A signal's handler may raise after put() has taken the id in and before it has returned the sequence. Then _take_back() undoes the put():
the id is as if it had not been put, or FAILED again where it was that before.

Nothing here waits. A caller that has to wait registers a function with _await_change(), checks once more, and sleeps until it is called.

A [c] module: compiled, each step is a call that no other thread sees half done, as in producer/append/appender.py. Code of an id's own
class (comparing, freeing it) may run between two steps, never within one. Interpreted, a lock makes the steps whole.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

from levada.base.text import shown
from levada.errors import ClosedError, ForkedError, IllegalStateError, NotAcknowledgedError, not_written

PENDING, MARKED, FAILED = 0, 1, 2
FULL, CHANGED = -1, -2
NO_SLOT = -1
AGAIN = "again"
OUTSIDE = -1
"""A sequence that no id has."""

FORKS = 0


def _forked() -> None:
    """Note that this is a child process. It has copies of its parent's buffers, in which no thread marks anything."""
    global FORKS
    FORKS += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class AckWindow:
    """See the module's theory. Everything but waiting; all methods may be called from any thread."""

    def __init__(self, size: int, after: Any, retain: bool) -> None:
        if after is not None:
            _check_order(after)
        self.size = size
        self.retain = retain
        self.closed = False
        self.blocked_time = 0.0
        self._taken = self._safe = self._next = 0
        self._safe_id = self._last_id = after
        self._ids: list[Any] = [None] * size
        self._states = bytearray(size)
        self._put_at_s = array("d", bytes(8 * size))
        self._failures: dict[int, BaseException] = {}
        self._waiting_for_room: list[Callable[[], object]] = []
        self._waiting_for_safe: list[Callable[[], object]] = []
        self._has_room = self._has_moved = False
        self._forks = FORKS
        if not cython.compiled:
            from _thread import RLock

            self._lock: Any = RLock()

    # Putting

    def _offer(self, id: Any, now_s: float, taken: list[Any] | None = None) -> int:
        """Put an id, or a failed one again; return its sequence, -1 when there is no free slot.

        now_s: monotonic seconds. taken: gets the sequence in the same step, for _take_back(), and AGAIN behind it where the id had failed.
        Raises ValueError when the id does not come after the one before it, NotAcknowledgedError when there is no free slot and an id has
        failed, ClosedError.
        """
        self._check_process()
        if id is None:
            raise TypeError("an id is anything that can be compared with >, but not None")
        while True:
            last = self._last_id
            if last is None:
                _check_order(id)
            elif not id > last:
                return self._offer_again(id, last, now_s, taken)
            sequence = self._append(id, last, now_s, taken)
            if sequence == FULL:
                self._raise_failure()
            if sequence != CHANGED:
                return sequence

    def _append(self, id: Any, last: Any, now_s: float, taken: list[Any] | None) -> int:
        if self.closed:
            raise self._closed_error()
        if self._last_id is not last:
            return CHANGED
        sequence = self._next
        if sequence - self._taken >= self.size:
            return FULL
        slot = sequence % self.size
        self._ids[slot] = id
        self._states[slot] = PENDING
        self._put_at_s[slot] = now_s
        self._last_id = id
        self._next = sequence + 1
        if taken is not None:
            taken.append(sequence)
        return sequence

    def _offer_again(self, id: Any, last: Any, now_s: float, taken: list[Any] | None) -> int:
        for sequence in list(self._failures):
            if self._ids[sequence % self.size] == id and self._revive(sequence, now_s, taken):
                return sequence
        if self.closed:
            raise self._closed_error()
        raise ValueError(f"ids must rise: {shown(id)} does not come after {shown(last)}; only an id that has failed may be put again")

    def _revive(self, sequence: int, now_s: float, taken: list[Any] | None) -> bool:
        if self.closed or sequence not in self._failures:
            return False
        slot = sequence % self.size
        self._states[slot] = PENDING
        self._put_at_s[slot] = now_s
        del self._failures[sequence]
        if taken is not None:
            taken.append(sequence)
            taken.append(AGAIN)
        return True

    def _take_back(self, taken: list[Any], broken_off: BaseException) -> None:
        """Undo a put() that was broken off. taken: what _offer() was given; it is empty where no id was taken in."""
        if taken:
            self._undo_put(taken[0], AGAIN in taken, broken_off)
            self._wake()

    def _undo_put(self, sequence: int, again: bool, broken_off: BaseException) -> None:
        slot = self._pending(sequence)
        if slot == NO_SLOT:
            return
        if again or sequence != self._next - 1:
            self._fail(sequence, broken_off)
            return
        id = self._ids[slot]  # Kept until the step is done: freeing it may run code of its class.
        self._ids[slot] = None
        self._next = sequence
        self._last_id = self._safe_id if sequence == self._safe else self._ids[(sequence - 1) % self.size]
        self._has_room = self._has_moved = True
        del id

    def _was_put(self, sequence: int) -> bool:
        """Whether an id has this sequence, or had it."""
        return 0 <= sequence < self._next

    # What becomes of them

    def mark(self, sequence: int) -> bool:
        """Note that an id is acknowledged. Returns whether this changed its state.

        False if the id was marked before, has failed and was not put again, was never put, or the buffer is closed. Never waits; may be
        called from any thread, in any order, and in callbacks. Raises TypeError for no whole number, ForkedError in a child process.
        """
        self._check_process()
        marked = self._mark(_number(sequence))
        self._wake()
        return marked

    def mark_many(self, sequences: Iterable[int]) -> int:
        """Mark each of them, as mark() does, but wake waiting calls only once. Returns how many of them changed their state."""
        self._check_process()
        marked = 0
        try:
            for sequence in sequences:
                marked += self._mark(_number(sequence))
        finally:
            self._wake()
        return marked

    def fail(self, sequence: int, error: BaseException) -> bool:
        """Note that an id could not be acknowledged. Returns whether this changed its state: False in the same cases as mark().

        error: the reason. `safe` stays before this id until the id is put again, which returns the same sequence, and is then marked. Later
        ids can still be marked, but `safe` does not pass the failed one. Calls that wait are woken: put(), get() and wait_empty()
        say when they raise NotAcknowledgedError.
        """
        self._check_process()
        if not isinstance(error, BaseException):
            raise TypeError(f"an id fails with an exception, got {shown(error)}")
        failed = self._fail(_number(sequence), error)
        self._wake()
        return failed

    def _settle(self, sequence: int, error: BaseException | None) -> None:
        """Mark or fail without waking anybody, for a caller that settles many and then calls _wake()."""
        if error is None:
            self._mark(sequence)
        else:
            self._fail(sequence, error)

    def _pending(self, sequence: int) -> int:
        """Return the slot of the id with this sequence if the id is pending, else NO_SLOT."""
        if sequence < self._safe or sequence >= self._next or self.closed:
            return NO_SLOT
        slot = sequence % self.size
        return slot if self._states[slot] == PENDING else NO_SLOT

    def _mark(self, sequence: int) -> bool:
        slot = self._pending(sequence)
        if slot == NO_SLOT:
            return False
        self._states[slot] = MARKED
        if sequence == self._safe:
            self._advance()
        return True

    def _fail(self, sequence: int, error: BaseException) -> bool:
        slot = self._pending(sequence)
        if slot == NO_SLOT:
            return False
        self._failures[sequence] = error
        self._states[slot] = FAILED
        # Who waits for room is told as well: there may never be any.
        self._has_moved = self._has_room = True
        return True

    def _advance(self) -> None:
        """Move `safe` behind all that is marked, one whole step for each id."""
        while self._safe < self._next:
            slot = self._safe % self.size
            if self._states[slot] != MARKED:
                break
            passed = self._safe_id  # Kept until the step is done: freeing it may run code of its class.
            self._safe_id = self._ids[slot]
            self._safe += 1
            if not self.retain:
                self._ids[slot] = None
                self._taken = self._safe
            del passed
        self._has_moved = True
        if not self.retain:
            self._has_room = True

    # Taking

    @property
    def safe(self) -> Any:
        """The largest id such that it and all before it are marked; `after` as long as there is none. Never goes back."""
        return self._safe_id

    def drain(self) -> Any:
        """Free the slots of all ids up to `safe` and return `safe`. Never waits and never raises, after close() neither."""
        while self._taken < self._safe:
            self._free()
        self._wake()
        return self._safe_id

    def _take(self) -> Any:
        """Return the next id, in the order of put(), and free its slot. None while this id is not marked.

        Raises NotAcknowledgedError if this id has failed, ClosedError if the buffer is closed, and IllegalStateError if retain=False.
        """
        self._check_process()
        if not self.retain:
            wrong = "get() is for an AckBuffer that keeps ids until they are taken; this one was made with retain=False"
            raise not_written(IllegalStateError(wrong))
        if self.closed:
            raise self._closed_error()
        if self._taken == self._safe:
            if self._safe in self._failures:
                self._raise_failure()
            return None
        id = self._free()
        self._wake()
        return id

    def _free(self) -> Any:
        slot = self._taken % self.size
        id = self._ids[slot]
        self._ids[slot] = None
        self._taken += 1
        self._has_room = True
        return id

    # How it stands

    def __len__(self) -> int:
        """How many slots are used."""
        return self._next - self._taken

    @property
    def in_flight(self) -> int:
        """How many ids were put and are not safe: pending, failed, or marked behind such a one."""
        return self._next - self._safe

    def _oldest_put_at_s(self) -> float | None:
        """Return when the oldest id that is not safe was put, None when all are safe."""
        return self._put_at_s[self._safe % self.size] if self._safe < self._next else None

    def _is_empty(self) -> bool:
        """Whether every id that was put is safe. Raises NotAcknowledgedError when one has failed, ClosedError."""
        self._check_process()
        if self.closed:
            raise self._closed_error()
        self._raise_failure()
        return self._safe == self._next

    @property
    def failure(self) -> NotAcknowledgedError | None:
        """What the first of the failed ids failed with, to be looked at or raised; None when none has failed, or all were put again."""
        return self._first_failure()

    def _first_failure(self) -> NotAcknowledgedError | None:
        while self._failures:
            failures = self._failures.copy()
            sequence = min(failures, default=-1)
            # Another thread may have put it again while these objects were made; from here on none is.
            id = self._ids[sequence % self.size]
            if sequence in self._failures:
                return NotAcknowledgedError(id, sequence, failures[sequence], self._safe_id)
        return None

    def _raise_failure(self) -> None:
        if self._failures:
            failure = self._first_failure()
            if failure is not None:
                raise failure

    def _closed_error(self) -> ClosedError:
        """Return the error for calls after close(). Nothing was sent by the call: `persisted` is about no record of before."""
        return not_written(ClosedError(f"the AckBuffer is closed; everything up to {shown(self._safe_id)} is safe"))

    def _check_process(self) -> None:
        if self._forks != FORKS:
            wrong = "this AckBuffer was made before fork(), and what the parent's producers write is marked in the parent's copy only"
            raise not_written(ForkedError(f"{wrong}; make a new one in this process, with after={shown(self._safe_id)}"))

    # The end, and waiting

    def close(self) -> None:
        """Close it: put(), get() and wait_empty(), those that wait now and later ones, raise ClosedError; mark() and fail() change nothing.

        `safe` stays readable: it is where to go on. Idempotent.
        """
        self.closed = True
        self._has_moved = self._has_room = True
        self._wake()

    def _await_change(self, wake: Callable[[], object], *, room: bool) -> None:
        """Call `wake` once, from any thread, at the next change: when slots become free (room), or when `safe` moves or an id fails.

        Look again after this and before sleeping, or a change just before it is missed. wake: takes no lock and does not raise.
        """
        (self._waiting_for_room if room else self._waiting_for_safe).append(wake)

    def _forget(self, wake: Callable[[], object], *, room: bool) -> None:
        """Take back _await_change(); harmless when it has been called."""
        waiting = self._waiting_for_room if room else self._waiting_for_safe
        if wake in waiting:
            waiting.remove(wake)

    def _wake(self) -> None:
        """Wake those who wait for what has changed since the last time."""
        if self._has_room:
            self._has_room = False
            _wake_all(self._waiting_for_room)
        if self._has_moved:
            self._has_moved = False
            _wake_all(self._waiting_for_safe)

    def _note_blocked(self, seconds: float) -> None:
        """Add to the time that put() has waited."""
        self.blocked_time += seconds

    def __reduce__(self) -> NoReturn:
        raise TypeError("an AckBuffer belongs to one process and cannot be pickled or copied; store its `safe`, and make a new one with it")


def _check_order(id: Any) -> None:
    """Refuse as the first id what nothing comes after, such as nan."""
    if id > id or not id == id:
        raise ValueError(f"an id has to be equal to itself, and not larger: nothing would come after {shown(id)}")


def _number(sequence: Any) -> int:
    """Return a sequence as a whole number, numpy's too; OUTSIDE where it is larger than any can be."""
    if type(sequence) is not int:
        if isinstance(sequence, bool) or not hasattr(sequence, "__index__"):
            raise TypeError(f"a sequence is the number that put() returned, got {shown(sequence)}")
        sequence = index(sequence)
    try:
        number: int = sequence
    except OverflowError:  # Compiled, it is a number of C.
        return OUTSIDE
    return number


def _wake_all(waiting: list[Callable[[], object]]) -> None:
    """Call each of those who wait now, and let it wait no more."""
    for _ in range(len(waiting)):
        if waiting:
            waiting.pop(0)()


if not cython.compiled:

    def _whole(step: Callable[..., Any]) -> Callable[..., Any]:
        """Return a step that no other thread sees half done."""

        def locked(self: Any, *arguments: Any, **keywords: Any) -> Any:
            with self._lock:
                return step(self, *arguments, **keywords)

        return locked

    STEPS = (
        "_append",
        "_revive",
        "_undo_put",
        "_mark",
        "_fail",
        "_advance",
        "_free",
        "drain",
        "_take",
        "_first_failure",
        "_await_change",
        "_forget",
        "_wake",
    )
    for _name in STEPS:
        setattr(AckWindow, _name, _whole(getattr(AckWindow, _name)))
