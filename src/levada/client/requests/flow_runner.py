"""Runs flows: sends what a generator yields, and resumes it with the result.

Callbacks of promises only mark a flow as runnable; flows are resumed by poll() and nowhere else, so no flow runs in the middle of another
component's state change. A flow that reaches its deadline has a TimeoutError thrown in where it waits; it may clean up, but not yield
again.

Only runnable flows are touched. A flow waits in one of three ways: for a promise, whose callback makes it runnable; for a time, which is
kept in a heap; or for a connection, and then it is tried again when something has happened to connections, or when its node's back-off is
over. The heap may hold outdated times; they wake a flow that finds nothing to do.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any, Protocol, TypeVar

from levada.base.clock import NEVER_MS, Now
from levada.base.flow import Call, Destination, Flow, Sleep, Step, Wait, WaitAny
from levada.base.promise import Promise
from levada.client.driver_interface import Ended
from levada.client.network.connection_key import ConnectionKey, Peer, key_of
from levada.client.network.network_client import NetworkClient
from levada.errors import ClosedError, ConnectError, IllegalStateError, TimeoutError

T = TypeVar("T")

_SPARE_TIMERS = 64
_OVER: Promise[Any] = Promise.resolved(None)


class Router(Protocol):
    """Finds the connections for destinations (Destinations)."""

    def find(self, destination: Destination) -> Flow[ConnectionKey]:
        """Return the connection for a destination. May wait for a look-up or a metadata update. Raises the errors of the destinations."""
        ...


class _Task:
    """A running flow, and the step at which it waits.

    stack: the flow, and on top of it the flow that finds the destination of its call. outcome: the result of the step; None if the step has
    not begun, or waits for a connection. losses: how often the called connection had been lost when the call began. sent_to: the connection
    over which the request was sent. timer_ms: the task's earliest time in the heap. watched: the promises that the task waits for, with
    their callbacks.
    """

    __slots__ = (
        "blocked_on",
        "deadline_ms",
        "describe",
        "losses",
        "outcome",
        "promise",
        "queued",
        "sent_to",
        "stack",
        "started_ms",
        "step",
        "timer_ms",
        "wake_ms",
        "watched",
    )

    def __init__(self, flow: Flow[Any], now_ms: int, deadline_ms: int, describe: str) -> None:
        self.stack = [flow]
        self.promise: Promise[Any] = Promise()
        self.started_ms = now_ms
        self.deadline_ms = deadline_ms
        self.describe = describe or getattr(flow, "__name__", "the operation")
        self.step: Step | None = None
        self.outcome: Promise[Any] | None = Promise.resolved(None)
        self.watched: list[tuple[Promise[Any], Callable[[Promise[Any]], None]]] = []
        self.wake_ms = NEVER_MS
        self.timer_ms = NEVER_MS
        self.losses = 0
        self.sent_to: Peer | None = None
        self.blocked_on: dict[_Task, None] | None = None
        self.queued = False


class FlowRunner:
    """The poller that runs all flows of one engine. router: finds the connections for destinations; the engine sets it."""

    def __init__(self, network: NetworkClient) -> None:
        self.router: Router | None = None
        self._network = network
        self._tasks: dict[Promise[Any], _Task] = {}
        self._runnable: deque[_Task] = deque()
        self._blocked: dict[Peer | None, dict[_Task, None]] = {}
        self._timers: list[tuple[int, int, _Task]] = []
        self._numbers = count()
        self._seen_changes = 0
        self._ended: Ended | None = None

    def start(self, flow: Flow[T], now_ms: int, *, deadline_ms: int = NEVER_MS, describe: str = "") -> Promise[T]:
        """Start a flow with the next poll; return a promise that resolves with its result, or is rejected with its error.

        deadline_ms: when the flow times out. describe: names the operation in a TimeoutError.
        """
        task = _Task(flow, now_ms, deadline_ms, describe)
        if self._ended is not None:
            flow.close()
            return Promise.rejected(self._ended(task.describe))
        self._tasks[task.promise] = task
        self._let_go_on(task)
        return task.promise

    @property
    def can_go_on(self) -> bool:
        """Whether a flow has the result of its step, and continues with the next poll()."""
        return bool(self._runnable)

    def poll(self, now_ms: int) -> int:
        """Resume every runnable flow until it waits again; return the time, in ms, of the next poll."""
        timers = self._timers
        while timers and timers[0][0] <= now_ms:
            at_ms, _, task = heapq.heappop(timers)
            if at_ms == task.timer_ms:
                task.timer_ms = NEVER_MS
            self._let_go_on(task)
        if self._blocked and self._seen_changes != self._network.changes:
            self.retry_blocked()
        self._seen_changes = self._network.changes
        while self._runnable:
            task = self._runnable.popleft()
            task.queued = False
            self._advance(task, now_ms)
        return timers[0][0] if timers else NEVER_MS

    def retry_blocked(self) -> None:
        """Let the next poll try again the flows that wait for a connection: only the first flow of each connection, because others wait
        behind it.
        """
        for waiting in self._blocked.values():
            self._let_go_on(next(iter(waiting)))

    def cancel(self, promise: Promise[Any], now_ms: int) -> None:
        """End the flow of a promise with a ClosedError, because its result is not needed any more. No effect once the flow has ended."""
        task = self._tasks.get(promise)
        if task is not None:
            self._end(task, now_ms, ClosedError(f"{task.describe} is no longer waited for"))

    def fail(self, error: Exception) -> None:
        """Throw this error into the flows that wait for a connection, because no node will ever accept their requests."""
        for task in [task for waiting in self._blocked.values() for task in waiting]:
            self._abort(task, error)

    def close(self, ended: Ended) -> None:
        """End every flow, because the client has ended. ended: makes the error."""
        self._ended = ended
        for task in list(self._tasks.values()):
            self._abort(task, ended(task.describe))

    # One flow

    def _let_go_on(self, task: _Task) -> None:
        if not task.queued and not task.promise.done:
            task.queued = True
            self._runnable.append(task)

    def _advance(self, task: _Task, now_ms: int) -> None:
        while not task.promise.done:
            if task.outcome is None:
                self._begin_step(task, now_ms)
            outcome = task.outcome
            if outcome is not None and not outcome.done and now_ms >= task.wake_ms:
                outcome.resolve(None)
            if outcome is not None and outcome.done:
                self._resume(task, outcome)
            elif now_ms >= task.deadline_ms:
                limit_ms = task.deadline_ms - task.started_ms
                self._end(task, now_ms, TimeoutError(f"{task.describe}: not done within {limit_ms} ms"))
            else:
                self._suspend(task, outcome)
                return

    def _suspend(self, task: _Task, outcome: Promise[Any] | None) -> None:
        if outcome is None:
            assert isinstance(task.step, Call)
            task.blocked_on = self._blocked.setdefault(task.step.node, {})  # type: ignore[arg-type]
            task.blocked_on[task] = None
        elif not task.watched:
            self._watch(task, outcome, lambda _: self._let_go_on(task))
        at_ms = min(task.deadline_ms, task.wake_ms)
        if at_ms < task.timer_ms:
            task.timer_ms = at_ms
            heapq.heappush(self._timers, (at_ms, next(self._numbers), task))

    def _watch(self, task: _Task, promise: Promise[Any], callback: Callable[[Promise[Any]], None]) -> None:
        task.watched.append((promise, callback))
        promise.on_done(callback)

    def _begin_step(self, task: _Task, now_ms: int) -> None:
        """Begin the step at which a task waits, if that is possible now."""
        step = task.step
        if isinstance(step, Call):
            self._begin_call(task, step, now_ms)
        elif isinstance(step, Wait):
            task.outcome = step.promise
        elif isinstance(step, Sleep):
            task.outcome = Promise()
            task.wake_ms = now_ms + step.ms
        elif isinstance(step, WaitAny):
            self._begin_wait(task, step, now_ms)
        else:
            task.outcome = Promise.rejected(IllegalStateError(f"{task.describe} yielded {step!r}, which is no step"))

    def _begin_wait(self, task: _Task, step: WaitAny, now_ms: int) -> None:
        first: Promise[Any] = Promise()
        task.outcome = first
        task.wake_ms = NEVER_MS if step.timeout_ms is None else now_ms + step.timeout_ms

        def settled(promise: Promise[Any]) -> None:
            first.resolve(promise)

        for promise in step.promises:
            self._watch(task, promise, settled)
        if not first.done:
            self._watch(task, first, lambda _: self._let_go_on(task))

    def _begin_call(self, task: _Task, call: Call, now_ms: int) -> None:
        peer = self._peer_for(call, now_ms)
        if peer is None and task.deadline_ms < NEVER_MS and (refusal := self._network.refusal()) is not None:
            # A program's call ends at once, as at the first login. What the client does by itself goes on when it is let in again.
            task.outcome = Promise.rejected(refusal)
        elif peer is None:
            task.wake_ms = now_ms + self._network.shortest_delay_ms(now_ms)
        elif call.node is not None and self._network.losses(peer) > task.losses:
            task.outcome = Promise.rejected(self._network.connect_error(peer))
        elif call.node is not None and not self._network.knows(peer):
            task.outcome = Promise.rejected(ConnectError(f"{key_of(peer)} is not among the cluster's nodes"))
        elif self._network.ready(peer, now_ms):
            self._unblock(task)
            task.wake_ms = NEVER_MS
            task.sent_to = peer
            task.outcome = self._network.send(
                peer,
                call.request,
                now_ms,
                timeout_ms=call.timeout_ms,
                min_version=call.min_version,
                max_version=call.max_version,
                expect_response=call.expect_response,
            )
        else:
            task.wake_ms = now_ms + self._network.poll_delay_ms(peer, now_ms)

    def _peer_for(self, call: Call, now_ms: int) -> Peer | None:
        if call.node is None:
            node = self._network.least_loaded_node(now_ms)
            return None if node is None else node.id
        assert isinstance(call.node, int | ConnectionKey), f"{call.node!r} is no destination"
        return call.node

    def _resume(self, task: _Task, outcome: Promise[Any]) -> None:
        self._unblock(task)
        task.wake_ms = NEVER_MS
        task.sent_to = None
        value, error = (None, outcome.error) if outcome.error is not None else (outcome.result(), None)
        while True:
            flow = task.stack[-1]
            try:
                step = flow.throw(error) if error is not None else flow.send(value)
            except StopIteration as done:
                value, error = done.value, None
            except Exception as raised:
                value, error = None, raised
            else:
                self._take_step(task, step)
                return
            task.stack.pop()
            if not task.stack:
                self._finish(task, value, error)
                return

    def _take_step(self, task: _Task, step: Step) -> None:
        task.step, task.outcome = step, None
        if not isinstance(step, Call) or step.node is None:
            return
        if isinstance(step.node, Destination):
            assert self.router is not None
            task.stack.append(_routed(self.router, step))
            task.step, task.outcome = None, Promise.resolved(None)
        else:
            task.losses = self._network.losses(step.node)  # type: ignore[arg-type]

    def _unblock(self, task: _Task) -> None:
        if task.blocked_on is not None:
            self._leave_queue(task, task.blocked_on)
        for promise, callback in task.watched:
            promise.forget(callback)
        task.watched.clear()

    def _leave_queue(self, task: _Task, queue: dict[_Task, None]) -> None:
        del queue[task]
        task.blocked_on = None
        if queue:
            self._let_go_on(next(iter(queue)))
        else:
            assert isinstance(task.step, Call)
            del self._blocked[task.step.node]  # type: ignore[arg-type]

    def _finish(self, task: _Task, value: Any, error: BaseException | None) -> None:
        self._unblock(task)
        self._tasks.pop(task.promise, None)
        if len(self._timers) > 2 * len(self._tasks) + _SPARE_TIMERS:
            self._timers = [timer for timer in self._timers if not timer[2].promise.done]
            heapq.heapify(self._timers)
        # The heap may hold the task until its deadline. An error's traceback refers to its callers, and through them to the client itself,
        # which would not be dropped before that.
        promise, task.promise, task.outcome, task.step = task.promise, _OVER, None, None
        if error is None:
            promise.resolve(value)
        else:
            promise.reject(error)

    def _end(self, task: _Task, now_ms: int, error: Exception) -> None:
        """Throw an error into a flow whose deadline has passed, or whose result is not needed any more.

        If its request may block the connection, the response is not waited for: see NetworkClient.abandon().
        """
        if isinstance(task.step, Call) and task.step.may_block and task.outcome is not None and task.sent_to is not None:
            self._network.abandon(task.sent_to, task.outcome, now_ms)
        self._abort(task, error)

    def _abort(self, task: _Task, error: Exception) -> None:
        """Throw an error into a flow. The flow may clean up and raise another error, but may not continue."""
        value: Any = None
        raised: BaseException | None = error
        while task.stack:
            flow = task.stack.pop()
            try:
                flow.throw(raised) if raised is not None else flow.send(value)
            except StopIteration as done:
                value, raised = done.value, None
            except Exception as other:
                value, raised = None, other
            else:
                flow.close()
                value, raised = None, error
        self._finish(task, value, raised)


class FlowsBeside:
    """Runs flows in parallel to the flow that starts them. They have no deadline; that flow cancels those that it no longer needs."""

    def __init__(self, flows: FlowRunner, now: Now) -> None:
        self._flows = flows
        self._now = now

    def start(self, flow: Flow[T]) -> Promise[T]:
        """Start a flow with the next poll."""
        return self._flows.start(flow, self._now.ms)

    def cancel(self, promise: Promise[Any]) -> None:
        """End the flow of a promise; no effect when it has ended."""
        self._flows.cancel(promise, self._now.ms)


def _routed(router: Router, call: Call) -> Flow[Any]:
    key = yield from router.find(call.node)  # type: ignore[arg-type]
    return (yield replace(call, node=key))
