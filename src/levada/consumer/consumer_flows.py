"""What a consumer does in its caller's context: poll, wait, raise errors, wake up, close.

The calls are flows that a driver runs in the caller's thread or task (levada.base.flow.CallerFlow). They take the engine's lock for
moments, decode without it, and yield where they wait. Only one flow runs at a time. Any thread and any signal handler may call wakeup() and
look_again() meanwhile.

A signal handler or a cancelled task may end a flow at any point. Positions move at its very end, in one step under the lock (see
fetch_collector). If the flow ends after that step, but before the caller has the result, take_back() undoes the step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar

from levada.base.flow import CallerFlow, Until
from levada.base.promise import Promise
from levada.client.driver_interface import Host
from levada.client.engine import Engine
from levada.consumer.core import ConsumerCore
from levada.consumer.fetch.columns_ahead import BatchSink
from levada.consumer.fetch.dead_letters import AwaitsDeadLetterError, DeadLetters, Letter
from levada.consumer.fetch.fetch_cursor import ColumnSink
from levada.consumer.group.listener_calls import Caller
from levada.consumer.waking import Waking
from levada.errors import KafkaError
from levada.interceptors import ProducerRecord
from levada.types import AnyRecord

T = TypeVar("T")

Post: TypeAlias = Callable[[ProducerRecord, Callable[[BaseException | None], None]], None]
"""Sends a record with a program's producer. Calls the function once, from any thread: with the error, or None when acknowledged.

