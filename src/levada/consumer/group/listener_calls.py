"""The calls of a group's member in the program's own thread or task, such as those of rebalance listeners."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from levada.base.flow import CallerFlow, CallUser, Until
from levada.base.promise import Promise
from levada.client.driver_interface import Host
from levada.types import TopicPartition

ListenerMethod = Callable[[list[TopicPartition]], Any]
Finish = Callable[[Collection[TopicPartition]], bool]
PendingWork = Callable[["Caller", int], CallerFlow[bool]]
"""Work of a member that only the program's thread or task may do. It gets a deadline in ms. It returns False if it is not done yet, because
the time was over or because of Caller.is_held_up.
"""


class Listener(NamedTuple):
    """The program's rebalance listener: the methods of a RebalanceListener, or functions."""

    assigned: ListenerMethod
    revoked: ListenerMethod
    lost: ListenerMethod


class Caller:
    """Runs the pending work of a rebalance in the thread or task of the program.

    The engine holds no reference to this object: a listener may refer to the consumer, which could then never be garbage collected.

    begin_commit: begins the automatic commit before partitions are revoked; it returns None if there is nothing to wait for. within: called
    under the lock, with False when code of the program begins to run and with True when it has returned.
    """

    def __init__(self, host: Host, begin_commit: Callable[[], Promise[None] | None], within: Callable[[bool], None]) -> None:
        self.host = host
        self.listener: Listener | None = None
        self.finish: Finish | None = None
        """Returns whether partitions may be revoked: with acks(), only when the program is done with their records, or has had them for too
        long. None without acks().
        """
        self.is_held_up = False
        """Whether partitions cannot be revoked yet, because the program still has their records. The next call asks again."""
        self._depth = 0
        """How many listeners are running. A listener that calls unsubscribe() or close() is called again within itself."""
        self._hears_of_loss: frozenset[TopicPartition] = frozenset()
        """The partitions of the running on_partitions_revoked() or on_partitions_lost()."""
        self._begin_commit = begin_commit
        self._within = within
        self._committing: Promise[None] | None = None

    def do_all(self, next_work: Callable[[Caller], PendingWork | None], deadline_ms: int) -> CallerFlow[bool]:
        """Do all pending work in order. Return False if a step is not done yet. next_work: returns the next step; None at the end."""
        while (work := next_work(self)) is not None:
            if not (yield from work(self, deadline_ms)):
                return False
        return True

    def call_assigned(self, partitions: Collection[TopicPartition]) -> CallerFlow[None]:
        """Call on_partitions_assigned(), if there is a listener. Raises the errors of the listener."""
        if self.listener is not None:
            yield from self._call_listener("on_partitions_assigned", self.listener.assigned, partitions)

    def call_revoked_or_lost(self, partitions: Collection[TopicPartition], *, is_lost: bool) -> CallerFlow[None]:
        """Call on_partitions_revoked(), or on_partitions_lost() if other members may have the partitions already.

        A listener that calls unsubscribe() or close() is not called again for the partitions that it is just being called for. is_lost:
        whether to call on_partitions_lost().
        """
        new = frozenset(partitions) - self._hears_of_loss
        if (listener := self.listener) is None or not new:
            return
        method: tuple[str, ListenerMethod] = (
            ("on_partitions_lost", listener.lost) if is_lost else ("on_partitions_revoked", listener.revoked)
        )
        self._hears_of_loss |= new
        try:
            yield from self._call_listener(*method, new)
        finally:
            self._hears_of_loss -= new

    def _call_listener(self, what: str, method: ListenerMethod, partitions: Collection[TopicPartition]) -> CallerFlow[None]:
        if not self._depth:
            with self.host.lock:
                self._within(False)
        self._depth += 1
        given = sorted(partitions)
        try:
            yield from self.call(lambda: method(given), what)
        finally:
            self._depth -= 1
            if not self._depth:
                with self.host.lock:
                    self._within(True)

    @property
    def is_in_listener(self) -> bool:
        """Whether a listener is running. It may not call poll()."""
        return self._depth > 0

    def call(self, run: Callable[[], Any], what: str) -> CallerFlow[None]:
        """Call a function of the program exactly once. what: its name, for errors.

        A signal handler may raise just before the call, as with Ctrl-C. The function is called all the same, and the exception is raised
        afterwards. Otherwise it would be unknown whether the program was notified.
        """
        is_called = False

        def call() -> Any:
            nonlocal is_called
            is_called = True
            return run()

        before: BaseException | None = None
        while not is_called:
            try:
                yield CallUser(call, what)
            except GeneratorExit:
                raise
            except BaseException as error:
                if is_called:
                    raise
                before = before or error
        if before is not None:
            raise before

    def settle(self, partitions: Collection[TopicPartition], deadline_ms: int) -> CallerFlow[bool]:
        """Before partitions are revoked: ask `finish` whether the program is done with their records, and commit.

        Return False if it is not, which sets is_held_up, or if the time was over before the commit has ended.
        """
        self.is_held_up = self.finish is not None and not self.finish(partitions)
        if self.is_held_up:
            return False
        return (yield from self.commit(deadline_ms))

    def commit(self, deadline_ms: int) -> CallerFlow[bool]:
        """Commit the positions, with enable.auto.commit. Return False if the time was over first; the next call continues to wait.

        A failed commit is logged, not raised.
        """
        if self._committing is None:
            with self.host.lock:
                self._committing = self._begin_commit()
        if self._committing is not None:
            self.host.due_now()
            if not (yield Until(self._committing, deadline_ms)):
                return False
            self._committing = None
        return True

    def forget_commit(self) -> None:
        """Stop waiting for the commit that was begun, for example because its partitions are lost."""
        self._committing = None
