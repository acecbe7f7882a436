"""Flows: operations of one or more requests, written as generators that read top to bottom.

A flow yields a step. Its runner executes the step, and resumes the flow with the result or throws the error into it. A flow has no socket,
lock or clock: the runner has them (FlowRunner in a client; a test can resume a flow with prepared responses). A flow includes another one
with `yield from`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from levada.base.clock import NEVER_MS
from levada.base.promise import Promise

T = TypeVar("T")

ANY_NODE: None = None


class Destination:
    """A destination that has to be looked up, such as a partition's leader. The subclasses are in levada.client.requests.destination."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Call:
    """Send a request, and resume with its response.

    node: a node id, a connection key, a Destination, or ANY_NODE for the least loaded node. The runner finds the connection and waits until
    it is ready. timeout_ms: the time for the response; None for request.timeout.ms. expect_response: if False, resume with None once the
    request is written. may_block: whether the broker may delay the response on purpose. Because responses come in order, later requests on
    that connection would have to wait for it. So if the deadline of the flow comes first, the connection is closed, unless other requests
    on it wait for responses. Errors thrown into the flow: DisconnectError, ConnectError, UnsupportedVersionError, ProtocolError;
    at every step also TimeoutError when the deadline of the flow is over.
    """

    request: Any
    node: int | tuple[int, Any] | Destination | None = ANY_NODE
    timeout_ms: int | None = None
    min_version: int = 0
    max_version: int = 32767
    expect_response: bool = True
    may_block: bool = False


@dataclass(frozen=True, slots=True)
class Sleep:
    """Resume with None after this many milliseconds."""

    ms: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Resume with the value of a promise. If the promise is rejected, its error is thrown into the flow."""

    promise: Promise[Any]


@dataclass(frozen=True, slots=True)
class WaitAny:
    """Resume with the first of several promises that is resolved or rejected, or with None if the time is over before.

    A rejected promise throws no error into the flow; the flow reads it from the promise. timeout_ms: None waits without limit.
    """

    promises: Sequence[Promise[Any]]
    timeout_ms: int | None = None


Step: TypeAlias = Call | Sleep | Wait | WaitAny
Flow: TypeAlias = Generator[Step, Any, T]


def at_once(value: T) -> Flow[T]:
    """Return a flow without steps that returns this value."""
    return value
    yield  # This makes the function a generator.


@dataclass(slots=True)
class Until:
    """Resume with True once the promise is resolved or rejected, or with False at the deadline (monotonic time in ms).

    A rejected promise throws no error into the flow.
    """

    promise: Promise[Any]
    deadline_ms: int = NEVER_MS


@dataclass(slots=True)
class Compute:
    """Resume with the result of `run`. If `run` raises, its error is thrown into the flow.

    size_bytes: roughly how much data `run` processes. A driver may execute a long computation in another thread, one at a time, so that the
    event loop is not blocked. may_block: whether `run` may wait, for a schema registry for example; then it never runs on an event loop.
    The computation ends before the driver throws an exception into the flow or closes it.
    """

    run: Callable[[], Any]
    size_bytes: int = 0
    may_block: bool = False


@dataclass(slots=True)
class CallUser:
    """Resume with the result of a function of the program. If the function raises, its error is thrown into the flow.

    The function runs in the caller's thread or task, without the engine's lock. what: names the function in errors. In levada.aio an
    awaitable result is awaited; in the blocking API it is a TypeError.
    """

    run: Callable[[], Any]
    what: str


CallerStep: TypeAlias = Until | Compute | CallUser
CallerFlow: TypeAlias = Generator[CallerStep, Any, T]
"""A flow that runs in the caller's thread or task. It does not hold the engine's lock, except for short sections that need it.

A driver resumes the flow until it ends. An exception that interrupts a wait, such as KeyboardInterrupt or a cancellation, is thrown into
the flow. After any exception the driver closes the flow.
"""
