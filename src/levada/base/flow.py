"""Flows: what takes several requests, written so that it reads top to bottom.

A flow is a generator that yields steps and is resumed with each step's result, or has its error thrown in. It holds no socket, lock
or clock: whoever runs it (`client.flow_runner` in a client, a test with two canned replies) does. Flows compose with `yield from`.
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
    """Where a call goes when that has to be found out first, such as a partition's leader; `client.destination` has them."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Call:
    """Send a request and resume with its response.

    node: a node's id, a connection's key, a Destination, or ANY_NODE for the least loaded one. The runner finds the destination, connects
    and waits for the connection to be ready. timeout_ms: for this request; None takes the client's request.timeout.ms. expect_response:
    False resumes with None once it is written. may_block: the broker may take long over it on purpose. Answers come in order, so whatever
    is sent there next would wait behind it: when the flow's time is over first, the connection goes with it, unless others wait for
    answers on it too. Thrown into the flow: DisconnectError, ConnectError, UnsupportedVersionError, ProtocolError.
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
    """Resume after this many milliseconds, with None."""

    ms: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Resume with the promise's value, or have its error thrown in."""

    promise: Promise[Any]


@dataclass(frozen=True, slots=True)
class WaitAny:
    """Resume with the first of several promises that is settled, however it is, or with None when the time is over first.

    Nothing is thrown in: the flow looks at the promise itself. timeout_ms: None waits for as long as it takes.
    """

    promises: Sequence[Promise[Any]]
    timeout_ms: int | None = None


Step: TypeAlias = Call | Sleep | Wait | WaitAny
Flow: TypeAlias = Generator[Step, Any, T]


def at_once(value: T) -> Flow[T]:
    """Return a flow without a step, which ends with this value."""
    return value
    yield  # makes it a flow


@dataclass(slots=True)
class Until:
    """Resume with True once the promise is settled, however it is, or with False when the deadline has come first. Nothing is thrown in."""

    promise: Promise[Any]
    deadline_ms: int = NEVER_MS


@dataclass(slots=True)
class Compute:
    """Resume with what `run` returns, or have its error thrown in.

    size_bytes: about how much data it goes through. A driver may run it on another thread, so that a long piece does not hold up an event
    loop, but only one at a time; and it lets it end before it throws anything into the flow or closes it.
    """

    run: Callable[[], Any]
    size_bytes: int = 0


@dataclass(slots=True)
class CallUser:
    """Resume with what a function of the user's returns, or have its error thrown in. It runs in the caller's thread or task, unlocked.

    what: names the function. On asyncio an awaitable that it returns is awaited; elsewhere a TypeError says that nobody can.
    """

    run: Callable[[], Any]
    what: str


CallerStep: TypeAlias = Until | Compute | CallUser
CallerFlow: TypeAlias = Generator[CallerStep, Any, T]
"""A flow in its caller's context: in a thread or task of the user's, without the engine's lock, which it takes for moments by itself.

A driver resumes it until it ends, and throws in what breaks a wait off, such as KeyboardInterrupt or a cancellation. After any exception it
closes the flow.
"""
