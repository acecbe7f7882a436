# cython: annotation_typing=False, wraparound=False
"""The part of AckBuffer that does not wait: it takes acknowledgements in any order and knows up to which id all are acknowledged.

A program that reads a queue or a database's log gives its messages rising ids and sends them to many partitions. Kafka acknowledges in
order only within a partition, but the program has to know the id up to which all records are acknowledged: after a restart it continues
there.

Theory. Ids are in a ring in the order of put(). Each has a sequence, which counts from 0 and never wraps; its slot is `sequence % size`.
Three sequences divide the ids:

    taken <= safe <= next <= taken + size

    below taken         free slots: get() or drain() has returned their ids; without `retain` taken is equal to safe
    taken .. safe       marked, and all ids before them are marked, too
    safe .. next        the window: its first id is not marked, later ids may be
    from next on        not put yet

An id in the window is PENDING, MARKED or FAILED:

    PENDING -> MARKED   mark(): once, for good
    PENDING -> FAILED   fail()
    FAILED  -> PENDING  put() of the same id; it keeps its sequence, and later ids keep their state

Nothing else changes a state, so `safe` never goes back and never passes an id that is pending or failed. When the first id of the window is
marked, `safe` moves past all marked ids after it. Each id is passed once, so an operation takes constant time on average. After close() no
state changes.

A signal handler may raise after put() has stored the id and before it has returned the sequence. Then _take_back() undoes the put(): the id
is removed, or is FAILED again if it was FAILED before.

Nothing here waits. A caller that has to wait registers a function with _await_change(), checks again, and sleeps until the function is
called.

This is a [c] module. Each step is atomic for other threads. In compiled code it is one call, as in producer/append/appender.py. Without a
global interpreter lock it is a critical section of the buffer, and interpreted it holds the buffer's lock. Critical sections are not
nested: CPython would leave the outer one while it waits for the inner one. Code of an id's own class, which compares or frees it, may run
between two steps, but never within one.
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
"""A number that is never the sequence of an id."""

FORKS = 0


def _forked() -> None:
    """Count a fork in the child process: no thread marks ids in its copies of the parent's buffers."""
    global FORKS
    FORKS += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class AckWindow:
    """Holds the ids, their states and `safe`, but does not wait. All methods may be called from any thread."""

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
        self._states = array("B", bytes(size))
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
        """Put an id, or put a failed id again; return its sequence, or -1 if there is no free slot.

        now_s: monotonic seconds. taken: in the same step the sequence is appended to this list, for _take_back(), and AGAIN after it if the
        id had failed. Raises ValueError if the id does not come after the previous one, NotAcknowledgedError if there is no free slot and
        an id has failed, and ClosedError.
        """
        self._check_process()
        if id is None:
            raise TypeError("an id is anything that can be compared with >, but not None")
        while True:
            with cython.critical_section(self):
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
        with cython.critical_section(self):
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
        with cython.critical_section(self):
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
        """Undo a put() that an exception interrupted. taken: the list that _offer() was given; it is empty if no id was stored."""
        if taken:
            self._undo_put(taken[0], AGAIN in taken, broken_off)
            self._wake()

    def _undo_put(self, sequence: int, again: bool, broken_off: BaseException) -> None:
        with cython.critical_section(self):
            slot = self._pending(sequence)
            if slot == NO_SLOT:
                return
            if again or sequence != self._next - 1:
                self._set_failed(sequence, slot, broken_off)
                return
            id = self._ids[slot]  # A reference until the step is done: freeing the id may run code of its class.
            self._ids[slot] = None
            self._next = sequence
            self._last_id = self._safe_id if sequence == self._safe else self._ids[(sequence - 1) % self.size]
            self._has_room = self._has_moved = True
        del id

    def _was_put(self, sequence: int) -> bool:
        """Whether put() has returned this sequence for an id."""
        return 0 <= sequence < self._next

    # Marking and failing

    def mark(self, sequence: int) -> bool:
        """Mark an id as acknowledged. Returns whether this changed its state.

        False if the id was marked before, has failed and was not put again, was never put, or if the buffer is closed. Never waits; may be
        called from any thread, in any order, and in callbacks. Raises TypeError if sequence is not an integer, ForkedError in a child
        process.
        """
        self._check_process()
        marked = self._mark(_number(sequence))
        self._wake()
        return marked

    def mark_many(self, sequences: Iterable[int]) -> int:
        """Mark several ids like mark(), but wake waiting calls only once. Returns how many ids changed their state."""
        self._check_process()
        marked = 0
        try:
            for sequence in sequences:
                marked += self._mark(_number(sequence))
        finally:
            self._wake()
        return marked

    def fail(self, sequence: int, error: BaseException) -> bool:
        """Mark an id as failed. Returns whether this changed its state: False in the same cases as mark().

        error: the reason. `safe` stays before this id until the id is put again, which returns the same sequence, and then marked. Later
        ids can still be marked, but `safe` does not pass the failed id. Waiting calls are woken; put(), get() and wait_empty() document
        when they raise NotAcknowledgedError.
        """
        self._check_process()
        if not isinstance(error, BaseException):
            raise TypeError(f"an id fails with an exception, got {shown(error)}")
        failed = self._fail(_number(sequence), error)
        self._wake()
        return failed

    def _settle(self, sequence: int, error: BaseException | None) -> None:
        """Mark or fail an id without waking waiting calls, for a caller that does this for many ids and then calls _wake()."""
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
        with cython.critical_section(self):
            slot = self._pending(sequence)
            if slot == NO_SLOT:
                return False
            self._states[slot] = MARKED
            if sequence == self._safe:
                self._advance()
            return True

    def _fail(self, sequence: int, error: BaseException) -> bool:
        with cython.critical_section(self):
            slot = self._pending(sequence)
            if slot == NO_SLOT:
                return False
            self._set_failed(sequence, slot, error)
            return True

    def _set_failed(self, sequence: int, slot: int, error: BaseException) -> None:
        self._failures[sequence] = error
        self._states[slot] = FAILED
        # Calls that wait for a free slot are woken, too: after a failure there may never be one.
        self._has_moved = self._has_room = True

    def _advance(self) -> None:
        """Move `safe` past all consecutive marked ids, one by one. The state is consistent after each of them. Part of a step."""
        while self._safe < self._next:
            slot = self._safe % self.size
            if self._states[slot] != MARKED:
                break
            passed = self._safe_id  # A reference until the step is done: freeing the id may run code of its class.
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
        """The largest id for which it and all earlier ids are marked; `after` while there is none. Never goes back."""
        with cython.critical_section(self):
            return self._safe_id

    def drain(self) -> Any:
        """Free the slots of all ids up to `safe`, and return `safe`. Never waits and never raises, not even after close()."""
        with cython.critical_section(self):
            while self._taken < self._safe:
                self._free()
            safe = self._safe_id
        self._wake()
        return safe

    def _take(self) -> Any:
        """Return the next id in the order of put(), and free its slot. Returns None while this id is not marked.

        Raises NotAcknowledgedError if this id has failed, ClosedError if the buffer is closed, and IllegalStateError if retain=False.
        """
        self._check_process()
        if not self.retain:
            wrong = "get() is for an AckBuffer that keeps ids until they are taken; this one was made with retain=False"
            raise not_written(IllegalStateError(wrong))
        with cython.critical_section(self):
            if self.closed:
                raise self._closed_error()
            has_failed = self._taken == self._safe and self._safe in self._failures
            id = self._free() if self._taken < self._safe else None
        if has_failed:
            self._raise_failure()
        if id is not None:
            self._wake()
        return id

    def _free(self) -> Any:
        """Free the slot of the next id, which is safe, and return the id. Part of a step."""
        slot = self._taken % self.size
        id = self._ids[slot]
        self._ids[slot] = None
        self._taken += 1
        self._has_room = True
        return id

    # State

    def __len__(self) -> int:
        """Return how many slots are used."""
        with cython.critical_section(self):
            return self._next - self._taken

    @property
    def in_flight(self) -> int:
        """How many ids were put and are not safe: they are pending or failed, or marked after such an id."""
        with cython.critical_section(self):
            return self._next - self._safe

    def _oldest_put_at_s(self) -> float | None:
        """Return when the oldest id that is not safe was put, in monotonic seconds; None if all are safe."""
        return self._put_at_s[self._safe % self.size] if self._safe < self._next else None

    def _is_empty(self) -> bool:
        """Whether every id that was put is safe. Raises NotAcknowledgedError if an id has failed, and ClosedError."""
        self._check_process()
        if self.closed:
            raise self._closed_error()
        self._raise_failure()
        return self._safe == self._next

    @property
    def failure(self) -> NotAcknowledgedError | None:
        """The error of the first failed id, which the program may inspect or raise; None if no id has failed, or all were put again."""
        return self._first_failure()

    def _first_failure(self) -> NotAcknowledgedError | None:
        while self._failures:
            failures = self._failures.copy()
            sequence = min(failures, default=-1)
            with cython.critical_section(self):
                # Another thread may have put the id again while these objects were made. From here on no object is made before the test.
                id, safe = self._ids[sequence % self.size], self._safe_id
                has_failed = sequence in self._failures
            if has_failed:
                return NotAcknowledgedError(id, sequence, failures[sequence], safe)
        return None

    def _raise_failure(self) -> None:
        if self._failures:
            failure = self._first_failure()
            if failure is not None:
                raise failure

    def _closed_error(self) -> ClosedError:
        """Return the error for calls after close().

        `persisted` is NO because the call itself sent nothing; it says nothing of earlier records.
        """
        return not_written(ClosedError(f"the AckBuffer is closed; everything up to {shown(self._safe_id)} is safe"))

    def _check_process(self) -> None:
        if self._forks != FORKS:
            wrong = "this AckBuffer was made before fork(), and what the parent's producers write is marked in the parent's copy only"
            raise not_written(ForkedError(f"{wrong}; make a new one in this process, with after={shown(self._safe_id)}"))

    # Closing and waiting

    def close(self) -> None:
        """Close the buffer. Waiting and later calls of put(), get() and wait_empty() raise ClosedError; mark() and fail() change nothing.

        `safe` can still be read: the program continues after this id. A second close() does nothing.
        """
        with cython.critical_section(self):
            self.closed = True
            self._has_moved = self._has_room = True
        self._wake()

    def _await_change(self, wake: Callable[[], object], *, room: bool) -> None:
        """Call `wake` once, from any thread, at the next change. room: True when slots become free, False when `safe` moves.

        A failed id and close() count as both changes. The caller must check the state again before it sleeps, or it may miss a change just
        before this call. wake: takes no lock and does not raise.
        """
        with cython.critical_section(self):
            (self._waiting_for_room if room else self._waiting_for_safe).append(wake)

    def _forget(self, wake: Callable[[], object], *, room: bool) -> None:
        """Cancel _await_change(). Has no effect if `wake` was already called."""
        with cython.critical_section(self):
            waiting = self._waiting_for_room if room else self._waiting_for_safe
            if wake in waiting:
                waiting.remove(wake)

    def _wake(self) -> None:
        """Call the functions registered for the changes since the last _wake(): slots became free, or `safe` moved."""
        with cython.critical_section(self):
            if self._has_room:
                self._has_room = False
                _wake_all(self._waiting_for_room)
            if self._has_moved:
                self._has_moved = False
                _wake_all(self._waiting_for_safe)

    def _note_blocked(self, seconds: float) -> None:
        """Add seconds to the time that put() has waited."""
        with cython.critical_section(self):
            self.blocked_time += seconds

    def __reduce__(self) -> NoReturn:
        raise TypeError("an AckBuffer belongs to one process and cannot be pickled or copied; store its `safe`, and make a new one with it")


def _check_order(id: Any) -> None:
    """Raise ValueError for a first id after which no other id could come, such as nan."""
    if id > id or not id == id:
        raise ValueError(f"an id has to be equal to itself, and not larger: nothing would come after {shown(id)}")


def _number(sequence: Any) -> int:
    """Return a sequence as an int, also if it is an integer of numpy; OUTSIDE if it is too large for a sequence."""
    if type(sequence) is not int:
        if isinstance(sequence, bool) or not hasattr(sequence, "__index__"):
            raise TypeError(f"a sequence is the number that put() returned, got {shown(sequence)}")
        sequence = index(sequence)
    try:
        number: int = sequence
    except OverflowError:  # In compiled code `number` is a C integer.
        return OUTSIDE
    return number


def _wake_all(waiting: list[Callable[[], object]]) -> None:
    """Remove and call each function that is waiting now."""
    for _ in range(len(waiting)):
        if waiting:
            waiting.pop(0)()
