"""The program's own thread or task, as a member's duties use it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from levada.base.flow import CallerFlow, CallUser, Until
from levada.base.promise import Promise
from levada.client.host import Host
from levada.types import TopicPartition

ListenerMethod = Callable[[list[TopicPartition]], Any]
Finish = Callable[[Collection[TopicPartition]], bool]
PendingWork = Callable[["Caller", int], CallerFlow[bool]]
"""Something for the program's thread or task, with a deadline; False when the time was over first."""


class Listener(NamedTuple):
    """Whom the program has hear of rebalances. Made of a RebalanceListener's methods, or of functions."""

    assigned: ListenerMethod
    revoked: ListenerMethod
    lost: ListenerMethod


class Caller:
    """Runs duties for one program. The engine refers to no caller: a listener may refer to the consumer, which could not be dropped then.

    begin_commit: begins the automatic commit before partitions are given up, None where there is none. within: told, under the lock, when
    the program's own code begins to run (False) and when it is over (True).
    """

    def __init__(self, host: Host, begin_commit: Callable[[], Promise[None] | None], within: Callable[[bool], None]) -> None:
        self.host = host
        self.listener: Listener | None = None
        self.finish: Finish | None = None
        """Whether the program is done with the records of partitions that are to be given up, where it says so of each record."""
        self.is_held_up = False
        """Whether partitions could not be given up because it is not: the call goes on with the others, and the next one looks again."""
        self._depth = 0
        """How many listeners run: one that unsubscribes or closes has the listener called within itself."""
        self._hears_of_loss: frozenset[TopicPartition] = frozenset()
        """What a listener that runs is being told that it has lost or gives up."""
        self._begin_commit = begin_commit
        self._within = within
        self._committing: Promise[None] | None = None

    def do_all(self, next_work: Callable[[Caller], PendingWork | None], deadline_ms: int) -> CallerFlow[bool]:
        """Do what is due, one duty after the other; False when the time was over first."""
        while (work := next_work(self)) is not None:
            if not (yield from work(self, deadline_ms)):
                return False
        return True

    def call_assigned(self, partitions: Collection[TopicPartition]) -> CallerFlow[None]:
        """Have the listener, if there is one, hear of partitions that the member has now. Raises what it raises."""
        if self.listener is not None:
            yield from self._call_listener("on_partitions_assigned", self.listener.assigned, partitions)

    def call_revoked_or_lost(self, partitions: Collection[TopicPartition], *, is_lost: bool) -> CallerFlow[None]:
        """Have it hear of partitions that the member gives up, or that are lost: others may have them already.

        A listener that is hearing of a partition, and unsubscribes or closes, does not hear of it again.
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
        """Whether a listener is running: it may not ask for records."""
        return self._depth > 0

    def call(self, run: Callable[[], Any], what: str) -> CallerFlow[None]:
        """Call code of the program's, once and for certain. what: its name, for errors.

        Ctrl-C, or another signal whose handler raises, may come in just before. The code is called all the same, and then that comes out:
        otherwise nobody could tell whether the program knows.
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
        """Before partitions are given up: see that the work on their records is done, and commit as commit() does. False when it is not."""
        self.is_held_up = self.finish is not None and not self.finish(partitions)
        if self.is_held_up:
            return False
        return (yield from self.commit(deadline_ms))

    def commit(self, deadline_ms: int) -> CallerFlow[bool]:
        """Commit what was handed out, with enable.auto.commit; False when the time was over first, and the next call waits on.

        What fails is logged, not raised.
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
        """The partitions that a commit was begun for are lost: the next commit is another one."""
        self._committing = None