If it raises a KafkaError instead, it has not called the function.
"""

SESSION_CLOSE_MS = 100
"""How long close() waits for brokers to close fetch sessions. If they do not answer, sessions time out by themselves."""


class ConsumerFlows(Waking[ConsumerCore]):
    """The calls of one consumer that wait: poll(), commit() and others. Adds itself to the engine's pollers."""

    def __init__(self, core: ConsumerCore, engine: Engine, host: Host, *, default_api_timeout_ms: int, post: Post | None = None) -> None:
        """post: gives a dead letter to its producer; None if the core has no dead-letter topic."""
        super().__init__(core, engine, host, default_api_timeout_ms=default_api_timeout_ms)
        self.wall_ms = host.wall_ms
        self._post = post

    # Records

    def records(
        self,
        deadline_ms: int,
        limit: int,
        caller: Caller | None = None,
        *,
        stops_when_assigned: bool = False,
        is_enough: Callable[[], bool] = lambda: False,
    ) -> CallerFlow[list[AnyRecord]]:
        """Return up to `limit` records; [] when the time is over, when positions moved past hidden records only, or at the end of all
        ranges.

        caller: runs the pending work of the group member before records are returned; None without a group. stops_when_assigned: whether to
        return [] after a change of the assignment. is_enough: when it returns True, the call returns [] instead of waiting; look_again()
        makes the waiting call ask it.
        """
        collect = partial(self.core.collect_records, limit)
        found = yield from self._until_some(deadline_ms, collect, caller, stops_when_assigned=stops_when_assigned, is_enough=is_enough)
        return found or []

    def attend(self, deadline_ms: int, caller: Caller, is_enough: Callable[[], bool]) -> CallerFlow[None]:
        """Do the work of poll() without returning records, until the time is over or is_enough() returns True.

        look_again() makes the waiting call ask is_enough().
        """
        yield from self._until_some(deadline_ms, None, caller, is_enough=is_enough)

    def batch(self, deadline_ms: int, sink: BatchSink, limit: int | None, max_bytes: int, caller: Caller) -> CallerFlow[Any]:
        """Return an Arrow batch of up to `limit` records (None: no limit). It has no rows if records() would return [].

        deadline_ms: when to stop waiting for records. max_bytes: add no more record batches once the columns have this size.
        """
        # Rows that an interrupted call left in the sink: their positions were moved back.
        sink.discard()
        if limit is None:
            return (yield from self.columns(deadline_ms, sink, None, max_bytes, sink.finish, caller))
        found = self._ahead(sink, limit, max_bytes)
        if found is None:
            found = yield from self._until_some(deadline_ms, partial(self.core.collect_part, sink, limit, max_bytes), caller)
        return sink.finish() if found is None else found

    def _ahead(self, sink: BatchSink, limit: int, max_bytes: int) -> Any:
        """Return rows that an earlier call has decoded ahead; None if none may be returned now, see ConsumerCore.take_ahead().

        The engine is run only if it has work, to save time. Raises WakeupError after wakeup().
        """
        self._host.check_usable()
        with self._host.lock:
            self._raise_if_woken()
            now_ms = self._host.now_ms()
            found, is_seen = self.core.take_ahead(sink, limit, max_bytes, now_ms)
            if found is not None:
                self.core.counters.polls.begin(now_ms)
                self.core.counters.polls.end(now_ms)
        if found is not None and not is_seen:
            self._host.look()
        return found

    def columns(
        self,
        deadline_ms: int,
        sink: ColumnSink,
        limit: int | None,
        max_bytes: int,
        finish: Callable[[], T],
        caller: Caller | None = None,
    ) -> CallerFlow[T]:
        """Add records to the columns up to `limit` rows (None: no limit) or `max_bytes` bytes, and return the result of finish(), even
        without records.

        finish() is called before positions move, so no records are lost if it raises. deadline_ms: when to stop waiting for records.
        """
        found = yield from self._until_some(deadline_ms, partial(self.core.collect_columns, sink, limit, max_bytes, finish), caller)
        return finish() if found is None else found

    @property
    def next_call(self) -> int:
        """The number that the next records(), batch() or columns() gets, for take_back()."""
        return self.core.calls + 1

    def take_back(self, call: int) -> None:
        """Undo a call of records(), batch() or columns(), because its result did not reach the caller.

        call: next_call, read before the call began. The public API calls take_back() for any exception, KafkaErrors included. It has no
        effect if the call did not begin, or has raised an error itself. Positions that were moved since, for example by seek(), stay.
        """
        with self._host.lock:
            self.core.take_back(call)

    def _until_some(
        self,
        deadline_ms: int,
        collect: Callable[[int], CallerFlow[T | None]] | None,
        caller: Caller | None = None,
        *,
        stops_when_assigned: bool = False,
        is_enough: Callable[[], bool] = lambda: False,
    ) -> CallerFlow[T | None]:
        """Collect buffered records, and wait for some if there are none. Return what `collect` returns; None where records() returns [].

        deadline_ms: when to stop waiting. collect: collects records, given the present time in ms; None waits without collecting. caller,
        stops_when_assigned, is_enough: see records().
        """
        self._host.check_usable()
        with self._host.lock:
            self._raise_if_woken()
            now_ms = self._host.now_ms()
            self.core.counters.polls.begin(now_ms)
            self.core.begin_call(now_ms)
        is_due = True
        try:
            while True:
                if caller is not None and self.core.has_pending_work:
                    is_done = yield from self._do_group_work(caller, deadline_ms)
                    if is_done and stops_when_assigned:
                        return None
                    if not (is_done or caller.is_held_up):
                        return None
                letter = None
                if collect is not None:
                    if self.core.letters is None:
                        found = yield from collect(self._host.now_ms())
                    else:
                        found, letter = yield from self._collected(collect, self.core.letters)
                    if found is not None or self.core.has_moved:
                        is_due = self.core.is_due
                        return found
                    if self.core.subscription.is_finished:
                        return None
                now_ms = self._host.now_ms()
                changed, look_ms = self._look_around(now_ms, is_over=now_ms >= deadline_ms, collects=collect is not None)
                if now_ms >= deadline_ms or is_enough():
                    return None
                # The engine steps only at an event, and a call may have begun a look-up or a commit.
                if self.core.is_due:
                    self._host.due_now()
                yield Until(letter or changed, min(deadline_ms, look_ms))
        finally:
            with self._host.lock:
                now_ms = self._host.now_ms()
                self.core.counters.polls.end(now_ms)
                if self.core.is_subscribed:
                    self.core.end_call(now_ms)
            # A call that did not wait may still have freed memory, asked for a position or raised an error: the engine has to act on that.
            if is_due:
                self._host.look()

    def _collected(
        self, collect: Callable[[int], CallerFlow[T | None]], letters: DeadLetters
    ) -> CallerFlow[tuple[T | None, Promise[None] | None]]:
        """Collect records, and send the dead letters that were found. collect: see _until_some().

        Return (records, None). If the first record cannot be passed over until its dead letter is written, return (None, a promise to wait
        for before the next attempt).
        """
        with self._host.lock:
            changed = letters.changed()
        try:
            found, awaited = (yield from collect(self._host.now_ms())), None
        except AwaitsDeadLetterError:
            found, awaited = None, changed
        self._send_letters(letters)
        return found, awaited

    def _send_letters(self, letters: DeadLetters) -> None:
        due = deque(letters.take_due())
        try:
            while due:
                letter, record = due[0]
                self._send_letter(letters, letter, record)
                due.popleft()
        finally:
            letters.give_back(letter for letter, _ in due)

    def _send_letter(self, letters: DeadLetters, letter: Letter, record: ProducerRecord) -> None:
        assert self._post is not None, "a core with dead letters comes with what sends them"

        def settled(failure: BaseException | None) -> None:
            # If the consumer was closed meanwhile, its position has not moved past the record.
            with suppress(KafkaError):
                self._host.change(lambda _: letters.settle(letter, failure))

        post_letter(self._host, self._post, record, settled)

    def _do_group_work(self, caller: Caller, deadline_ms: int) -> CallerFlow[bool]:
        """Do the pending work of the group member, and start the look-up of missing positions. Return False if work is left.

        Work is left when the time is over, and while the program still has records of partitions to revoke (Caller.is_held_up).
        """
        assert self.core.member is not None
        is_done = yield from self.core.member.do_pending_work(caller, deadline_ms)
        with self._host.lock:
            self.core.prepare()
        return is_done

    def _look_around(self, now_ms: int, *, is_over: bool, collects: bool) -> tuple[Promise[None], int]:
        """Raise the error that prevents records from arriving, if the program has to know it; also WakeupError, unless `is_over`.

        Return a promise that settles when records may be there, and the time in ms at which to check again. Unless `is_over`, begins an
        auto-commit that is due, and the look-up of missing positions. is_over: whether the time of the call is over. collects: whether the
        call returns records.
        """
        with self._host.lock:
            error = self.core.explain(now_ms, last_word=is_over)
            if error is None and not is_over:
                self._raise_if_woken()
                self.core.commits.begin_automatic(now_ms)
                self.core.prepare()
            changed = self.core.changed() if collects else self.core.announced()
            look_ms = min(self.core.next_look_ms(now_ms), self.core.commits.due_ms)
        if error is not None:
            raise error
        return changed, look_ms

    # Closing

    def close(self) -> CallerFlow[None]:
        """Stop reading and close the fetch sessions at reachable brokers; wait at most SESSION_CLOSE_MS for their answers.

        The driver is to be closed next, even if this raises.
        """
        with self._host.lock:
            told = self.core.close(self._host.now_ms())
            over_ms = self._host.now_ms() + SESSION_CLOSE_MS
        self._host.look()
        for promise in told:
            if not (yield Until(promise, over_ms)):
                return


def post_letter(host: Host, post: Post, letter: ProducerRecord, settled: Callable[[BaseException | None], None]) -> None:
    """Give a dead letter to its producer. settled: called with None when it was written, or with the error, which may also come at once."""
    # A signal handler may run before and during a wait of the producer. Its exception is not an error of the producer, so it is raised.
    host.run_handlers()
    try:
        post(letter, settled)
    except KafkaError as failure:
        settled(failure)
