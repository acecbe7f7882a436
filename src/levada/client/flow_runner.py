"""Runs flows: feeds each generator the results of the steps it yields.

Promise callbacks only note that a flow can go on; flows are resumed by poll() and nowhere else, so no flow runs inside another
component's state change. A flow that reaches its deadline has a TimeoutError thrown in where it stands; it may clean up, but not
go on yielding.
"""

from __future__ import annotations

from typing import Any, TypeVar

from levada.client.network_client import NetworkClient
from levada.clock import NEVER_MS
from levada.errors import ClosedError, ConnectError, IllegalStateError, TimeoutError
from levada.flow import Call, Flow, Sleep, Step, Wait
from levada.promise import Promise

T = TypeVar("T")


class _Task:
    """A flow under way and the step it stands at. losses: of the node called, when the call began. sent_to: the node, once it is."""

    __slots__ = ("deadline_ms", "describe", "flow", "losses", "outcome", "promise", "sent_to", "started_ms", "step", "wake_ms")

    def __init__(self, flow: Flow[Any], now_ms: int, deadline_ms: int, describe: str) -> None:
        self.flow = flow
        self.promise: Promise[Any] = Promise()
        self.started_ms = now_ms
        self.deadline_ms = deadline_ms
        self.describe = describe or getattr(flow, "__name__", "the operation")
        self.step: Step | None = None
        self.outcome: Promise[Any] | None = Promise.resolved(None)
        self.wake_ms = NEVER_MS
        self.losses = 0
        self.sent_to: int | None = None


class FlowRunner:
    """A poller over all flows of one engine."""

    def __init__(self, network: NetworkClient) -> None:
        self._network = network
        self._tasks: list[_Task] = []
        self._closed = False

    def start(self, flow: Flow[T], now_ms: int, *, deadline_ms: int = NEVER_MS, describe: str = "") -> Promise[T]:
        """Have a flow run from the next poll on; resolves with what it returns, rejects with what it raises.

        deadline_ms: absolute. describe: names the operation in a TimeoutError.
        """
        if self._closed:
            flow.close()
            return Promise.rejected(ClosedError("the client is closed"))
        task = _Task(flow, now_ms, deadline_ms, describe)
        self._tasks.append(task)
        return task.promise

    @property
    def can_go_on(self) -> bool:
        """Whether a flow has its result and waits for poll()."""
        return any(task.outcome is not None and task.outcome.done for task in self._tasks)

    def poll(self, now_ms: int) -> int:
        """Let every flow go as far as it can; return when to be polled again."""
        next_ms = NEVER_MS
        for task in list(self._tasks):
            next_ms = min(next_ms, self._advance(task, now_ms))
        self._tasks = [task for task in self._tasks if not task.promise.done]
        return next_ms

    def cancel(self, promise: Promise[Any], now_ms: int) -> None:
        """End the flow of a promise that nobody waits for any longer, as its deadline would. Does nothing once it has ended."""
        for task in self._tasks:
            if task.promise is promise and not promise.done:
                self._end(task, now_ms, ClosedError(f"nobody waits for {task.describe} any longer"))

    def fail(self, error: Exception) -> None:
        """End the flows that want to send something: no node will ever take it."""
        for task in self._tasks:
            if isinstance(task.step, Call) and task.outcome is None:
                self._abort(task, error)

    def close(self) -> None:
        """End every flow with a ClosedError."""
        self._closed = True
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            self._abort(task, ClosedError(f"the client was closed during {task.describe}"))

    def _advance(self, task: _Task, now_ms: int) -> int:
        while not task.promise.done:
            self._try_step(task, now_ms)
            if task.outcome is not None and task.outcome.done:
                self._resume(task, task.outcome)
            elif now_ms >= task.deadline_ms:
                limit_ms = task.deadline_ms - task.started_ms
                self._end(task, now_ms, TimeoutError(f"{task.describe}: not done within {limit_ms} ms"))
            else:
                return min(task.deadline_ms, task.wake_ms)
        return NEVER_MS

    def _end(self, task: _Task, now_ms: int, error: Exception) -> None:
        """A flow's time is over."""
        if isinstance(task.step, Call) and task.step.may_block and task.outcome is not None and task.sent_to is not None:
            self._network.abandon(task.sent_to, task.outcome, now_ms)
        self._abort(task, error)

    def _try_step(self, task: _Task, now_ms: int) -> None:
        """Begin the step a task stands at, when that has not happened yet and is possible."""
        if task.outcome is not None:
            return
        step = task.step
        if isinstance(step, Call):
            self._try_call(task, step, now_ms)
        elif isinstance(step, Sleep):
            if task.wake_ms == NEVER_MS:
                task.wake_ms = now_ms + step.ms
            if now_ms >= task.wake_ms:
                task.outcome = Promise.resolved(None)
        elif isinstance(step, Wait):
            task.outcome = step.promise
        else:
            task.outcome = Promise.rejected(IllegalStateError(f"{task.describe} yielded {step!r}, which is no step"))

    def _try_call(self, task: _Task, call: Call, now_ms: int) -> None:
        node_id = self._node_for(call, now_ms)
        if node_id is None:
            task.wake_ms = now_ms + self._network.shortest_delay_ms(now_ms)
            return
        if call.node is not None and self._network.losses(node_id) > task.losses:
            task.outcome = Promise.rejected(self._network.connect_error(node_id))
        elif call.node is not None and not self._network.knows(node_id):
            task.outcome = Promise.rejected(ConnectError(f"node {node_id} is not among the cluster's nodes"))
        elif self._network.ready(node_id, now_ms):
            task.sent_to = node_id
            task.outcome = self._network.send(
                node_id,
                call.request,
                now_ms,
                timeout_ms=call.timeout_ms,
                min_version=call.min_version,
                max_version=call.max_version,
                expect_response=call.expect_response,
            )
        else:
            task.wake_ms = now_ms + self._network.poll_delay_ms(node_id, now_ms)

    def _node_for(self, call: Call, now_ms: int) -> int | None:
        if call.node is not None:
            return call.node
        node = self._network.least_loaded_node(now_ms)
        return None if node is None else node.id

    def _resume(self, task: _Task, outcome: Promise[Any]) -> None:
        try:
            step = task.flow.throw(outcome.error) if outcome.error is not None else task.flow.send(outcome.result())
        except StopIteration as done:
            task.promise.resolve(done.value)
        except Exception as error:
            task.promise.reject(error)
        else:
            task.step, task.outcome, task.wake_ms = step, None, NEVER_MS
            if isinstance(step, Call) and step.node is not None:
                task.losses = self._network.losses(step.node)

    def _abort(self, task: _Task, error: Exception) -> None:
        try:
            task.flow.throw(error)
        except StopIteration as done:
            task.promise.resolve(done.value)
        except Exception as raised:
            task.promise.reject(raised)
        else:
            task.flow.close()
            task.promise.reject(error)
